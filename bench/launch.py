"""What 100 shards of an empty job cost through the launcher, beside plain submitit ``map_array`` on the same cluster.

``python -m bench.launch`` starts the tests' throw-away Slurm (as root, with slurm-wlm and munge) and prints the seconds
from the first call until every task has ended and its result is read, and their ratio.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from slurm.cluster import PROGRAMS, Cluster

from launch.sbatch import SlurmSettings
from launch.slurm import Piece, Place, alive, submit_arrays

SHARDS = 100
SETTINGS = SlurmSettings(gpus_per_task=0, cpus_per_task=1, mem_gb=0.1, timeout_min=10, array_parallelism=SHARDS)


def empty(launch: str, shard: int, name: str) -> None:
    """A task that leaves its outcome as a file and does nothing else."""
    Path(launch, f"{shard}.json").write_text(json.dumps({"shard": name}))


def ours(folder: Path) -> None:
    place = Place(folder, folder / "logs", folder)
    submit_arrays(place, [Piece(shard, "none", "L0") for shard in range(SHARDS)], SETTINGS, empty)
    while alive(folder.name):
        time.sleep(0.2)
    for shard in range(SHARDS):
        json.loads((folder / f"{shard}.json").read_text())


def plain(folder: Path) -> None:
    import submitit

    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(time=10, cpus_per_task=1, mem="100M", array_parallelism=SHARDS, use_srun=False)
    jobs = executor.map_array(empty, [str(folder)] * SHARDS, range(SHARDS), [""] * SHARDS)
    for job in jobs:
        while not job.paths.result_pickle.exists():  # job.result() would ask sacct, which is not here
            time.sleep(0.2)
        job.result()


def seconds(run: Callable[[Path], None], folder: Path) -> float:
    folder.mkdir()
    started = time.perf_counter()
    run(folder)
    return time.perf_counter() - started


def main() -> None:
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        print(f"not measured: no {', '.join(missing)} here")
        return
    with tempfile.TemporaryDirectory() as home:
        cluster = Cluster(Path(home) / "slurm")
        cluster.start()
        os.environ["SLURM_CONF"] = cluster.environment["SLURM_CONF"]
        try:
            theirs_s = seconds(plain, Path(home) / "plain")
            ours_s = seconds(ours, Path(home) / "ours")
        finally:
            cluster.stop()
    print(f"{SHARDS} empty tasks: plain map_array {theirs_s:.1f} s, launcher {ours_s:.1f} s: {ours_s / theirs_s:.2f}")


if __name__ == "__main__":
    main()
