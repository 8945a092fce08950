"""OpenAI's realtime server on loopback: strict about what it is sent, a server VAD with a voice behind it.

Every client message must be one of the vendor's own event types, no key more; every event of ours is checked against
them too. ``Manners`` says how it misbehaves.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from peers.serving import in_thread, listening, or_say_why, to_its_end
from peers.voice import MakeVoice
from pydantic import BaseModel, TypeAdapter
from websockets.asyncio.server import Request, Response, ServerConnection
from websockets.datastructures import Headers

from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

KEY = "sk-test-5f1d8a"


@dataclass
class Manners:
    """How the server behaves. Times in seconds; ``…_after_s`` of user audio heard.

    ``refusals``: statuses, headers and bodies of the first handshakes. ``paced``: answers come bit by bit, at twice
    their speed, and user speech cancels them. ``fault``: an error event's inside. ``goodbye``: close code and reason;
    code None cuts the line.
    """

    key: str = KEY
    late_s: float = 0.0
    refusals: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    update_error: dict[str, Any] | None = None
    chunk_bytes: int = 4800
    paced: bool = False
    mute: bool = False
    fault_after_s: float | None = None
    fault: dict[str, Any] = field(default_factory=lambda: {"type": "server_error", "message": "it broke"})
    close_after_s: float | None = None
    goodbye: tuple[int | None, str] = (1011, "internal error")
    last_status: str = "completed"
    last_details: dict[str, Any] = field(default_factory=dict)
    strange: str | None = None
    without_item_ids: bool = False


@dataclass
class Heard:
    """What one session got."""

    session: dict[str, Any] = field(default_factory=dict)
    pcm: list[bytes] = field(default_factory=list)
    appends: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    query: dict[str, list[str]] = field(default_factory=dict)
    closed: bool = False

    @property
    def prompt(self) -> str | None:
        return self.session.get("instructions")

    @property
    def samples(self) -> int:
        return sum(map(len, self.pcm)) // 2

    @property
    def sound(self) -> Pcm:
        return np.frombuffer(b"".join(self.pcm), "<i2").astype(np.float32) / np.float32(32_768)


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]
    handshakes: list[int]


@contextmanager
def openai_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """Serve until the block is left."""
    running = _Running(make_voice, manners or Manners())
    with in_thread(running.serve) as port:
        yield Peer(f"http://127.0.0.1:{port}/v1", running.sessions, running.handshakes)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners) -> None:
        self._make_voice, self._manners = make_voice, manners
        self.sessions: list[Heard] = []
        self.handshakes: list[int] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        return listening(self._session, process_request=self._admit, max_size=None, compression=None)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        await asyncio.sleep(self._manners.late_s)
        address = urlsplit(request.path)
        if self._manners.refusals:
            status, headers, body = self._manners.refusals.pop(0)
        elif address.path != "/v1/realtime" or "model" not in parse_qs(address.query):
            status, headers, body = 404, {}, "no such address"
        elif request.headers.get("Authorization") not in (f"Bearer {self._manners.key}", "Bearer none"):
            status, headers, body = 401, {}, f"Incorrect API key provided: {request.headers.get('Authorization')}"
        else:
            self.handshakes.append(101)
            return None
        self.handshakes.append(status)
        payload = body.encode()
        length = {"Content-Length": str(len(payload)), "Content-Type": "application/json"}
        return Response(status, "Refused", Headers({**length, **headers}), payload)

    async def _session(self, socket: ServerConnection) -> None:
        heard = Heard(query=parse_qs(urlsplit(socket.request.path).query if socket.request else ""))
        self.sessions.append(heard)
        with to_its_end(heard):
            await _Session(socket, heard, self._make_voice, self._manners).run()


class _Session:
    """One connection: a reader that hears, and a speaker that sends what the voice emits."""

    def __init__(self, socket: ServerConnection, heard: Heard, make_voice: MakeVoice, manners: Manners) -> None:
        self._socket, self._heard, self._make_voice, self._manners = socket, heard, make_voice, manners
        self._ids: Callable[[], int] = count(1).__next__
        self._to_say: asyncio.Queue[Emission] = asyncio.Queue()
        self._response: dict[str, Any] | None = None
        self._talked_over = False
        self._open_samples = np.zeros(0, np.float32)
        self._quiet_frames = 1000
        self._faulted = False

    async def run(self) -> None:
        await self._emit("session.created", session=self._described({}))
        await self._set_up()
        speaker = asyncio.create_task(or_say_why(self._speak, self._socket, self._heard))
        try:
            async for message in self._socket:
                await self._take(self._checked(message))
        finally:
            speaker.cancel()
            await asyncio.gather(speaker, return_exceptions=True)

    async def _set_up(self) -> None:
        event = self._checked(await self._socket.recv())
        assert event["type"] == "session.update", f"the first event is {event['type']}"
        self._heard.session = event["session"]
        if self._manners.update_error is not None:
            await self._emit("error", error=self._manners.update_error)
        if self._manners.strange is not None:
            await self._socket.send(self._manners.strange)
        self._voice = self._make_voice(event["session"].get("instructions", "The server's own default."))
        await self._emit("session.updated", session=self._described(event["session"]))

    def _described(self, session: dict[str, Any]) -> dict[str, Any]:
        whole = {
            "type": "realtime",
            "model": self._heard.query["model"][0],
            "instructions": "The server's own default.",
        }
        return {**whole, **session}

    def _checked(self, message: str | bytes) -> dict[str, Any]:
        """A client message that is one of the vendor's own event types, key for key."""
        event: dict[str, Any] = json.loads(message)
        parsed = _client_events().validate_python(event)
        if extras := list(_extras(parsed)):
            raise AssertionError(f"{event['type']} has keys that the vendor's types do not know: {extras}")
        return event

    async def _take(self, event: dict[str, Any]) -> None:
        assert event["type"] == "input_audio_buffer.append", f"unexpected {event['type']}"
        audio = base64.b64decode(event["audio"], validate=True)
        assert len(audio) % 2 == 0, "half a sample"
        self._heard.pcm.append(audio)
        self._heard.appends.append(len(audio))
        await self._misbehave()
        pcm = np.concatenate([self._open_samples, np.frombuffer(audio, "<i2").astype(np.float32) / 32_768])
        whole = len(pcm) // FRAME_SAMPLES * FRAME_SAMPLES
        self._open_samples = pcm[whole:]
        for start in range(0, whole, FRAME_SAMPLES):
            await self._hear(pcm[start : start + FRAME_SAMPLES])

    async def _hear(self, frame: Pcm) -> None:
        loud = bool(np.abs(frame).max() > 0.01)
        if loud and self._quiet_frames >= 10:
            at_ms = self._heard.samples * 1000 // 24_000
            await self._emit("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=f"item_{self._ids()}")
            self._talked_over = self._manners.paced
        self._quiet_frames = 0 if loud else self._quiet_frames + 1
        for emission in self._voice.hear(frame):
            if not self._manners.mute:
                self._to_say.put_nowait(emission)

    async def _misbehave(self) -> None:
        heard_s = self._heard.samples / 24_000
        if self._manners.fault_after_s is not None and heard_s >= self._manners.fault_after_s and not self._faulted:
            self._faulted = True
            await self._emit("error", error=self._manners.fault)
        if self._manners.close_after_s is not None and heard_s >= self._manners.close_after_s:
            code, reason = self._manners.goodbye
            if code is None:
                self._socket.transport.abort()
            else:
                await self._socket.close(code, reason)

    async def _speak(self) -> None:
        while True:
            emission = await self._to_say.get()
            if isinstance(emission, AgentAudio | AgentText) and self._response is None:
                self._talked_over = False
                await self._begin()
            if isinstance(emission, AgentAudio):
                await self._say(emission.pcm)
            elif isinstance(emission, AgentText) and self._response is not None:
                text = (" " if self._response["words"] else "") + emission.text  # a voice's pieces are words
                for start in range(0, len(text), 3):
                    self._response["words"] += text[start : start + 3]
                    await self._delta("response.output_audio_transcript.delta", delta=text[start : start + 3])
            elif isinstance(emission, TurnDone):
                await self._end(self._manners.last_status, self._manners.last_details)
            elif isinstance(emission, Interrupted):
                await self._end("cancelled", {"type": "cancelled", "reason": "turn_detected"})

    async def _begin(self) -> None:
        number = self._ids()
        self._response = {"id": f"resp_{number}", "item": f"item_r{number}", "words": ""}
        at_ms = self._heard.samples * 1000 // 24_000
        user = {"item_id": f"item_u{number}"}
        await self._emit("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, **user)
        await self._emit("input_audio_buffer.committed", **user)
        await self._emit("response.created", response=self._reply("in_progress", {}))
        await self._emit("response.output_item.added", **self._of_response(), item=self._item("in_progress"))
        part = {"type": "audio", "transcript": ""}
        await self._delta("response.content_part.added", part=part)

    async def _say(self, pcm: Pcm) -> None:
        audio = (np.clip(np.rint(pcm * 32_768), -32_768, 32_767)).astype("<i2").tobytes()
        for start in range(0, len(audio), self._manners.chunk_bytes):
            if self._talked_over:
                self._to_say = asyncio.Queue()
                await self._end("cancelled", {"type": "cancelled", "reason": "turn_detected"})
                return
            piece = audio[start : start + self._manners.chunk_bytes]
            await self._delta("response.output_audio.delta", delta=base64.b64encode(piece).decode())
            if self._manners.paced:
                await asyncio.sleep(len(piece) / 96_000)

    async def _end(self, status: str, details: dict[str, Any]) -> None:
        if self._response is None:
            return
        if status == "completed":
            await self._delta("response.output_audio_transcript.done", transcript=self._response["words"])
            await self._delta("response.output_audio.done")
            part = {"type": "audio", "transcript": self._response["words"]}
            await self._delta("response.content_part.done", part=part)
        item_status = "completed" if status == "completed" else "incomplete"
        await self._emit("response.output_item.done", **self._of_response(), item=self._item(item_status))
        await self._emit("response.done", response=self._reply(status, details))
        await self._emit("rate_limits.updated", rate_limits=[{"name": "requests", "limit": 5, "remaining": 4}])
        self._response = None

    def _of_response(self) -> dict[str, Any]:
        assert self._response is not None
        return {"response_id": self._response["id"], "output_index": 0}

    def _item(self, status: str) -> dict[str, Any]:
        assert self._response is not None
        spoken = [{"type": "output_audio", "transcript": self._response["words"]}]
        message = {"type": "message", "role": "assistant", "id": self._response["item"], "object": "realtime.item"}
        return {**message, "status": status, "content": [] if status == "in_progress" else spoken}

    def _reply(self, status: str, details: dict[str, Any]) -> dict[str, Any]:
        assert self._response is not None
        output = [] if status == "in_progress" else [self._item("completed" if status == "completed" else "incomplete")]
        reply = {"id": self._response["id"], "object": "realtime.response", "status": status, "output": output}
        return {**reply, **({"status_details": details} if details else {})}

    async def _delta(self, kind: str, **values: Any) -> None:
        assert self._response is not None
        where = {**self._of_response(), "item_id": self._response["item"], "content_index": 0}
        await self._emit(kind, **where, **values)

    async def _emit(self, kind: str, **values: Any) -> None:
        event = {"type": kind, "event_id": f"event_{self._ids()}", **values}
        parsed = _server_events().validate_python(event)
        assert not list(_extras(parsed)), f"the peer's own {kind} is not the vendor's: {list(_extras(parsed))}"
        if self._manners.without_item_ids:
            event.pop("item_id", None)
        await self._socket.send(json.dumps(event))


def _extras(value: object, path: str = "") -> Iterator[str]:
    """Paths of keys that the vendor's types let through though they do not know them."""
    if isinstance(value, BaseModel):
        for key in value.model_extra or {}:
            yield f"{path}.{key}"
        for key in type(value).model_fields:
            yield from _extras(getattr(value, key), f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _extras(item, f"{path}[{number}]")


@cache
def _client_events() -> TypeAdapter[Any]:
    from openai.types.realtime import RealtimeClientEvent

    return TypeAdapter(RealtimeClientEvent)


@cache
def _server_events() -> TypeAdapter[Any]:
    from openai.types.realtime import RealtimeServerEvent

    return TypeAdapter(RealtimeServerEvent)
