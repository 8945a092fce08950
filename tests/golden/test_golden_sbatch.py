"""The batch files of two launches, word for word.

A difference is a change of what the cluster is asked for: look at it, then print the text anew:
``PYTHONPATH=tests python tests/golden/test_golden_sbatch.py > tests/golden/sbatch.txt``.
"""

from pathlib import Path

from launch.sbatch import SlurmSettings
from launch.slurm import Piece, Place, batch_texts

GOLDEN = Path(__file__).with_name("sbatch.txt")
HOME = Path("/shared/eval")
LAUNCH = HOME / "runs/.launch/20260901T080000-1a2b3c4d"
PLACE = Place(LAUNCH, LAUNCH / "logs", HOME)
PYTHON = "/shared/eval/.venv/bin/python"
PIECES = tuple(
    Piece(shard, model, level)
    for shard, (model, level) in enumerate(
        (m, lv) for m in ("moshi", "silent") for lv in ("L0", "L2") for _ in range(2)
    )
)
LITTLE = SlurmSettings(python=PYTHON)
MUCH = SlurmSettings(
    partition="h100",
    account="speech",
    qos="long",
    constraint="nvlink",
    exclude="node[7-9]",
    gpus_per_task=2,
    gpu_type=None,
    cpus_per_task=16,
    mem_gb=1.5,
    timeout_min=90,
    signal_delay_s=60,
    array_parallelism=3,
    wckey="eval",
    python=PYTHON,
    setup=("module load cuda", "export HF_HUB_OFFLINE=1"),
    additional_parameters={"reservation": "for us", "exclusive": True},
)


def printed() -> str:
    everything = batch_texts(PLACE, PIECES, LITTLE, 1001)
    resumed = batch_texts(PLACE, [PIECES[0], PIECES[1], PIECES[3], PIECES[6]], MUCH, 4)
    heads = ["all shards, as it comes", "shards 0, 1, 3, 6 with all settings, MaxArraySize 4 (1 of 2)", "(2 of 2)"]
    return "\n".join(f"==== {head}\n{text}" for head, text in zip(heads, [*everything, *resumed], strict=True))


def test_the_batch_files_are_these() -> None:
    assert printed() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(printed(), end="")
