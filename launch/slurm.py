"""Shards as Slurm arrays: submit them, ask which have not ended, cancel them.

The truth lies in the launch directory. Slurm's queue is asked only whether somebody still works on a shard; accounting
(``sacct``) is never needed, and a queue that gives no answer changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsbif.errors import ConfigError
from launch.clients import call, max_array_size
from launch.launchdir import Launch, LaunchDir
from launch.sbatch import (
    SlurmSettings,
    array_words,
    chunks,
    interpreter,
    job_name,
    parameters,
    settings_from,
)
from launch.task import run_task

if TYPE_CHECKING:
    from launch.array import ArrayExecutor

_MARK = "dsbif"
_USUAL_ARRAY_SIZE = 1001
_NOT_A_TASKS = {"shards", "wait", "dry_run", "per_model", "workers"}
"""The launcher's own settings, which no task sees."""
Task = Callable[[str, int, str], None]


@dataclass(frozen=True, slots=True)
class Piece:
    """A shard as the queue and the logs name it."""

    shard: int
    model: str
    level: str

    @property
    def name(self) -> str:
        """Model, level and shard."""
        return f"{self.model}-{self.level}-{self.shard:04d}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a launch lies: its directory, its tasks' logs, and the folder that relative paths start from."""

    launch: Path
    logs: Path
    home: Path

    @property
    def batch(self) -> Path:
        """Batch files and pickled calls."""
        return self.launch / "slurm"

    def log(self, piece: Piece) -> Path:
        """A link to the log of a shard's latest task."""
        return self.logs / f"{piece.name}.log"


def _executor(place: Place, pieces: Sequence[Piece], settings: SlurmSettings, offset: int) -> "ArrayExecutor":
    from launch.array import ArrayExecutor

    indices = [piece.shard - offset for piece in pieces]
    wanted = parameters(
        settings, job_name((p.model for p in pieces), (p.level for p in pieces)), place.logs, place.home
    )
    wanted["additional_parameters"] |= {
        "array": array_words(indices, settings.array_parallelism),
        "comment": f"{_MARK} {place.launch.name} {offset}",
    }
    executor = ArrayExecutor(place.batch, interpreter(settings), indices)
    executor.update_parameters(**wanted)
    return executor


def batch_texts(place: Place, pieces: Sequence[Piece], settings: SlurmSettings, array_size: int) -> list[str]:
    """The batch files that ``submit_arrays`` would hand to ``sbatch``, exactly."""
    return [_executor(place, part, settings, offset).text() for offset, part in _parts(pieces, array_size)]


def submit_arrays(
    place: Place, pieces: Sequence[Piece], settings: SlurmSettings, task: Task | None = None
) -> list[str]:
    """Submit shards that want the same, as one array, or as several where the cluster's MaxArraySize is smaller.

    Args:
        place: where the launch lies.
        pieces: the shards.
        settings: what each task gets.
        task: what a task calls with launch directory, shard and name: ``run_task``, or a measurement's own.

    Returns:
        The arrays' job ids.

    Raises:
        ConfigError: Slurm is not here, refuses, or gives no answer. What it took before stays; ``cancel`` finds it.
    """
    place.logs.mkdir(parents=True, exist_ok=True)
    arrays = []
    for offset, part in _parts(pieces, max_array_size()):
        executor = _executor(place, part, settings, offset)
        count = len(part)
        jobs = executor.map_array(
            task or run_task, [str(place.launch)] * count, [p.shard for p in part], [p.name for p in part]
        )
        for piece, job in zip(part, jobs, strict=True):
            _link(place.log(piece), f"{job.job_id}.log")
        arrays.append(jobs[0].job_id.partition("_")[0])
    return arrays


def _parts(pieces: Sequence[Piece], array_size: int) -> list[tuple[int, list[Piece]]]:
    by_shard = {piece.shard: piece for piece in pieces}
    return [(offset, [by_shard[shard] for shard in shards]) for offset, shards in chunks(by_shard, array_size)]


def _link(link: Path, target: str) -> None:
    """Let a log's name lead to the latest task's, at once for whoever reads it."""
    fresh = link.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def check(settings: Mapping[str, Any]) -> None:
    """Whether the launcher's settings can be used.

    Raises:
        ConfigError: an unknown setting or a wrong value, of the launcher or of one model.
    """
    for model in [None, *(settings.get("per_model") or {})]:
        _settings_of(settings, model)


def _settings_of(settings: Mapping[str, Any], model: str | None) -> SlurmSettings:
    """What a model's tasks get."""
    own = {key: value for key, value in settings.items() if key not in _NOT_A_TASKS}
    common = settings_from({**own, "additional_parameters": own.get("additional_parameters") or {}})
    overrides = (settings.get("per_model") or {}).get(model)
    return common.for_model(overrides) if overrides else common


def _arrays(here: LaunchDir, launch: Launch, shards: Sequence[int]) -> list[tuple[SlurmSettings, list[Piece]]]:
    """Shards by what they ask of Slurm: each group is one array."""
    groups: dict[str, tuple[SlurmSettings, list[Piece]]] = {}
    for shard in shards:
        job = launch.jobs[launch.shards[shard].job]
        settings = _settings_of(launch.settings, job.model)
        group = groups.setdefault(settings.model_dump_json(), (settings, []))
        group[1].append(Piece(shard, job.model, job.level))
    return list(groups.values())


def submit(launch_dir: Path, shards: Sequence[int]) -> list[str]:
    """Submit shards of a launch; returns the arrays' job ids.

    Raises:
        ConfigError: Slurm is not here, refuses, or gives no answer.
    """
    here = LaunchDir(launch_dir)
    launch = here.read()
    place = Place(here.path, here.logs, launch.home)
    groups = _arrays(here, launch, shards)
    return [array for settings, pieces in groups for array in submit_arrays(place, pieces, settings)]


def texts(here: LaunchDir, launch: Launch) -> list[str]:
    """The batch files of a launch, exactly as ``sbatch`` would get them."""
    place = Place(here.path, here.logs, launch.home)
    groups = _arrays(here, launch, [shard.index for shard in launch.shards])
    return [text for settings, pieces in groups for text in batch_texts(place, pieces, settings, _array_size())]


def _array_size() -> int:
    """The cluster's; a plan may also be made where there is none."""
    try:
        return max_array_size()
    except ConfigError:
        return _USUAL_ARRAY_SIZE


def alive(launch: str) -> set[int] | None:
    """The shards that Slurm still holds, waiting or running; None where its queue gives no answer.

    Args:
        launch: the launch directory's name. Tasks are found by the comment that each array bears, so also those whose
            submission nobody wrote down.
    """
    try:
        return {shard for _, shard in _queued(launch)}
    except ConfigError:
        return None


def cancel(launch: str) -> list[str]:
    """Cancel every task of a launch that has not ended; returns the arrays' job ids.

    Raises:
        ConfigError: Slurm is not here, refuses, or gives no answer.
    """
    arrays = sorted({array for array, _ in _queued(launch)})
    if arrays:
        call("scancel", *arrays)
    return arrays


def _queued(launch: str) -> list[tuple[str, int]]:
    """Array job id and shard of each task in the queue."""
    found = []
    for line in call("squeue", "--me", "--noheader", "--array", "--format=%F|%K|%k").splitlines():
        array, index, comment = line.split("|", 2)
        words = comment.split()
        if words[:2] == [_MARK, launch] and len(words) == 3 and index.isdigit():
            found.append((array, int(index) + int(words[2])))
    return found
