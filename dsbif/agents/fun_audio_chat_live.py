"""Fun-Audio-Chat 8B on a wall clock, as a person who holds a button while speaking; not in the paper.

The server listens for no end of a turn and works on nothing before "pause". So a turn is kept here and goes out, as one
Ogg stream, when it is over. Between turns the server records nothing, and nothing is sent.

A later turn begins with "start", sent with the turn's first sound; it tells the server to drop what it is saying. The
server of February 2026 looks at it only when its answer has gone out, and then forgets what it heard before: the turn's
sound therefore waits until the answer is over. Its own page lets the answer play on (``on_interrupt: keep``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.dial import dialled, options
from dsbif.agents.fun_audio_chat import FunAudioChatSettings, facts_of, prompt_of, url_of
from dsbif.agents.fun_audio_chat_wire import PAUSE, START, Content, audio_messages, check_handshake, prompt_message
from dsbif.agents.sockets import Peer
from dsbif.agents.wire import Words
from dsbif.errors import AgentLostError
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, Note, TurnDone

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_MESSAGE_SAMPLES = 4800
"""0.2 s: encoding a second takes 22 ms on a slow core, and other sessions' frames are due meanwhile."""


class FunAudioChatLive:
    """A connection for each session.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: a package is missing.
    """

    def __init__(self, settings: FunAudioChatSettings, rows: int = 1) -> None:
        self._settings = settings
        self._peer = Peer("Fun-Audio-Chat", settings.base_url)
        self.facts = facts_of("live")

    async def open(self, prompt: str, seed: int) -> FunAudioChatSession:
        """Connect, wait for the greeting, set the prompt. No seed is sent: the server knows none.

        Raises:
            AgentError: it is another server. ``AgentLostError`` where it cannot be reached or does not greet.
        """
        from websockets.asyncio.client import connect

        settings = self._settings
        rendered = prompt_of(settings, prompt)

        async def greet(socket: Any) -> None:
            check_handshake(await asyncio.wait_for(socket.recv(), settings.open_timeout_s), self._peer)
            await socket.send(prompt_message(rendered))

        connecting = connect(url_of(settings), **options(settings.base_url), open_timeout=settings.open_timeout_s)
        socket, _ = await dialled(connecting, greet, self._peer.unopened)
        return FunAudioChatSession(socket, self._peer, settings, Note("prompt", rendered))

    async def close(self) -> None:
        """Nothing is kept between sessions."""


class FunAudioChatSession:
    """One conversation."""

    def __init__(self, socket: Any, peer: Peer, settings: FunAudioChatSettings, prompt: Note) -> None:
        self._socket, self._peer, self._settings = socket, peer, settings
        self._content = Content(peer)
        self._answer = _Answer(settings)
        self._turn: list[Pcm] | None = []
        self._started = False
        self._ended_as: str | None = None
        self._sent_samples = 0
        self._out: asyncio.Queue[Emission | Exception] = asyncio.Queue()
        self._out.put_nowait(prompt)
        self._tasks = {asyncio.create_task(self._read())}
        self._delivered = asyncio.Lock()  # a turn, and the answer to it
        self._sending = asyncio.Lock()  # a turn, up to and with the "pause"
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Take the user's next samples, float32 [n]; between turns, sound begins a turn and silence is nothing."""
        self._sent_samples += len(pcm)
        if self._turn is None and np.any(pcm):
            self._turn = []
            self._started = True
            if self._answer.cut(self._sent_samples):
                self._out.put_nowait(Interrupted("start"))
            self._begin(self._start())
        if self._turn is not None:
            self._turn.append(pcm)
        self._tell_end()

    async def user_finished(self) -> None:
        """The turn's last sample has been given; it goes to the server, and an answer is asked for."""
        turn, self._turn = self._turn, None
        if turn is not None:
            self._begin(self._deliver(np.concatenate([np.zeros(0, np.float32), *turn]), self._started))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._out.put_nowait(error)

    async def _start(self) -> None:
        async with self._sending:
            await self._send(START)

    async def _deliver(self, pcm: Pcm, started: bool) -> None:
        """Send a turn; one that began with "start" waits until the answer before it is over."""
        async with self._delivered:
            if started:
                await self._answer.over.wait()
                await asyncio.sleep(self._settings.settle_s)
            async with self._sending:
                for message in audio_messages(pcm, _MESSAGE_SAMPLES):
                    await self._send(message)
                    await asyncio.sleep(0)
                await asyncio.sleep(self._settings.settle_s)
                self._answer.ask()
                await self._send(PAUSE)
            await self._answer.wait()
            if rest := self._answer.words.flush():
                self._out.put_nowait(AgentText(rest))
            self._answer.over.set()
            self._ended_as = "quiet" if self._answer.content else "no-answer"
            self._tell_end()

    async def _send(self, message: bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        # Where the connection is gone, the reader tells why: what the server said last is still to be read.
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(message)

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        words = self._answer.words
        try:
            async for message in self._socket:
                for emission in self._content.take(message):
                    self._answer.came(emission, self._sent_samples)
                    if not isinstance(emission, AgentText):
                        self._out.put_nowait(emission)
                    elif whole := words.push(emission.text):
                        self._out.put_nowait(AgentText(whole))
            self._out.put_nowait(AgentLostError(f"{self._peer.name} closed the connection during the session."))
        except ConnectionClosed as error:
            self._out.put_nowait(self._peer.lost(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who listens must hear of it
            self._out.put_nowait(error)

    def _tell_end(self) -> None:
        """An answer that is over is complete when it has been heard."""
        if self._ended_as is not None and not self._answer.playing(self._sent_samples):
            self._out.put_nowait(TurnDone(self._ended_as))
            self._ended_as = None

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where the connection ends before ``close``.
        """
        while True:
            emission = await self._out.get()
            if isinstance(emission, Exception):
                if self._closed:
                    return
                raise emission
            yield emission

    async def close(self) -> None:
        """Hang up."""
        if not self._closed:
            self._closed = True
            for task in tuple(self._tasks):
                task.cancel()
            with contextlib.suppress(Exception):
                await self._socket.close()
            self._out.put_nowait(AgentLostError("closed"))


class _Answer:
    """An answer: it is over when nothing has come for a while. ``content``: whether anything of it has come."""

    def __init__(self, settings: FunAudioChatSettings) -> None:
        self._settings = settings
        self._came = asyncio.Event()
        self._until_samples = 0
        self.content = False
        self.over = asyncio.Event()
        self.over.set()
        self.words = Words()

    def came(self, emission: Emission, now_samples: int) -> None:
        """Something came; ``now_samples``: how much of the user's channel has gone by."""
        self.content = True
        self._came.set()
        if isinstance(emission, AgentAudio):
            self._until_samples = max(self._until_samples, now_samples) + len(emission.pcm)

    def playing(self, now_samples: int) -> bool:
        """Whether something of it is still to be heard."""
        return self._until_samples > now_samples

    def cut(self, now_samples: int) -> bool:
        """The user speaks again; whether that cuts an answer short, of which something has come."""
        playing = self.playing(now_samples)
        self._until_samples = min(self._until_samples, now_samples)
        return playing or (self.content and not self.over.is_set())

    def ask(self) -> None:
        """An answer is about to be asked for."""
        self.over.clear()
        self.content = False
        self._came.clear()

    async def wait(self) -> None:
        """Return when nothing has come for a while."""
        wait_s = self._settings.answer_timeout_s
        with contextlib.suppress(asyncio.TimeoutError):
            while True:
                await asyncio.wait_for(self._came.wait(), wait_s)
                self._came.clear()
                wait_s = self._settings.content_timeout_s
