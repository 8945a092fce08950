"""An agent in a process of its own, the child's side: makes one, then does as its pipes say until they end.

Runs under any Python from 3.10 on that has numpy and what the agent needs; nothing else of dsbif's is imported. The
pipes are file descriptors of their own, so that what the agent prints cannot get between frames.

    ← {op: hello, protocol, python, numpy}
    → {op: make, agent, settings, settings_class, rows}
    ← {op: ready, kind, facts, rows, frame_samples, equal_start}
    → {op: start, row, prompt, seed}         ← {op: done}
    → {op: step, active} + float32           ← {op: emitted, rows} + float32
    → {op: stop, row}                        ← {op: done}
    → {op: reply, prompt, seed} + float32    ← {op: reply, text, compute_s, notes} + float32
    → {op: close}                            ← {op: done}, and the process ends

Whatever the agent raises comes back as ``{op: failed, kind, type, text, row, retry_after_s}`` in an answer's place, and
its traceback goes to the error stream.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.framing import PROTOCOL, Channel, EndError
from dsbif.agents.target import Target, make
from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError
from dsbif.session.agent import (
    AgentAudio,
    AgentText,
    Emission,
    Interrupted,
    LiveAgent,
    LockstepAgent,
    Note,
    TurnAgent,
    TurnDone,
)

if TYPE_CHECKING:
    from dsbif.agents.framing import Floats

_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl."""


def main(reading: int, writing: int, parent: int) -> None:
    """Serve one parent.

    Args:
        reading: file descriptor on which requests come.
        writing: file descriptor on which answers go.
        parent: its process id.
    """
    for number in (reading, writing):
        os.set_inheritable(number, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked for the work decides when it ends
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            return
    channel = Channel(reading, writing, alive=lambda: os.getppid() == parent)
    hello = {"op": "hello", "protocol": PROTOCOL, "python": platform.python_version(), "numpy": np.__version__}
    child = _Child()
    with contextlib.suppress(EndError):
        channel.send(hello)
        while child.open:
            header, pcm = channel.receive()
            channel.send(*child.answer(header, pcm))
    child.close()


class _Child:
    """What there is on this side: an agent, once it has been made."""

    def __init__(self) -> None:
        self.open = True
        self._agent: Any = None
        self._rows = 0

    def answer(self, header: Mapping[str, Any], pcm: Floats) -> tuple[dict[str, Any], Floats | None]:
        """Do as asked; a failure is an answer too."""
        try:
            return self._do(header, pcm)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is told to the parent
            traceback.print_exc()
            sys.stderr.flush()
            return failure_to_wire(error), None

    def close(self) -> None:
        """Close the agent; what it raises goes to the error stream."""
        agent, self._agent = self._agent, None
        if agent is not None:
            try:
                agent.close()
            except Exception:  # noqa: BLE001 - the process ends anyway
                traceback.print_exc()

    def _do(self, header: Mapping[str, Any], pcm: Floats) -> tuple[dict[str, Any], Floats | None]:
        op = header["op"]
        if op == "step":
            heard = pcm.reshape(self._rows, -1)
            return emissions_to_wire(self._agent.step(heard, header["active"]))
        if op == "reply":
            reply = self._agent.reply(header["prompt"], pcm, header["seed"])
            notes = [[str(note.name), str(note.text)] for note in reply.notes]
            words = {"op": "reply", "text": str(reply.text), "compute_s": float(reply.compute_s), "notes": notes}
            return words, np.asarray(reply.pcm, np.float32)
        if op == "make":
            return self._make(header), None
        if op == "start":
            self._agent.start(header["row"], header["prompt"], header["seed"])
        elif op == "stop":
            self._agent.stop(header["row"])
        elif op == "close":
            self.open = False
            self.close()
        else:
            raise ValueError(f"a worker knows no '{op}'")
        return {"op": "done"}, None

    def _make(self, header: Mapping[str, Any]) -> dict[str, Any]:
        agent = make(Target(header["agent"], header["settings"], header["settings_class"], header["rows"]))
        kinds = {"lockstep": LockstepAgent, "turn": TurnAgent, "live": LiveAgent}
        kind = next((name for name, protocol in kinds.items() if isinstance(agent, protocol)), "none")
        self._agent = agent
        self._rows = getattr(agent, "rows", 0)
        facts = getattr(agent, "facts", None)
        told = facts and {
            "name": facts.name,
            "conditioning": facts.conditioning,
            "transcript": facts.transcript,
            "versions": {str(name): str(value) for name, value in facts.versions.items()},
        }
        return {
            "op": "ready",
            "kind": kind,
            "facts": told,
            "rows": self._rows,
            "frame_samples": getattr(agent, "frame_samples", 0),
            "equal_start": bool(getattr(agent, "equal_start", False)),
        }


def emissions_to_wire(rows: Sequence[Sequence[Emission]]) -> tuple[dict[str, Any], Floats | None]:
    """A step's emissions as a header, and all their audio in one piece, float32 [n]."""
    told: list[list[list[Any]]] = []
    pieces: list[Floats] = []
    for row in rows:
        told.append([])
        for emission in row:
            told[-1].append(_to_wire(emission))
            if isinstance(emission, AgentAudio):
                pieces.append(np.asarray(emission.pcm, np.float32))
    return {"op": "emitted", "rows": told}, np.concatenate([p.reshape(-1) for p in pieces]) if pieces else None


def _to_wire(emission: Emission) -> list[Any]:
    if isinstance(emission, AgentAudio):
        return ["audio", *np.shape(emission.pcm)]
    if isinstance(emission, AgentText):
        return ["text", str(emission.text)]
    if isinstance(emission, TurnDone):
        return ["turn-done", str(emission.kind)]
    if isinstance(emission, Interrupted):
        return ["interrupted", str(emission.kind)]
    if isinstance(emission, Note):
        return ["note", str(emission.name), str(emission.text)]
    raise AgentError(f"the agent emitted {type(emission).__name__}, which is no emission.")


def emissions_from_wire(rows: Sequence[Sequence[Sequence[Any]]], pcm: Floats) -> list[list[Emission]]:
    """The emissions of a step, as they were on the other side."""
    out: list[list[Emission]] = []
    at = 0
    for row in rows:
        out.append([])
        for kind, *words in row:
            if kind == "audio":
                size = int(np.prod(words))
                out[-1].append(AgentAudio(pcm[at : at + size].reshape(words)))
                at += size
            else:
                out[-1].append(_WORDS[kind](*words))
    return out


_WORDS: Mapping[str, Any] = {"text": AgentText, "turn-done": TurnDone, "interrupted": Interrupted, "note": Note}
_KINDS: Mapping[str, type[Exception]] = {
    "config": ConfigError,
    "busy": AgentBusyError,
    "lost": AgentLostError,
    "agent": AgentError,
}


def failure_to_wire(error: Exception) -> dict[str, Any]:
    """What an agent raised, as plain data."""
    kind = next((name for name, wanted in _KINDS.items() if isinstance(error, wanted)), "other")
    return {
        "op": "failed",
        "kind": kind,
        "type": type(error).__name__,
        "text": str(error),
        "row": getattr(error, "row", None),
        "retry_after_s": getattr(error, "retry_after_s", None),
    }


def failure_from_wire(header: Mapping[str, Any]) -> Exception:
    """The error to raise on the parent's side, its row with it: the same kind, or an ``AgentError`` naming the type."""
    text = header["text"]
    error: Exception
    if header["kind"] == "busy":
        error = AgentBusyError(text, header["retry_after_s"])
    elif header["kind"] in _KINDS:
        error = _KINDS[header["kind"]](text)
    else:
        error = AgentError(f"{header['type']}: {text}" if text else header["type"])
    if header["row"] is not None:
        error.row = header["row"]  # type: ignore[attr-defined]
    return error
