"""What adapters of systems behind a socket share: 16-bit audio in pieces of any size, other rates, whole words.

Imports next to nothing, since adapters also run where little is installed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.session.agent import AgentAudio, AgentText, Emission, Note
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

_FULL_SCALE = 32_768


def to_pcm16(pcm: Pcm) -> bytes:
    """Float32 [n] as little-endian 16-bit samples, rounded, and clipped at full scale."""
    scaled = np.rint(np.asarray(pcm, np.float64) * _FULL_SCALE)
    return np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype("<i2").tobytes()


class Pcm16Reader:
    """Little-endian 16-bit samples out of pieces of any size: a sample that two pieces share is lost to neither."""

    def __init__(self) -> None:
        self._half = b""

    def push(self, piece: bytes) -> Pcm:
        """Take the next bytes; return the samples that are whole by now, float32 [n]."""
        data = self._half + piece
        whole = len(data) // 2 * 2
        self._half = data[whole:]
        return np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(_FULL_SCALE)

    def clear(self) -> None:
        """Forget half a sample: what comes next begins with a whole one."""
        self._half = b""


class Rate:
    """A stream at another rate, piece by piece; samples stay aligned and come out up to about 40 ms late.

    >>> Rate(24_000, 24_000).push(np.ones(3, np.float32))
    array([1., 1., 1.], dtype=float32)
    """

    def __init__(self, from_hz: int, to_hz: int = SAMPLE_RATE_HZ) -> None:
        self._rates = (from_hz, to_hz)
        self._stream: Any = None

    def push(self, pcm: Pcm) -> Pcm:
        """Take the next input, float32 [n]; return what is ready, float32 [m]."""
        return self._convert(pcm, last=False)

    def flush(self) -> Pcm:
        """What is still inside, float32 [m]; the next ``push`` begins a new stream."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        rest = self._convert(np.zeros(0, np.float32), last=True)
        self._stream = None
        return rest

    def _convert(self, pcm: Pcm, last: bool) -> Pcm:
        if self._rates[0] == self._rates[1]:
            return pcm
        if self._stream is None:
            import soxr

            self._stream = soxr.ResampleStream(*self._rates, 1, dtype="float32", quality="HQ")
        return np.asarray(self._stream.resample_chunk(pcm, last=last), np.float32)


class Words:
    """Whole words out of pieces of text, since a record keeps pieces as words that a space divides.

    >>> words = Words()
    >>> words.push("Good mor"), words.push("ning, nurse"), words.flush()
    ('Good ', 'morning, ', 'nurse')
    """

    def __init__(self) -> None:
        self._open = ""

    def push(self, piece: str) -> str:
        """Take the next piece; return what is whole by now, up to the last space."""
        text = self._open + piece
        end = max((at + 1 for at, character in enumerate(text) if character.isspace()), default=0)
        self._open = text[end:]
        return text[:end]

    def flush(self) -> str:
        """The word that was still open."""
        rest, self._open = self._open, ""
        return rest


@dataclass(slots=True)
class Answer:
    """One answer as it comes in, and how much of it has been heard.

    That is told by samples, not by a clock: the user's channel never stops, so what has been sent of it is the
    session's time, and an answer plays from its arrival on, behind whatever is still playing.

    ``sent_samples``: kept by the session. ``samples`` and ``transcript``: of the present answer.
    """

    sent_samples: int = 0
    samples: int = 0
    transcript: str = ""
    _until: int = 0
    _reader: Pcm16Reader = field(default_factory=Pcm16Reader)
    _words: Words = field(default_factory=Words)

    def begin(self) -> list[Emission]:
        """A new answer; returns the word that was still open of the last one."""
        rest = self.rest()
        self.samples, self.transcript = 0, ""
        self._reader.clear()
        return rest

    def audio(self, piece: bytes) -> list[Emission]:
        """The next bytes of its sound."""
        pcm = self._reader.push(piece)
        if not len(pcm):
            return []
        self.samples += len(pcm)
        self._until = max(self._until, self.sent_samples) + len(pcm)
        return [AgentAudio(pcm)]

    def text(self, piece: str) -> list[Emission]:
        """The next piece of its words."""
        self.transcript += piece
        whole = self._words.push(piece)
        return [AgentText(whole)] if whole else []

    def rest(self) -> list[Emission]:
        """The word that was still open."""
        rest = self._words.flush()
        return [AgentText(rest)] if rest else []

    @property
    def playing(self) -> bool:
        """Whether something of it is still to be heard."""
        return self.sent_samples < self._until

    def interrupted(self, why: str) -> Note:
        """The answer word for word as it came: its last words may never have been heard."""
        told = {
            "why": why,
            "transcript": self.transcript,
            "delivered_ms": _ms(self.samples),
            "played_ms": _ms(max(0, self.samples - max(0, self._until - self.sent_samples))),
        }
        return Note("interrupted", json.dumps(told, ensure_ascii=False))


def _ms(samples: int) -> int:
    return round(1000 * samples / SAMPLE_RATE_HZ)
