"""Whisper on this machine: the recogniser behind the reference agent's ears and behind ``transcript=whisper``."""

from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dsbif.audio.resample import resample
from dsbif.audio.wav import Samples
from dsbif.errors import ConfigError

WHISPER_HZ = 16_000


class Whisper:
    """Turns speech into text; one thread, greedy, so that the same sound always gives the same words."""

    def __init__(self, model_dir: Path) -> None:
        self._model = _load(model_dir)
        self.engine = f"{model_dir.name} faster-whisper {version('faster-whisper')}"
        """Model and package, as they are stored with a transcript."""

    def transcribe(self, mono: Samples, rate_hz: int) -> str:
        """The words of a stretch of speech, float32 [n]; an empty string where none were heard."""
        segments, _ = self._model.transcribe(
            resample(mono, rate_hz, WHISPER_HZ),
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(segment.text.strip() for segment in segments).strip()


@cache
def _load(model_dir: Path) -> Any:
    try:
        from faster_whisper import WhisperModel
    except ImportError as error:
        raise ConfigError(f'speech recognition needs a package: pip install "dsbif[cascade]" ({error})') from error
    return WhisperModel(str(model_dir), device="cpu", compute_type="int8", cpu_threads=1, local_files_only=True)
