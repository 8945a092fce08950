"""Gemini Live's server on loopback, by TLS: strict about what it is sent, a server VAD with a voice behind it.

Every client message must be one of the vendor's own types, which refuse any key more; what they say of a session's
turn detection is checked apart, since the vendor's type of a setup lacks it. ``Manners`` says how it misbehaves.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peers.certificate import trusted
from peers.serving import in_thread, listening, or_say_why, to_its_end
from peers.voice import MakeVoice
from websockets.asyncio.server import Request, Response, ServerConnection
from websockets.datastructures import Headers

from dsbif.agents.wire import Rate
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

KEY = "AIza-test-5f1d8a"


@dataclass
class Manners:
    """How the server behaves. Times in seconds; ``…_after_s`` of user audio heard.

    ``goodbye``: close code and reason; code None cuts the line. ``strange``: sent instead of the first answer's first
    message; ``no_setup``: what is sent in place of the session's confirmation.
    """

    key: str = KEY
    late_s: float = 0.0
    refusals: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    refuse_setup: tuple[int, str] | None = None
    no_setup: dict[str, Any] | None = None
    chunk_bytes: int = 4800
    mute: bool = False
    paced: bool = False
    mime_type: str = "audio/pcm;rate=24000"
    close_after_s: float | None = None
    goodbye: tuple[int | None, str] = (1011, "Internal error encountered.")
    go_away_after_s: float | None = None
    strange: str | None = None
    turn_reason: str | None = None


@dataclass
class Heard:
    """What one session got."""

    setup: dict[str, Any] = field(default_factory=dict)
    pcm: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    path: str = ""
    closed: bool = False

    @property
    def prompt(self) -> str | None:
        """None where no system instruction was sent."""
        instruction = self.setup.get("systemInstruction")
        return None if instruction is None else "".join(part["text"] for part in instruction["parts"])

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
    """A running server. Its certificate is trusted through SSL_CERT_FILE while it runs."""

    url: str
    sessions: list[Heard]
    handshakes: list[int]


@contextmanager
def gemini_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """Serve until the block is left."""
    with trusted() as tls:
        running = _Running(make_voice, manners or Manners(), tls)
        with in_thread(running.serve) as port:
            yield Peer(f"https://127.0.0.1:{port}", running.sessions, running.handshakes)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners, tls: ssl.SSLContext) -> None:
        self._make_voice, self._manners, self._tls = make_voice, manners, tls
        self.sessions: list[Heard] = []
        self.handshakes: list[int] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        return listening(self._session, ssl=self._tls, process_request=self._admit, max_size=None)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        await asyncio.sleep(self._manners.late_s)
        if self._manners.refusals:
            status, headers, body = self._manners.refusals.pop(0)
        elif not request.path.endswith(".GenerativeService.BidiGenerateContent"):
            status, headers, body = 404, {}, request.path
        elif request.headers.get("x-goog-api-key") != self._manners.key:
            status, headers, body = 403, {}, "no such key"
        else:
            self.handshakes.append(101)
            return None
        self.handshakes.append(status)
        payload = body.encode()
        return Response(status, "Refused", Headers({"Content-Length": str(len(payload)), **headers}), payload)

    async def _session(self, socket: ServerConnection) -> None:
        heard = Heard(path=socket.request.path if socket.request else "")
        self.sessions.append(heard)
        with to_its_end(heard):
            await _Session(socket, heard, self._make_voice, self._manners).run()


class _Session:
    """One connection: a reader that hears, and a speaker that sends what the voice emits."""

    def __init__(self, socket: ServerConnection, heard: Heard, make_voice: MakeVoice, manners: Manners) -> None:
        self._socket, self._heard, self._make_voice, self._manners = socket, heard, make_voice, manners
        self._to_say: asyncio.Queue[Emission] = asyncio.Queue()
        self._speaking = self._has_said = self._talked_over = self._gone_away = False
        self._rate = Rate(16_000, 24_000)
        self._open_samples = np.zeros(0, np.float32)

    async def run(self) -> None:
        self._heard.setup = _setup(await self._socket.recv())
        if self._manners.refuse_setup is not None:
            await self._socket.close(*self._manners.refuse_setup)
            return
        await self._socket.send(json.dumps(self._manners.no_setup or {"setupComplete": {"sessionId": "s1"}}).encode())
        self._voice = self._make_voice(self._heard.prompt or "")
        speaker = asyncio.create_task(or_say_why(self._speak, self._socket, self._heard))
        try:
            async for message in self._socket:
                await self._take(_checked(message, "realtime_input"))
        finally:
            speaker.cancel()
            await asyncio.gather(speaker, return_exceptions=True)

    async def _take(self, heard: Any) -> None:
        assert heard.model_fields_set == {"audio"}, f"wanted audio alone, got {heard.model_fields_set}"
        assert heard.audio.mime_type == "audio/pcm;rate=16000", heard.audio.mime_type
        audio = heard.audio.data
        assert audio, "an empty piece"
        assert len(audio) % 2 == 0, "half a sample"
        self._heard.pcm.append(audio)
        await self._misbehave()
        pcm = self._rate.push(np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32_768))
        pcm = np.concatenate([self._open_samples, pcm])
        whole = len(pcm) // FRAME_SAMPLES * FRAME_SAMPLES
        self._open_samples = pcm[whole:]
        for start in range(0, whole, FRAME_SAMPLES):
            frame = pcm[start : start + FRAME_SAMPLES]
            self._talked_over = self._talked_over or (self._speaking and bool(np.abs(frame).max() > 0.05))
            for emission in self._voice.hear(frame):
                if not self._manners.mute:
                    self._to_say.put_nowait(emission)

    async def _misbehave(self) -> None:
        heard_s = self._heard.samples / 24_000
        if self._manners.go_away_after_s is not None and heard_s >= self._manners.go_away_after_s:
            if not self._gone_away:
                await self._send(goAway={"timeLeft": "10s"})
            self._gone_away = True
        if self._manners.close_after_s is not None and heard_s >= self._manners.close_after_s:
            code, reason = self._manners.goodbye
            if code is None:
                self._socket.transport.abort()
            else:
                await self._socket.close(code, reason)

    async def _speak(self) -> None:
        while True:
            emission = await self._to_say.get()
            if self._manners.strange is not None:
                await self._socket.send(self._manners.strange)
            if not self._speaking:
                self._talked_over = False
            if isinstance(emission, AgentAudio):
                self._speaking = True
                await self._say(emission.pcm)
            elif isinstance(emission, AgentText):
                self._speaking = True
                text = (" " if self._has_said else "") + emission.text  # a voice's pieces are words
                self._has_said = True
                for start in range(0, len(text), 3):
                    await self._content(outputTranscription={"text": text[start : start + 3]})
            elif isinstance(emission, TurnDone):
                reason = {"turnCompleteReason": self._manners.turn_reason} if self._manners.turn_reason else {}
                await self._content(generationComplete=True)
                await self._content(turnComplete=True, **reason)
                self._speaking = self._has_said = False
            elif isinstance(emission, Interrupted):
                await self._stop()

    async def _stop(self) -> None:
        await self._content(interrupted=True)
        await self._content(turnComplete=True)
        self._speaking = self._has_said = False

    async def _say(self, pcm: Pcm) -> None:
        audio = (np.clip(np.rint(pcm * 32_768), -32_768, 32_767)).astype("<i2").tobytes()
        for start in range(0, len(audio), self._manners.chunk_bytes):
            if self._manners.paced and self._talked_over:
                self._to_say = asyncio.Queue()
                await self._stop()
                return
            piece = audio[start : start + self._manners.chunk_bytes]
            blob = {"mimeType": self._manners.mime_type, "data": base64.b64encode(piece).decode()}
            await self._content(modelTurn={"role": "model", "parts": [{"inlineData": blob}]})
            if self._manners.paced:
                await asyncio.sleep(len(piece) / 96_000)

    async def _content(self, **values: Any) -> None:
        await self._send(serverContent=values)

    async def _send(self, **message: Any) -> None:
        from google.genai import types

        types.LiveServerMessage.model_validate(message)
        await self._socket.send(json.dumps(message).encode())


def _checked(message: str | bytes, kind: str) -> Any:
    """A client message of the wanted kind, as the vendor's own type, which knows it key for key."""
    from google.genai import types

    whole: dict[str, Any] = json.loads(message)
    assert set(whole) == {kind}, f"wanted {kind}, got {sorted(whole)}"
    return getattr(types.LiveClientMessage.model_validate(whole), kind)


def _setup(message: str | bytes) -> dict[str, Any]:
    """The setup as sent, in the wire's own spelling."""
    from google.genai import types

    whole = json.loads(message)
    detection = whole["setup"].pop("realtimeInputConfig", None)
    setup: dict[str, Any] = _checked(json.dumps(whole), "setup").model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    if detection is not None:
        parsed = types.RealtimeInputConfig.model_validate(detection)
        setup["realtimeInputConfig"] = parsed.model_dump(mode="json", by_alias=True, exclude_none=True)
    return setup
