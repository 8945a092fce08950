"""Between the session's 24 kHz and the codec's 22,050 Hz: 80 ms are 1920 samples on one side and 1764 on the other.

The codec's encoder looks to both sides, its decoder back only. So the user's codes are taken from the inside of a
sliding window, and the agent's speech from its end. Both rates are converted over a window as well, which gives exact
lengths; the agent's speech comes ``HELD_SAMPLES`` later than the decoder gives it, so that the filter has its right
side.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dsbif.agents.factor_loop import CODES, Codes, Floats
from dsbif.session.pcm import SAMPLE_RATE_HZ

CODEC_HZ = 22_050
CODEC_FRAME = 1764
FRAME_SAMPLES = 1920
HELD_SAMPLES = 120
"""5 ms at 24 kHz; with more the result is the same (85 dB under the signal from the conversion of the whole)."""
_KEPT_FRAMES = 2


class Codec(Protocol):
    """Speech to codes and back, without state."""

    def encode(self, pcm: Floats) -> Codes:
        """Float32 [n * 1764] at 22,050 Hz to int64 [4, n]."""

    def decode(self, codes: Codes) -> Floats:
        """Int64 [4, n] to float32 [n * 1764]."""


class UserEar:
    """The user's codes, ``lookahead`` frames late.

    Args:
        codec: shared.
        context: frames in the window.
        lookahead: frames that the encoder hears beyond the one that is taken.
    """

    def __init__(self, codec: Codec, context: int, lookahead: int) -> None:
        self._codec, self._lookahead = codec, lookahead
        self._window = np.zeros(context * FRAME_SAMPLES, np.float32)
        self._heard = 0

    def hear(self, pcm: Floats) -> Codes | None:
        """The next frame, float32 [1920]; returns int64 [4] of the frame ``lookahead`` back, None before the first."""
        self._window = np.concatenate([self._window[FRAME_SAMPLES:], pcm])
        self._heard += 1
        if self._heard <= self._lookahead:
            return None
        codes = self._codec.encode(resampled(self._window, SAMPLE_RATE_HZ, CODEC_HZ))
        return codes[:, -1 - self._lookahead]


class Voice:
    """The agent's speech from its codes: 1920 samples a frame, whatever the codec's rate."""

    def __init__(self, codec: Codec, context: int) -> None:
        self._codec, self._context = codec, context
        self._codes: list[Codes] = []
        self._pcm = np.zeros(_KEPT_FRAMES * CODEC_FRAME, np.float32)

    def speak(self, codes: Codes) -> Floats:
        """The next frame's codes, int64 [4], to float32 [1920].

        Raises:
            ValueError: a code that the codec does not have, or a sample that is no number.
        """
        if codes.min() < 0 or codes.max() >= CODES:
            raise ValueError(f"the codec has no code {codes.max()}; wanted 0 to {CODES - 1}")
        self._codes = [*self._codes, codes][-self._context :]
        fresh = self._codec.decode(np.stack(self._codes, axis=1))[-CODEC_FRAME:]
        if not np.isfinite(fresh).all():
            raise ValueError("the codec's decoder gave samples that are no numbers")
        window = np.concatenate([self._pcm, fresh])
        self._pcm = window[CODEC_FRAME:]
        out = resampled(window, CODEC_HZ, SAMPLE_RATE_HZ)
        return np.clip(out[len(out) - FRAME_SAMPLES - HELD_SAMPLES : -HELD_SAMPLES], -1.0, 1.0)


def resampled(pcm: Floats, from_hz: int, to_hz: int) -> Floats:
    """Whole frames at another rate; exactly as many."""
    import soxr

    out = np.asarray(soxr.resample(pcm, from_hz, to_hz, quality="HQ"), np.float32)
    wanted = len(pcm) * to_hz // from_hz
    return np.pad(out, (0, max(0, wanted - len(out))))[:wanted]
