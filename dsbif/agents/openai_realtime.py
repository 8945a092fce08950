"""GPT-Realtime, and servers that speak the same protocol: OpenAI's GA realtime events over a websocket.

A session is a connection of its own. The client library can open a new connection in the middle of a conversation; it
is kept from doing so (no ``on_reconnecting``, ``max_retries=0``), since the new one would have heard nothing.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsbif.agents.openai_events import Events
from dsbif.agents.sockets import Peer, check_url, key_from, package
from dsbif.agents.wire import to_pcm16
from dsbif.errors import AgentError
from dsbif.session.agent import AgentFacts, Emission, Note

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_PROVIDER = "https://api.openai.com/v1"
_CLOSE_S = 3.0
"""How long a closing handshake may take: the conversation is over."""


@dataclass(frozen=True, slots=True)
class OpenaiRealtimeSettings:
    """The agent's own keys of ``conf/model/gpt_realtime.yaml``, where each is explained."""

    model: str
    base_url: str | None
    api_key_env: str | None
    voice: str | None
    vad_threshold: float
    vad_silence_ms: int
    vad_prefix_ms: int
    create_response: bool
    interrupt_response: bool
    session_extra: Mapping[str, Any]
    omit: Sequence[str]

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("model is empty; wanted the name of the model to ask for")
        if self.base_url is not None:
            check_url("base_url", self.base_url, ("http", "https", "ws", "wss"))
        elif not self.api_key_env:
            raise ValueError("api_key_env is null; OpenAI's own servers want a key")
        if not 0 <= self.vad_threshold <= 1:
            raise ValueError(f"vad_threshold is {self.vad_threshold}; wanted 0 to 1")
        for name in ("vad_silence_ms", "vad_prefix_ms"):
            if not 0 <= getattr(self, name) <= 10_000:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted 0 to 10000")


def session_of(settings: OpenaiRealtimeSettings, prompt: str) -> dict[str, Any]:
    """The session as it is asked for; at L0 ``instructions`` is there and empty, or the server would use its own."""
    audio = {"type": "audio/pcm", "rate": 24_000}
    session: dict[str, Any] = {
        "type": "realtime",
        "instructions": prompt,
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": audio,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": settings.vad_threshold,
                    "prefix_padding_ms": settings.vad_prefix_ms,
                    "silence_duration_ms": settings.vad_silence_ms,
                    "create_response": settings.create_response,
                    "interrupt_response": settings.interrupt_response,
                },
            },
            "output": {"format": dict(audio), **({"voice": settings.voice} if settings.voice else {})},
        },
    }
    _merge(session, settings.session_extra)
    for path in settings.omit:
        _leave_out(session, path.split("."))
    return session


def _merge(into: dict[str, Any], extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _leave_out(session: dict[str, Any], path: Sequence[str]) -> None:
    *parents, last = path
    for key in parents:
        below = session.get(key)
        if not isinstance(below, dict):
            return
        session = below
    session.pop(last, None)


class OpenaiRealtime:
    """Any number of sessions over one client.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: the package or the key is missing.
    """

    def __init__(self, settings: OpenaiRealtimeSettings, rows: int = 1) -> None:
        openai = package("openai", "realtime")
        websockets = package("websockets", "realtime")
        self._settings = settings
        key = key_from(settings.api_key_env, wanted=settings.base_url is None)
        url = settings.base_url or _PROVIDER
        self._peer = Peer(settings.model, url, key, settings.api_key_env)
        # The client wants a key where a local server wants none: any word will do for that.
        self._client = openai.AsyncOpenAI(api_key=key or "none", base_url=_http(url), max_retries=0)
        # Whoever cancels an opening decides how long it may take. One context: loading the roots stops the loop.
        self._options: dict[str, Any] = {"open_timeout": None, "close_timeout": _CLOSE_S, "max_size": None}
        if url.startswith(("https", "wss")):
            self._options["ssl"] = ssl.create_default_context()
        versions = {"openai": openai.__version__, "websockets": websockets.__version__, "transport": "live"}
        self.facts = AgentFacts(settings.model, "full", "native", versions)

    async def open(self, prompt: str, seed: int) -> OpenaiSession:
        """Connect, set the session and wait until the server has taken it. The protocol has no place for a seed.

        Raises:
            AgentBusyError: too many sessions or requests.
            AgentError: it refused. ``AgentLostError`` where it cannot be reached.
        """
        connecting = self._client.realtime.connect(
            model=self._settings.model, max_retries=0, websocket_connection_options=self._options
        )
        connection: Any = None
        try:
            connection = await connecting.enter()
            echo = await self._set_up(connection, prompt)
        except Exception as error:  # noqa: BLE001 - the client, the socket and the system each have errors of their own
            await _close(connection)
            raise self._peer.unopened(error) from None
        except asyncio.CancelledError:
            await _close(connection)
            raise
        return OpenaiSession(connection, self._peer, Note("session", json.dumps(echo, ensure_ascii=False)))

    async def _set_up(self, connection: Any, prompt: str) -> dict[str, Any]:
        """Ask for the session once the server has made one; returns what it says it has taken."""
        await self._await(connection, "session.created")
        await connection.session.update(session=session_of(self._settings, prompt))
        session = (await self._await(connection, "session.updated")).get("session")
        session = session if isinstance(session, dict) else {}
        return {key: session[key] for key in ("model", "instructions", "audio", "voice") if key in session}

    async def _await(self, connection: Any, wanted: str) -> dict[str, Any]:
        while True:
            event = _event(await connection.recv_bytes(), self._peer)
            if event.get("type") == wanted:
                return event
            if event.get("type") == "error":
                told = event.get("error")
                told = told if isinstance(told, dict) else {}
                words = " ".join(str(told[key]) for key in ("type", "code", "message") if told.get(key))
                raise self._peer.refused_by_words(f"refused the session ({words or 'no reason given'})")

    async def close(self) -> None:
        """Give the client's connections back."""
        with contextlib.suppress(Exception):
            await self._client.close()


class OpenaiSession:
    """One conversation."""

    def __init__(self, connection: Any, peer: Peer, note: Note) -> None:
        self._connection = connection
        self._peer = peer
        self._note = note
        self._events = Events(peer)
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Append the user's next samples, float32 [n], to the server's buffer."""
        from websockets.exceptions import ConnectionClosed

        self._events.answer.sent_samples += len(pcm)
        # As text: the client's own way to build an event costs ten times as much, fifty times a second and session.
        audio = base64.b64encode(to_pcm16(pcm)).decode("ascii")
        event = f'{{"type": "input_audio_buffer.append", "audio": "{audio}"}}'
        # Where the connection is gone, the reader tells why: what the server said last is still to be read.
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send_raw(event)

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives; first the session as the server says it has taken it.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where the connection ends before ``close``.
        """
        from websockets.exceptions import ConnectionClosed

        yield self._note
        while True:
            try:
                message = await self._connection.recv_bytes()
            except ConnectionClosed as error:
                if self._closed:
                    return
                raise self._peer.lost(error) from None
            for emission in self._events.take(_event(message, self._peer)):
                yield emission

    async def close(self) -> None:
        """Hang up."""
        self._closed = True
        await _close(self._connection)


def _event(message: bytes, peer: Peer) -> dict[str, Any]:
    try:
        event = json.loads(message)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        shown = peer.clean(message.decode("utf-8", "replace"))
        raise AgentError(f"{peer.name} sent something that is no event: {shown!r}.")
    return event


async def _close(connection: Any) -> None:
    if connection is not None:
        with contextlib.suppress(Exception):
            await connection.close()


def _http(url: str) -> str:
    """The client takes http addresses and opens websockets at them."""
    return "http" + url.removeprefix("ws") if url.startswith("ws") else url
