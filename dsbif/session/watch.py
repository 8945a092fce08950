"""Finds the agent's speech onset while the session runs, for barge-ins: Silero, streamed, with the scorer's settings.

It decides only when the user barges in. Scoring listens to the finished recording again and uses its own spans.
"""

from collections.abc import Mapping

from dsbif.audio.silero import SpeechStart, StreamingVad, VadSettings
from dsbif.session.pcm import Pcm


class SileroWatch:
    """The first agent onset at or after ``counts_from``; an agent already speaking then has its onset there."""

    name = "silero-streaming"

    def __init__(self, counts_from: int, settings: VadSettings | None = None) -> None:
        settings = settings or VadSettings()
        self.settings: Mapping[str, float] = {
            "threshold": settings.threshold,
            "min_speech_ms": settings.min_speech_ms,
            "min_silence_ms": settings.min_silence_ms,
        }
        self._counts_from = counts_from
        self._vad = StreamingVad(settings)
        self._heard = 0
        self._speaking_since: int | None = None

    def push(self, pcm: Pcm) -> tuple[int, int] | None:
        """Hear the next samples of the agent's channel, float32 [n] at 24 kHz; (onset, noticed) once, or None."""
        self._heard += len(pcm)
        for event in self._vad.push(pcm):
            self._speaking_since = event.at_samples if isinstance(event, SpeechStart) else None
        if self._speaking_since is None or self._heard < self._counts_from:
            return None
        return max(self._speaking_since, self._counts_from), self._heard
