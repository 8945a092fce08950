"""A silent agent that does as files in a folder say.

``break``: its making fails. ``die-<case>``: kills its process when that case begins (told by the case's seed).
``hold-<n>``: when its process has begun its n-th case it writes its process id to ``held`` and waits while the file is
there. ``budget``: while so many cases are recorded (the number, then the recordings' folder), none begins.
"""

import os
import signal
import time
from pathlib import Path

from dsbif.agents.silent import Silent
from dsbif.bench.roles import stable_pick


class Slow(Silent):
    def __init__(self, gates: str, rows: int) -> None:
        super().__init__(rows)
        self._gates = Path(gates)
        self._begun = 0
        if (self._gates / "break").exists():
            raise RuntimeError("told to break")

    def start(self, row: int, prompt: str, seed: int) -> None:
        self._begun += 1
        for path in self._gates.glob("die-*"):
            if stable_pick(f"0:{path.name.removeprefix('die-')}", 2**31) == seed:
                os.kill(os.getpid(), signal.SIGKILL)
        hold = self._gates / f"hold-{self._begun}"
        if hold.exists():
            (self._gates / "held").write_text(str(os.getpid()))
            while hold.exists():
                time.sleep(0.02)
        while self._spent():
            time.sleep(0.02)
        super().start(row, prompt, seed)

    def _spent(self) -> bool:
        try:
            cases, recordings = (self._gates / "budget").read_text().split(maxsplit=1)
        except FileNotFoundError:
            return False
        return len(list(Path(recordings).glob("*.rec.json"))) >= int(cases)
