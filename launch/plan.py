"""From combinations to shards: build what they hear, cut what is missing into pieces of equal length of audio."""

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsbif.bench.case import Case
from dsbif.bench.manifest import read_manifest
from dsbif.config import PacingConfig, RunConfig
from dsbif.corridor import run
from dsbif.errors import ConfigError
from dsbif.rundir import RunDir
from dsbif.session.pcm import SAMPLE_RATE_HZ
from launch.launchdir import Job, Kind, Launch, LaunchDir, Shard, new_launch, now_utc

AUDIO_PER_SHARD_S = 1200.0
"""What ``shards=auto`` aims at: twenty minutes of sessions, a few minutes of a lockstep model on a GPU, so that a lost
task costs little and loading a model does not outweigh its work."""


@dataclass(frozen=True, slots=True)
class Combination:
    """One Hydra job: its overrides and its configuration."""

    overrides: tuple[str, ...]
    config: RunConfig


def make_job(index: int, combination: Combination) -> Job:
    """Build the user audio of a combination and claim its run directory.

    Raises:
        DsbifError: whatever keeps a run from being built.
    """
    built = run(combination.config.model_copy(update={"stage": "build"})).run_dir
    config = combination.config
    return Job(
        index=index,
        name=f"{config.model.name}-{config.level.name}",
        model=config.model.name,
        level=config.level.name,
        run_dir=built.path.resolve(),
        overrides=combination.overrides,
        config={**config.model_dump(mode="json"), "paths": _absolute(config), "stage": "all"},
    )


def _absolute(config: RunConfig) -> Mapping[str, str | None]:
    """A task may start in another folder."""
    paths = config.paths.model_dump()
    return {name: None if path is None else str(Path(path).resolve()) for name, path in paths.items()}


def cases_of(job: Job) -> list[Case]:
    """The cases of a job, as its manifest holds them."""
    return read_manifest(RunDir(job.run_dir).manifest)


def cut(jobs: Sequence[Job], shards: int | str, first: int = 0) -> tuple[Shard, ...]:
    """Shards of what the jobs' run directories lack, numbered from ``first``.

    Args:
        jobs: built ones.
        shards: how many a job, or ``auto``; never more than there are cases.
        first: the first shard's number.
    """
    made: list[Shard] = []
    for job in jobs:
        missing = set(missing_cases(job))
        cases = [case for case in cases_of(job) if case.test_case_id in missing]
        pacing = job.run_config().model.pacing
        lengths = {case.test_case_id: session_s(case, pacing) for case in cases}
        for part in balanced(lengths, shards):
            made.append(Shard(index=first + len(made), job=job.index, test_case_ids=tuple(part)))
    return tuple(made)


def missing_cases(job: Job) -> list[str]:
    """Cases without a record, and cases whose agent failed: both are to be done."""
    run_dir = RunDir(job.run_dir)
    run_dir.forget_errors()
    return run_dir.missing(case.test_case_id for case in cases_of(job))


def session_s(case: Case, pacing: PacingConfig) -> float:
    """About how long a case's session lasts."""
    turns = (case.turn1.samples + case.turn2.samples) / SAMPLE_RATE_HZ
    between = pacing.gap_s if case.barge_in_after_s is None else case.barge_in_after_s + pacing.onset_timeout_s / 2
    return turns + between + pacing.trailing_s + pacing.flush_s


def balanced(lengths: Mapping[str, float], shards: int | str) -> list[list[str]]:
    """Parts of about equal sum: the longest first, each to the part that has least; the same every time.

    >>> balanced({"a": 5, "b": 4, "c": 3, "d": 3}, 2)
    [['a', 'd'], ['b', 'c']]
    >>> balanced({"a": 5, "b": 4}, 9)
    [['a'], ['b']]
    >>> balanced({}, "auto")
    []
    """
    wanted = math.ceil(sum(lengths.values()) / AUDIO_PER_SHARD_S) if shards == "auto" else int(shards)
    count = min(max(1, wanted), len(lengths))
    heap = [(0.0, part) for part in range(count)]
    parts: list[list[str]] = [[] for _ in range(count)]
    for tid in sorted(lengths, key=lambda tid: (-lengths[tid], tid)):
        total, part = heapq.heappop(heap)
        parts[part].append(tid)
        heapq.heappush(heap, (total + lengths[tid], part))
    order = {tid: place for place, tid in enumerate(lengths)}
    return [sorted(part, key=order.__getitem__) for part in parts]


def with_shards(launch: Launch, shards: Sequence[Shard]) -> Launch:
    """The launch with further shards."""
    return launch.model_copy(update={"shards": (*launch.shards, *shards)})


def begin(
    kind: Kind,
    combinations: Sequence[Combination],
    shards: int | str,
    settings: Mapping[str, Any],
    max_requeues: int = 3,
    claim_timeout_s: float = 120.0,
) -> tuple[LaunchDir, Launch]:
    """Build every combination, cut what is missing, write the launch down; see ``begin_jobs``.

    Raises:
        DsbifError: whatever keeps a combination from being built; nothing is started then.
    """
    jobs = [make_job(index, combination) for index, combination in enumerate(combinations)]
    return begin_jobs(kind, jobs, combinations[0].config.paths.runs, shards, settings, max_requeues, claim_timeout_s)


def begin_jobs(
    kind: Kind,
    jobs: Sequence[Job],
    runs: Path,
    shards: int | str,
    settings: Mapping[str, Any],
    max_requeues: int = 3,
    claim_timeout_s: float = 120.0,
) -> tuple[LaunchDir, Launch]:
    """Cut what is missing of built jobs, write the launch down.

    Args:
        kind: where its tasks will run.
        jobs: built ones, numbered from 0.
        runs: the folder of run directories.
        shards: how many a combination, or ``auto``.
        settings: the launcher's own; ``shards`` is kept with them.
        max_requeues: how often a shard may be started again.
        claim_timeout_s: after how long without a sign a case in flight is anybody's.

    Raises:
        ConfigError: ``shards`` is neither ``auto`` nor a number.
    """
    if shards != "auto" and not (str(shards).isdecimal() and int(shards) > 0):
        raise ConfigError(f"shards={shards}: wanted auto, or a number from 1.")
    here = new_launch(runs)
    launch = Launch(
        kind=kind,
        created=now_utc(),
        home=Path.cwd(),
        jobs=tuple(jobs),
        shards=cut(jobs, shards),
        settings={**settings, "shards": shards},
        claim_timeout_s=claim_timeout_s,
        max_requeues=max_requeues,
    )
    here.write(launch)
    return here, launch
