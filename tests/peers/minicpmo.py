"""The gateway of MiniCPM-o's demo server on loopback: turn mode and duplex mode, strict about what it is sent.

Every client message must be one of the models below, no key more. ``Manners`` says how it misbehaves.
"""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from peers.hear_out import hear_out
from peers.serving import in_thread, listening, to_its_end
from peers.voice import MakeVoice, Voice
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from websockets.asyncio.server import Request, Response, ServerConnection

from dsbif.agents.wire import Rate
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Audio(_Strict):
    type: Literal["audio"]
    data: str
    sample_rate: Literal[16000]


class _System(_Strict):
    role: Literal["system"]
    content: str


class _User(_Strict):
    role: Literal["user"]
    content: tuple[_Audio] = Field(strict=False)


class _Generation(_Strict):
    max_new_tokens: Annotated[int, Field(ge=1)]
    length_penalty: float
    temperature: float
    top_p: float


class _Tts(_Strict):
    enabled: Literal[True]


class _Chat(_Strict):
    messages: tuple[_System, _User] = Field(strict=False)
    streaming: Literal[True]
    generation: _Generation
    tts: _Tts


class _Config(_Strict):
    generate_audio: bool
    ls_mode: Literal["explicit"]
    force_listen_count: Annotated[int, Field(ge=0)]
    max_new_speak_tokens_per_chunk: Annotated[int, Field(ge=1)]
    temperature: float
    top_k: int
    top_p: float
    length_penalty: float
    listen_prob_scale: float
    chunk_ms: Literal[1000]
    sample_rate: Literal[16000]


class _Prepare(_Strict):
    type: Literal["prepare"]
    system_prompt: str
    prefix_system_prompt: str
    config: _Config

    @model_validator(mode="after")
    def _same(self) -> "_Prepare":
        assert self.system_prompt == self.prefix_system_prompt
        return self


class _AudioChunk(_Strict):
    type: Literal["audio_chunk"]
    audio_base64: str
    audio: str

    @model_validator(mode="after")
    def _same(self) -> "_AudioChunk":
        assert self.audio_base64 == self.audio
        return self


class _Stop(_Strict):
    type: Literal["stop"]


_CLIENT: TypeAdapter[_Prepare | _AudioChunk | _Stop] = TypeAdapter(_Prepare | _AudioChunk | _Stop)


@dataclass
class Manners:
    """How the server behaves; times in seconds.

    ``workers``: sessions at once. ``refuse``: HTTP status of the handshake. ``queue_full``; ``queued_s``: time in the
    gateway's queue (duplex). ``chunk_bytes``: pieces of sound, of any size; None: all of an answer in one. ``error``:
    sent in place of an answer. ``goodbye``: close code and reason in place of an answer; code None cuts the line.
    ``strange``: a message sent before the answer. ``mute``: no answer at all. ``summary``: whether ``done`` holds the
    text. ``rest_in_done``: the last piece of sound comes with ``done``. ``eager``: ends turns without saying
    ``end_of_turn`` (duplex).
    """

    workers: int = 1
    late_s: float = 0.0
    refuse: int | None = None
    queue_full: bool = False
    queued_s: float = 0.0
    prepare_error: str | None = None
    not_prepared: str | None = None
    chunk_bytes: int | None = 96_000
    error: dict[str, str] | None = None
    goodbye: tuple[int | None, str] | None = None
    strange: str | None = None
    mute: bool = False
    summary: bool = True
    rest_in_done: bool = False
    eager: bool = False


@dataclass
class Heard:
    """What one connection got."""

    path: str
    prompt: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    pcm: list[Pcm] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    stopped: bool = False
    closed: bool = False

    @property
    def samples(self) -> int:
        """At 24 kHz."""
        return sum(map(len, self.pcm)) * 3 // 2

    @property
    def sound(self) -> Pcm:
        """At 16 kHz."""
        return np.concatenate([np.zeros(0, np.float32), *self.pcm])


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]


@contextmanager
def minicpmo_peer(
    make_voice: MakeVoice, manners: Manners | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Peer]:
    """Serve until the block is left."""
    running = _Gateway(make_voice, manners or Manners(), tls)
    with in_thread(running.serve) as port:
        yield Peer(f"{'wss' if tls else 'ws'}://127.0.0.1:{port}", running.sessions)


class _Gateway:
    def __init__(self, make_voice: MakeVoice, manners: Manners, tls: ssl.SSLContext | None) -> None:
        self._make_voice, self._manners, self._tls = make_voice, manners, tls
        self.sessions: list[Heard] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        self._workers = asyncio.Semaphore(self._manners.workers)
        # As the gateway's own limit: 128 MiB a message.
        return listening(self._connected, process_request=self._admit, max_size=128 * 2**20, ssl=self._tls)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        await asyncio.sleep(self._manners.late_s)
        status = self._manners.refuse
        if status is None and request.path != "/ws/chat" and not request.path.startswith("/ws/duplex/adx_"):
            status = 403  # as Starlette answers where no route is
        return None if status is None else connection.respond(status, "")

    async def _connected(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        heard = Heard(socket.request.path)
        self.sessions.append(heard)
        serving = self._chat if heard.path == "/ws/chat" else self._duplex
        with to_its_end(heard):
            await serving(socket, heard)

    async def _instead(self, socket: ServerConnection) -> bool:
        """Misbehave in place of an answer."""
        manners = self._manners
        if manners.strange is not None:
            await socket.send(manners.strange)
        if manners.error is not None:
            await _send(socket, type="error", **manners.error)
            return True
        if manners.goodbye is not None:
            code, reason = manners.goodbye
            if code is None:
                socket.transport.abort()
            else:
                await socket.close(code, reason)
            return True
        return manners.mute

    async def _chat(self, socket: ServerConnection, heard: Heard) -> None:
        request = _Chat.model_validate_json(await socket.recv())
        if self._manners.queue_full:
            await _send(socket, type="error", error="Queue full")
            return
        heard.prompt = request.messages[0].content
        heard.config = request.generation.model_dump()
        heard.pcm.append(_floats(request.messages[1].content[0].data))
        async with self._workers:
            await _send(socket, type="prefill_done", input_tokens=len(heard.pcm[0]) // 640)
            if await self._instead(socket):
                await socket.wait_closed()
                return
            await self._answer(socket, self._make_voice(heard.prompt), heard.pcm[0])

    async def _answer(self, socket: ServerConnection, voice: Voice, user: Pcm) -> None:
        rate = Rate(16_000, 24_000)
        reply = hear_out(voice, np.concatenate([rate.push(user), rate.flush()]))
        text, sound = reply.text, _bytes(reply.pcm)
        for start in range(0, len(text), 5):
            await _send(socket, type="chunk", text_delta=text[start : start + 5])
        pieces = _pieces(sound, self._manners.chunk_bytes)
        last = {"audio_data": pieces.pop()} if pieces and self._manners.rest_in_done else {}
        for piece in pieces:
            await _send(socket, type="chunk", audio_data=piece)
        counts = {"generated_tokens": 1, "input_tokens": 1, "recording_session_id": "chat_1"}
        await _send(socket, type="done", text=text if self._manners.summary else "", **counts, **last)
        await socket.close()

    async def _duplex(self, socket: ServerConnection, heard: Heard) -> None:
        if self._manners.queue_full:
            await _send(socket, type="error", error="Queue full (1000 requests)")
            await socket.close(1013, "Queue full")
            return
        if self._workers.locked() or self._manners.queued_s:
            place = {"position": 1, "estimated_wait_s": 1.0, "queue_length": 1}
            await _send(socket, type="queued", ticket_id="tk_1", **place)
            await _send(socket, type="queue_update", **place)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(socket.wait_closed(), self._manners.queued_s)
        async with self._workers:
            await _send(socket, type="queue_done")
            await self._duplex_session(socket, heard)

    async def _duplex_session(self, socket: ServerConnection, heard: Heard) -> None:
        prepare = _CLIENT.validate_json(await socket.recv())
        assert isinstance(prepare, _Prepare), prepare
        heard.prompt, heard.config = prepare.system_prompt, prepare.config.model_dump()
        if self._manners.prepare_error is not None:
            await _send(socket, type="error", error=self._manners.prepare_error)
            await socket.wait_closed()
            return
        kind = self._manners.not_prepared or "prepared"
        await _send(socket, type=kind, prompt_length=len(heard.prompt), recording_session_id="r1")
        speaker = _Speaker(self._make_voice(heard.prompt), self._manners)
        async for raw in socket:
            message = _CLIENT.validate_json(raw)
            if isinstance(message, _Stop):
                heard.stopped = True
                await _send(socket, type="stopped")
                await socket.close()
                return
            assert isinstance(message, _AudioChunk), message
            pcm = _floats(message.audio)
            assert len(pcm) == 16_000, f"a chunk of {len(pcm)} samples"
            heard.pcm.append(pcm)
            results = speaker.hear(pcm)
            if any(not result["is_listen"] for result in results) and await self._instead(socket):
                results = []
            for result in results:
                await _send(socket, type="result", **_COSTS, current_time=len(heard.pcm), **result)


_COSTS = {"cost_llm_ms": 45.2, "cost_all_ms": 78.5, "n_tokens": 3, "server_send_ts": 1.5, "wall_clock_ms": 80.0}


class _Speaker:
    """What the voice says, second by second; where pieces are small or whole, several results answer one chunk."""

    def __init__(self, voice: Voice, manners: Manners) -> None:
        self._voice, self._manners = voice, manners
        self._rate = Rate(16_000, 24_000)
        self._open = np.zeros(0, np.float32)

    def hear(self, pcm: Pcm) -> list[dict[str, Any]]:
        heard = np.concatenate([self._open, self._rate.push(pcm)])
        whole = len(heard) // FRAME_SAMPLES * FRAME_SAMPLES
        self._open = heard[whole:]
        said: list[Emission] = []
        for start in range(0, whole, FRAME_SAMPLES):
            said += self._voice.hear(heard[start : start + FRAME_SAMPLES])
        results = [result for emission in _joined(said) for result in self._results(emission)]
        return results or [{"is_listen": True, "text": "", "audio_data": None, "end_of_turn": False}]

    def _results(self, emission: Emission) -> list[dict[str, Any]]:
        nothing = {"is_listen": False, "text": "", "audio_data": None, "end_of_turn": False}
        if isinstance(emission, AgentText):
            text = f"{emission.text.strip()} "
            return [nothing | {"text": text[at : at + 5]} for at in range(0, len(text), 5)]
        if isinstance(emission, AgentAudio):
            pieces = _pieces(_bytes(emission.pcm), self._manners.chunk_bytes)
            return [nothing | {"audio_data": piece} for piece in pieces]
        if isinstance(emission, TurnDone | Interrupted):
            return [nothing | ({"is_listen": True} if self._manners.eager else {"end_of_turn": True})]
        return []


def _joined(said: list[Emission]) -> list[Emission]:
    """A voice may emit its sound frame by frame; a second of it comes as one."""
    joined: list[Emission] = []
    for emission in said:
        last = joined[-1] if joined else None
        if isinstance(emission, AgentAudio) and isinstance(last, AgentAudio):
            joined[-1] = AgentAudio(np.concatenate([last.pcm, emission.pcm]))
        else:
            joined.append(emission)
    return joined


def _pieces(sound: bytes, size: int | None) -> list[str]:
    size = size or max(1, len(sound))
    return [base64.b64encode(sound[start : start + size]).decode() for start in range(0, len(sound), size)]


def _bytes(pcm: Pcm) -> bytes:
    return np.asarray(pcm, "<f4").tobytes()


def _floats(text: str) -> Pcm:
    return np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)


async def _send(socket: ServerConnection, **message: Any) -> None:
    await socket.send(json.dumps(message))
