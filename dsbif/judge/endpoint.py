"""One call to an endpoint that judges. Patience is the caller's.

Replies are read as bytes against one deadline and checked here, so that a server that drips or sends something else
than it should is a failed attempt and nothing more. The key goes into a header and into nothing that is kept.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dsbif.errors import ConfigError
from dsbif.judge.prompt import Messages
from dsbif.judge.settings import JudgeSettings

MAX_BODY_BYTES = 4 << 20
_SHOWN = 200
_HOPELESS = {
    401: "it does not accept the key",
    402: "the account has no credit",
    403: "it refuses the key",
    404: "it has no such address or model",
}
"""Answers that another try changes for no case."""
_SPENT = {"insufficient_quota", "billing_hard_limit_reached"}
_FILTERED = {"content_filter", "content_policy_violation"}
_AGAIN = {408, 409, 425, 429}
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. ``refused``: the provider itself says that the model declined; ``text`` is then its reason."""

    text: str
    refused: bool = False
    truncated: bool = False
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class TransportFaultError(Exception):
    """One attempt brought no answer. ``again``: another may; ``retry_after`` is the header as it was sent."""

    def __init__(self, message: str, again: bool = True, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.again = again
        self.retry_after = retry_after


class Provider(Protocol):
    """One endpoint; safe for several threads."""

    def ask(self, messages: Messages) -> Answer:
        """One call.

        Raises:
            TransportFaultError: no answer came.
            ConfigError: no answer will ever come: the key, the address or the model is wrong.
        """


class Endpoint:
    """What both clients share: one body per call, and errors without the key."""

    def __init__(self, settings: JudgeSettings, key: str, clock: Clock) -> None:
        """Connect lazily.

        Args:
            settings: the judge's.
            key: empty where a server wants none.
            clock: monotonic seconds.
        """
        self._settings, self._key, self._clock = settings, key, clock

    def call(self, create: Any, arguments: Mapping[str, Any], read: Callable[[Any], Answer]) -> Answer:
        """One call of the client's ``create``, its body read by ``read``.

        Raises:
            TransportFaultError: as ``Provider.ask``.
            ConfigError: as ``Provider.ask``.
        """
        try:
            body = self._body(create, arguments)
        except Exception as error:  # noqa: BLE001 - each client has errors of its own, and of the one below it
            if _code(error) in _FILTERED:
                return Answer(self.clean(_said(error)), refused=True)
            raise self._fault(error) from None
        try:
            answer = read(json.loads(body))
        except (ValueError, RecursionError):
            shown = self.clean(body.decode("utf-8", "replace"))[:_SHOWN]  # in this order, or half a key is left
            raise TransportFaultError(f"the endpoint answered something that is no completion: {shown!r}") from None
        return answer

    def _body(self, create: Any, arguments: Mapping[str, Any]) -> bytes:
        deadline = self._clock() + self._settings.timeout_s
        with create(**arguments) as response:
            parts, size = [], 0
            for part in response.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > MAX_BODY_BYTES:
                    raise TransportFaultError(f"the endpoint sent more than {MAX_BODY_BYTES} bytes")
                if self._clock() > deadline:
                    raise TransportFaultError(f"the endpoint was still sending after {self._settings.timeout_s:g} s")
        return b"".join(parts)

    def _fault(self, error: Exception) -> Exception:
        if isinstance(error, TransportFaultError):
            return error
        status = getattr(error, "status_code", None)
        said = self.clean(_said(error))[:_SHOWN]
        reason = _HOPELESS.get(status or 0) or ("the account has no credit" if _code(error) in _SPENT else "")
        if reason:
            return ConfigError(
                f"the judge {self._settings.provider} cannot be used with model '{self._settings.model}': {reason} "
                f"({said}). Check judge.model, judge.base_url and the variable {self._settings.api_key_env}."
            )
        headers = getattr(getattr(error, "response", None), "headers", {})
        again = status is None or status in _AGAIN or status >= 500
        return TransportFaultError(f"{type(error).__name__}: {said}", again, headers.get("retry-after"))

    def clean(self, text: str) -> str:
        """Text that can be kept: an endpoint that echoes its request must not put the key into a file."""
        text = text.encode("utf-8", "replace").decode()
        return text.replace(self._key, "***") if self._key else text


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _code(error: Exception) -> str:
    """The machine-readable reason of an error, where the endpoint gave one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    code = (inner.get("code") or inner.get("type")) if isinstance(inner, dict) else None
    return code if isinstance(code, str) else ""
