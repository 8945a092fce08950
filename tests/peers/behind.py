"""The reference cascade in lockstep, reached by a wire's own grain: what such a wire costs, to the sample.

Where a protocol hears the user piece by piece, or lets sound out piece by piece, no client can make up for that. The
cascade behind such a wire is late by so much; this agent is late by the same, without a clock.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from peers.hear_out import hear_out
from peers.voice import CascadeVoice

from dsbif.agents.wire import Rate
from dsbif.audio.wav import quantised
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Interrupted, Reply
from dsbif.session.pcm import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm


class Behind:
    """Lockstep, under ``model=custom``.

    Args:
        lines: where spoken lines are kept.
        rows: conversations at once.
        hears_hz: the rate at which the user is heard.
        piece_s: seconds of the user that are heard at once.
        asked_for: sound goes out only in answer to the next piece, and what then is not yet out can be taken back.
        wordless: the wire carries no words.
    """

    frame_samples = FRAME_SAMPLES

    def __init__(
        self,
        lines: str,
        rows: int = 1,
        hears_hz: int = 16_000,
        piece_s: float = 0.02,
        asked_for: bool = False,
        wordless: bool = False,
    ) -> None:
        self.rows = rows
        self.facts = AgentFacts("cascade-behind", "none", "none" if wordless else "native")
        self._lines = Path(lines)
        self._grain = (hears_hz, round(piece_s * hears_hz), asked_for, wordless)
        self._running: dict[int, _Line] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        self._running[row] = _Line(CascadeVoice(prompt, self._lines), *self._grain)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        return [self._running[row].hear(pcm[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        self._running.pop(row, None)

    def close(self) -> None:
        self._running.clear()


class HeardOut:
    """Turn, under ``model=custom``: the cascade hears all of the user, and what it said meanwhile is its reply.

    Args:
        lines: where spoken lines are kept.
    """

    def __init__(self, lines: str) -> None:
        self.facts = AgentFacts("cascade-heard-out", "none", "native")
        self._lines = Path(lines)

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        return hear_out(CascadeVoice(prompt, self._lines), user)

    def close(self) -> None:
        pass


class _Line:
    """One conversation."""

    def __init__(self, voice: CascadeVoice, hears_hz: int, piece: int, asked_for: bool, wordless: bool) -> None:
        self._voice, self._piece, self._asked_for, self._wordless = voice, piece, asked_for, wordless
        self._out, self._in = Rate(SAMPLE_RATE_HZ, hears_hz), Rate(hears_hz, SAMPLE_RATE_HZ)
        self._sent, self._heard = np.zeros(0, np.float32), np.zeros(0, np.float32)
        self._held: list[Emission] = []

    def hear(self, frame: Pcm) -> list[Emission]:
        self._sent = np.concatenate([self._sent, self._out.push(frame)])
        emissions: list[Emission] = []
        while len(self._sent) >= self._piece:
            piece, self._sent = self._sent[: self._piece], self._sent[self._piece :]
            emissions += self._answer(quantised(piece))
        return emissions

    def _answer(self, piece: Pcm) -> list[Emission]:
        out, self._held = self._held, []
        for emission in self._said_on(piece):
            if isinstance(emission, AgentText) and self._wordless:
                continue
            if not self._asked_for:
                out.append(emission)
            elif isinstance(emission, AgentAudio):
                self._held.append(emission)
            elif isinstance(emission, Interrupted):
                self._held.clear()
                out.append(emission)
        return out

    def _said_on(self, piece: Pcm) -> list[Emission]:
        heard = np.concatenate([self._heard, self._in.push(piece)])
        whole = len(heard) // FRAME_SAMPLES * FRAME_SAMPLES
        self._heard = heard[whole:]
        return self._voice.hear(heard[:whole])
