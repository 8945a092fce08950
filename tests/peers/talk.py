"""A small conversation with a live agent, at the speed of the socket: for tests of adapters without the driver."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dsbif.session.agent import AgentAudio, AgentText, Emission, LiveAgent, LiveSession, Note
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

WAIT_S = 90.0


@dataclass
class Talk:
    """What the agent emitted."""

    emissions: list[Emission] = field(default_factory=list)

    @property
    def sound(self) -> Pcm:
        return np.concatenate([np.zeros(0, np.float32), *(e.pcm for e in self.emissions if isinstance(e, AgentAudio))])

    @property
    def words(self) -> list[str]:
        return [e.text.strip() for e in self.emissions if isinstance(e, AgentText)]

    def of(self, kind: type[Emission]) -> list[Emission]:  # type: ignore[valid-type]
        return [e for e in self.emissions if isinstance(e, kind)]  # type: ignore[arg-type]

    def note(self, name: str) -> str:
        (text,) = (e.text for e in self.emissions if isinstance(e, Note) and e.name == name)
        return text


Until = Callable[[Talk], bool]


def talk(
    agent: LiveAgent,
    sound: Pcm,
    until: Until = lambda talk: True,
    prompt: str = "You are a nurse.",
    seed: int = 0,
    then: Sequence[tuple[Pcm, Until]] = (),
) -> Talk:
    """Open, send the sound in frames of 20 ms, wait until enough has come; ``then`` more of both; close twice.

    Raises:
        AgentError: whatever the session raises.
        TimeoutError: what was waited for did not come.
    """
    return asyncio.run(_talk(agent, [(sound, until), *then], prompt, seed))


async def _talk(agent: LiveAgent, parts: Sequence[tuple[Pcm, Until]], prompt: str, seed: int) -> Talk:
    got = Talk()
    try:
        session = await agent.open(prompt, seed)
        came = asyncio.Condition()
        reader = asyncio.create_task(_read(session, got, came))
        try:
            for sound, until in parts:
                await _send(session, sound, reader)
                await _until(until, got, came, reader)
        finally:
            await session.close()
            await session.close()
            await asyncio.wait_for(reader, WAIT_S)
    finally:
        await agent.close()
        await agent.close()
    return got


async def _send(session: LiveSession, sound: Pcm, reader: "asyncio.Task[None]") -> None:
    for start in range(0, len(sound), FRAME_SAMPLES):
        if reader.done():
            return
        await session.send(sound[start : start + FRAME_SAMPLES])
        await asyncio.sleep(0)


async def _read(session: LiveSession, got: Talk, came: asyncio.Condition) -> None:
    try:
        async for emission in session.emissions():
            got.emissions.append(emission)
            async with came:
                came.notify_all()
    finally:
        async with came:
            came.notify_all()


async def _until(until: Until, got: Talk, came: asyncio.Condition, reader: "asyncio.Task[None]") -> None:
    """Looked at with every emission, and now and then for what only the peer knows."""
    async with asyncio.timeout(WAIT_S):
        while not (reader.done() or until(got)):
            async with came:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(came.wait(), 0.05)


def tone(seconds: float, level: float = 0.3) -> Pcm:
    """A tone of the user's."""
    return (level * np.sin(np.arange(round(seconds * 24_000)) / 12)).astype(np.float32)


def quiet(seconds: float) -> Pcm:
    """Silence of the user's."""
    return np.zeros(round(seconds * 24_000), np.float32)
