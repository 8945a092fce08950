"""Silero VAD: offline over a whole channel, and streamed for agents and barge-ins.

Conventions
-----------
* One ONNX session a process, loaded and run behind a lock: the session holds no state (each caller brings its own),
  but two threads inside it at once can abort the interpreter. A forked child gets a lock and a session of its own.
* Times are asked from the library in samples, never in seconds, which it rounds to a tenth.
* Boundaries lie on the model's grid of 512 samples at 16 kHz (32 ms), moved by the pad.
* Both paths run the library's *sequence* model, which gives the streaming model's probabilities bit for bit.

Source: DSB-IFEval for 90 ms and 90 ms; everything else is the library's default.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dsbif.audio.resample import StreamResampler, resample
from dsbif.audio.wav import Samples
from dsbif.errors import ConfigError
from dsbif.spans import Span

VAD_HZ = 16_000
SESSION_HZ = 24_000
WINDOW_SAMPLES = 512
_CONTEXT_SAMPLES = 64
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class VadSettings:
    """What counts as speech. Probabilities are 0 to 1; the rest is in milliseconds."""

    threshold: float = 0.5
    min_speech_ms: int = 90
    min_silence_ms: int = 90
    speech_pad_ms: int = 30

    @property
    def neg_threshold(self) -> float:
        """Speech goes on until the probability falls below this: the library's rule."""
        return max(self.threshold - 0.15, 0.01)


@dataclass(frozen=True, slots=True)
class SpeechStart:
    """Speech began at ``at_samples`` of the 24 kHz input, and was certain at ``noticed_samples``."""

    at_samples: int
    noticed_samples: int


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """Speech ended at ``at_samples`` of the 24 kHz input, and that was certain at ``noticed_samples``."""

    at_samples: int
    noticed_samples: int


SpeechEvent = SpeechStart | SpeechEnd


def _new_lock() -> None:
    """Another thread of the parent may have held the lock when the process was forked."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


@cache
def _model_of_process(pid: int) -> Any:
    try:
        from silero_vad import load_silero_vad
    except ImportError as error:
        raise ConfigError(f'voice activity detection needs packages: pip install "dsbif[speech]" ({error})') from error
    return load_silero_vad(sequence=True)


@contextmanager
def _model() -> Iterator[Any]:
    """The process's instance, for one caller at a time."""
    with _lock:
        yield _model_of_process(os.getpid())


def speech_spans_samples(mono_16k: Samples, settings: VadSettings | None = None) -> list[tuple[int, int]]:
    """Where there is speech in float32 [n] at 16 kHz: (first sample, one past the last), unmerged, inside the audio.

    Raises:
        ConfigError: the packages are not installed.
    """
    settings = settings or VadSettings()
    with _model() as model:
        from silero_vad import get_speech_timestamps_sequence

        found = get_speech_timestamps_sequence(
            mono_16k,
            model,
            threshold=settings.threshold,
            sampling_rate=VAD_HZ,
            min_speech_duration_ms=settings.min_speech_ms,
            min_silence_duration_ms=settings.min_silence_ms,
            speech_pad_ms=settings.speech_pad_ms,
        )
    return [(int(item["start"]), min(int(item["end"]), len(mono_16k))) for item in found]


def speech_spans(mono: Samples, rate_hz: int, settings: VadSettings | None = None) -> tuple[Span, ...]:
    """Where there is speech in float32 [n]; unmerged spans in seconds, inside the audio.

    Raises:
        ConfigError: the packages are not installed.
    """
    end_s = len(mono) / rate_hz
    return tuple(
        Span(min(start / VAD_HZ, end_s), min(end / VAD_HZ, end_s))
        for start, end in speech_spans_samples(resample(mono, rate_hz, VAD_HZ), settings)
    )


class StreamingVad:
    """The same detector over a stream at 24 kHz: many may run interleaved, each with a state of its own.

    An end is certain after ``min_silence_ms``; a start is reported once ``min_speech_ms`` of speech have been heard.
    Starts and ends carry the library's padding, as offline.
    """

    def __init__(self, settings: VadSettings | None = None) -> None:
        self._settings = settings or VadSettings()
        self.reset()

    def reset(self) -> None:
        """Forget everything heard; the next sample is number 0."""
        self._resampler = StreamResampler(SESSION_HZ, VAD_HZ)
        self._pending: Samples = np.zeros(0, np.float32)
        self._context: Samples = np.zeros(_CONTEXT_SAMPLES, np.float32)
        self._hidden = np.zeros((1, 1, 128), np.float32)
        self._cell = np.zeros((1, 1, 128), np.float32)
        self._heard_24k = 0
        self._windows = 0
        self._start: int | None = None
        self._reported = False
        self._quiet_since: int | None = None

    def push(self, pcm: Samples) -> list[SpeechEvent]:
        """Hear the next samples, float32 [n] at 24 kHz; returns what became certain."""
        self._heard_24k += len(pcm)
        self._pending = np.concatenate([self._pending, self._resampler.push(pcm)])
        events: list[SpeechEvent] = []
        while len(self._pending) >= WINDOW_SAMPLES:
            window, self._pending = self._pending[:WINDOW_SAMPLES], self._pending[WINDOW_SAMPLES:]
            events += self._decide(self._probability(window), self._windows * WINDOW_SAMPLES)
            self._windows += 1
        return events

    def _probability(self, window: Samples) -> float:
        block = np.concatenate([self._context, window])[np.newaxis]
        self._context = window[-_CONTEXT_SAMPLES:]
        with _model() as model:
            probability, self._hidden, self._cell = model.session.run(
                ["speech_probs", "hn", "cn"], {"input": block, "h": self._hidden, "c": self._cell}
            )
        return float(probability.reshape(-1)[0])

    def _decide(self, probability: float, at: int) -> list[SpeechEvent]:
        """The library's hysteresis, one window at a time; ``at`` is the window's first sample at 16 kHz."""
        events: list[SpeechEvent] = []
        if probability >= self._settings.threshold:
            self._quiet_since = None
            if self._start is None:
                self._start = at
        elif probability < self._settings.neg_threshold and self._start is not None:
            if self._quiet_since is None:
                self._quiet_since = at
            if at - self._quiet_since >= self._samples(self._settings.min_silence_ms):
                events += self._end(self._start, self._quiet_since)
        events += self._report_start(at)
        return events

    def _report_start(self, at: int) -> list[SpeechEvent]:
        speaking_until = at + WINDOW_SAMPLES if self._quiet_since is None else self._quiet_since
        if self._start is None or self._reported or speaking_until - self._start <= self._min_speech:
            return []
        self._reported = True
        return [SpeechStart(self._to_24k(self._start - self._pad), self._heard_24k)]

    def _end(self, start: int, quiet_since: int) -> list[SpeechEvent]:
        was_speech = self._reported
        self._start, self._quiet_since, self._reported = None, None, False
        return [SpeechEnd(self._to_24k(quiet_since + self._pad), self._heard_24k)] if was_speech else []

    @property
    def _min_speech(self) -> int:
        return self._samples(self._settings.min_speech_ms)

    @property
    def _pad(self) -> int:
        return self._samples(self._settings.speech_pad_ms)

    @staticmethod
    def _samples(duration_ms: int) -> int:
        return VAD_HZ * duration_ms // 1000

    def _to_24k(self, at_16k: int) -> int:
        return min(max(0, at_16k * SESSION_HZ // VAD_HZ), self._heard_24k)
