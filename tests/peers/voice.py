"""Who speaks behind a loopback peer: the same brain as a reference agent, heard over another wire.

A voice is input-clocked: it hears 24 kHz float32 in multiples of 20 ms and says what it emits on hearing them, so that
how fast a peer's machine is does not show in what it says.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import yaml
from conftest import ASSETS, ESPEAK

from dsbif.agents.brain import make_brain
from dsbif.agents.cascade import Cascade, CascadeSettings
from dsbif.agents.ears import Ears
from dsbif.agents.mouth import Mouth
from dsbif.audio.wav import quantised
from dsbif.build.assets import locate
from dsbif.build.voices import make_engine
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, Emission, TurnDone
from dsbif.session.pcm import FRAME_SAMPLES, Pcm


class Voice(Protocol):
    """One conversation."""

    def hear(self, pcm: Pcm) -> list[Emission]:
        """Hear 20 ms, or several of them, and say what is emitted on hearing them."""


MakeVoice = Callable[[str], Voice]
"""Prompt → a fresh conversation."""


class ToneVoice:
    """Answers every stretch of sound, once 0.2 s of silence follow it, with a tone of ``seconds``; pure and instant.

    The tone's pitch tells how many answers came before it, so that a reused conversation would show.
    """

    def __init__(self, prompt: str = "", seconds: float = 0.4) -> None:
        self.prompt = prompt
        self._seconds = seconds
        self._quiet = 0
        self._pending = False
        self._answers = 0

    def hear(self, pcm: Pcm) -> list[Emission]:
        """See the class."""
        emissions: list[Emission] = []
        for start in range(0, len(pcm), FRAME_SAMPLES):
            emissions += self._frame(pcm[start : start + FRAME_SAMPLES])
        return emissions

    def _frame(self, frame: Pcm) -> list[Emission]:
        if np.abs(frame).max(initial=0.0) > 0.01:
            self._pending, self._quiet = True, 0
            return []
        self._quiet += len(frame)
        if not self._pending or self._quiet < 4800:
            return []
        self._pending = False
        self._answers += 1
        time_s = np.arange(round(self._seconds * 24_000)) / 24_000
        tone = 0.4 * np.sin(2 * np.pi * 220 * self._answers * time_s)
        return [AgentText(f"Answer {self._answers}."), AgentAudio(tone.astype(np.float32)), TurnDone()]


class CascadeVoice:
    """The reference cascade. What it recognises is remembered, within the test process."""

    def __init__(self, prompt: str, lines: Path) -> None:
        settings = cascade_settings()
        self._agent = Cascade(1, settings, ears_of(settings.asr), make_brain(settings.llm), _mouth(lines))
        self._agent.start(0, prompt, 0)

    def hear(self, pcm: Pcm) -> list[Emission]:
        """See ``Voice``."""
        frames = (pcm[start : start + FRAME_SAMPLES] for start in range(0, len(pcm), FRAME_SAMPLES))
        return [emission for frame in frames for emission in self._agent.step(frame[None, :], [True])[0]]


def cascade_settings() -> CascadeSettings:
    """``conf/model/cascade.yaml``."""
    config = yaml.safe_load((CONF_DIR / "model" / "cascade.yaml").read_text())
    return CascadeSettings(**{key: config[key] for key in CascadeSettings.model_fields})


class RememberingEars(Ears):
    """Recognises the same samples once, which takes a core half a second."""

    def __init__(self, model_dir: Path) -> None:
        super().__init__(model_dir)
        self._known: dict[bytes, str] = {}

    def transcribe(self, pcm: Pcm) -> str:
        """As ``Ears``, of samples taken to 16 bits as every wire does."""
        heard = quantised(pcm)
        key = heard.tobytes()
        if key not in self._known:
            self._known[key] = super().transcribe(heard)
        return self._known[key]


@cache
def ears_of(asr: str) -> RememberingEars:
    """Those of the test process."""
    return RememberingEars(locate(asr, ASSETS))


@cache
def _mouth(lines: Path) -> Mouth:
    return Mouth(make_engine(ESPEAK, ASSETS), "en-us+f4", lines)
