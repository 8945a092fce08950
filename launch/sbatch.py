"""What a task asks of Slurm, and the words of an array: settings in, ``sbatch`` parameters out. Calls nothing."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dsbif.door import explain
from dsbif.errors import ConfigError

_OURS = {"array", "comment", "error", "output", "requeue", "no-requeue", "signal", "chdir", "job-name", "time"}
"""What an additional parameter may not touch: the launcher could then no longer find, stop or requeue its tasks."""
_SHOWN = 3


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Text = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]


class SlurmSettings(BaseModel):
    """What one task gets, as ``conf/hydra/launcher/slurm.yaml`` says it; None leaves the choice to the cluster."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    partition: _Text | None = None
    account: _Text | None = None
    qos: _Text | None = None
    constraint: _Text | None = None
    exclude: _Text | None = None
    gpus_per_task: Annotated[int, Field(ge=0, le=64)] = 1
    gpu_type: _Text | None = "h100"
    cpus_per_task: Annotated[int, Field(ge=1, le=1024)] = 8
    mem_gb: Annotated[float, Field(gt=0, le=65536)] | None = 64
    timeout_min: Annotated[int, Field(ge=1, le=60 * 24 * 60)] = 240
    signal_delay_s: Annotated[int, Field(ge=1, le=3600)] = 120
    array_parallelism: Annotated[int, Field(ge=1, le=100_000)] = 16
    max_requeues: Annotated[int, Field(ge=0, le=1000)] = 3
    wckey: _Text | None = None
    python: _Text | None = None
    setup: tuple[str, ...] = ()
    additional_parameters: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_meant(self) -> "SlurmSettings":
        taken = sorted({key.replace("_", "-") for key in self.additional_parameters} & _OURS)
        if taken:
            raise ValueError(f"additional_parameters may not set {', '.join(taken)}: the launcher does")
        if self.signal_delay_s >= self.timeout_min * 60:
            raise ValueError(
                f"signal_delay_s ({self.signal_delay_s}) leaves nothing of timeout_min ({self.timeout_min}): a task "
                "would be told to stop before it starts"
            )
        return self

    def for_model(self, overrides: Mapping[str, Any]) -> "SlurmSettings":
        """These settings with some of one model's own.

        Raises:
            ConfigError: an unknown setting or a wrong value.
        """
        return settings_from({**self.model_dump(), **overrides})


def settings_from(raw: Mapping[str, Any]) -> SlurmSettings:
    """Settings from plain data.

    Raises:
        ConfigError: an unknown setting or a wrong value, with its key.
    """
    try:
        return SlurmSettings.model_validate(dict(raw))
    except ValidationError as error:
        raise ConfigError(f"the launcher cannot be used: {explain(error, under='hydra.launcher')}.") from error


def interpreter(settings: SlurmSettings) -> str:
    """The shell words that start Python in a task.

    ``exec`` lets Python take the place of the batch shell. Slurm's warning before the time limit then reaches it: a
    signal to the job's steps (``USR2@…``) never arrives without srun, and one to the batch shell (``B:USR2@…``) would
    end the shell, and the job with it, while Python knows of nothing.
    """
    return f"exec {settings.python or shlex.quote(sys.executable)}"


def array_words(indices: Sequence[int], parallelism: int) -> str:
    """The value of ``--array``.

    >>> array_words([0, 1, 2, 3, 7, 9, 10], 4)
    '0-3,7,9-10%4'
    """
    runs = [
        [index for _, index in run] for _, run in groupby(enumerate(sorted(indices)), lambda pair: pair[1] - pair[0])
    ]
    words = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"{words}%{min(parallelism, len(indices))}"


def chunks(shards: Iterable[int], max_array_size: int) -> list[tuple[int, list[int]]]:
    """Shards as arrays whose indices stay below the cluster's MaxArraySize: pairs of offset and shards.

    The index of a task is its shard less the offset, so that who knows one knows the other.

    >>> chunks([0, 5, 1001, 2003], 1001)
    [(0, [0, 5]), (1001, [1001]), (2002, [2003])]
    """
    by_offset = groupby(sorted(shards), lambda shard: shard // max_array_size * max_array_size)
    return [(offset, list(members)) for offset, members in by_offset]


def job_name(models: Iterable[str], levels: Iterable[str]) -> str:
    """What the queue shows of tasks that have not started; one that has gets a name of its own.

    >>> job_name(["babble", "silent", "silent"], ["L0", "L1"])
    'dsbif-babble+silent-L0+L1'
    """
    shown = sorted(set(models))
    more = [f"{len(shown) - _SHOWN}more"] if len(shown) > _SHOWN else []
    return f"dsbif-{'+'.join(shown[:_SHOWN] + more)}-{'+'.join(sorted(set(levels)))}"


def parameters(settings: SlurmSettings, name: str, logs: Path, home: Path) -> dict[str, Any]:
    """What submitit is asked to write into the batch file, but for the array's indices.

    Args:
        settings: what a task gets.
        name: the job's.
        logs: the folder of the tasks' logs; it must be there before the array is submitted, since Slurm drops what a
            task says where it is not.
        home: the folder that relative paths start from.
    """
    gpus = f"gpu:{settings.gpu_type}:" if settings.gpu_type else "gpu:"
    return {
        "job_name": name,
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "exclude": settings.exclude,
        "gres": f"{gpus}{settings.gpus_per_task}" if settings.gpus_per_task else None,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": settings.cpus_per_task,
        "mem": f"{round(settings.mem_gb * 1024)}M" if settings.mem_gb else None,
        "time": settings.timeout_min,
        "wckey": settings.wckey,  # submitit writes --wckey=submitit where it is not told otherwise
        "setup": list(settings.setup) or None,
        "signal_delay_s": settings.signal_delay_s,
        "stderr_to_stdout": True,
        "use_srun": False,
        "additional_parameters": {
            "signal": f"B:USR2@{settings.signal_delay_s}",
            "requeue": True,
            "output": str(logs / "%A_%a.log"),
            "chdir": str(home),
            **settings.additional_parameters,
        },
    }
