"""MiniCPM-o 4.5 in turn mode, over the gateway of its own demo server (``/ws/chat``), as the paper ran it.

One connection and one request a case: the system prompt and the whole user's side at 16 kHz; sound comes back as 24 kHz
in pieces, and with ``done`` the whole text. The request carries all that the server documents; the server of April 2026
reads ``max_new_tokens`` and ``length_penalty`` of ``generation`` and samples with the model's own temperature.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.dial import Float32Reader, message_of, options, to_float32
from dsbif.agents.sockets import Peer, check_url, closing, package
from dsbif.agents.wire import Rate
from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentFacts, Note, Reply
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsbif.session.pcm import Pcm

NAME = "minicpm-o-4.5"
HEARS_HZ = 16_000
_BUSY = ("worker busy", "queue full", "no worker available", "not ready")
_BUSY_CLOSE = 1013


@dataclass(frozen=True, slots=True)
class MinicpmoSettings:
    """The agent's own keys of ``conf/model/minicpmo.yaml``, where each is explained."""

    base_url: str
    tls_verify: bool
    max_new_tokens: int
    length_penalty: float
    temperature: float
    top_p: float
    open_timeout_s: float
    answer_timeout_s: float

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url, ("ws", "wss"))
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}; wanted at least 1")
        for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("length_penalty", 0.1, 5)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted {low} to {high}")
        for name in ("open_timeout_s", "answer_timeout_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted seconds above 0")


def address(base_url: str, path: str) -> str:
    """An address below the gateway's."""
    return f"{base_url.rstrip('/')}{path}"


def request_of(settings: MinicpmoSettings, prompt: str, user: Pcm) -> dict[str, Any]:
    """The one request of a case; ``user`` is float32 [n] at 24 kHz. At L0 the system message is there, and empty."""
    rate = Rate(SAMPLE_RATE_HZ, HEARS_HZ)
    heard = np.concatenate([rate.push(user), rate.flush()])
    audio = {"type": "audio", "data": to_float32(heard), "sample_rate": HEARS_HZ}
    return {
        "messages": [{"role": "system", "content": prompt}, {"role": "user", "content": [audio]}],
        "streaming": True,
        "generation": {
            "max_new_tokens": settings.max_new_tokens,
            "length_penalty": settings.length_penalty,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
        },
        "tts": {"enabled": True},
    }


def fault_of(message: Mapping[str, Any], peer: Peer) -> AgentError:
    """What an error message means. The server's code calls its words ``error``, its documentation ``message``."""
    words = peer.clean(message.get("error") or message.get("message") or "no reason given")
    if any(word in words.lower() for word in _BUSY):
        return AgentBusyError(f"{peer.name} has no session free: {words}.")
    return AgentError(f"{peer.name} reported an error: {words}.")


def unopened(error: BaseException, peer: Peer) -> AgentError:
    """Why no connection came about. A gateway that closes before it accepts answers with a bare HTTP 403."""
    if getattr(getattr(error, "response", None), "status_code", None) == 403:
        return AgentError(
            f"{peer.name} refused the connection (HTTP 403): its gateway is not ready, or has this mode switched off."
        )
    code, reason = closing(error)
    if code == _BUSY_CLOSE:
        return AgentBusyError(f"{peer.name} has no session free: {peer.clean(reason) or code}.")
    return peer.unopened(error)


class Minicpmo:
    """One request at a time.

    Args:
        settings: the agent's keys.
        rows: how many the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: the package is missing.
    """

    def __init__(self, settings: MinicpmoSettings, rows: int = 1) -> None:
        websockets = package("websockets", "live")
        self._settings = settings
        self._peer = Peer("MiniCPM-o", settings.base_url)
        versions = {"websockets": websockets.__version__, "transport": "turn"}
        self.facts = AgentFacts(NAME, "full", "native", versions)

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        """Answer the user's side, float32 [n]. No seed is sent: the server knows none.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where it cannot be reached, hangs up before it
            is done, or sends nothing for ``answer_timeout_s``. ``AgentBusyError`` where no worker is free.
        """
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        request = json.dumps(request_of(self._settings, prompt, user), ensure_ascii=False)
        began_s = monotonic()
        try:
            socket = connect(
                address(self._settings.base_url, "/ws/chat"),
                open_timeout=self._settings.open_timeout_s,
                **options(self._settings.base_url, self._settings.tls_verify),
            )
        except Exception as error:  # noqa: BLE001 - the library and the system each have errors of their own
            raise unopened(error, self._peer) from None
        with socket:
            answer = _Answer(self._peer)
            try:
                socket.send(request)
                while not answer.done:
                    answer.take(message_of(socket.recv(timeout=self._settings.answer_timeout_s), self._peer))
            except TimeoutError:
                raise AgentLostError(
                    f"{self._peer.name} sent nothing for {self._settings.answer_timeout_s:g} s and was not done."
                ) from None
            except ConnectionClosed as error:
                raise self._closed(error) from None
        return Reply(answer.pcm, answer.text, monotonic() - began_s, answer.notes)

    def _closed(self, error: BaseException) -> AgentError:
        if closing(error)[0] == _BUSY_CLOSE:
            return unopened(error, self._peer)
        return self._peer.lost(error)

    def close(self) -> None:
        """Nothing is kept between cases."""


@dataclass(slots=True)
class _Answer:
    """One answer as it comes in."""

    peer: Peer
    done: bool = False
    notes: list[Note] = field(default_factory=list)
    _words: str = ""
    _whole: str | None = None
    _pieces: list[Pcm] = field(default_factory=list)
    _reader: Float32Reader | None = None

    def take(self, message: Mapping[str, Any]) -> None:
        """Take the next message, in order.

        Raises:
            AgentError: the server reports an error.
        """
        if message["type"] == "error":
            raise fault_of(message, self.peer)
        if message["type"] == "prefill_done":
            self.notes.append(Note("input_tokens", str(message.get("input_tokens"))))
        elif message["type"] in ("chunk", "done"):
            self._reader = self._reader or Float32Reader(self.peer)
            self._pieces.append(self._reader.push(message.get("audio_data")))
            self._words += str(message.get("text_delta") or "")
            if message["type"] == "done":
                self.done = True
                self._whole = str(message["text"]) if message.get("text") else None

    @property
    def pcm(self) -> Pcm:
        """Its sound, float32 [n] at 24 kHz."""
        return np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.float32)

    @property
    def text(self) -> str:
        """Its words: the server's own summing up, where it gave one."""
        return (self._words if self._whole is None else self._whole).strip()
