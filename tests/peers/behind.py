"""The reference cascade without a wire, as coarse as a protocol makes it: what such a wire costs, to the sample.

Where a protocol hears the user piece by piece, or lets sound out piece by piece, no client can make up for that. The
cascade behind such a wire is late by so much; these agents are late by the same.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import sphn
from peers.hear_out import hear_out
from peers.voice import CascadeVoice

from dsbif.agents.fun_audio_chat_wire import audio_messages
from dsbif.agents.opus import PACKET_SAMPLES
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
        promptless: the wire carries no prompt.
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
        promptless: bool = False,
    ) -> None:
        self.rows = rows
        self.facts = AgentFacts("cascade-behind", "none", "none" if wordless else "native")
        self._lines, self._promptless = Path(lines), promptless
        self._grain = (hears_hz, round(piece_s * hears_hz), asked_for, wordless)
        self._running: dict[int, _Line] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        heard = "" if self._promptless else prompt
        self._running[row] = _Line(CascadeVoice(heard, self._lines), *self._grain)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        return [self._running[row].hear(pcm[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        self._running.pop(row, None)

    def close(self) -> None:
        self._running.clear()


def _through_opus(pcm: Pcm) -> Pcm:
    """What the codec leaves of a turn, encoded as one stream."""
    reader = sphn.OpusStreamReader(SAMPLE_RATE_HZ)
    pieces = [np.asarray(reader.append_bytes(message[1:]), np.float32) for message in audio_messages(pcm)]
    return np.concatenate([np.zeros(0, np.float32), *pieces])


class HeardOut:
    """Turn, under ``model=custom``: the cascade hears all of the user, and what it said meanwhile is its reply.

    Args:
        lines: where spoken lines are kept.
        opus: it hears what the codec leaves of the user.
    """

    def __init__(self, lines: str, opus: bool = False) -> None:
        self.facts = AgentFacts("cascade-heard-out", "none", "native")
        self._lines, self._opus = Path(lines), opus

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        return hear_out(CascadeVoice(prompt, self._lines), _through_opus(user) if self._opus else user)

    def close(self) -> None:
        pass


class HeardOutLive:
    """Live, under ``model=custom``: told of a turn's end, the cascade hears it out, through Opus, and replies at once.

    Args:
        lines: where spoken lines are kept.
        rows: conversations at once.
        settle_s: between a turn's end and the reply; twice as long after a later turn.
    """

    def __init__(self, lines: str, settle_s: float, rows: int = 1) -> None:
        self.facts = AgentFacts("cascade-heard-out", "none", "native")
        self._lines, self._settle_s = Path(lines), settle_s

    async def open(self, prompt: str, seed: int) -> "_Told":
        return _Told(CascadeVoice(prompt, self._lines), self._settle_s)

    async def close(self) -> None:
        pass


class _Told:
    """One conversation: a turn begins with the first sound after the one before it, the first with the session."""

    def __init__(self, voice: CascadeVoice, settle_s: float) -> None:
        self._voice, self._settle_s = voice, settle_s
        self._writer, self._reader = sphn.OpusStreamWriter(SAMPLE_RATE_HZ), sphn.OpusStreamReader(SAMPLE_RATE_HZ)
        self._turn: list[Pcm] | None = []
        self._out: asyncio.Queue[Emission] = asyncio.Queue()

    async def send(self, pcm: Pcm) -> None:
        if self._turn is None and pcm.any():
            self._turn = []
        if self._turn is not None:
            self._turn.append(pcm)

    async def user_finished(self) -> None:
        turn, self._turn = self._turn or [], None
        asyncio.get_running_loop().call_later(self._settle_s, self._reply, np.concatenate(turn))
        self._settle_s *= 2

    def _reply(self, turn: Pcm) -> None:
        reply = hear_out(self._voice, _through_opus(turn))
        self._out.put_nowait(AgentText(reply.text))
        self._out.put_nowait(AgentAudio(self._encoded(reply.pcm)))

    def _encoded(self, pcm: Pcm) -> Pcm:
        """As it is when the codec is done with it: all answers are one stream."""
        packets = np.pad(pcm, (0, -len(pcm) % PACKET_SAMPLES)).reshape(-1, PACKET_SAMPLES)
        pieces = [self._reader.append_bytes(bytes(self._writer.append_pcm(packet))) for packet in packets]
        return np.concatenate([np.zeros(0, np.float32), *pieces])

    async def emissions(self) -> AsyncIterator[Emission]:
        while True:
            yield await self._out.get()

    async def close(self) -> None:
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
