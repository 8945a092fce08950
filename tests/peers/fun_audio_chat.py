"""Fun-Audio-Chat's demo server on loopback, strict about what it is sent; as stubborn as the real one.

A "start" that comes during an answer is looked at when the answer has gone out, and forgets what was heard until then.
``Manners`` says how it misbehaves.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np
import sphn
from peers.hear_out import hear_out
from peers.serving import in_thread, listening, to_its_end
from peers.voice import MakeVoice
from pydantic import BaseModel, ConfigDict
from websockets.asyncio.server import Request, Response, ServerConnection
from websockets.exceptions import ConnectionClosed

from dsbif.session.agent import Reply
from dsbif.session.pcm import Pcm

PREFIX = "You are asked to generate both text and speech tokens at the same time."


class _Metadata(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    system_prompt: str


@dataclass
class Manners:
    """How the server behaves; times in seconds.

    ``greeting``: the handshake; None: none. ``chunk_bytes``: pieces of sound, None: all in one. ``piece_s``: between
    pieces. ``final``: words that differ from the pieces, as a summing up. ``error``, ``goodbye``, ``strange``: sent in
    place of an answer. ``mute``: nothing at all comes; ``dumb``: it processes, and says nothing.
    """

    late_s: float = 0.0
    refuse: int | None = None
    greeting: bytes | str | None = b"\x00\x00\x00"
    chunk_bytes: int | None = 400
    piece_s: float = 0.0
    final: str | None = None
    error: str | None = None
    goodbye: tuple[int | None, str] | None = None
    strange: bytes | str | None = None
    mute: bool = False
    dumb: bool = False
    coloured: bool = False


@dataclass
class Heard:
    """What one connection got. ``turns``: what the model was given, a turn an entry, float32 at 24 kHz."""

    path: str
    rendered: str | None = None
    turns: list[Pcm] = field(default_factory=list)
    controls: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def prompt(self) -> str | None:
        """The case's own."""
        return None if self.rendered is None else self.rendered.removeprefix(PREFIX).strip()

    @property
    def samples(self) -> int:
        """At 24 kHz."""
        return sum(map(len, self.turns))


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]


@contextmanager
def fun_audio_chat_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """Serve until the block is left."""
    running = _Running(make_voice, manners or Manners())
    with in_thread(running.serve) as port:
        yield Peer(f"ws://127.0.0.1:{port}", running.sessions)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners) -> None:
        self._make_voice, self._manners = make_voice, manners
        self.sessions: list[Heard] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        return listening(self._connected, process_request=self._admit)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        status = self._manners.refuse or (None if request.path == "/api/chat" else 404)
        return None if status is None else connection.respond(status, "")

    async def _connected(self, socket: ServerConnection) -> None:
        heard = Heard(socket.request.path if socket.request else "")
        self.sessions.append(heard)
        with to_its_end(heard):
            await _Session(socket, heard, self._make_voice, self._manners).run()


class _Session:
    def __init__(self, socket: ServerConnection, heard: Heard, make_voice: MakeVoice, manners: Manners) -> None:
        self._socket, self._heard, self._make_voice, self._manners = socket, heard, make_voice, manners
        self._reader = sphn.OpusStreamReader(24_000)
        self._writer = sphn.OpusStreamWriter(24_000)
        self._recorded: list[Pcm] = []
        self._recording = True
        self._signals: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        await asyncio.sleep(self._manners.late_s)
        if self._manners.greeting is not None:
            await self._socket.send(self._manners.greeting)
        worker = asyncio.create_task(self._work())
        try:
            async for message in self._socket:
                assert isinstance(message, bytes), message
                self._take(message)
        finally:
            worker.cancel()
            (failure,) = await asyncio.gather(worker, return_exceptions=True)
            if isinstance(failure, Exception) and not isinstance(failure, ConnectionClosed):
                self._heard.faults.append(f"{type(failure).__name__}: {failure}")

    def _take(self, message: bytes) -> None:
        kind, body = message[0], message[1:]
        if kind == 4:
            assert not self._heard.controls, "a prompt after the first turn"
            self._heard.rendered = _Metadata.model_validate_json(body).system_prompt
        elif kind == 1:
            assert self._heard.rendered is not None, "sound before the prompt"
            assert self._recording, "sound while paused"
            self._recorded.append(np.asarray(self._reader.append_bytes(body), np.float32))
        elif message in (b"\x03\x00", b"\x03\x02"):
            signal = "pause" if body == b"\x02" else "start"
            assert self._recording == (signal == "pause"), f"{signal} in the wrong state"
            self._recording = signal == "start"
            self._heard.controls.append(signal)
            self._signals.put_nowait(signal)
        else:
            raise AssertionError(f"no message: {message[:8].hex(' ')}")

    async def _work(self) -> None:
        voice = None
        while True:
            if await self._signals.get() == "start":
                self._recorded.clear()
                self._reader = sphn.OpusStreamReader(24_000)
                continue
            pcm = np.concatenate(self._recorded)
            self._heard.turns.append(pcm)
            voice = voice or self._make_voice(self._heard.rendered or "")
            reply = hear_out(voice, pcm)
            if not await self._instead():
                await self._answer(reply)

    async def _instead(self) -> bool:
        """Misbehave in place of an answer."""
        manners = self._manners
        if manners.strange is not None:
            await self._socket.send(manners.strange)
        if manners.error is not None:
            await self._socket.send(b"\x05" + manners.error.encode())
        if manners.goodbye is not None:
            code, reason = manners.goodbye
            if code is None:
                self._socket.transport.abort()
            else:
                await self._socket.close(code, reason)
        if manners.mute:
            return True
        if manners.error is None and manners.goodbye is None and manners.strange is None:
            await self._socket.send(b"\x02[Processing...]")
            return manners.dumb
        return True

    async def _answer(self, reply: Reply) -> None:
        data = self._encoded(np.pad(reply.pcm, (0, -len(reply.pcm) % 960)))
        size = self._manners.chunk_bytes or max(1, len(data))
        for start in range(0, len(data), size):
            await self._socket.send(b"\x01" + data[start : start + size])
            await asyncio.sleep(self._manners.piece_s)
        kind = b"\x07\x05" if self._manners.coloured else b"\x02"
        for start in range(0, len(reply.text), 4):
            await self._socket.send(kind + reply.text[start : start + 4].encode())
        if self._manners.final is not None:
            await self._socket.send(b"\x02" + f"\n[Final: {self._manners.final}]".encode())

    def _encoded(self, pcm: Pcm) -> bytes:
        pieces = [self._writer.append_pcm(pcm[start : start + 960]) for start in range(0, len(pcm), 960)]
        return b"".join(bytes(piece) for piece in pieces if piece is not None)
