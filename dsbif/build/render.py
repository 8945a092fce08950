"""From the lines of a turn to its waveform and the times of its segments.

* Each speech segment is synthesised alone and cut to what is audible: an engine puts up to half a second of silence
  around its speech, and a boundary that scoring relies on must lie where the sound does. Speech reaches from the first
  to the last 5 ms within 25 dB of the segment's loudest (alone and on average over 25 ms), and on for what fades within
  40 dB of it, at most 150 ms: some voices breathe or hiss half a second on at -30 dB and crackle meanwhile, which no
  listener takes for speech. 10 ms more are kept.
* A designed pause is ``floor(d * 24000)`` samples of exact zero.
* Two speech segments that follow each other are joined with 60 ms of zeros, a beat that belongs to neither.
* Nothing is normalised in loudness. What is returned has gone through 16 bits, so it equals its file.

Source: DSB-IFEval, the user audio; trimming and the joint are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from dsbif.audio.wav import Samples, quantised
from dsbif.bench.case import TimedSegment
from dsbif.build.script import Line
from dsbif.build.voices import RATE_HZ, Engine
from dsbif.errors import CaseError
from dsbif.spans import Span

RENDER_VERSION = 3
"""Goes into every cache key; raise it with any change here that changes a sample."""
JOINT_SAMPLES = RATE_HZ * 60 // 1000
_HOP = RATE_HZ * 5 // 1000
_MARGIN = RATE_HZ * 10 // 1000
_LOUD = 10 ** (-25 / 20)
_AUDIBLE = 10 ** (-40 / 20)
_FADE_HOPS = 150 // 5
_SMOOTH_HOPS = 25 // 5


@dataclass(frozen=True, slots=True)
class RenderedTurn:
    """A turn: float32 [n] at 24 kHz, and its segments in turn time."""

    samples: Samples
    segments: tuple[TimedSegment, ...]


def render_turn(lines: Sequence[Line], engine: Engine, voice: str) -> RenderedTurn:
    """Speak the lines of one turn.

    Raises:
        CaseError: the engine said nothing for a line.
    """
    pieces: list[Samples] = []
    segments: list[TimedSegment] = []
    at = 0
    for line in lines:
        if line.text and segments and segments[-1].kind == "speech":
            pieces.append(np.zeros(JOINT_SAMPLES, np.float32))
            at += JOINT_SAMPLES
        piece = _spoken(line, engine, voice) if line.text else np.zeros(pause_samples(line.pause_s), np.float32)
        kind = "speech" if line.text else "silence"
        segments.append(TimedSegment(line.name, kind, line.text, Span(at / RATE_HZ, (at + len(piece)) / RATE_HZ)))
        pieces.append(piece)
        at += len(piece)
    return RenderedTurn(quantised(np.concatenate(pieces)), tuple(segments))


def pause_samples(duration_s: float) -> int:
    """``floor(d * 24000)``, free of the last bit of floating point.

    >>> pause_samples(1.2)
    28800
    """
    return int(duration_s * RATE_HZ + 1e-6)


def _spoken(line: Line, engine: Engine, voice: str) -> Samples:
    audible = trim(engine.speak(line.text, voice))
    if not len(audible):
        raise CaseError(f"voice {voice} says nothing audible for {line.text!r}; write the line otherwise.")
    return audible


def trim(samples: Samples) -> Samples:
    """Cut float32 [n] to its audible part, with 10 ms on both sides and a 5 ms fade at each cut."""
    frames = len(samples) // _HOP
    if not frames:
        return samples[:0]
    level = np.sqrt(np.mean(np.square(samples[: frames * _HOP].reshape(frames, _HOP)), axis=1))
    if not level.max() > 0:
        return samples[:0]
    audible = level > _AUDIBLE * level.max()
    loud = np.flatnonzero(np.minimum(level, _smoothed(level)) > _LOUD * level.max())
    first = int(loud[0]) - _fade(audible[: loud[0]][::-1])
    last = int(loud[-1]) + _fade(audible[loud[-1] + 1 :])
    start = max(0, first * _HOP - _MARGIN)
    stop = min(len(samples), (last + 1) * _HOP + _MARGIN)
    out = samples[start:stop].copy()
    ramp = np.linspace(0, 1, min(_HOP, len(out)), dtype=np.float32)
    out[: len(ramp)] *= ramp
    out[-len(ramp) :] *= ramp[::-1]
    return out


def _smoothed(level: Samples) -> Samples:
    """RMS over 25 ms: single crackles in a voice's hiss are no speech."""
    power = np.pad(np.square(level), _SMOOTH_HOPS // 2, mode="edge")
    mean: Samples = sliding_window_view(power, _SMOOTH_HOPS).mean(axis=1, dtype=np.float32)
    return np.sqrt(mean)


def _fade(audible: NDArray[np.bool_]) -> int:
    """How many 5 ms stretches, counted from loud speech outwards, still belong to it."""
    near = np.flatnonzero(audible[:_FADE_HOPS])
    return int(near[-1]) + 1 if len(near) else 0
