"""A server of dsbif's own websocket protocol on loopback: strict about what it is sent, with a voice behind it."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peers.serving import in_thread, listening, to_its_end
from peers.voice import MakeVoice
from websockets.asyncio.server import Request, Response, ServerConnection

from dsbif.agents.wire import Rate, to_pcm16
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

KEY = "own-test-5f1d8a"


@dataclass
class Manners:
    """How the server behaves. Times in seconds; ``…_after_s`` of user audio heard.

    ``first``: what is sent instead of ready, one a session. ``strange``: sent once ``strange_after_s`` have been heard.
    """

    late_s: float = 0.0
    rate_hz: int = 24_000
    ready: dict[str, Any] = field(default_factory=dict)
    first: list[str | bytes] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    wants_key: bool = False
    chunk_bytes: int = 4800
    mute: bool = False
    strange: str | bytes | None = None
    close: tuple[int | None, str] | None = None
    after_s: float = 0.2


@dataclass
class Heard:
    """What one session got."""

    rate_hz: int
    start: dict[str, Any] = field(default_factory=dict)
    pcm: list[bytes] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def prompt(self) -> str | None:
        return self.start.get("prompt")

    @property
    def samples(self) -> int:
        """At 24 kHz."""
        return sum(map(len, self.pcm)) // 2 * 24_000 // self.rate_hz

    @property
    def sound(self) -> Pcm:
        """At the server's rate."""
        return np.frombuffer(b"".join(self.pcm), "<i2").astype(np.float32) / np.float32(32_768)


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]


@contextmanager
def websocket_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """Serve until the block is left."""
    running = _Running(make_voice, manners or Manners())
    with in_thread(running.serve) as port:
        yield Peer(f"ws://127.0.0.1:{port}", running.sessions)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners) -> None:
        self._make_voice, self._manners = make_voice, manners
        self.sessions: list[Heard] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        return listening(self._session, process_request=self._admit, max_size=None)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        await asyncio.sleep(self._manners.late_s)
        if self._manners.wants_key and request.headers.get("Authorization") != f"Bearer {KEY}":
            return connection.respond(401, f"not {request.headers.get('Authorization')}")
        return connection.respond(self._manners.statuses.pop(0), "no") if self._manners.statuses else None

    async def _session(self, socket: ServerConnection) -> None:
        heard = Heard(self._manners.rate_hz)
        self.sessions.append(heard)
        with to_its_end(heard):
            await _Session(socket, heard, self._make_voice, self._manners).run()


class _Session:
    def __init__(self, socket: ServerConnection, heard: Heard, make_voice: MakeVoice, manners: Manners) -> None:
        self._socket, self._heard, self._make_voice, self._manners = socket, heard, make_voice, manners
        self._in, self._out = Rate(manners.rate_hz, 24_000), Rate(24_000, manners.rate_hz)
        self._open_samples = np.zeros(0, np.float32)
        self._was_strange = False

    async def run(self) -> None:
        start = json.loads(await self._socket.recv())
        assert list(start) == ["type", "version", "prompt", "seed", "sample_rate_hz"], list(start)
        assert (start["type"], start["version"], start["sample_rate_hz"]) == ("start", 1, 24_000)
        assert isinstance(start["prompt"], str)
        assert type(start["seed"]) is int
        self._heard.start = start
        voice = self._make_voice(start["prompt"])
        if self._manners.first:
            await self._socket.send(self._manners.first.pop(0))
        about = {"name": "peer", "conditioning": "full", "transcript": "native", "sample_rate_hz": self._heard.rate_hz}
        await self._tell("ready", **{**about, **self._manners.ready})
        async for message in self._socket:
            if isinstance(message, str):
                self._take(json.loads(message))
                continue
            assert message, "an empty frame"
            assert len(message) % 2 == 0, "half a sample"
            assert not self._heard.told or self._heard.told[-1][0] != "stop", "sound after stop"
            self._heard.pcm.append(message)
            await self._misbehave()
            for frame in self._frames(message):
                for emission in [] if self._manners.mute else voice.hear(frame):
                    await self._say(emission)

    def _take(self, told: dict[str, Any]) -> None:
        assert set(told) == {"type"}, told
        assert told["type"] == "stop" or (told["type"] == "user_finished" and self._manners.ready.get("user_finished"))
        self._heard.told.append((told["type"], self._heard.samples))

    def _frames(self, message: bytes) -> Iterator[Pcm]:
        pcm = self._in.push(np.frombuffer(message, "<i2").astype(np.float32) / np.float32(32_768))
        pcm = np.concatenate([self._open_samples, pcm])
        whole = len(pcm) // FRAME_SAMPLES * FRAME_SAMPLES
        self._open_samples = pcm[whole:]
        for start in range(0, whole, FRAME_SAMPLES):
            yield pcm[start : start + FRAME_SAMPLES]

    async def _misbehave(self) -> None:
        if self._was_strange or self._heard.samples < self._manners.after_s * 24_000:
            return
        self._was_strange = True
        if self._manners.strange is not None:
            await self._socket.send(self._manners.strange)
        if self._manners.close is not None:
            code, reason = self._manners.close
            if code is None:
                self._socket.transport.abort()
            else:
                await self._socket.close(code, reason)

    async def _say(self, emission: Emission) -> None:
        if isinstance(emission, AgentAudio):
            await self._sound(self._out.push(emission.pcm))
        elif isinstance(emission, AgentText):
            await self._tell("text", text=emission.text)
        elif isinstance(emission, TurnDone):
            await self._sound(self._out.flush())
            await self._tell("turn_done", kind=emission.kind)
        elif isinstance(emission, Interrupted):
            await self._sound(self._out.flush())
            await self._tell("interrupted", kind=emission.kind)

    async def _sound(self, pcm: Pcm) -> None:
        audio = to_pcm16(pcm)
        for start in range(0, len(audio), self._manners.chunk_bytes):
            await self._socket.send(audio[start : start + self._manners.chunk_bytes])

    async def _tell(self, message: str, **values: Any) -> None:
        await self._socket.send(json.dumps({"type": message, **values}))
