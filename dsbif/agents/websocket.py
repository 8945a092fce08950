"""Any agent behind a websocket that speaks dsbif's own small protocol (docs/websocket-protocol.md).

Sound travels as binary frames of 16-bit samples, at a rate of the server's choice; everything else as JSON.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsbif.agents.dial import dialled
from dsbif.agents.sockets import Peer, check_url, key_from, package
from dsbif.agents.websocket_messages import VERSION, Messages, Ready, ready_of
from dsbif.agents.wire import Rate, to_pcm16
from dsbif.session.agent import AgentFacts, Emission
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm


@dataclass(frozen=True, slots=True)
class WebsocketSettings:
    """The agent's own keys of ``conf/model/websocket.yaml``, where each is explained."""

    url: str
    api_key_env: str | None

    def __post_init__(self) -> None:
        check_url("url", self.url, ("ws", "wss"))


class Websocket:
    """Any number of sessions, a connection each.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: the package is missing, or the variable of a key that is named.
    """

    def __init__(self, settings: WebsocketSettings, rows: int = 1) -> None:
        websockets = package("websockets", "live")
        key = key_from(settings.api_key_env, wanted=settings.api_key_env is not None)
        self._peer = Peer("the websocket agent", settings.url, key, settings.api_key_env)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._versions = {"websockets": websockets.__version__, "protocol": str(VERSION), "transport": "live"}
        # What the server says of itself takes its place when the first session begins.
        self.facts = AgentFacts("websocket", "none", "none", self._versions)

    async def open(self, prompt: str, seed: int) -> WebsocketSession:
        """Connect, send the prompt and wait until the server is ready.

        Raises:
            AgentBusyError: it has no session free.
            AgentError: it refused, or speaks something else. ``AgentLostError`` where it cannot be reached.
        """
        from websockets.asyncio.client import connect

        async def greet(socket: Any) -> Ready:
            start = {"type": "start", "version": VERSION, "prompt": prompt, "seed": seed}
            await socket.send(json.dumps({**start, "sample_rate_hz": SAMPLE_RATE_HZ}, ensure_ascii=False))
            return ready_of(await socket.recv(), self._peer, self._versions)

        # Whoever cancels an opening decides how long it may take; an answer may come in one message of any size.
        connecting = connect(
            self._peer.url,
            additional_headers=self._headers,
            open_timeout=None,
            close_timeout=3.0,
            max_size=None,
            compression=None,
        )
        socket, ready = await dialled(connecting, greet, self._peer.unopened)
        self.facts = ready.facts
        kind = EndPointedSession if ready.user_finished else WebsocketSession
        return kind(socket, self._peer, ready)

    async def close(self) -> None:
        """Nothing is held between sessions."""


class WebsocketSession:
    """One conversation with a server that finds the end of the user's turn itself."""

    def __init__(self, socket: Any, peer: Peer, ready: Ready) -> None:
        self._socket = socket
        self._peer = peer
        self._out = Rate(SAMPLE_RATE_HZ, ready.rate_hz)
        self._messages = Messages(peer, ready)
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n]; at another rate the last 40 ms wait for what follows them."""
        await self._send(to_pcm16(self._out.push(pcm)))

    async def _send(self, message: str | bytes) -> None:
        from websockets.exceptions import ConnectionClosed

        # Where the connection is gone, the reader tells why: what the server said last is still to be read.
        with contextlib.suppress(ConnectionClosed):
            if message:
                await self._socket.send(message)

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where the connection ends before ``close``.
        """
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosed as error:
                if self._closed:
                    return
                raise self._peer.lost(error) from None
            for emission in self._messages.take(message):
                yield emission

    async def close(self) -> None:
        """Say so, and hang up."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):
                await self._send(json.dumps({"type": "stop"}))
                await self._socket.close()


class EndPointedSession(WebsocketSession):
    """One conversation with a server that asked to be told when a turn of the user's is over."""

    async def user_finished(self) -> None:
        """The turn's last sample has been sent."""
        await self._send(to_pcm16(self._out.flush()))
        await self._send(json.dumps({"type": "user_finished"}))
