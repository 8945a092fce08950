"""What adapters say when a websocket does not open or breaks: in one sentence, of the right kind, without the key."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dsbif.errors import AgentBusyError, AgentError, AgentLostError, ConfigError

_SHOWN = 300
_SPENT = ("insufficient_quota", "billing_hard_limit", "billing_not_active")
"""Words of a refusal that waiting does not help against, though it looks like too many requests."""
_BUSY = ("rate_limit", "rate limit", "resource_exhausted", "quota", "too many", "overloaded", "try again later")
_BUSY_CLOSE = 1013
"""A websocket's own code for "try again later"."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side, as errors name it.

    ``key``: the secret, which is shown to nobody; empty where none is used. ``key_env``: the variable it came from.
    """

    name: str
    url: str
    key: str = ""
    key_env: str | None = None

    def __repr__(self) -> str:
        return f"Peer({self.name!r}, {self.url!r})"

    def clean(self, text: object) -> str:
        """Text in one line and of bearable length; without the key, should somebody have echoed it."""
        words = " ".join(str(text).encode("utf-8", "replace").decode().split())
        return (words.replace(self.key, "***") if self.key else words)[:_SHOWN]

    def unopened(self, error: BaseException) -> AgentError:
        """Why no session could be opened."""
        if isinstance(error, AgentError):
            return error
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if isinstance(status, int):
            return self._refused(status, response)
        code, reason = closing(error)
        if code:
            return self.refused_by_words(f"closed the connection before the session was ready ({code} {reason})", code)
        return AgentLostError(
            f"{self.name} cannot be reached at {self.url}: {type(error).__name__}: {self.clean(error)}. "
            "Check the address, the network and that the server runs."
        )

    def _refused(self, status: int, response: Any) -> AgentError:
        body = getattr(response, "body", b"") or b""
        told = f"HTTP {status}" + (f": {self.clean(body.decode('utf-8', 'replace'))}" if body else "")
        if status in (401, 403):
            variable = f"check the variable {self.key_env}" if self.key_env else "model.api_key_env names no variable"
            return AgentError(f"{self.name} refused the key ({told}); {variable}.")
        if status == 404:
            return AgentError(f"{self.name} has no such address or model ({told}); check {self.url} and model.model.")
        if status == 402 or (status == 429 and any(word in told for word in _SPENT)):
            return AgentError(f"the account at {self.name} has no credit ({told}).")
        if status in (429, 503):
            return AgentBusyError(f"{self.name} has no session free ({told}).", _retry_after(response.headers))
        if status >= 500:
            return AgentLostError(f"{self.name} failed to open a session ({told}).")
        return AgentError(f"{self.name} refused the session ({told}).")

    def refused_by_words(self, what: str, code: int = 0) -> AgentError:
        """A refusal that only its words tell about, while a session is opened."""
        text = self.clean(what)
        if any(word in what for word in _SPENT):
            return AgentError(f"the account at {self.name} has no credit: it {text}.")
        if code == _BUSY_CLOSE or any(word in what.lower() for word in _BUSY):
            return AgentBusyError(f"{self.name} has no session free: it {text}.")
        return AgentError(f"{self.name} {text}.")

    def lost(self, error: BaseException) -> AgentLostError:
        """The connection broke, or the server closed it, in the middle of a session."""
        code, reason = closing(error)
        how = f"{code} {reason}".strip() if code else f"{type(error).__name__}: {error}"
        return AgentLostError(f"{self.name} closed the connection during the session ({self.clean(how)}).")


def closing(error: BaseException) -> tuple[int, str]:
    """Code and reason of a websocket's end; 0 where the error is of another kind.

    The websocket's own errors hold a frame, those of Google's client a code and details.
    """
    frame = getattr(error, "rcvd", None) or getattr(error, "sent", None)
    if frame is not None:
        return int(frame.code), str(frame.reason)
    if type(error).__name__.startswith("ConnectionClosed"):
        return 1006, "no close frame"
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    return (code, str(details or "")) if isinstance(code, int) else (0, "")


def _retry_after(headers: Any) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, TypeError, ValueError):
            continue
    return None


def key_from(variable: str | None, wanted: bool) -> str:
    """The key that an environment variable holds; empty where none is named.

    Raises:
        ConfigError: the variable is unset or empty, and a key is wanted.
    """
    key = os.environ.get(variable, "").strip() if variable else ""
    if wanted and not key:
        raise ConfigError(
            f"the environment variable {variable} is not set; it must hold the key (model.api_key_env names it)."
        )
    return key


def package(name: str, extra: str) -> Any:
    """An optional package.

    Raises:
        ConfigError: it is not installed; says the command that does.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f'this agent needs a package: pip install "dsbif[{extra}]" ({error})') from error


def check_url(key: str, url: str, schemes: Collection[str]) -> None:
    """Refuse an address of another kind, or one that holds a secret.

    Raises:
        ValueError: what is wrong with it; a secret is not repeated.
    """
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{key} holds a user or a password; it is written into records. Use api_key_env")
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(f"{key} is '{url}'; wanted an address that begins with {'://, '.join(sorted(schemes))}://")
