"""What one task does: the cases of its shard, then what is left of the same job, case by case claimed on disk.

``python -m launch.shard LAUNCH N`` on this machine; a Slurm task calls ``run_shard``. Whatever happens to the task, a
finished case is on disk, and a case in flight is taken up again by the next one.
"""

import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsbif.bench.case import Case
from dsbif.corridor import record_job
from dsbif.errors import DsbifError
from dsbif.record import RecordJob, record_batch, write_lost
from dsbif.rundir import RunDir
from launch.claims import Claims
from launch.launchdir import Job, Launch, LaunchDir, ShardOutcome
from launch.plan import cases_of
from launch.processes import start_of
from launch.signals import Stopped, stopping

MOST_TAKERS = 6
"""A case whose takers died this often kills them; it becomes an outcome of its own and holds up nobody."""
FAILED = 1
CANNOT = 2


@dataclass
class _Task:
    """A shard at work."""

    job: Job
    recording: RecordJob
    claims: Claims
    own: Sequence[str]

    def run(self) -> None:
        """Do what is there to be done, own cases first."""
        cases = {case.test_case_id: case for case in cases_of(self.job)}
        order = [*self.own, *(tid for tid in cases if tid not in set(self.own))]
        while batch := list(self._claim(order, cases, self.recording.model.rows * 2)):
            self._record(batch)

    def _claim(self, order: Sequence[str], cases: dict[str, Case], most: int) -> Iterator[Case]:
        """Up to ``most`` cases; one whose takers died before comes alone, so that the guilty is found."""
        taken = 0
        for tid in RunDir(self.job.run_dir).missing(order):
            before = self.claims.take(tid)
            if before is None:
                continue
            if not RunDir(self.job.run_dir).missing([tid]):  # done since
                self.claims.release(tid)
            elif before and taken:
                self.claims.put_back(tid)
            elif before >= MOST_TAKERS:
                write_lost(self.recording, cases[tid], f"{before} tasks died on this case, one after the other")
                self.claims.release(tid)
            else:
                taken += 1
                yield cases[tid]
                if before or taken >= most:
                    return

    def _record(self, batch: list[Case]) -> None:
        try:
            record_batch(self.recording, batch, self.claims.release)
        finally:
            self.claims.release_all()


def run_shard(launch_dir: str, shard: int, requeue: Callable[[], bool] | None = None) -> int:
    """Do a shard; returns the exit status of its task.

    Args:
        launch_dir: the launch directory.
        shard: the shard's number.
        requeue: asks the scheduler to run this task again and says whether it will; None where nobody can be asked.
    """
    here = LaunchDir(Path(launch_dir))
    launch = here.read()
    outcome = _started(here, shard)
    here.write_outcome(outcome)
    os.chdir(launch.home)
    job = launch.jobs[launch.shards[shard].job]
    claims = Claims(job.run_dir, f"{here.path.name}/{shard}", launch.claim_timeout_s)
    try:
        with stopping(), claims.beating():
            _Task(job, record_job(job.run_config()), claims, launch.shards[shard].test_case_ids).run()
    except Stopped as stop:
        return _stopped(here, launch, outcome, stop, requeue)
    except Exception as error:  # noqa: BLE001 - whatever it is, the summary must name it
        claims.release_all()
        return _failed(here, outcome, error)
    here.write_outcome(outcome.model_copy(update={"status": "done"}))
    return 0


def _started(here: LaunchDir, shard: int) -> ShardOutcome:
    before = here.outcome(shard)
    return ShardOutcome(
        shard=shard,
        status="running",
        starts=1 + (before.starts if before else 0),
        requeues=before.requeues if before else 0,
        host=socket.gethostname(),
        pid=os.getpid(),
        process_start=start_of(os.getpid()),
    )


def _stopped(
    here: LaunchDir, launch: Launch, outcome: ShardOutcome, stop: Stopped, requeue: Callable[[], bool] | None
) -> int:
    """Leave word first: a scheduler that runs the task again ends this one at once."""
    wanted = stop.by_time_or_preemption and requeue is not None and outcome.requeues < launch.max_requeues
    told = {"status": "interrupted", "error": f"stopped by {stop}", "requeues": outcome.requeues + wanted}
    here.write_outcome(outcome.model_copy(update=told))
    print(f"dsbif: stopped by {stop}; what is recorded is kept", file=sys.stderr, flush=True)
    if wanted and requeue is not None and not requeue():
        here.write_outcome(outcome.model_copy(update={**told, "requeues": outcome.requeues}))
    return stop.exit_status


def _failed(here: LaunchDir, outcome: ShardOutcome, error: Exception) -> int:
    known = isinstance(error, DsbifError)
    if known:
        print(f"dsbif: {error}", file=sys.stderr, flush=True)
    else:
        traceback.print_exception(error, file=sys.stderr)
    words = str(error) if known else f"{type(error).__name__}: {error}"
    here.write_outcome(outcome.model_copy(update={"status": "failed", "error": words}))
    return CANNOT if known else FAILED


def main(arguments: Sequence[str]) -> int:
    """Do one shard of a launch on this machine."""
    try:
        return run_shard(arguments[0], int(arguments[1]))
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return CANNOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
