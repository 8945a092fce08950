"""A launch directory: what was asked for, and every file that a launch leaves, as properties of one small class.

``launch.json`` is written once and only appended to by ``resume``: jobs (one a combination), shards (cases of one job),
settings. What came of a shard stands in ``shards/<n>.json``; what came of a case stands in the run directory of its job
and nowhere else.
"""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dsbif.config import RunConfig
from dsbif.door import explain, nearest
from dsbif.errors import ConfigError
from dsbif.files import write_json

FOLDER = ".launch"
Kind = Literal["local", "slurm"]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Job(_Frozen):
    """One combination of a multirun: a run directory that is to be filled."""

    index: int
    name: str
    model: str
    level: str
    run_dir: Path
    overrides: tuple[str, ...]
    config: dict[str, Any]

    def run_config(self, **changes: Any) -> RunConfig:
        """The job's configuration, its run directory named."""
        return RunConfig.model_validate({**self.config, "run": str(self.run_dir), **changes})


class Shard(_Frozen):
    """Some cases of one job: what one task does."""

    index: int
    job: int
    test_case_ids: tuple[str, ...]


class Launch(_Frozen):
    """The content of ``launch.json``. ``settings``: the launcher's own, as plain data."""

    launch_version: Literal[1] = 1
    kind: Kind
    created: str
    home: Path
    jobs: tuple[Job, ...]
    shards: tuple[Shard, ...]
    settings: dict[str, Any]
    claim_timeout_s: float = 120.0
    max_requeues: int = 3

    def shard_name(self, index: int) -> str:
        """Model, level and shard."""
        shard = self.shards[index]
        return f"{self.jobs[shard.job].name}-{index:04d}"


class ShardOutcome(_Frozen):
    """What came of a shard's latest task. ``starts`` counts its tasks, the first included."""

    shard: int
    status: Literal["running", "done", "interrupted", "failed"]
    starts: int
    requeues: int = 0
    error: str = ""
    host: str = ""
    pid: int = 0
    process_start: str = ""


@dataclass(frozen=True, slots=True)
class LaunchDir:
    """A launch directory."""

    path: Path

    @property
    def launch_json(self) -> Path:
        """What was asked for."""
        return self.path / "launch.json"

    @property
    def logs(self) -> Path:
        """One log a shard, ``<model>-<level>-<shard>.log``."""
        return self.path / "logs"

    @property
    def supervisor(self) -> Path:
        """Who runs the shards of a local launch: process id and start time."""
        return self.path / "supervisor.json"

    def outcome_file(self, shard: int) -> Path:
        """What came of a shard."""
        return self.path / "shards" / f"{shard}.json"

    def log(self, launch: Launch, shard: int) -> Path:
        """The log of a shard's latest task."""
        return self.logs / f"{launch.shard_name(shard)}.log"

    def read(self) -> Launch:
        """What was asked for.

        Raises:
            ConfigError: missing, broken, or of another version.
        """
        try:
            return Launch.model_validate_json(self.launch_json.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise ConfigError(f"{self.launch_json} cannot be used: {explain(error)}.") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.launch_json} cannot be read ({error}); is {self.path} a launch?") from error

    def write(self, launch: Launch) -> None:
        """Keep what was asked for, whole or not at all."""
        write_json(self.launch_json, launch.model_dump(mode="json"))

    def outcome(self, shard: int) -> ShardOutcome | None:
        """What came of a shard; None where no task of it has started."""
        try:
            return ShardOutcome.model_validate_json(self.outcome_file(shard).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def write_outcome(self, outcome: ShardOutcome) -> None:
        """Keep what came of a shard, whole or not at all."""
        write_json(self.outcome_file(outcome.shard), outcome.model_dump(mode="json"))


def new_launch(runs: Path) -> LaunchDir:
    """A launch directory that nobody else has, however many are made in the same second."""
    home = (runs / FOLDER).resolve()
    home.mkdir(parents=True, exist_ok=True)
    while True:
        path = home / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        (path / "logs").mkdir()
        (path / "shards").mkdir()
        return LaunchDir(path)


def find_launch(word: str, runs: Path = Path("runs")) -> LaunchDir:
    """The launch that a person names: its directory, its name, the start of its name, or ``latest``.

    Raises:
        ConfigError: there is none such, or several.
    """
    if (Path(word) / "launch.json").is_file():
        return LaunchDir(Path(word).resolve())
    home = (runs / FOLDER).resolve()
    names = sorted(path.parent.name for path in home.glob("*/launch.json"))
    if word == "latest" and names:
        return LaunchDir(max((home / name for name in names), key=lambda path: (_created(path), path.name)))
    found = [name for name in names if name.startswith(word)]
    if len(found) == 1:
        return LaunchDir(home / found[0])
    if not names:
        raise ConfigError(
            f"there is no launch in {home}. Start one with hydra/launcher=slurm or local, or name its path."
        )
    what = f"names several launches ({_some(found)})" if found else "names no launch"
    raise ConfigError(f"'{word}' {what} in {home}.{nearest(word, [*names[-20:], 'latest'])}")


def _created(path: Path) -> str:
    try:
        return str(json.loads((path / "launch.json").read_text(encoding="utf-8"))["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")


def now_utc() -> str:
    """The time of day, for people."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def shards_of(launch: Launch, job: int) -> Iterable[Shard]:
    """The shards of a job."""
    return (shard for shard in launch.shards if shard.job == job)
