"""Freeze-Omni's demo server on loopback, by Socket.IO and TLS, strict about what it is sent.

As the real one: sound goes out only in answer to ``audio`` events, a piece each; ``stop_tts`` comes when recording
starts and before each answer; a place stays taken for a while after its user has gone. ``Manners`` says how it
misbehaves.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import socketio
from aiohttp import web
from peers.certificate import self_signed
from peers.serving import in_thread
from peers.voice import MakeVoice, Voice
from pydantic import BaseModel, ConfigDict, Field

from dsbif.agents.wire import Rate
from dsbif.session.agent import AgentAudio, Emission, Interrupted, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm


class _Audio(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sample_rate: Literal[16000]
    audio: list[Annotated[int, Field(ge=0, le=255)]]


@dataclass
class Manners:
    """How the server behaves; times in seconds.

    ``chunk_bytes``: of a piece of sound; None: all of an answer in one. ``burst``: all pieces at the first event, not
    one an event. ``…_after``: number of ``audio`` events after which something happens.
    """

    late_s: float = 0.0
    refuse: int | None = None
    max_users: int = 1
    no_prompt_success: bool = False
    deaf_to_start: bool = False
    mute: bool = False
    chunk_bytes: int | None = 4800
    burst: bool = False
    stop_after: int | None = None
    out_time_after: int | None = None
    hang_up_after: int | None = None
    strange_after: int | None = None
    early: bool = False


@dataclass
class Heard:
    """What one session got."""

    prompt: str | None = None
    started: bool = False
    pcm: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def samples(self) -> int:
        """At 24 kHz."""
        return sum(map(len, self.pcm)) // 2 * 3 // 2

    @property
    def sound(self) -> Pcm:
        """At 16 kHz."""
        return np.frombuffer(b"".join(self.pcm), "<i2").astype(np.float32) / np.float32(32_768)


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]


@contextmanager
def freeze_omni_peer(make_voice: MakeVoice, manners: Manners | None = None, secure: bool = True) -> Iterator[Peer]:
    """Serve until the block is left."""
    running = _Running(make_voice, manners or Manners(), secure)
    with in_thread(running.serve) as port:
        yield Peer(f"{'https' if secure else 'http'}://127.0.0.1:{port}", running.sessions)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners, secure: bool) -> None:
        self._make_voice, self._manners, self._secure = make_voice, manners, secure
        self.sessions: list[Heard] = []
        self._users: dict[str, _User] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        # One event after the other: handlers side by side would mix the frames of their answers.
        options = {"async_mode": "aiohttp", "cors_allowed_origins": "*", "async_handlers": False}
        self._server = socketio.AsyncServer(**options)
        for name, handler in (
            ("connect", self._connect),
            ("disconnect", self._disconnect),
            ("prompt_text", self._prompt_text),
            ("recording-started", self._recording_started),
            ("audio", self._audio),
        ):
            self._server.on(name, handler)
        self._server.on("*", self._unknown)
        self._stopped = asyncio.Event()
        app = web.Application(middlewares=[self._admit])
        self._server.attach(app)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self_signed() if self._secure else None)
        await site.start()
        try:
            yield runner.addresses[0][1]
        finally:
            self._stopped.set()
            await self._server.shutdown()
            await runner.cleanup()

    @web.middleware
    async def _admit(self, request: web.Request, handler: Any) -> web.StreamResponse:
        await asyncio.sleep(self._manners.late_s)
        if self._manners.refuse is not None:
            return web.Response(status=self._manners.refuse, text="refused")
        response: web.StreamResponse = await handler(request)
        return response

    async def _connect(self, sid: str, environ: dict[str, Any]) -> None:
        if len(self._users) >= self._manners.max_users:
            await self._server.emit("too_many_users", to=sid)
            return
        heard = Heard()
        self.sessions.append(heard)
        self._users[sid] = _User(heard)

    async def _disconnect(self, sid: str, *reason: object) -> None:
        user = self._users.get(sid)
        if user is not None:
            user.heard.closed = True
            await asyncio.sleep(0.3)
            del self._users[sid]

    async def _prompt_text(self, sid: str, text: str) -> None:
        user = await self._user(sid)
        if user is None:
            return
        self._check(user, isinstance(text, str) and not user.heard.started, f"prompt_text {text!r}")
        user.heard.prompt = text
        user.voice = self._make_voice(text)
        if self._manners.early:
            await self._server.emit("audio", b"\x00\x00", to=sid)
        if not self._manners.no_prompt_success:
            await self._server.emit("prompt_success", to=sid)

    async def _recording_started(self, sid: str, *data: object) -> None:
        user = await self._user(sid)
        if user is None:
            return
        self._check(user, user.voice is not None and not user.heard.started and not data, "recording-started")
        await self._server.emit("stop_tts", to=sid)
        await self._server.emit("stop_tts", to=sid)
        if self._manners.deaf_to_start:
            await self._stopped.wait()
        user.heard.started = True

    async def _audio(self, sid: str, data: str) -> None:
        user = await self._user(sid)
        if user is None:
            return
        self._check(user, user.heard.started, "audio before the start")
        try:
            audio = bytes(_Audio.model_validate_json(data).audio)
        except ValueError as error:
            user.heard.faults.append(str(error))
            return
        self._check(user, len(audio) == 5120, f"a piece of {len(audio)} bytes")
        user.heard.pcm.append(audio)
        await self._misbehave(sid, user)
        await self._give(sid, user)
        for emission in user.hear(audio):
            if self._manners.mute:
                continue
            if isinstance(emission, AgentAudio):
                if not user.speaking:
                    await self._server.emit("stop_tts", to=sid)
                user.speaking = True
                user.say(emission.pcm, self._manners.chunk_bytes)
            elif isinstance(emission, TurnDone):
                user.speaking = False
            elif isinstance(emission, Interrupted):
                user.speaking = False
                user.pieces.clear()
                await self._server.emit("stop_tts", to=sid)

    async def _give(self, sid: str, user: "_User") -> None:
        for piece in user.pieces[: None if self._manners.burst else 1]:
            await self._server.emit("audio", piece, to=sid)
            user.pieces.pop(0)

    async def _misbehave(self, sid: str, user: "_User") -> None:
        events, manners = len(user.heard.pcm), self._manners
        if events == manners.stop_after:
            user.pieces.clear()
            await self._server.emit("stop_tts", to=sid)
        if events == manners.out_time_after:
            await self._server.emit("out_time", to=sid)
        if events == manners.strange_after:
            await self._server.emit("audio", "no bytes", to=sid)
        if events == manners.hang_up_after:
            await self._server.disconnect(sid)

    async def _user(self, sid: str) -> "_User | None":
        if sid not in self._users:
            await self._server.disconnect(sid)
        return self._users.get(sid)

    async def _unknown(self, event: str, sid: str, *data: object) -> None:
        self._users[sid].heard.faults.append(f"no such event: {event}")

    def _check(self, user: "_User", fine: bool, what: str) -> None:
        if not fine:
            user.heard.faults.append(what)


class _User:
    def __init__(self, heard: Heard) -> None:
        self.heard = heard
        self.voice: Voice | None = None
        self.pieces: list[bytes] = []
        self.speaking = False
        self._rate = Rate(16_000, 24_000)
        self._open = np.zeros(0, np.float32)

    def hear(self, audio: bytes) -> list[Emission]:
        pcm = self._rate.push(np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32_768))
        heard = np.concatenate([self._open, pcm])
        whole = len(heard) // FRAME_SAMPLES * FRAME_SAMPLES
        self._open = heard[whole:]
        assert self.voice is not None
        return self.voice.hear(heard[:whole])

    def say(self, pcm: Pcm, chunk_bytes: int | None) -> None:
        sound = np.clip(np.rint(pcm * 32_768), -32_768, 32_767).astype("<i2").tobytes()
        size = chunk_bytes or len(sound)
        if self.pieces and len(self.pieces[-1]) < size:  # a voice may emit its sound frame by frame
            sound = self.pieces.pop() + sound
        self.pieces += [sound[start : start + size] for start in range(0, len(sound), size)]
