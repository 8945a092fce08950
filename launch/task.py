"""What a Slurm task calls: a shard, under a name that the queue shows, with a way to be queued again.

submitit's runner loads this module in the task, so it imports little.
"""

import contextlib
import os
import sys

from dsbif.errors import ConfigError
from launch.clients import call

_QUICKLY_S = 15.0


def run_task(launch_dir: str, shard: int, name: str) -> None:
    """What submitit's runner calls in a task; ends the process with the shard's exit status.

    submitit turns every way to end into a pickle and, for its own USR2 handler, into an exception inside the user's
    code. ``run_shard`` therefore sets handlers of its own, leaves its outcome in the launch directory, and the process
    ends here, so that Slurm too learns whether the shard failed.
    """
    from launch.shard import run_shard

    with contextlib.suppress(ConfigError):  # so that `squeue` shows model, level and shard
        call("scontrol", "update", f"JobId={os.environ['SLURM_JOB_ID']}", f"JobName={name}", timeout_s=_QUICKLY_S)
    sys.exit(run_shard(launch_dir, shard, requeue=requeue))


def requeue() -> bool:
    """Ask Slurm to run this task again from the start; it then ends the running one. False where it does not.

    Only a task that runs asks: one that Slurm is already ending was cancelled, or preempted and comes again without
    being asked for, and ``scontrol requeue`` would bring a cancelled one back.
    """
    try:
        job = os.environ["SLURM_JOB_ID"]
        if call("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip() != "RUNNING":
            return False
        call("scontrol", "requeue", job)
    except (ConfigError, KeyError) as error:
        print(f"dsbif: not queued again: {error}", file=sys.stderr, flush=True)
        return False
    return True
