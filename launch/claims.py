"""Who works on which case: small files in the run directory, with a heartbeat.

A claim is ``<case>.<n>``, made with an exclusive create; the highest ``n`` counts. Its owner touches it while it works.
A claim that nobody has touched for a while is dead: whoever makes ``<case>.<n+1>`` first has taken it over. Nothing is
ever renamed onto something, and no lock is held, so it works on NFS too. Time is the file system's own: hosts' clocks
may differ.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = ".claims"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim as it lies on disk: which case, the how-manieth taker, and seconds since its owner's last sign."""

    test_case_id: str
    number: int
    age_s: float
    owner: str


@dataclass
class Claims:
    """The claims of one run directory, as one process sees and makes them.

    Args:
        run_dir: the run directory.
        owner: ``<launch>/<shard>`` of the task; an earlier task of the same shard is known to be gone.
        timeout_s: how long a claim lives without a sign.
    """

    run_dir: Path
    owner: str
    timeout_s: float = 120.0
    _held: dict[str, Path] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def folder(self) -> Path:
        """Where claims lie."""
        return self.run_dir / FOLDER

    def take(self, test_case_id: str) -> int | None:
        """Claim a case: how many takers it had before, or None where somebody alive has it."""
        if test_case_id in self._held:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        last = max(self.all(f"{test_case_id}.*"), key=lambda claim: claim.number, default=None)
        if last is not None and self._alive(last):
            return None
        number = 0 if last is None else last.number + 1
        path = self.folder / f"{test_case_id}.{number}"
        try:
            with path.open("x", encoding="utf-8") as out:
                json.dump({"owner": self.owner, "host": socket.gethostname(), "pid": os.getpid()}, out)
        except FileExistsError:  # somebody was quicker
            return None
        with self._lock:
            self._held[test_case_id] = path
        return number

    def release(self, test_case_id: str) -> None:
        """Give a case back: done, or to be done by somebody else."""
        with self._lock:
            path = self._held.pop(test_case_id, None)
        if path is None:
            return
        number = int(path.suffix[1:])
        for older in range(number, -1, -1):
            (self.folder / f"{test_case_id}.{older}").unlink(missing_ok=True)

    def put_back(self, test_case_id: str) -> None:
        """Take back one's own claim and leave those of the dead, so that they still count."""
        with self._lock:
            path = self._held.pop(test_case_id, None)
        if path is not None:
            path.unlink(missing_ok=True)

    def release_all(self) -> None:
        """Give everything back."""
        for test_case_id in list(self._held):
            self.release(test_case_id)

    def beat(self) -> None:
        """Touch everything held."""
        with self._lock:
            held = list(self._held.values())
        for path in held:
            with contextlib.suppress(OSError):
                os.utime(path)

    @contextlib.contextmanager
    def beating(self) -> Iterator[None]:
        """Touch everything held, several times within the time-out, until the block is left."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(self.timeout_s / 8):
                self.beat()

        thread = threading.Thread(target=run, daemon=True, name="heartbeat")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _alive(self, claim: Claim) -> bool:
        return claim.age_s < self.timeout_s and claim.owner != self.owner

    def all(self, pattern: str = "*.*") -> list[Claim]:
        """Every claim there is, or those whose file names match."""
        now = self._now()
        found = []
        for path in sorted(self.folder.glob(pattern)):
            test_case_id, _, number = path.name.rpartition(".")
            if not number.isdigit():
                continue
            with contextlib.suppress(FileNotFoundError):
                found.append(Claim(test_case_id, int(number), now - path.stat().st_mtime, _owner(path)))
        return found

    def living(self) -> list[str]:
        """Cases that somebody is working on, by the sign of their claim."""
        return sorted({claim.test_case_id for claim in self.all() if claim.age_s < self.timeout_s})

    def forget_owner(self, owner: str) -> None:
        """Declare dead what a task held that is known to be gone."""
        for claim in self.all():
            if claim.owner == owner:
                with contextlib.suppress(OSError):
                    os.utime(self.folder / f"{claim.test_case_id}.{claim.number}", (0, 0))

    def _now(self) -> float:
        """The file system's time."""
        if not self.folder.is_dir():
            return 0.0
        probe = self.folder / f"clock-{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
        probe.touch()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)


def _owner(path: Path) -> str:
    """Whose a claim is; a claim that is just being written is nobody's yet."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["owner"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
