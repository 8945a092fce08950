"""The server events of OpenAI's realtime protocol as a session's emissions; pure, a case at a time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dsbif.agents.wire import Answer
from dsbif.errors import AgentError, AgentLostError
from dsbif.session.agent import Emission, Interrupted, Note, TurnDone

if TYPE_CHECKING:
    from dsbif.agents.sockets import Peer

_ENDED = ("session_expired",)
"""Codes of error events after which the connection is gone."""


class Events:
    """Takes a session's events in order. ``answer.sent_samples`` is kept by the session."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._item: str | None = None
        self.answer = Answer()

    def take(self, event: Mapping[str, Any]) -> list[Emission]:
        """What an event means; nothing for those that only report progress.

        Raises:
            AgentError: the server reports an error or a failed answer, or sent what it cannot mean.
        """
        match event.get("type"):
            case "response.output_audio.delta" | "response.audio.delta":
                return self._begin(event) + self.answer.audio(self._audio(event))
            case "response.output_audio_transcript.delta" | "response.audio_transcript.delta":
                return self._begin(event) + self.answer.text(self._string(event, "delta"))
            case "response.output_audio_transcript.done" | "response.audio_transcript.done":
                return self.answer.rest()
            case "input_audio_buffer.speech_started":
                return self._speech_started()
            case "response.done":
                return self._done(event)
            case "error":
                told = _inner(event, "error")
                kind = AgentLostError if told.get("code") in _ENDED else AgentError
                raise kind(f"{self._peer.name} reported an error: {_words(self._peer, told)}.")
        return []

    def _begin(self, event: Mapping[str, Any]) -> list[Emission]:
        """Make the event's item the present answer; returns what was left of the one before."""
        item = str(event.get("item_id") or "")
        if item == self._item:
            return []
        self._item = item
        return self.answer.begin()

    def _speech_started(self) -> list[Emission]:
        """The user began to speak. It interrupts only where an answer is still to be heard."""
        if not self.answer.playing:
            return []
        return [Interrupted("speech_started"), self.answer.interrupted("speech_started")]

    def _done(self, event: Mapping[str, Any]) -> list[Emission]:
        response = _inner(event, "response")
        details = _inner(response, "status_details")
        status, reason = str(response.get("status") or "completed"), str(details.get("reason") or "")
        if status == "failed":
            words = _words(self._peer, _inner(details, "error"))
            raise AgentError(f"{self._peer.name} failed to answer: {words}.")
        said = self.answer.rest()
        if status == "cancelled":
            said += [Interrupted(reason or status), self.answer.interrupted(reason or status)]
        elif status != "completed":
            said.append(Note("response", f"{status}: {reason or 'no reason given'}"))
        self._item = None  # whatever comes next is another answer, also where a server gives no ids
        return [*said, TurnDone(status)]

    def _audio(self, event: Mapping[str, Any]) -> bytes:
        try:
            return base64.b64decode(self._string(event, "delta"), validate=True)
        except (binascii.Error, ValueError):
            raise AgentError(f"{self._peer.name} sent audio that is no base64 ({event.get('type')}).") from None

    def _string(self, event: Mapping[str, Any], key: str) -> str:
        value = event.get(key)
        if not isinstance(value, str):
            raise AgentError(f"{self._peer.name} sent {event.get('type')} without a '{key}'.")
        return value


def _inner(outer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = outer.get(key)
    return value if isinstance(value, Mapping) else {}


def _words(peer: Peer, told: Mapping[str, Any]) -> str:
    """Type, code and message of an error object."""
    kind = "/".join(str(told[key]) for key in ("type", "code") if told.get(key))
    return peer.clean(f"{kind or 'unknown'}: {told.get('message') or 'no message'}").rstrip(".")
