"""Freeze-Omni over its own demo server: Socket.IO behind self-signed HTTPS, on a wall clock.

The model listens for the end of a turn by itself. Its sound comes only in answer to sound: a piece with every ``audio``
event that it gets, so silence must be sent as well. It sends no words.

The server stops its own player (``stop_tts``) when recording starts and before each of its answers, whether something
plays or not; only what cuts playing sound is an interruption. It greets one client too many with ``too_many_users`` and
hangs up at its next event.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.freeze_omni_player import Player
from dsbif.agents.sockets import Peer, check_url, package
from dsbif.agents.wire import Rate, to_pcm16
from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, Emission, Interrupted
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_HEARS_HZ = 16_000
_PIECE_SAMPLES = 2560
"""160 ms: what the server takes from its queue at once."""


@dataclass(frozen=True, slots=True)
class FreezeOmniSettings:
    """The agent's own keys of ``conf/model/freeze_omni.yaml``, where each is explained."""

    base_url: str
    tls_verify: bool
    open_timeout_s: float

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url, ("http", "https"))
        if not self.open_timeout_s > 0:
            raise ValueError(f"open_timeout_s is {self.open_timeout_s}; wanted seconds above 0")


class FreezeOmni:
    """A connection for each session.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: a package is missing.
    """

    def __init__(self, settings: FreezeOmniSettings, rows: int = 1) -> None:
        socketio, _ = package("socketio", "freeze"), package("aiohttp", "freeze")
        self._settings = settings
        self._peer = Peer("Freeze-Omni", settings.base_url)
        versions = {"python-socketio": str(getattr(socketio, "__version__", _version())), "transport": "live"}
        self.facts = AgentFacts("freeze-omni", "full", "none", versions)

    async def open(self, prompt: str, seed: int) -> FreezeOmniSession:
        """Connect, set the prompt, start the recording. No seed is sent: the server knows none.

        Raises:
            AgentBusyError: as many clients are connected as the server takes.
            AgentError: it refused. ``AgentLostError`` where it cannot be reached or does not confirm.
        """
        session = FreezeOmniSession(self._settings, self._peer)
        try:
            await session.begin(prompt)
        except BaseException:
            await session.close()
            raise
        return session

    async def close(self) -> None:
        """Nothing is kept between sessions."""


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("python-socketio")
    except PackageNotFoundError:
        return "unknown"


class FreezeOmniSession:
    """One conversation; made by ``FreezeOmni.open``."""

    def __init__(self, settings: FreezeOmniSettings, peer: Peer) -> None:
        self._settings, self._peer = settings, peer
        self._rate = Rate(SAMPLE_RATE_HZ, _HEARS_HZ)
        self._heard = np.zeros(0, np.float32)
        self._player = Player()
        self._gone: type[Exception] = package("socketio.exceptions", "freeze").SocketIOError
        self._prompted = asyncio.Event()
        self._recording = False
        self._closed = False
        self._out: asyncio.Queue[Emission | Exception] = asyncio.Queue()
        self._client = package("socketio", "freeze").AsyncClient(
            reconnection=False,  # a new connection would have heard nothing
            ssl_verify=settings.tls_verify,
            handle_sigint=False,
            websocket_extra_options={"max_msg_size": 0},
        )
        for name, handler in self._handlers().items():
            self._client.on(name, handler)

    def _handlers(self) -> dict[str, Any]:
        return {
            "prompt_success": lambda *_: self._prompted.set(),
            "audio": self._audio,
            "stop_tts": self._stop_tts,
            "too_many_users": lambda *_: self._fail(
                AgentBusyError(
                    f"{self._peer.name} has no session free: as many are connected as it takes (--max_users)."
                )
            ),
            "out_time": lambda *_: self._fail(
                AgentLostError(f"{self._peer.name} ended the session: its time was over (--timeout).")
            ),
            "disconnect": lambda *_: self._fail(
                AgentLostError(f"{self._peer.name} closed the connection during the session.")
            ),
        }

    async def begin(self, prompt: str) -> None:
        """Connect and become ready.

        Raises:
            AgentError: see ``FreezeOmni.open``.
        """
        limit_s = self._settings.open_timeout_s
        try:
            await asyncio.wait_for(self._client.connect(self._settings.base_url, wait_timeout=limit_s), limit_s)
            await self._client.emit("prompt_text", prompt)
            await self._confirmed(asyncio.create_task(self._prompted.wait()))
            # The server's acknowledgement comes when its handler is through: what it hears from then on counts.
            await self._confirmed(asyncio.create_task(self._client.call("recording-started", timeout=limit_s)))
        except asyncio.TimeoutError:  # noqa: UP041 - another class than TimeoutError in Python 3.10
            raise self._unready() from None
        except Exception as error:  # noqa: BLE001 - the client, the socket and the system each have errors of their own
            raise self._fault() or self._peer.unopened(error) from None
        self._recording = True

    async def _confirmed(self, step: asyncio.Task[Any]) -> None:
        """Wait for a step of the opening, or for what makes it vain."""
        fault = asyncio.create_task(self._out.get())
        done, waiting = await asyncio.wait(
            (step, fault), timeout=self._settings.open_timeout_s, return_when=asyncio.FIRST_COMPLETED
        )
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if fault in done:
            emission = fault.result()
            raise emission if isinstance(emission, Exception) else AgentError(f"{self._peer.name} spoke too early.")
        if step not in done:
            raise asyncio.TimeoutError  # noqa: UP041
        step.result()

    def _fault(self) -> AgentError | None:
        """What the server said of why it would not."""
        while not self._out.empty():
            emission = self._out.get_nowait()
            if isinstance(emission, AgentError):
                return emission
        return None

    def _unready(self) -> AgentError:
        limit_s = self._settings.open_timeout_s
        return AgentLostError(f"{self._peer.name} was not ready within {limit_s:g} s of connecting.")

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n]; they leave in pieces of 160 ms."""
        self._player.sent(len(pcm))
        self._heard = np.concatenate([self._heard, self._rate.push(pcm)])
        while len(self._heard) >= _PIECE_SAMPLES:
            piece = to_pcm16(self._heard[:_PIECE_SAMPLES])
            self._heard = self._heard[_PIECE_SAMPLES:]
            # Where the connection is gone, the reader tells why: what the server said last is still to be read.
            with contextlib.suppress(self._gone):
                await self._client.emit("audio", json.dumps({"sample_rate": _HEARS_HZ, "audio": list(piece)}))

    def _audio(self, data: object = None) -> None:
        if not isinstance(data, bytes):
            self._fail(AgentError(f"{self._peer.name} sent sound as {type(data).__name__}; wanted bytes."))
        elif len(pcm := self._player.audio(data)):
            self._out.put_nowait(AgentAudio(pcm))

    def _stop_tts(self, *_: object) -> None:
        note = self._player.stop()
        if self._recording and note is not None:
            self._out.put_nowait(Interrupted("stop_tts"))
            self._out.put_nowait(note)

    def _fail(self, error: AgentError) -> None:
        self._out.put_nowait(error)

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: the server sent what is no sound. ``AgentLostError`` where the connection ends before ``close``,
                or the server's time for a session is over.
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
            with contextlib.suppress(Exception):
                await self._client.disconnect()
            self._out.put_nowait(AgentLostError("closed"))
