"""MiniCPM-o 4.5 in duplex mode, over the gateway of its own demo server (``/ws/duplex/{id}``).

Once a second the model hears a second of the user and decides to listen or to speak. The gateway's queue comes first,
then ``prepare``; the session is ready when ``prepared`` arrives.

The server's documentation and its code name some keys differently: both are sent. The configuration is sent every time,
since a worker goes on with the one of the session before. ``force_listen_count`` is among it, yet the server of April
2026 takes that one key from its own start (3): the first three seconds of a session are then always mute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from dsbif.agents.dial import Float32Reader, dialled, message_of, options, to_float32
from dsbif.agents.minicpmo import HEARS_HZ, NAME, MinicpmoSettings, address, fault_of, unopened
from dsbif.agents.sockets import Peer, package
from dsbif.agents.wire import Rate, Words
from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Note, TurnDone
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_CHUNK_SAMPLES = HEARS_HZ


@dataclass(frozen=True, slots=True)
class MinicpmoDuplexSettings(MinicpmoSettings):
    """The keys of ``conf/model/minicpmo.yaml`` and ``conf/model/transport/minicpmo-duplex.yaml``.

    ``max_new_tokens`` and ``answer_timeout_s`` are of the turn mode alone.
    """

    top_k: int
    listen_prob_scale: float
    force_listen_count: int
    max_new_speak_tokens_per_chunk: int
    queue_timeout_s: float

    def __post_init__(self) -> None:
        MinicpmoSettings.__post_init__(self)
        for name in ("top_k", "listen_prob_scale", "force_listen_count"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted 0 or more")
        if (tokens := self.max_new_speak_tokens_per_chunk) < 1:
            raise ValueError(f"max_new_speak_tokens_per_chunk is {tokens}; wanted at least 1")
        if not self.queue_timeout_s > 0:
            raise ValueError(f"queue_timeout_s is {self.queue_timeout_s}; wanted seconds above 0")


def prepare_of(settings: MinicpmoDuplexSettings, prompt: str) -> dict[str, Any]:
    """The session as it is asked for; at L0 the prompt is there, and empty, or the server would use its own."""
    return {
        "type": "prepare",
        "system_prompt": prompt,
        "prefix_system_prompt": prompt,
        "config": {
            "generate_audio": True,
            "ls_mode": "explicit",
            "force_listen_count": settings.force_listen_count,
            "max_new_speak_tokens_per_chunk": settings.max_new_speak_tokens_per_chunk,
            "temperature": settings.temperature,
            "top_k": settings.top_k,
            "top_p": settings.top_p,
            "length_penalty": settings.length_penalty,
            "listen_prob_scale": settings.listen_prob_scale,
            "chunk_ms": 1000,
            "sample_rate": HEARS_HZ,
        },
    }


class MinicpmoDuplex:
    """A connection for each session; the gateway gives each a worker of its own.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: the package is missing.
    """

    def __init__(self, settings: MinicpmoDuplexSettings, rows: int = 1) -> None:
        websockets = package("websockets", "live")
        self._settings = settings
        self._peer = Peer("MiniCPM-o", settings.base_url)
        versions = {"websockets": websockets.__version__, "transport": "duplex"}
        self.facts = AgentFacts(NAME, "full", "native", versions)

    async def open(self, prompt: str, seed: int) -> MinicpmoSession:
        """Connect, wait for a worker, prepare it. No seed is sent: the server knows none.

        Raises:
            AgentBusyError: the queue is full, or gave no worker within ``queue_timeout_s``.
            AgentError: the server refused. ``AgentLostError`` where it cannot be reached.
        """
        from websockets.asyncio.client import connect

        async def greet(socket: Any) -> dict[str, Any]:
            await self._queue(socket)
            await socket.send(json.dumps(prepare_of(self._settings, prompt), ensure_ascii=False))
            return await self._expect(socket, "prepared", ())

        connecting = connect(
            address(self._settings.base_url, f"/ws/duplex/adx_{uuid4().hex}"),
            open_timeout=self._settings.open_timeout_s,
            **options(self._settings.base_url, self._settings.tls_verify),
        )
        socket, prepared = await dialled(connecting, greet, lambda error: unopened(error, self._peer))
        return MinicpmoSession(socket, self._peer, Note("prompt_length", str(prepared.get("prompt_length"))))

    async def _queue(self, socket: Any) -> None:
        limit_s = self._settings.queue_timeout_s
        try:
            await asyncio.wait_for(self._expect(socket, "queue_done", ("queued", "queue_update")), limit_s)
        except asyncio.TimeoutError:  # noqa: UP041 - another class than TimeoutError in Python 3.10
            raise AgentBusyError(f"{self._peer.name} had no worker free for {limit_s:g} s.", 0.0) from None

    async def _expect(self, socket: Any, wanted: str, ignored: tuple[str, ...]) -> dict[str, Any]:
        while True:
            message = message_of(await socket.recv(), self._peer)
            if message["type"] == wanted:
                return message
            if message["type"] == "error":
                raise fault_of(message, self._peer)
            if message["type"] not in ignored:
                raise AgentError(f"{self._peer.name} sent '{self._peer.clean(message['type'])}'; wanted {wanted}.")

    async def close(self) -> None:
        """Nothing is kept between sessions."""


class MinicpmoSession:
    """One conversation."""

    def __init__(self, socket: Any, peer: Peer, opening: Note) -> None:
        self._socket = socket
        self._opening = opening
        self._rate = Rate(SAMPLE_RATE_HZ, HEARS_HZ)
        self._heard = np.zeros(0, np.float32)
        self._results = Results(peer)
        self._peer = peer
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n]; they leave second by second."""
        from websockets.exceptions import ConnectionClosed

        self._heard = np.concatenate([self._heard, self._rate.push(pcm)])
        while len(self._heard) >= _CHUNK_SAMPLES:
            audio = to_float32(self._heard[:_CHUNK_SAMPLES])
            self._heard = self._heard[_CHUNK_SAMPLES:]
            # Where the connection is gone, the reader tells why: what the server said last is still to be read.
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(json.dumps({"type": "audio_chunk", "audio_base64": audio, "audio": audio}))

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where the connection ends before ``close``.
        """
        from websockets.exceptions import ConnectionClosed

        yield self._opening
        try:
            async for raw in self._socket:
                message = message_of(raw, self._peer)
                if self._closed and message["type"] != "result":
                    return
                for emission in self._results.take(message):
                    yield emission
        except ConnectionClosed as error:
            if not self._closed:
                raise self._peer.lost(error) from None
        if not self._closed:
            raise AgentLostError(f"{self._peer.name} closed the connection during the session.")

    async def close(self) -> None:
        """Stop the session and hang up."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):
                await self._socket.send(json.dumps({"type": "stop"}))
            with contextlib.suppress(Exception):
                await self._socket.close()


class Results:
    """A session's messages as emissions, in order; pure.

    A model that goes over to listening has ended its turn, whether it says so (``end_of_turn``) or not: nothing in the
    protocol tells an answer that was broken off from one that is complete.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._reader = Float32Reader(peer)
        self._words = Words()
        self._speaking = False

    def take(self, message: Mapping[str, Any]) -> list[Emission]:
        """What a message means.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where it ended the session.
        """
        kind = message["type"]
        if kind == "error":
            raise fault_of(message, self._peer)
        if kind in ("timeout", "stopped"):
            raise AgentLostError(f"{self._peer.name} ended the session ({kind}).")
        if kind != "result":
            return []
        return self._heard_only() if message.get("is_listen", True) else self._spoken(message)

    def _heard_only(self) -> list[Emission]:
        return self._end("listen") if self._speaking else []

    def _spoken(self, message: Mapping[str, Any]) -> list[Emission]:
        self._speaking = True
        said: list[Emission] = []
        if words := self._words.push(str(message.get("text") or "")):
            said.append(AgentText(words))
        pcm = self._reader.push(message.get("audio_data"))
        if len(pcm):
            said.append(AgentAudio(pcm))
        return said + (self._end("end_of_turn") if message.get("end_of_turn") else [])

    def _end(self, kind: str) -> list[Emission]:
        self._speaking = False
        rest = self._words.flush()
        return [*([AgentText(rest)] if rest else []), TurnDone(kind)]
