"""What Freeze-Omni's client would have played by now, told by samples, since its server never says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dsbif.agents.wire import Pcm16Reader
from dsbif.session.agent import Note
from dsbif.session.pcm import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm


class Player:
    """What of the sound that came has been heard. The user's channel never stops: what was sent of it is the time."""

    def __init__(self) -> None:
        self._reader = Pcm16Reader()
        self._now = 0
        self._until = 0
        self._delivered = 0

    def sent(self, samples: int) -> None:
        """So much of the user's channel has gone by."""
        self._now += samples

    def audio(self, data: bytes) -> Pcm:
        """The next bytes, of 16-bit samples; returns those that are whole, float32 [n]."""
        pcm = self._reader.push(data)
        if self._until <= self._now:
            self._delivered = 0
        self._until = max(self._until, self._now) + len(pcm)
        self._delivered += len(pcm)
        return pcm

    def stop(self) -> Note | None:
        """Forget what has not been heard; says what was cut, None where nothing was playing."""
        self._reader.clear()
        rest, self._until = self._until - self._now, min(self._until, self._now)
        if rest <= 0:
            return None
        told = {"why": "stop_tts", "delivered_ms": _ms(self._delivered), "played_ms": _ms(self._delivered - rest)}
        return Note("interrupted", json.dumps(told))


def _ms(samples: int) -> int:
    return round(1000 * samples / SAMPLE_RATE_HZ)
