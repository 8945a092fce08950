"""The wire of Fun-Audio-Chat's demo server: one byte that says what a binary message is, then the rest.

Sound travels as Ogg/Opus at 24 kHz. Nothing on the wire says that an answer is over: silence does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.sockets import package
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
_PACKET_SAMPLES = 960
"""What the encoder puts into one packet; it keeps what is less, and has no way to be emptied."""
_DELAY_SAMPLES = 240
"""More than the codec's own delay, 6.5 ms as measured with sphn 0.2.1."""
_SLICE_BYTES = 512
"""What the decoder is given at once: sphn 0.2.1 fails on about ten seconds in one piece."""


def prompt_message(prompt: str) -> bytes:
    """The system prompt as it is sent."""
    return bytes([_METADATA]) + json.dumps({"system_prompt": prompt}, ensure_ascii=False).encode()


def audio_messages(pcm: Pcm, message_samples: int = SAMPLE_RATE_HZ) -> Iterator[bytes]:
    """Float32 [n] as one Ogg/Opus stream; silence follows up to a whole packet, 10 ms at least.

    ``message_samples``: what goes into a message, in whole packets. Few large ones spare the server work.
    """
    writer = package("sphn", "live").OpusStreamWriter(SAMPLE_RATE_HZ)
    packets = -(-(len(pcm) + _DELAY_SAMPLES) // _PACKET_SAMPLES)
    padded = np.zeros(packets * _PACKET_SAMPLES, np.float32)
    padded[: len(pcm)] = pcm
    for start in range(0, len(padded), message_samples):
        data = writer.append_pcm(padded[start : start + message_samples])
        if data is not None and len(data):
            yield bytes([_AUDIO]) + bytes(data)


def check_handshake(message: str | bytes, peer: Peer) -> None:
    """The server's first message.

    Raises:
        AgentError: it is something else.
    """
    if isinstance(message, str) or message[:1] != bytes([_HANDSHAKE]):
        raise AgentError(f"{peer.name} did not greet: wanted 00 00 00, got {_shown(message)}.")


class Content:
    """A connection's messages as emissions, in order; pure.

    ``processing``: the server has begun to answer. ``final``: the words as the server sums them up, which it does only
    where they differ from the pieces it sent. Pieces come as the model's own, at most five a second, and lag behind the
    sound.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._reader: Any = package("sphn", "live").OpusStreamReader(SAMPLE_RATE_HZ)
        self.processing = False
        self.final: str | None = None

    def take(self, message: str | bytes) -> list[Emission]:
        """What a message means.

        Raises:
            AgentError: the server reports an error, or sent what is no message.
        """
        kind = message[0] if isinstance(message, bytes) and message else -1
        if isinstance(message, str) or kind < 0 or kind > _COLOURED:
            raise AgentError(f"{self._peer.name} sent something that is no message: {_shown(message)}.")
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
        try:
            slices = (data[start : start + _SLICE_BYTES] for start in range(0, len(data), _SLICE_BYTES))
            pieces = [np.asarray(self._reader.append_bytes(piece), np.float32).reshape(-1) for piece in slices]
        except Exception as error:  # noqa: BLE001 - the decoder tells nonsense by several errors
            raise AgentError(f"{self._peer.name} sent sound that is no Ogg/Opus: {self._peer.clean(error)}.") from None
        pcm = np.concatenate([np.zeros(0, np.float32), *pieces])
        return [AgentAudio(pcm)] if len(pcm) else []

    def _text(self, text: str) -> list[Emission]:
        if text == PROCESSING:
            self.processing = True
            return []
        if text.startswith(_FINAL[0]) and text.endswith(_FINAL[1]):
            self.final = text[len(_FINAL[0]) : -len(_FINAL[1])]
            return [Note("final_text", self.final)]
        return [AgentText(text)] if text else []


def _shown(message: str | bytes) -> str:
    return repr(message[:40]) if isinstance(message, str) else (message[:16].hex(" ") or "an empty message")
