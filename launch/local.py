"""Shards on this machine: a process each, so many at once, every one with a log of its own.

A task that dies (killed, out of memory, a crash in native code) costs the cases in flight, which the next one takes up
again; a shard is started again a bounded number of times. ``python -m launch.local LAUNCH`` runs a launch that waits.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dsbif.errors import ConfigError
from dsbif.files import write_json
from launch.claims import Claims
from launch.launchdir import Launch, LaunchDir
from launch.processes import is_running, read_process, start_of

_POLL_S = 0.1
_GRACE_S = 30.0
INTERRUPTED = 130


@dataclass
class _Slot:
    """A place for one task, with the devices it may see."""

    devices: str | None
    shard: int = -1
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Supervisor:
    """Runs shards, ``workers`` at a time."""

    here: LaunchDir
    launch: Launch
    workers: int
    again: dict[int, int] = field(default_factory=dict)

    def run(self, shards: Iterable[int]) -> None:
        """Run until every shard's task has ended for good.

        Raises:
            KeyboardInterrupt: somebody stopped it; the tasks have ended by then.
        """
        write_json(self.here.supervisor, {"pid": os.getpid(), "start": start_of(os.getpid())})
        waiting = deque(shards)
        devices = split_devices(os.environ.get("CUDA_VISIBLE_DEVICES"), visible_gpus(), self.workers)
        slots = [_Slot(part) for part in devices]
        try:
            while waiting or any(slot.process for slot in slots):
                self._fill(slots, waiting)
                time.sleep(_POLL_S)
                for slot in slots:
                    self._look_at(slot, waiting)
        finally:
            self._stop(slots)
            self.here.supervisor.unlink(missing_ok=True)

    def _fill(self, slots: Sequence[_Slot], waiting: deque[int]) -> None:
        for slot in slots:
            if slot.process is None and waiting:
                slot.shard = waiting.popleft()
                slot.process = self._start(slot)

    def _start(self, slot: _Slot) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        if slot.devices is not None:
            environment["CUDA_VISIBLE_DEVICES"] = slot.devices
        log = self.here.log(self.launch, slot.shard)
        with log.open("ab") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "launch.shard", str(self.here.path), str(slot.shard)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=self.launch.home,
                start_new_session=True,
            )  # fmt: skip

    def _look_at(self, slot: _Slot, waiting: deque[int]) -> None:
        status = None if slot.process is None else slot.process.poll()
        if status is None:
            return
        slot.process = None
        self._forget(slot.shard)
        died = status < 0 or status in (128 + signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGUSR2)
        if died and self.again.get(slot.shard, 0) < self.launch.max_requeues:
            self.again[slot.shard] = self.again.get(slot.shard, 0) + 1
            waiting.append(slot.shard)

    def _forget(self, shard: int) -> None:
        """What an ended task still claims, nobody works on."""
        run_dir = self.launch.jobs[self.launch.shards[shard].job].run_dir
        Claims(run_dir, "", self.launch.claim_timeout_s).forget_owner(f"{self.here.path.name}/{shard}")

    def _stop(self, slots: Sequence[_Slot]) -> None:
        running = [slot for slot in slots if slot.process is not None]
        for slot in running:
            if slot.process is not None:
                slot.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        for slot in running:
            if slot.process is None:
                continue
            try:
                slot.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                slot.process.kill()
                slot.process.wait()
            self._forget(slot.shard)


def run_local(here: LaunchDir, launch: Launch, shards: Sequence[int], workers: int) -> None:
    """Run shards on this machine and wait for them.

    Raises:
        KeyboardInterrupt: somebody stopped it.
        ConfigError: another process already runs this launch.
    """
    if alive(here):
        raise ConfigError(f"{here.path.name} is already running here; see python -m launch.status {here.path.name}.")
    Supervisor(here, launch, min(workers, max(1, len(shards)))).run(shards)


def start_detached(here: LaunchDir) -> int:
    """Run the launch's open shards in a process that outlives this one; returns its process id."""
    with (here.logs / "supervisor.log").open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "launch.local", str(here.path)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    return process.pid


def alive(here: LaunchDir) -> bool:
    """Whether a process on this machine runs the launch's shards, or one of its tasks outlived it."""
    return is_running(here.supervisor) or bool(orphans(here))


def orphans(here: LaunchDir) -> list[int]:
    """Process ids of the launch's tasks that run on this machine."""
    outcomes = (here.outcome(shard.index) for shard in here.read().shards)
    running = [one for one in outcomes if one and one.status == "running" and one.host == socket.gethostname()]
    return [one.pid for one in running if one.process_start and start_of(one.pid) == one.process_start]


def cancel(here: LaunchDir) -> bool:
    """Stop the process that runs the launch, and its tasks; False where there is none."""
    if not alive(here):
        return False
    found = read_process(here.supervisor) if is_running(here.supervisor) else None
    # The supervisor stops its tasks; those that outlived one are told themselves.
    for pid in [found[0]] if found else orphans(here):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + 2 * _GRACE_S
    while alive(here) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return True


def visible_gpus() -> int:
    """How many NVIDIA devices this machine has, without loading anything."""
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def split_devices(visible: str | None, gpus: int, workers: int) -> list[str | None]:
    """Devices for each worker; None where there is nothing to share out.

    >>> split_devices(None, 0, 2)
    [None, None]
    >>> split_devices(None, 4, 2)
    ['0,2', '1,3']
    >>> split_devices("5,7", 8, 3)
    ['5', '7', '5']
    """
    names = [str(n) for n in range(gpus)] if visible is None else [name for name in visible.split(",") if name]
    if not names:
        return [None if visible is None else visible] * workers
    if workers >= len(names):
        return [names[worker % len(names)] for worker in range(workers)]
    return [",".join(names[worker::workers]) for worker in range(workers)]


def open_shards(here: LaunchDir, launch: Launch) -> list[int]:
    """Shards whose tasks have not ended well."""
    outcomes = {shard.index: here.outcome(shard.index) for shard in launch.shards}
    return [index for index, outcome in outcomes.items() if outcome is None or outcome.status != "done"]


def main(arguments: Sequence[str]) -> int:
    """Run the open shards of a launch."""
    here = LaunchDir(Path(arguments[0]))
    launch = here.read()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run_local(here, launch, open_shards(here, launch), int(launch.settings.get("workers", 1)))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
