"""Moshi's server and PersonaPlex's, NVIDIA's fork of it, on loopback: strict about what they are sent.

As the real ones: one session at a time, sound for sound frame by frame, no word about turns or interruptions. Moshi's
loses the first frame that it hears. PersonaPlex's wants voice and prompt in the address, says that it is ready after it
has read them, and fails, without a word, on an empty prompt, an unknown voice or a seed. ``Manners`` says how they
misbehave.
"""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import numpy as np
import sphn
from peers.serving import in_thread, listening, to_its_end
from peers.voice import MakeVoice
from websockets.asyncio.server import Request, Response, ServerConnection

from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted
from dsbif.session.pcm import Pcm

FRAME = 1920
VOICES = ("NATF0.pt", "NATM1.pt")


@dataclass
class Manners:
    """How the server behaves; times in seconds, ``…_after`` in frames heard.

    ``ready``: what it says first; None: nothing. ``late_s``: before that. ``burst``: frames of sound in a message.
    ``patched``: whether PersonaPlex's takes an empty prompt. ``strange``, ``goodbye``: sent after a while.
    """

    late_s: float = 0.0
    refuse: int | None = None
    ready: bytes | str | None = b"\x00"
    burst: int = 1
    patched: bool = False
    mute: bool = False
    strange: bytes | str | None = None
    goodbye: tuple[int | None, str] | None = None
    after: int = 2


@dataclass
class Heard:
    """What one connection got."""

    path: str
    rendered: str | None = None
    voice: str | None = None
    pcm: list[Pcm] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def prompt(self) -> str | None:
        """The case's own; None where there is no place for one."""
        return self.rendered

    @property
    def sound(self) -> Pcm:
        """What the model heard."""
        return np.concatenate([np.zeros(0, np.float32), *self.pcm])

    @property
    def samples(self) -> int:
        """At 24 kHz."""
        return sum(map(len, self.pcm))


@dataclass
class Peer:
    """A running server."""

    url: str
    sessions: list[Heard]


@contextmanager
def moshi_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """Kyutai's, until the block is left."""
    with _peer(_Running(make_voice, manners or Manners(), fork=False)) as peer:
        yield peer


@contextmanager
def personaplex_peer(make_voice: MakeVoice, manners: Manners | None = None) -> Iterator[Peer]:
    """NVIDIA's, until the block is left."""
    with _peer(_Running(make_voice, manners or Manners(), fork=True)) as peer:
        yield peer


@contextmanager
def _peer(running: "_Running") -> Iterator[Peer]:
    with in_thread(running.serve) as port:
        yield Peer(f"ws://127.0.0.1:{port}", running.sessions)


class _Running:
    def __init__(self, make_voice: MakeVoice, manners: Manners, fork: bool) -> None:
        self._make_voice, self._manners, self._fork = make_voice, manners, fork
        self.sessions: list[Heard] = []

    def serve(self) -> AbstractAsyncContextManager[int]:
        self._model = asyncio.Lock()
        return listening(self._connected, process_request=self._admit)

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        known = urlsplit(request.path).path == "/api/chat"
        status = self._manners.refuse or (None if known else 404)
        return None if status is None else connection.respond(status, "")

    async def _connected(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        heard = Heard(socket.request.path)
        self.sessions.append(heard)
        with to_its_end(heard):
            if not self._read_address(heard):
                socket.transport.abort()
                return
            async with self._model:
                await _Session(socket, heard, self._make_voice, self._manners, self._fork).run()

    def _read_address(self, heard: Heard) -> bool:
        """Whether the server lives on."""
        query = parse_qs(urlsplit(heard.path).query, keep_blank_values=True)
        if not self._fork:
            assert not query, f"Moshi's server takes no such thing: {query}"
            return True
        if "seed" in query or "voice_prompt" not in query or "text_prompt" not in query:
            return False
        assert set(query) == {"voice_prompt", "text_prompt"}, query
        (heard.voice,), (heard.rendered,) = query["voice_prompt"], query["text_prompt"]
        return heard.voice in VOICES and bool(heard.rendered or self._manners.patched)


class _Session:
    def __init__(
        self, socket: ServerConnection, heard: Heard, make_voice: MakeVoice, manners: Manners, fork: bool
    ) -> None:
        self._socket, self._heard, self._manners = socket, heard, manners
        self._reader, self._writer = sphn.OpusStreamReader(24_000), sphn.OpusStreamWriter(24_000)
        self._voice = make_voice(heard.rendered or "")
        self._lost_frames = 0 if fork else 1
        self._frames = 0
        self._say = np.zeros(0, np.float32)
        self._open = b""

    async def run(self) -> None:
        await self._prepare()
        rest = np.zeros(0, np.float32)
        async for message in self._socket:
            assert isinstance(message, bytes), message
            assert message[:1] == b"\x01", f"no message: {message[:8].hex(' ')}"
            rest = np.concatenate([rest, np.asarray(self._reader.append_bytes(message[1:]), np.float32)])
            while len(rest) >= FRAME:
                frame, rest = rest[:FRAME], rest[FRAME:]
                await self._frame(frame)

    async def _prepare(self) -> None:
        """What comes before the server is ready is lost there, and a fault here."""
        try:
            early = await asyncio.wait_for(self._socket.recv(), self._manners.late_s + 0.01)
            raise AssertionError(f"sound before the server was ready: {early[:8]!r}")
        except TimeoutError:
            pass
        if self._manners.ready is not None:
            await self._socket.send(self._manners.ready)

    async def _frame(self, frame: Pcm) -> None:
        self._frames += 1
        if self._frames > self._lost_frames:
            self._heard.pcm.append(frame)
            said = self._voice.hear(frame)
        else:
            said = []
        if self._frames == self._manners.after:
            await self._misbehave()
        if not self._manners.mute:
            await self._emit(said)

    async def _misbehave(self) -> None:
        if self._manners.strange is not None:
            await self._socket.send(self._manners.strange)
        if self._manners.goodbye is not None:
            code, reason = self._manners.goodbye
            if code is None:
                self._socket.transport.abort()
            else:
                await self._socket.close(code, reason)

    async def _emit(self, said: list[Emission]) -> None:
        """A frame of sound for a frame heard; words in the pieces of a tokenizer."""
        for emission in said:
            if isinstance(emission, AgentAudio):
                self._say = np.concatenate([self._say, emission.pcm])
            elif isinstance(emission, Interrupted):
                self._say = self._say[:0]
        frame, self._say = self._say[:FRAME], self._say[FRAME:]
        self._open += bytes(self._writer.append_pcm(np.pad(frame, (0, FRAME - len(frame)))))
        if self._frames % self._manners.burst == 0:
            data, self._open = self._open, b""
            await self._socket.send(b"\x01" + data)
        for emission in said:
            if isinstance(emission, AgentText):
                for word in emission.text.split():
                    for piece in (f" {word[:3]}", word[3:]):
                        if piece:
                            await self._socket.send(b"\x02" + piece.encode())
