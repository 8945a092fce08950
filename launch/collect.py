"""The end of a launch: wait by looking at files, score what is complete, name everything that went wrong.

``python -m launch.collect [LAUNCH]``. A scheduler is asked only whether somebody still works on it; no accounting and
no result of a task is needed, and where nobody answers it ends all the same. Exit status 0 only if every case is done
and scored.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dsbif.corridor import Outcome, run
from dsbif.errors import DsbifError
from dsbif.report.effects_tables import compared
from dsbif.report.tables import across_runs
from dsbif.rundir import RunDir
from launch.claims import Claims
from launch.launchdir import Launch, LaunchDir, ShardOutcome, find_launch, shards_of
from launch.plan import cases_of
from launch.progress import JobProgress, agent_failed, launch_progress, progress_table
from launch.words import only_word

Alive = Callable[[], bool | None]
"""Whether any task of the launch waits or runs; None where nobody can tell."""

LOG_LINES = 6
_POLL_S = 1.0
_SILENCE_S = 600.0
"""So long a scheduler that gives no answer is taken to be alive."""
OK, INCOMPLETE, USAGE, INTERRUPTED = 0, 1, 2, 130


def wait(
    here: LaunchDir, launch: Launch, alive: Alive, console: Console | None = None, poll_s: float = _POLL_S
) -> list[JobProgress]:
    """Wait until every case is recorded or nobody works on any; returns how far it came."""
    console = console or Console(stderr=True)
    heard_s = time.monotonic()
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with live or nullcontext():
        while True:
            answer = alive()
            heard_s = heard_s if answer is None else time.monotonic()
            found = launch_progress(launch)
            if live:
                live.update(progress_table(here, launch, found), refresh=True)
            if answer is False:
                forget_tasks(here, launch)
            gone = answer is False or (answer is None and time.monotonic() - heard_s > _SILENCE_S)
            if all(job.missing == 0 for job in found) or (gone and not _claimed(launch)):
                return found
            time.sleep(poll_s)


def forget_tasks(here: LaunchDir, launch: Launch) -> None:
    """What tasks that are known to be gone still claim is anybody's at once."""
    for job in launch.jobs:
        claims = Claims(job.run_dir, "", launch.claim_timeout_s)
        for shard in shards_of(launch, job.index):
            claims.forget_owner(f"{here.path.name}/{shard.index}")


def _claimed(launch: Launch) -> bool:
    """Whether somebody has given a sign of working on a case."""
    return any(Claims(job.run_dir, "", launch.claim_timeout_s).living() for job in launch.jobs)


def alive_of(here: LaunchDir, launch: Launch) -> Alive:
    """The question to whoever runs the launch's tasks."""
    if launch.kind == "local":
        from launch.local import alive as local_alive

        return lambda: local_alive(here)
    from launch.slurm import alive as slurm_alive

    def ask() -> bool | None:
        shards = slurm_alive(here.path.name)
        return None if shards is None else bool(shards)

    return ask


def score(launch: Launch) -> tuple[list[Outcome], list[str]]:
    """Score every combination from what is complete; returns what could not be."""
    outcomes, refused = [], []
    for job in launch.jobs:
        try:
            outcomes.append(run(job.run_config(stage="score")))
        except DsbifError as error:
            refused.append(f"{job.name} is not scored: {error}")
    return outcomes, refused


def troubles(here: LaunchDir, launch: Launch) -> list[str]:
    """Every shard that did not end well, by name, with the end of its log and where that lies."""
    told = []
    left = {tid_key for job in launch.jobs for tid_key in _left(job.index, launch)}
    for shard in launch.shards:
        outcome = here.outcome(shard.index)
        missing = [tid for tid in shard.test_case_ids if (shard.job, tid) in left]
        if outcome is not None and outcome.status == "done" and not missing:
            continue
        if outcome is None and not missing:
            continue
        log = here.log(launch, shard.index)
        head = f"{launch.shard_name(shard.index)}: {_what(outcome)}; {_cases(len(missing))} of it missing"
        told.append("\n".join([head, *(f"    {line}" for line in last_lines(log)), f"    log  {log}"]))
    return told


def _left(job: int, launch: Launch) -> list[tuple[int, str]]:
    run_dir = RunDir(launch.jobs[job].run_dir)
    return [(job, tid) for tid in run_dir.missing(case.test_case_id for case in cases_of(launch.jobs[job]))]


def _what(outcome: ShardOutcome | None) -> str:
    if outcome is None:
        return "never started"
    if outcome.status == "running":
        return f"vanished (process {outcome.pid} on {outcome.host}: killed, out of memory, or its machine is gone)"
    if outcome.status == "done":
        return "ended well, but not all of its cases are there"
    return f"{outcome.status}: {outcome.error}"


def failed_cases(launch: Launch) -> list[str]:
    """Cases whose agent failed, with what it said."""
    told = []
    for job in launch.jobs:
        for path in sorted(RunDir(job.run_dir).recordings.glob("*.rec.json")):
            if agent_failed(path):
                told.append(f"{job.name}: {path.name.removesuffix('.rec.json')} failed; see {path}")
    return told


def last_lines(log: Path, count: int = LOG_LINES) -> list[str]:
    """The end of a log; what was never written is said to be so."""
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 8192))
            text = source.read().decode("utf-8", "replace")
    except OSError:
        return ["(no log was written)"]
    return [line for line in text.splitlines() if line.strip()][-count:] or ["(its log is empty)"]


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def tell(here: LaunchDir, launch: Launch, console: Console) -> bool:
    """Print the one summary; returns whether every case is done."""
    found = launch_progress(launch)
    console.print(progress_table(here, launch, found))
    parts = [*troubles(here, launch), *failed_cases(launch)]
    for part in parts:
        console.print(Text(part), soft_wrap=True)
    complete = all(job.complete for job in found)
    if not complete:
        console.print(Text(f"what is missing is submitted by: python -m launch.resume {here.path.name}"))
    return complete


def collect(here: LaunchDir, launch: Launch, console: Console | None = None) -> int:
    """Wait, score, tell; returns the exit status."""
    console = console or Console()
    wait(here, launch, alive_of(here, launch))
    outcomes, refused = score(launch)
    summaries = [outcome.summary for outcome in outcomes if outcome.summary]
    if summaries:
        console.print(across_runs(summaries), *compared(summaries))
    for line in refused:
        console.print(Text(line), soft_wrap=True)
    whole = tell(here, launch, console) and not refused and all(summary.complete for summary in summaries)
    return OK if whole else INCOMPLETE


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect a launch."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK
    try:
        here = find_launch(only_word(words, "launch.collect"))
        return collect(here, here.read())
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\ndsbif: stopped looking. The tasks go on; look again with the same command.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
