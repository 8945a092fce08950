"""The wire of Fun-Audio-Chat's demo server: one byte that says what a binary message is, then the rest.

Sound travels as Ogg/Opus at 24 kHz. Nothing on the wire says that an answer is over: silence does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dsbif.agents.dial import shown
from dsbif.agents.opus import DELAY_SAMPLES, PACKET_SAMPLES, OpusReader, OpusWriter
from dsbif.errors import AgentError
from dsbif.session.agent import AgentAudio, AgentText, Emission, Note
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.agents.sockets import Peer
    from dsbif.session.pcm import Pcm

START = b"\x03\x00"
PAUSE = b"\x03\x02"
PROCESSING = "[Processing...]"
_FINAL = ("\n[Final: ", "]")
_HANDSHAKE, _AUDIO, _TEXT, _CONTROL, _METADATA, _ERROR, _PING, _COLOURED = range(8)


def prompt_message(prompt: str) -> bytes:
    """The system prompt as it is sent."""
    return bytes([_METADATA]) + json.dumps({"system_prompt": prompt}, ensure_ascii=False).encode()


def audio_messages(pcm: Pcm, message_samples: int = SAMPLE_RATE_HZ) -> Iterator[bytes]:
    """Float32 [n] as one Ogg/Opus stream; silence follows up to a whole packet, 10 ms at least.

    ``message_samples``: what goes into a message, in whole packets. Few large ones spare the server work.
    """
    writer = OpusWriter()
    packets = -(-(len(pcm) + DELAY_SAMPLES) // PACKET_SAMPLES)
    padded = np.zeros(packets * PACKET_SAMPLES, np.float32)
    padded[: len(pcm)] = pcm
    for start in range(0, len(padded), message_samples):
        if data := writer.push(padded[start : start + message_samples]):
            yield bytes([_AUDIO]) + data


def check_handshake(message: str | bytes, peer: Peer) -> None:
    """The server's first message.

    Raises:
        AgentError: it is something else.
    """
    if isinstance(message, str) or message[:1] != bytes([_HANDSHAKE]):
        raise AgentError(f"{peer.name} did not greet: wanted 00 00 00, got {shown(message)}.")


class Content:
    """A connection's messages as emissions, in order; pure.

    ``processing``: the server has begun to answer. ``final``: the words as the server sums them up, which it does only
    where they differ from the pieces it sent. Pieces come as the model's own, at most five a second, and lag behind the
    sound.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._reader = OpusReader(peer)
        self.processing = False
        self.final: str | None = None

    def take(self, message: str | bytes) -> list[Emission]:
        """What a message means.

        Raises:
            AgentError: the server reports an error, or sent what is no message.
        """
        kind = message[0] if isinstance(message, bytes) and message else -1
        if isinstance(message, str) or kind < 0 or kind > _COLOURED:
            raise AgentError(f"{self._peer.name} sent something that is no message: {shown(message)}.")
        body = message[1:]
        if kind == _ERROR:
            words = self._peer.clean(body.decode("utf-8", "replace"))
            raise AgentError(f"{self._peer.name} reported an error: {words or 'no reason given'}.")
        if kind == _AUDIO:
            return self._audio(body)
        if kind in (_TEXT, _COLOURED):
            return self._text((body if kind == _TEXT else body[1:]).decode("utf-8", "replace"))
        return []

    def _audio(self, data: bytes) -> list[Emission]:
        pcm = self._reader.push(data)
        return [AgentAudio(pcm)] if len(pcm) else []

    def _text(self, text: str) -> list[Emission]:
        if text == PROCESSING:
            self.processing = True
            return []
        if text.startswith(_FINAL[0]) and text.endswith(_FINAL[1]):
            self.final = text[len(_FINAL[0]) : -len(_FINAL[1])]
            return [Note("final_text", self.final)]
        return [AgentText(text)] if text else []
