"""Opening a websocket so that none stays open; what a server of one's own is opened with; reading the JSON it sends."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dsbif.errors import AgentError

if TYPE_CHECKING:
    from dsbif.agents.sockets import Peer
    from dsbif.session.pcm import Pcm

_CLOSE_S = 3.0
"""How long a closing handshake may take: the conversation is over."""
_Greeted = TypeVar("_Greeted")


async def dialled(
    connecting: Awaitable[Any],
    greet: Callable[[Any], Awaitable[_Greeted]],
    unopened: Callable[[BaseException], AgentError],
) -> tuple[Any, _Greeted]:
    """A connection on which both sides have said what comes first; closed where that fails or is given up.

    Args:
        connecting: opens it.
        greet: says and hears what comes before the session.
        unopened: what an error means.

    Raises:
        AgentError: what ``unopened`` made of an error.
    """
    socket: Any = None
    try:
        socket = await connecting
        return socket, await greet(socket)
    except BaseException as error:
        if socket is not None:
            with contextlib.suppress(Exception):
                await socket.close()
        if isinstance(error, Exception):
            raise unopened(error) from None
        raise


def options(url: str, tls_verify: bool = True) -> dict[str, Any]:
    """What every connection is opened with.

    Messages may have any size, since a long answer may come in one. Nothing is pinged: a server that computes does not
    always answer in time. One's own server is reached directly, whatever proxy the environment names.
    """
    chosen: dict[str, Any] = {
        "max_size": None,
        "compression": None,
        "ping_interval": None,
        "proxy": None,
        "close_timeout": _CLOSE_S,
    }
    if url.startswith("wss:"):
        chosen["ssl"] = tls(tls_verify)
    return chosen


def tls(verify: bool) -> ssl.SSLContext:
    """A client's side of TLS; without ``verify`` any certificate will do, as a server's self-signed one."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def message_of(raw: str | bytes, peer: Peer) -> dict[str, Any]:
    """A JSON message, which must be an object with a ``type``.

    Raises:
        AgentError: it is something else.
    """
    try:
        message = json.loads(raw)
    except ValueError:
        message = None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        shown = raw if isinstance(raw, str) else raw[:80]
        raise AgentError(f"{peer.name} sent something that is no message of its protocol: {peer.clean(shown)}.")
    return message


def shown(message: str | bytes) -> str:
    """The beginning of a message, for an error."""
    return repr(message[:40]) if isinstance(message, str) else (message[:16].hex(" ") or "an empty message")


class Float32Reader:
    """Little-endian 32-bit floats out of base64 pieces of any size: a sample that two share is lost to neither."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._open = b""

    def push(self, piece: object) -> Pcm:
        """Take the next piece, or None where there is none; return the samples that are whole by now, float32 [n].

        Raises:
            AgentError: it is no base64.
        """
        if not piece:
            return np.zeros(0, np.float32)
        try:
            data = self._open + base64.b64decode(piece, validate=True)  # type: ignore[arg-type]
        except (binascii.Error, TypeError, ValueError):
            raise AgentError(f"{self._peer.name} sent sound that is no base64.") from None
        whole = len(data) // 4 * 4
        self._open = data[whole:]
        return np.frombuffer(data[:whole], "<f4").astype(np.float32)


def to_float32(pcm: Pcm) -> str:
    """Float32 [n] as base64 of little-endian 32-bit floats."""
    return base64.b64encode(np.asarray(pcm, "<f4").tobytes()).decode("ascii")
