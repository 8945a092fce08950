"""A silent agent that a test holds, breaks or lets go, shard by shard, by files in a folder.

``raise-<shard>``: its making fails. ``hold-<shard>``: holds the number of cases it lets pass; at the next one it writes
its process id to ``held-<shard>`` and waits until the file is gone. ``finished`` holds a line for each case that came
to its end: the case's seed, which no other has.
"""

import os
import time
from pathlib import Path

from dsbif.agents.silent import Silent


class GatedAgent(Silent):
    def __init__(self, gates: str, rows: int) -> None:
        super().__init__(rows)
        self._gates = Path(gates)
        self._shard = os.environ.get("SLURM_ARRAY_TASK_ID", "local")
        self._passed = 0
        if self._file("raise").exists():
            raise RuntimeError("this agent was asked to fail")

    def start(self, row: int, prompt: str, seed: int) -> None:
        hold = self._file("hold")
        if hold.exists() and self._passed >= int(hold.read_text()):
            self._file("held").write_text(str(os.getpid()))
            while hold.exists():
                time.sleep(0.05)
        self._passed += 1
        self._seed = seed

    def stop(self, row: int) -> None:
        with (self._gates / "finished").open("a") as out:
            out.write(f"{self._seed}\n")

    def _file(self, kind: str) -> Path:
        return self._gates / f"{kind}-{self._shard}"
