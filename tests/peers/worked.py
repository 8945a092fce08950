"""Agents for a worker process: they answer with what they hear, and misbehave where the prompt says so."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dsbif.errors import AgentBusyError, AgentError, ConfigError
from dsbif.session.agent import (
    AgentAudio,
    AgentFacts,
    AgentText,
    Emission,
    Interrupted,
    Note,
    Reply,
    TurnDone,
)
from dsbif.session.pcm import Pcm


class Worked:
    """Lockstep: says what it hears a little lower, and a word a second.

    A prompt's first word is what happens in the row's third frame: ``kill``, ``hang``, ``print``, ``raise``, ``own``.
    ``once-kill`` and ``once-hang`` happen only where the file ``once`` does not yet exist.
    """

    frame_samples = 960

    def __init__(self, rows: int, once: str = "", fail: str = "", equal_start: bool = False) -> None:
        print("made\x00\xff and this must get into no frame", flush=True)
        os.write(1, b"DSBW\x01\x00\x00\x00")
        if fail == "config":
            raise ConfigError("pip install something")
        if fail == "plain":
            raise RuntimeError("out of memory")
        if fail == "die":
            print("dying words", file=sys.stderr, flush=True)
            os._exit(7)
        if fail == "hang":
            time.sleep(3600)
        self.rows, self.equal_start = rows, equal_start
        loaded = ",".join(name for name in ("pydantic", "torch", "hydra", "omegaconf") if name in sys.modules)
        self.facts = AgentFacts("worked", "full", "native", {"pid": str(os.getpid()), "loaded": loaded})
        self._once = Path(once) if once else None
        self._rows: dict[int, tuple[str, int, int]] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        self._rows[row] = (prompt, seed, 0)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        assert pcm.shape == (self.rows, self.frame_samples)
        assert pcm.dtype == np.float32
        return [self._row(row, pcm[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        self._rows.pop(row, None)

    def close(self) -> None:
        self._rows.clear()
        print("closed in good order", flush=True)

    def _row(self, row: int, pcm: Pcm) -> list[Emission]:
        prompt, seed, frame = self._rows[row]
        self._rows[row] = (prompt, seed, frame + 1)
        if frame == 2:
            self._misbehave(row, prompt.partition(" ")[0])
        emissions: list[Emission] = [AgentAudio(pcm * np.float32(0.5))]
        if frame == 0:
            emissions.append(Note("prompt", f"{prompt} {seed}"))
        if frame % 25 == 24:
            emissions += [AgentText("Wörd „x“\u2028 "), TurnDone(), Interrupted("user")]
        return emissions

    def _misbehave(self, row: int, what: str) -> None:
        if what.startswith("once-") and self._once is not None:
            if self._once.exists():
                return
            self._once.touch()
            what = what.removeprefix("once-")
        if what == "kill":
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "hang":
            time.sleep(3600)
        if what == "print":
            print("DSBW" * 5000, flush=True)
        if what == "leak":
            print(f"key {os.environ['WORKED_API_KEY']}", file=sys.stderr, flush=True)
            os._exit(3)
        if what == "raise":
            error = RuntimeError("row is bad")
            error.row = row  # type: ignore[attr-defined]
            raise error
        if what == "own":
            raise AgentError("in its own words")


class WorkedTurn:
    """Turn: the same by the prompt."""

    def __init__(self, once: str = "") -> None:
        self.facts = AgentFacts("worked-turn", "partial", "native", {"pid": str(os.getpid())})
        self._once = once

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        if prompt == "once-kill" and not Path(self._once).exists():
            Path(self._once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if prompt == "busy":
            raise AgentBusyError("no session free", retry_after_s=1.5)
        return Reply(user[::2].copy(), f"{prompt} {seed}", np.float32(0.25), [Note("n", "ä")])  # type: ignore[arg-type]

    def close(self) -> None:
        pass
