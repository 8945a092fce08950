"""Fun-Audio-Chat 8B in turn mode, over its own demo server, as the paper ran it.

One connection a case: the system prompt, the whole user's side, then "pause", which asks for the answer. The answer is
over when nothing has come for a while.

The server counts sound as heard only once its loop has come round to it, and drops what a "pause" overtakes: hence the
short wait before it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.dial import options
from dsbif.agents.fun_audio_chat_wire import PAUSE, Content, audio_messages, check_handshake, prompt_message
from dsbif.agents.sockets import Peer, check_url, package
from dsbif.errors import AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Note, Reply

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

NAME = "fun-audio-chat-8b"
PATH = "/api/chat"


@dataclass(frozen=True, slots=True)
class FunAudioChatSettings:
    """The agent's own keys of ``conf/model/fun_audio_chat.yaml``, where each is explained."""

    base_url: str
    prompt_prefix: str
    open_timeout_s: float
    settle_s: float
    answer_timeout_s: float
    content_timeout_s: float

    def __post_init__(self) -> None:
        check_url("base_url", self.base_url, ("ws", "wss"))
        for name in ("open_timeout_s", "answer_timeout_s", "content_timeout_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; wanted seconds above 0")
        if self.settle_s < 0:
            raise ValueError(f"settle_s is {self.settle_s}; wanted seconds, 0 or more")


def prompt_of(settings: FunAudioChatSettings, prompt: str) -> str:
    """The system prompt as it is sent: the prefix, without which the model speaks no sound, and the case's own."""
    return " ".join(part for part in (settings.prompt_prefix, prompt) if part)


def url_of(settings: FunAudioChatSettings) -> str:
    """The address of a conversation."""
    return settings.base_url.rstrip("/") + PATH


def facts_of(transport: str) -> AgentFacts:
    """What a reader of results must know.

    Raises:
        ConfigError: a package is missing.
    """
    websockets, _ = package("websockets", "live"), package("sphn", "live")
    versions = {"websockets": websockets.__version__, "sphn": _version("sphn"), "transport": transport}
    return AgentFacts(NAME, "full", "native", versions)


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


class FunAudioChat:
    """One conversation of one answer at a time.

    Args:
        settings: the agent's keys.
        rows: how many the driver runs at once; nothing depends on it here.

    Raises:
        ConfigError: a package is missing.
    """

    def __init__(self, settings: FunAudioChatSettings, rows: int = 1) -> None:
        self._settings = settings
        self._peer = Peer("Fun-Audio-Chat", settings.base_url)
        self.facts = facts_of("turn")

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        """Answer the user's side, float32 [n]. No seed is sent: the server knows none.

        Raises:
            AgentError: the server reports an error. ``AgentLostError`` where it cannot be reached, hangs up, or does
                not begin to answer within ``answer_timeout_s``.
        """
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        settings, peer = self._settings, self._peer
        rendered = prompt_of(settings, prompt)
        try:
            socket = connect(url_of(settings), open_timeout=settings.open_timeout_s, **options(settings.base_url))
        except Exception as error:  # noqa: BLE001 - the library and the system each have errors of their own
            raise peer.unopened(error) from None
        with socket:
            try:
                self._greet(socket)
                socket.send(prompt_message(rendered))
                for message in audio_messages(user):
                    socket.send(message)
                time.sleep(settings.settle_s)
                socket.send(PAUSE)
                said, compute_s = self._collect(socket)
            except ConnectionClosed as error:
                raise peer.lost(error) from None
        return _reply(said, compute_s, Note("prompt", rendered))

    def _greet(self, socket: Any) -> None:
        try:
            check_handshake(socket.recv(timeout=self._settings.open_timeout_s), self._peer)
        except TimeoutError:
            raise AgentLostError(
                f"{self._peer.name} did not greet within {self._settings.open_timeout_s:g} s of connecting."
            ) from None

    def _collect(self, socket: Any) -> tuple[list[Emission], float]:
        """All of an answer, and how long its last piece took to come."""
        settings = self._settings
        content = Content(self._peer)
        asked_s = time.monotonic()
        compute_s = 0.0
        said: list[Emission] = []
        while True:
            try:
                message = socket.recv(timeout=settings.content_timeout_s if said else settings.answer_timeout_s)
            except TimeoutError:
                break
            said += content.take(message)
            compute_s = time.monotonic() - asked_s
        if not said and not content.processing:
            raise AgentLostError(f"{self._peer.name} did not begin to answer within {settings.answer_timeout_s:g} s.")
        return said, compute_s

    def close(self) -> None:
        """Nothing is kept between cases."""


def _reply(said: list[Emission], compute_s: float, prompt: Note) -> Reply:
    pcm = [emission.pcm for emission in said if isinstance(emission, AgentAudio)]
    notes = [emission for emission in said if isinstance(emission, Note)]
    text = "".join(emission.text for emission in said if isinstance(emission, AgentText))
    final = [note.text for note in notes if note.name == "final_text"]
    sound = np.concatenate(pcm) if pcm else np.zeros(0, np.float32)
    return Reply(sound, final[-1] if final else text.strip(), compute_s, [prompt, *notes])
