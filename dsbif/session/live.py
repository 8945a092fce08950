"""Live agents: many sessions at once in one event loop, each on a wall clock of its own.

Every 20 ms frame has an absolute deadline; how late it went out is kept. What the agent sends is stamped the moment it
arrives, by a reader that runs beside the sender, and placed at ``max(arrival, cursor)``.

A session that fails is tried once more, afresh; an agent without a free session is asked again after a while. The case
that then still fails is recorded as ``agent_error``, with what was heard so far.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dsbif.errors import AgentBusyError, AgentLostError
from dsbif.session.agent import EndPointed, LiveAgent, LiveSession
from dsbif.session.clock import WallClock
from dsbif.session.pcm import FRAME_SAMPLES, SAMPLE_RATE_HZ
from dsbif.session.running import BUSY_WAITS_S, Episode, RunningCase, Stage, Take, describe


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a driver waits, in seconds: for a session to open, a frame to be taken, a session to close.

    ``busy_s``: the waits between attempts at an agent that has no session free, unless it names its own.
    """

    open_s: float = 60.0
    send_s: float = 10.0
    close_s: float = 10.0
    busy_s: tuple[float, ...] = BUSY_WAITS_S


class LiveDriver:
    """Runs episodes through a live agent, ``sessions`` at a time.

    Args:
        agent: the agent.
        stage: pacing, seed and the rest.
        on_take: gets every take as soon as it is whole.
        sessions: how many at once.
        patience: how long to wait for what.
        clock: makes a session's clock; it starts when it is made.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        agent: LiveAgent,
        stage: Stage,
        on_take: Callable[[Take], None],
        sessions: int,
        patience: Patience | None = None,
        clock: Callable[[], WallClock] = WallClock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._agent = agent
        self._stage = stage
        self._on_take = on_take
        self._sessions = sessions
        self._patience = patience or Patience()
        self._clock = clock
        self._sleep = sleep

    def run(self, episodes: Iterable[Episode]) -> None:
        """Run every episode; ``episodes`` may load its audio lazily."""
        self._stage.watch(0).push(np.zeros(4 * FRAME_SAMPLES, np.float32))  # a detector loads its model on first use
        asyncio.run(self._run_all(iter(episodes)))

    async def _run_all(self, episodes: Iterator[Episode]) -> None:
        waiting = _Waiting(episodes)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._sessions):
                    group.create_task(self._seat(waiting))
        except BaseExceptionGroup as failures:
            # A defect of ours, or a stop from outside: one is told, not a tree of them.
            raise failures.exceptions[0] from None
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._agent.close(), self._patience.close_s)

    async def _seat(self, waiting: "_Waiting") -> None:
        """One session after the other. Files are read and written beside the loop: others' frames are due meanwhile."""
        while (episode := await waiting.next()) is not None:
            take = await self._case(episode, retried=False)
            if take.recording.status == "agent_error":
                take = await self._case(episode, retried=True)
            await asyncio.to_thread(self._on_take, take)

    async def _case(self, episode: Episode, retried: bool) -> Take:
        case = RunningCase(episode, self._stage)
        late_s: list[float] = []
        failure = ""
        try:
            session = await self._open(episode, case.seed)
            try:
                await self._converse(session, case, late_s)
            finally:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(session.close(), self._patience.close_s)
        except Exception as error:  # noqa: BLE001 - whatever an agent raises is that case's outcome
            failure = describe(error)
        late_ms = percentiles_ms(late_s)
        return await asyncio.to_thread(case.take, self._agent.facts, failure, late_ms, retried)

    async def _open(self, episode: Episode, seed: int) -> LiveSession:
        waits = iter(self._patience.busy_s)
        while True:
            try:
                async with asyncio.timeout(self._patience.open_s):
                    return await self._agent.open(episode.case.system_prompt, seed)
            except AgentBusyError as busy:
                wait_s = next(waits, None)
                if wait_s is None:
                    raise
                await self._sleep(wait_s if busy.retry_after_s is None else busy.retry_after_s)
            except TimeoutError:
                raise AgentLostError(
                    f"{self._agent.facts.name} was not ready within {self._patience.open_s:g} s of connecting."
                ) from None

    async def _converse(self, session: LiveSession, case: RunningCase, late_s: list[float]) -> None:
        """Send and read at once; the first to fail ends both."""
        clock = self._clock()
        reader = asyncio.create_task(self._read(session, case, clock))
        sender = asyncio.create_task(self._send(session, case, clock, late_s))
        try:
            await asyncio.wait((reader, sender), return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and not sender.done():
                reader.result()  # raises what the agent reported
                raise AgentLostError(
                    f"{self._agent.facts.name} ended the session after "
                    f"{case.user.position / SAMPLE_RATE_HZ:.2f} s, before the user's side was over."
                )
            sender.result()
        finally:
            for part in (reader, sender):
                part.cancel()
            await asyncio.gather(reader, sender, return_exceptions=True)

    async def _read(self, session: LiveSession, case: RunningCase, clock: WallClock) -> None:
        async for emission in session.emissions():
            case.place(emission, clock.now_samples)

    async def _send(self, session: LiveSession, case: RunningCase, clock: WallClock, late_s: list[float]) -> None:
        told = 0
        while not case.user.done:
            position = case.user.position
            late_s.append(await clock.until(position))
            # An onset counts up to the user's own time: a stalled loop must not let the user hear the future.
            case.look_for_onset(min(clock.now_samples, position))
            try:
                async with asyncio.timeout(self._patience.send_s):
                    await session.send(case.hear(FRAME_SAMPLES))
                    told = await _tell_ends(session, case, told)
            except TimeoutError:
                raise AgentLostError(
                    f"{self._agent.facts.name} took no audio for {self._patience.send_s:g} s."
                ) from None
        await clock.until(case.user.position)


class _Waiting:
    """Episodes still to come; each is loaded in a thread, one at a time."""

    def __init__(self, episodes: Iterator[Episode]) -> None:
        self._episodes = episodes
        self._lock = asyncio.Lock()

    async def next(self) -> Episode | None:
        async with self._lock:
            return await asyncio.to_thread(next, self._episodes, None)


async def _tell_ends(session: LiveSession, case: RunningCase, told: int) -> int:
    """Tell an end-pointed session of turns whose last sample has been sent; returns how many it knows of."""
    over = sum(end <= case.user.position for end in case.user.turn_ends)
    if isinstance(session, EndPointed):
        for _ in range(told, over):
            await session.user_finished()
    return over


def percentiles_ms(late_s: list[float]) -> dict[str, float]:
    """How late frames went out: median, 99th percentile and maximum, in milliseconds."""
    if not late_s:
        return {}
    late_ms = 1000 * np.asarray(late_s)
    return {
        "p50": float(np.percentile(late_ms, 50)),
        "p99": float(np.percentile(late_ms, 99)),
        "max": float(late_ms.max()),
    }
