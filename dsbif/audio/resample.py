"""Sampling-rate conversion by soxr at quality HQ (alias below -134 dB, where a windowed sinc lets 8.5 kHz through)."""

from typing import Any

import numpy as np

from dsbif.audio.wav import Samples


def resample(mono: Samples, from_hz: int, to_hz: int) -> Samples:
    """Convert float32 [n] to float32 [n * to_hz / from_hz]; the same array where the rates agree."""
    if from_hz == to_hz or not len(mono):
        return mono
    import soxr

    return np.asarray(soxr.resample(mono, from_hz, to_hz, quality="HQ"), np.float32)


class StreamResampler:
    """Converts a stream piece by piece. Samples stay aligned with the input; they come out up to about 40 ms late."""

    def __init__(self, from_hz: int, to_hz: int) -> None:
        import soxr

        self._stream: Any = soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32", quality="HQ")

    def push(self, mono: Samples) -> Samples:
        """Take the next input, float32 [n]; return what is ready, float32 [m]."""
        return np.asarray(self._stream.resample_chunk(mono), np.float32)
