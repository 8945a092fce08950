"""The reference agent's hearing: local speech recognition, from files on this machine only."""

from pathlib import Path

from dsbif.audio.asr_whisper import Whisper
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm


class Ears:
    """Turns speech into text; the same sound always gives the same words."""

    def __init__(self, model_dir: Path) -> None:
        self._whisper = Whisper(model_dir)

    def transcribe(self, pcm: Pcm) -> str:
        """The words of a stretch of speech, float32 [n] at 24 kHz; an empty string where none were heard."""
        return self._whisper.transcribe(pcm, SAMPLE_RATE_HZ)
