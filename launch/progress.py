"""How far a launch is, read from files alone, and the table that shows it."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.table import Table

from dsbif.errors import CaseError
from dsbif.rundir import RunDir
from launch.claims import Claims
from launch.launchdir import Job, Launch, LaunchDir

_HEAD_BYTES = 2048
"""A record says early on whether its agent failed; ten thousand whole ones would take seconds to read."""


@dataclass(frozen=True, slots=True)
class JobProgress:
    """One combination: cases by what became of them; ``unscored`` is None before anything is scored."""

    name: str
    cases: int
    done: int
    failed: int
    running: int
    unscored: int | None
    done_since_launch: int

    @property
    def missing(self) -> int:
        """Cases without a record."""
        return self.cases - self.done - self.failed

    @property
    def complete(self) -> bool:
        """Whether every case is recorded and none failed."""
        return self.done == self.cases


def job_progress(job: Job, launch: Launch) -> JobProgress:
    """Count one combination."""
    run_dir = RunDir(job.run_dir)
    wanted = case_ids(run_dir)
    created = datetime.fromisoformat(launch.created).timestamp()
    done = failed = fresh = 0
    for path in sorted(run_dir.recordings.glob("*.rec.json")):
        if path.name.removesuffix(".rec.json") not in wanted:
            continue
        if agent_failed(path):
            failed += 1
        else:
            done += 1
            fresh += path.stat().st_mtime >= created
    running = Claims(job.run_dir, "", launch.claim_timeout_s).living()
    return JobProgress(job.name, len(wanted), done, failed, len(running), _unscored(run_dir), fresh)


def case_ids(run_dir: RunDir) -> set[str]:
    """The cases of a run by name alone: reading ten thousand whole ones takes seconds.

    Raises:
        CaseError: the manifest is missing or broken.
    """
    try:
        lines = run_dir.manifest.read_text(encoding="utf-8").splitlines()
        return {str(json.loads(line)["test_case_id"]) for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CaseError(f"the manifest {run_dir.manifest} cannot be read ({error}); make the run again.") from error


def agent_failed(path: Path) -> bool:
    """Whether a record says so of its agent."""
    with path.open("rb") as source:
        return b'"status": "agent_error"' in source.read(_HEAD_BYTES)


def _unscored(run_dir: RunDir) -> int | None:
    try:
        found = json.loads(run_dir.summary.read_text(encoding="utf-8"))
        return int(found["n_expected"]) - int(found["n_scored"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def launch_progress(launch: Launch) -> list[JobProgress]:
    """Count every combination."""
    return [job_progress(job, launch) for job in launch.jobs]


def progress_table(here: LaunchDir, launch: Launch, found: Sequence[JobProgress], now_s: float | None = None) -> Table:
    """One row a combination, and how long what is missing will take at the pace so far."""
    elapsed_s = (time.time() if now_s is None else now_s) - datetime.fromisoformat(launch.created).timestamp()
    table = Table(title=f"{here.path.name}   {_state(found)}", title_justify="left", show_edge=False)
    table.add_column("model at level")
    for name in ("cases", "done", "running", "failed", "missing", "unscored", "left"):
        table.add_column(name, justify="right")
    for job in found:
        table.add_row(
            job.name, str(job.cases), str(job.done), str(job.running), str(job.failed), str(job.missing),
            "–" if job.unscored is None else str(job.unscored), eta(job, elapsed_s),
        )  # fmt: skip
    return table


def _state(found: Sequence[JobProgress]) -> str:
    cases, done = sum(job.cases for job in found), sum(job.done for job in found)
    return "complete" if done == cases else f"{done} of {cases} cases done"


def eta(job: JobProgress, elapsed_s: float) -> str:
    """Time left at the pace since the launch began.

    >>> eta(JobProgress("x", 30, 10, 0, 2, None, 10), 60.0)
    '2 min'
    >>> eta(JobProgress("x", 30, 10, 0, 0, None, 0), 60.0)
    '–'
    """
    if not job.missing:
        return ""
    if not job.done_since_launch or elapsed_s <= 0:
        return "–"
    left_s = elapsed_s / job.done_since_launch * job.missing
    return f"{left_s:.0f} s" if left_s < 90 else f"{left_s / 60:.0f} min" if left_s < 5400 else f"{left_s / 3600:.1f} h"
