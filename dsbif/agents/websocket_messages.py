"""What a server says in dsbif's own websocket protocol (docs/websocket-protocol.md), checked, as emissions; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dsbif.agents.wire import Pcm16Reader, Rate
from dsbif.errors import AgentBusyError, AgentError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Interrupted, Note, TurnDone
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.agents.sockets import Peer
    from dsbif.session.pcm import Pcm

VERSION = 1
"""Of the protocol."""
_RATES_HZ = (8_000, 48_000)
_CONDITIONING = ("full", "partial", "none")
_TRANSCRIPT = ("native", "none")


@dataclass(frozen=True, slots=True)
class Ready:
    """What the server says of itself when a session begins."""

    facts: AgentFacts
    rate_hz: int
    user_finished: bool


def ready_of(message: str | bytes, peer: Peer, versions: Mapping[str, str]) -> Ready:
    """The server's first message.

    Raises:
        AgentBusyError: it has no session free.
        AgentError: it refused, or sent something else.
    """
    if isinstance(message, bytes):
        raise AgentError(f"{peer.name} began with a binary frame; wanted ready, busy or error.")
    told = _parsed(message, peer)
    kind = told.get("type")
    if kind == "busy":
        raise AgentBusyError(f"{peer.name} has no session free.", _seconds(told.get("retry_after_s")))
    if kind == "error":
        raise AgentError(f"{peer.name} refused the session: {_message(told, peer)}.")
    if kind != "ready":
        raise AgentError(f"{peer.name} began with a message of type {_shown(kind)}; wanted ready, busy or error.")
    return _checked(told, peer, versions)


def _checked(told: Mapping[str, Any], peer: Peer, versions: Mapping[str, str]) -> Ready:
    def fault(key: str, wanted: str) -> AgentError:
        return AgentError(f"{peer.name} sent ready with {key} {_shown(told.get(key))}; wanted {wanted}.")

    rate_hz, finished = told.get("sample_rate_hz", SAMPLE_RATE_HZ), told.get("user_finished", False)
    name = told.get("name", "websocket")
    if told.get("conditioning") not in _CONDITIONING:
        raise fault("conditioning", "full, partial or none: whether the prompt reaches the model")
    if told.get("transcript") not in _TRANSCRIPT:
        raise fault("transcript", "native or none: whether it sends its own words as text")
    if type(rate_hz) is not int or not _RATES_HZ[0] <= rate_hz <= _RATES_HZ[1]:
        raise fault("sample_rate_hz", "a whole number from 8000 to 48000")
    if not isinstance(finished, bool):
        raise fault("user_finished", "true or false")
    if not isinstance(name, str) or not name.strip():
        raise fault("name", "some text")
    facts = AgentFacts(peer.clean(name), told["conditioning"], told["transcript"], versions)
    return Ready(facts, rate_hz, finished)


def _seconds(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 3600
    return float(value) if known else None  # type: ignore[arg-type]


class Messages:
    """A session's messages as emissions, in order."""

    def __init__(self, peer: Peer, ready: Ready) -> None:
        self._peer = peer
        self._has_words = ready.facts.transcript == "native"
        self._reader = Pcm16Reader()
        self._rate = Rate(ready.rate_hz)

    def take(self, message: str | bytes) -> list[Emission]:
        """What a message means.

        Raises:
            AgentError: an error that the server reports, or something that the protocol does not know.
        """
        if isinstance(message, bytes):
            return _audio(self._rate.push(self._reader.push(message)))
        told = _parsed(message, self._peer)
        match told.get("type"):
            case "text":
                return [AgentText(self._words(told))]
            case "turn_done":
                return [*_audio(self._end()), TurnDone(self._kind(told, "completed"))]
            case "interrupted":
                return [*_audio(self._end()), Interrupted(self._kind(told, "interrupted"))]
            case "note":
                return [Note(self._string(told, "name"), self._string(told, "text"))]
            case "error":
                raise AgentError(f"{self._peer.name} reported an error: {_message(told, self._peer)}.")
        raise AgentError(
            f"{self._peer.name} sent a message of type {_shown(told.get('type'))}; "
            f"version {VERSION} of the protocol knows text, turn_done, interrupted, note and error."
        )

    def _end(self) -> Pcm:
        """What the resampler still holds; half a sample that was left over is forgotten."""
        self._reader.clear()
        return self._rate.flush()

    def _words(self, told: Mapping[str, Any]) -> str:
        if not self._has_words:
            raise AgentError(f"{self._peer.name} sent text, though its ready says that its transcript is none.")
        return self._string(told, "text")

    def _kind(self, told: Mapping[str, Any], usual: str) -> str:
        return self._string(told, "kind") if "kind" in told else usual

    def _string(self, told: Mapping[str, Any], key: str) -> str:
        value = told.get(key)
        if not isinstance(value, str):
            raise AgentError(f"{self._peer.name} sent {told['type']} with {key} {_shown(value)}; wanted some text.")
        return value


def _audio(pcm: Pcm) -> list[Emission]:
    return [AgentAudio(pcm)] if len(pcm) else []


def _parsed(message: str, peer: Peer) -> dict[str, Any]:
    try:
        told = json.loads(message)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise AgentError(f"{peer.name} sent a text frame that is no JSON object: {peer.clean(message)!r}.")
    return told


def _message(told: Mapping[str, Any], peer: Peer) -> str:
    return peer.clean(told.get("message") or "no message").rstrip(".")


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:80]
