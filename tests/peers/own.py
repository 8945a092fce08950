"""Agents as a user might write them, one of each kind; they answer with tones."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
from peers.voice import ToneVoice

from dsbif.session.agent import AgentFacts, Emission, Reply
from dsbif.session.pcm import Pcm


class Echo:
    """Lockstep."""

    frame_samples = 960

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.facts = AgentFacts("echo", "full", "native")
        self._voices: dict[int, ToneVoice] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        self._voices[row] = ToneVoice(prompt)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        return [self._voices[row].hear(pcm[row]) if on else [] for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        self._voices.pop(row, None)

    def close(self) -> None:
        self._voices.clear()


class Answer:
    """Turn."""

    def __init__(self) -> None:
        self.facts = AgentFacts("answer", "full", "native")

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        tone = np.sin(np.arange(12_000) / 10 + seed % 7).astype(np.float32) / 2
        return Reply(tone if np.abs(user).max() > 0.01 else tone[:0], "Fine.", 0.0)

    def close(self) -> None:
        pass


class LiveEcho:
    """Live."""

    def __init__(self) -> None:
        self.facts = AgentFacts("live-echo", "full", "native")

    async def open(self, prompt: str, seed: int) -> "_LiveSession":
        return _LiveSession(prompt)

    async def close(self) -> None:
        pass


class _LiveSession:
    def __init__(self, prompt: str) -> None:
        self._voice = ToneVoice(prompt)
        self._out: asyncio.Queue[Emission | None] = asyncio.Queue()

    async def send(self, pcm: Pcm) -> None:
        for emission in self._voice.hear(pcm):
            self._out.put_nowait(emission)

    async def emissions(self) -> AsyncIterator[Emission]:
        while (emission := await self._out.get()) is not None:
            yield emission

    async def close(self) -> None:
        self._out.put_nowait(None)
