"""How reference agents speak: a synthesiser with one voice, each line spoken once and then kept."""

from pathlib import Path

import numpy as np

from dsbif.audio.wav import read_wav, write_pcm16
from dsbif.build.render import render_turn
from dsbif.build.script import Line
from dsbif.build.voices import Engine
from dsbif.files import stable_hash
from dsbif.session.pcm import SAMPLE_RATE_HZ, Pcm

_HOP = SAMPLE_RATE_HZ // 100
_QUIET = 10 ** (-40 / 20)
"""Below this share of the loudest 10 ms, a stretch counts as a gap between words."""


class Mouth:
    """Speaks text as float32 mono at 24 kHz; lines are cached by engine, voice and text."""

    def __init__(self, engine: Engine, voice: str, cache_dir: Path) -> None:
        self._engine = engine
        self._voice = voice
        self._cache = cache_dir

    def say(self, text: str) -> Pcm:
        """The line, trimmed to what is audible."""
        key = stable_hash([self._engine.identity, self._voice, text])
        path = self._cache / key[:2] / f"{key[:24]}.wav"
        if not path.is_file():
            spoken = render_turn((Line("line", text=text),), self._engine, self._voice)
            write_pcm16(path, spoken.samples, SAMPLE_RATE_HZ)
        return read_wav(path)[0][:, 0]

    def monologue(self, text: str) -> Pcm:
        """The line without gaps longer than 80 ms, so that a detector hears one unbroken utterance."""
        return without_gaps(self.say(text), longest_s=0.08)


def without_gaps(pcm: Pcm, longest_s: float) -> Pcm:
    """Shorten every quiet stretch of ``pcm`` (float32 [n], 24 kHz) to at most ``longest_s`` seconds."""
    frames = len(pcm) // _HOP
    if not frames:
        return pcm
    level = np.sqrt(np.mean(np.square(pcm[: frames * _HOP].reshape(frames, _HOP)), axis=1))
    loud = level > _QUIET * level.max()
    keep = np.ones(frames, bool)
    run = 0
    for index, is_loud in enumerate(loud):
        run = 0 if is_loud else run + 1
        keep[index] = run * _HOP <= longest_s * SAMPLE_RATE_HZ
    return np.ascontiguousarray(pcm[: frames * _HOP][np.repeat(keep, _HOP)])
