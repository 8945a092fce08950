"""Local speech recognition: Whisper through faster-whisper, from files on this machine only."""

from functools import cache
from pathlib import Path
from typing import Any

from dsbif.audio.resample import resample
from dsbif.errors import ConfigError
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm

WHISPER_HZ = 16_000


class Ears:
    """Turns speech into text; one thread, greedy, so that the same sound always gives the same words."""

    def __init__(self, model_dir: Path) -> None:
        self._model = _load(model_dir)

    def transcribe(self, pcm: Pcm) -> str:
        """The words of a stretch of speech, float32 [n] at 24 kHz; an empty string where none were heard."""
        segments, _ = self._model.transcribe(
            resample(pcm, SAMPLE_RATE_HZ, WHISPER_HZ),
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
