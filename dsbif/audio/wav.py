"""WAV files: read with any rate and width, written as plain PCM16, whole or not at all."""

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dsbif.errors import CaseError
from dsbif.files import whole_file

Samples = NDArray[np.float32]
WAV_HEADER_BYTES = 44
"""What ``write_pcm16`` puts before the samples."""
_FULL_SCALE = 32_768


def read_wav(path: Path) -> tuple[Samples, int]:
    """Read an audio file: float32 [samples, channels] and its rate in Hz.

    Raises:
        CaseError: missing, or nothing that can be read as audio. A file of no samples gives an array of none.
    """
    import soundfile

    if not path.is_file():
        raise CaseError(f"the audio file {path} does not exist; record or build it again.")
    try:
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, OSError) as error:
        raise CaseError(f"the audio file {path} cannot be read ({error}); remove it to have it made again.") from error
    return samples, int(rate_hz)


def duration_s(path: Path) -> float:
    """Length of an audio file in seconds by its header; 0 where there is none or it cannot be read."""
    import soundfile

    try:
        return float(soundfile.info(path).duration)
    except (soundfile.SoundFileError, RuntimeError, OSError):
        return 0.0


def to_pcm16(samples: Samples) -> NDArray[np.int16]:
    """Round to 16 bits, clipping at full scale.

    Raises:
        ValueError: a sample is NaN or infinite.
    """
    if not np.isfinite(samples).all():
        raise ValueError("audio to be written holds NaN or infinite samples")
    scaled = np.rint(np.asarray(samples, np.float64) * _FULL_SCALE)
    return np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1).astype(np.int16)


def quantised(samples: Samples) -> Samples:
    """The samples as they come back from a PCM16 file."""
    return to_pcm16(samples).astype(np.float32) / np.float32(_FULL_SCALE)


def write_pcm16(path: Path, samples: Samples, rate_hz: int) -> None:
    """Write float32 [n] or [n, channels] as PCM16; the same samples always give the same bytes."""
    pcm = to_pcm16(samples)
    with whole_file(path) as temporary, wave.open(str(temporary), "wb") as out:
        out.setnchannels(1 if pcm.ndim == 1 else pcm.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate_hz)
        out.writeframes(np.ascontiguousarray(pcm, "<i2").tobytes())
