"""Gemini Live: Google's speech models over a websocket, by Google's own client.

It hears 16 kHz and speaks 24 kHz. The client's ``receive`` ends with every turn and is called again; it opens no new
connection by itself. It speaks TLS alone, whatever its base address says.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsbif.agents.sockets import Peer, check_url, closing, key_from, package
from dsbif.agents.wire import Answer, Rate, to_pcm16
from dsbif.errors import AgentError, ConfigError
from dsbif.session.agent import AgentFacts, Emission, Interrupted, Note, TurnDone
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_PROVIDER = "https://generativelanguage.googleapis.com"
_HEARS_HZ = 16_000
_CLOSE_CODES = range(1000, 5000)
"""What the client reports with such a code is the websocket's end."""


@dataclass(frozen=True, slots=True)
class GeminiLiveSettings:
    """The agent's own keys of ``conf/model/gemini_live.yaml``, where each is explained."""

    model: str
    base_url: str | None
    api_version: str | None
    api_key_env: str
    voice: str
    vad_silence_ms: int | None
    vad_prefix_ms: int | None
    temperature: float | None

    def __post_init__(self) -> None:
        for name in ("model", "api_key_env", "voice"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty")
        if self.base_url is not None:
            check_url("base_url", self.base_url, ("https",))
        for name in ("vad_silence_ms", "vad_prefix_ms"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 10_000:
                raise ValueError(f"{name} is {value}; wanted 0 to 10000, or null for the provider's own")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature is {self.temperature}; wanted 0 to 2, or null for the provider's own")


def config_of(settings: GeminiLiveSettings, prompt: str) -> dict[str, Any]:
    """The session as it is asked for; at L0 there is no system instruction at all."""
    voice = {"voice_config": {"prebuilt_voice_config": {"voice_name": settings.voice}}}
    config: dict[str, Any] = {
        "response_modalities": ["AUDIO"],
        "speech_config": voice,
        "output_audio_transcription": {},
    }
    if prompt:
        config["system_instruction"] = prompt
    if settings.temperature is not None:
        config["temperature"] = settings.temperature
    asked = {"silence_duration_ms": settings.vad_silence_ms, "prefix_padding_ms": settings.vad_prefix_ms}
    if detection := {key: value for key, value in asked.items() if value is not None}:
        config["realtime_input_config"] = {"automatic_activity_detection": detection}
    return config


class GeminiLive:
    """Any number of sessions over one client.

    Args:
        settings: the agent's keys.
        rows: how many sessions the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: the package or the key is missing, or the client cannot be made.
    """

    def __init__(self, settings: GeminiLiveSettings, rows: int = 1) -> None:
        genai = package("google.genai", "gemini")
        websockets = package("websockets", "gemini")
        self._settings = settings
        key = key_from(settings.api_key_env, wanted=True)
        url = settings.base_url or _PROVIDER
        self._peer = Peer(settings.model, url, key, settings.api_key_env)
        # Messages of any size: a long answer may come in one. Whoever cancels an opening decides how long it may take.
        socket = {"max_size": None, "compression": None, "open_timeout": None, "close_timeout": 3.0}
        options: dict[str, Any] = {"base_url": url, "async_client_args": socket}
        if settings.api_version is not None:
            options["api_version"] = settings.api_version
        try:
            self._client = genai.Client(api_key=key, vertexai=False, http_options=options)
        except (OSError, ValueError) as error:  # of certificates that the environment names, for example
            raise ConfigError(f"Google's client cannot be made: {self._peer.clean(error)}.") from None
        versions = {"google-genai": genai.__version__, "websockets": websockets.__version__, "transport": "live"}
        self.facts = AgentFacts(settings.model, "full", "native", versions)

    async def open(self, prompt: str, seed: int) -> GeminiSession:
        """Connect and wait until the server has taken the session. No seed is sent: native audio knows none.

        Raises:
            AgentBusyError: too many sessions or requests.
            AgentError: it refused. ``AgentLostError`` where it cannot be reached.
        """
        from google.genai import types

        config = types.LiveConnectConfig.model_validate(config_of(self._settings, prompt))
        connecting = self._client.aio.live.connect(model=self._settings.model, config=config)
        try:
            session = await connecting.__aenter__()
        except Exception as error:  # noqa: BLE001 - the client, the socket and the system each have errors of their own
            raise self._peer.unopened(error) from None
        opened = GeminiSession(connecting, session, self._peer)
        if session.setup_complete is None:
            await opened.close()
            raise AgentError(f"{self._peer.name} did not confirm the session; its first message was something else.")
        return opened

    async def close(self) -> None:
        """Give the client's connections back."""
        with contextlib.suppress(Exception):
            await self._client.aio.aclose()


class GeminiSession:
    """One conversation."""

    def __init__(self, connecting: Any, session: Any, peer: Peer) -> None:
        self._connecting = connecting
        self._session = session
        self._peer = peer
        self._rate = Rate(SAMPLE_RATE_HZ, _HEARS_HZ)
        self._messages = Messages(peer)
        self._closed = False

    async def send(self, pcm: Pcm) -> None:
        """Send the user's next samples, float32 [n], at 16 kHz; the last 40 ms wait for what follows them."""
        from google.genai import types
        from websockets.exceptions import ConnectionClosed

        self._messages.answer.sent_samples += len(pcm)
        audio = to_pcm16(self._rate.push(pcm))
        if not audio:
            return
        # Where the connection is gone, the reader tells why: what the server said last is still to be read.
        with contextlib.suppress(ConnectionClosed):
            blob = types.Blob(data=audio, mime_type=f"audio/pcm;rate={_HEARS_HZ}")
            await self._session.send_realtime_input(audio=blob)

    async def emissions(self) -> AsyncIterator[Emission]:
        """What arrives, as it arrives.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where the connection ends before ``close``.
        """
        while True:
            try:
                async for message in self._session.receive():
                    for emission in self._messages.take(message):
                        yield emission
            except AgentError:
                raise
            except Exception as error:  # noqa: BLE001 - the client tells a close, a fault and nonsense by many errors
                if self._closed:
                    return
                raise self._failed(error) from None

    def _failed(self, error: Exception) -> AgentError:
        code, _ = closing(error)
        if code in _CLOSE_CODES:
            return self._peer.lost(error)
        if code:
            return AgentError(f"{self._peer.name} reported an error: {self._peer.clean(error)}.")
        return AgentError(f"{self._peer.name} sent something that is no message: {self._peer.clean(error)}.")

    async def close(self) -> None:
        """Hang up."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(Exception):
                await self._connecting.__aexit__(None, None, None)


class Messages:
    """A session's messages as emissions, in order. ``answer.sent_samples`` is kept by the session."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._over = True
        self.answer = Answer()

    def take(self, message: Any) -> list[Emission]:
        """What a message means; several things at once are taken in the order in which they happened.

        Raises:
            AgentError: sound at a rate that the protocol does not have.
        """
        said: list[Emission] = []
        content = message.server_content
        if content is not None:
            said += self._content(content)
        if message.go_away is not None:
            said.append(Note("go_away", f"the server ends the session in {message.go_away.time_left or 'a moment'}"))
        return said

    def _content(self, content: Any) -> list[Emission]:
        said: list[Emission] = []
        for part in (content.model_turn.parts or ()) if content.model_turn else ():
            if part.inline_data is not None and part.inline_data.data:
                self._check(part.inline_data.mime_type or "")
                said += self._begin() + self.answer.audio(part.inline_data.data)
        words = content.output_transcription
        if words is not None and words.text:
            said += self._begin() + self.answer.text(words.text)
        if content.interrupted:
            said += [*self.answer.rest(), Interrupted("interrupted"), self.answer.interrupted("interrupted")]
        if content.generation_complete:
            # No more words are to be expected, though the turn is over only when it would have been heard.
            said += [*self.answer.rest(), Note("generation_complete", "")]
        if content.turn_complete:
            self._over = True
            said += [*self.answer.rest(), *self._reason(content), TurnDone("turn_complete")]
        return said

    def _begin(self) -> list[Emission]:
        if not self._over:
            return []
        self._over = False
        return self.answer.begin()

    def _reason(self, content: Any) -> list[Emission]:
        """Why a turn ended, where the provider says so: a filter, for example."""
        reason = content.turn_complete_reason
        return [Note("turn_complete_reason", str(getattr(reason, "value", reason)))] if reason is not None else []

    def _check(self, mime_type: str) -> None:
        kind, _, rest = mime_type.partition(";")
        if kind.strip() != "audio/pcm" or rest.strip() not in ("", f"rate={SAMPLE_RATE_HZ}"):
            raise AgentError(f"{self._peer.name} sent '{self._peer.clean(mime_type)}'; wanted audio/pcm;rate=24000.")
