"""Moshi over its own server (``moshi.server``), by websocket: a byte that says what a message is, then the rest.

Both sides send sound as Ogg/Opus at 24 kHz; the server sends words besides. It is clocked by what it hears, and tells
neither the end of a turn nor an interruption nor an error. It serves one session at a time; who comes second waits.

The server's model replaces what it hears first by its initial tokens: a frame of silence goes ahead of the user, who
then loses nothing, and is answered no later for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.dial import dialled, options, shown
from dsbif.agents.moshi import FRAME_SAMPLES
from dsbif.agents.moshi_words import Words
from dsbif.agents.opus import OpusReader, OpusWriter
from dsbif.agents.sockets import Peer, check_url, package
from dsbif.errors import AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Note

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

PATH = "/api/chat"
_READY, _AUDIO, _TEXT, _CONTROL, _METADATA, _ERROR, _PING = range(7)
"""The server in Python sends the first three; the one in Rust, which speaks the same, the others too."""


@dataclass(frozen=True, slots=True)
class MoshiWsSettings:
    """The keys of ``conf/model/moshi.yaml`` under ``conf/model/transport/moshi-ws.yaml``.

    Those that the server decides are null there: a value would be recorded, and be true of nothing.
    """

    base_url: str
    tls_verify: bool
    open_timeout_s: float
    weights: str | None = None
    temperature: float | None = None
    temperature_text: float | None = None
    top_k: int | None = None
    top_k_text: int | None = None
    dtype: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        check_server(self)


def check_server(settings: MoshiWsSettings) -> None:
    """The keys that a server's client has.

    Raises:
        ValueError: an address that is none, no time, or a value for what the server decides.
    """
    check_url("base_url", settings.base_url, ("ws", "wss"))
    if not settings.open_timeout_s > 0:
        raise ValueError(f"open_timeout_s is {settings.open_timeout_s}; wanted seconds above 0")
    for key in fields(settings):
        value = getattr(settings, key.name)
        if key.default is None and value is not None:
            raise ValueError(f"{key.name} is {value}; over transport=ws the server decides it: leave it null")


class MoshiWs:
    """A connection for each session.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; the server takes one.

    Raises:
        ConfigError: a package is missing.
    """

    def __init__(self, settings: MoshiWsSettings, rows: int = 1) -> None:
        self._settings = settings
        self._peer = Peer("Moshi's server", settings.base_url)
        self.facts = AgentFacts("moshi", "none", "native", versions())

    async def open(self, prompt: str, seed: int) -> MoshiSession:
        """Connect and wait until it is this session's turn; the server has no place for a prompt, nor for a seed.

        Raises:
            AgentError: it is another server. ``AgentLostError`` where it cannot be reached, or stays busy.
        """
        socket = await dial(self._peer, self._settings.base_url.rstrip("/") + PATH, self._settings)
        return MoshiSession(socket, self._peer, (), np.zeros(FRAME_SAMPLES, np.float32))

    async def close(self) -> None:
        """Nothing is kept between sessions."""


def versions() -> dict[str, str]:
    """What a record says of the way.

    Raises:
        ConfigError: a package is missing.
    """
    websockets, _ = package("websockets", "live"), package("sphn", "live")
    return {"websockets": websockets.__version__, "transport": "ws"}


async def dial(peer: Peer, url: str, settings: MoshiWsSettings) -> Any:
    """A connection whose server has said that it is ready.

    Raises:
        AgentError: it said something else. ``AgentLostError`` where it cannot be reached, or says nothing in time.
    """
    from websockets.asyncio.client import connect

    chosen = options(settings.base_url, settings.tls_verify)
    connecting = connect(url, open_timeout=settings.open_timeout_s, **chosen)
    socket, _ = await dialled(connecting, partial(_ready, peer, settings.open_timeout_s), peer.unopened)
    return socket


async def _ready(peer: Peer, timeout_s: float, socket: Any) -> None:
    try:
        first = await asyncio.wait_for(socket.recv(), timeout_s)
    except TimeoutError:
        raise AgentLostError(
            f"{peer.name} was not ready within {timeout_s:g} s of connecting; it serves one session at a time: does "
            "another use it?"
        ) from None
    if isinstance(first, str) or first[:1] != bytes([_READY]):
        raise AgentError(f"{peer.name} did not say that it is ready: wanted 00, got {shown(first)}.")


class MoshiSession:
    """One conversation.

    Args:
        socket: a connection whose server is ready.
        peer: the server, as errors name it.
        notes: what goes into the record first.
        lead: sound that goes ahead of the user's, float32 [n].
    """

    def __init__(self, socket: Any, peer: Peer, notes: Sequence[Note], lead: Pcm) -> None:
        self._socket, self._peer, self._notes, self._lead = socket, peer, notes, lead
        self._out, self._in = OpusWriter(), OpusReader(peer)
        self._words = Words()
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n]; less than 40 ms wait for what follows them."""
        from websockets.exceptions import ConnectionClosed

        lead, self._lead = self._lead, self._lead[:0]
        data = self._out.push(np.concatenate([lead, pcm]))
        # Where the connection is gone, the reader tells why: what the server said last is still to be read.
        with contextlib.suppress(ConnectionClosed):
            if data:
                await self._socket.send(bytes([_AUDIO]) + data)

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: what came is no message. ``AgentLostError`` where the connection ends before ``close``.
        """
        from websockets.exceptions import ConnectionClosed

        for note in self._notes:
            yield note
        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosed as error:
                if self._closed:
                    return
                raise self._peer.lost(error) from None
            for emission in self._take(message):
                yield emission

    def _take(self, message: str | bytes) -> Iterator[Emission]:
        kind = message[0] if isinstance(message, bytes) and message else -1
        if isinstance(message, str) or not _READY <= kind <= _PING:
            raise AgentError(f"{self._peer.name} sent something that is no message: {shown(message)}.")
        word = ""
        if kind == _ERROR:
            reason = self._peer.clean(message[1:].decode("utf-8", "replace"))
            raise AgentError(f"{self._peer.name} reported an error: {reason or 'no reason given'}.")
        if kind == _AUDIO:
            pcm = self._in.push(message[1:])
            if len(pcm):
                yield AgentAudio(pcm)
            word = self._words.sound(len(pcm))
        if kind == _TEXT:
            word = self._words.text(message[1:].decode("utf-8", "replace"))
        if word:
            yield AgentText(word)

    async def close(self) -> None:
        """Hang up, which makes room for the next session."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):
                await self._socket.close()
