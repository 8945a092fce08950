"""A real, if simple, voice agent for a CPU: end-pointing, recognition, a responder, synthesis.

It takes a user's turn to be over after ``silence_ms`` of silence, as a server VAD does, answers ``reply_latency_s``
later, and stops when the user talks over it. Session time is the number of samples heard: what the computer needs to
think is not counted, a fixed latency stands for it, so that a run repeats to the sample.

Without an LLM it is persona-blind: it repeats what it heard, whoever the prompt says it is.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dsbif.agents.brain import Brain, LlmSettings, Message
from dsbif.agents.ears import Ears
from dsbif.agents.mouth import Mouth
from dsbif.agents.playback import Playback, Utterance
from dsbif.audio.silero import SpeechStart, StreamingVad, VadSettings
from dsbif.session.agent import AgentFacts, Emission, Interrupted
from dsbif.session.clock import to_samples
from dsbif.session.pcm import FRAME_SAMPLES, SAMPLE_RATE_HZ, Pcm


class TurnDetection(BaseModel):
    """When a user's turn begins and ends; the names and figures are those of a server VAD."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    threshold: Annotated[float, Field(gt=0, lt=1)]
    silence_ms: Annotated[int, Field(ge=32, le=10_000)]
    prefix_ms: Annotated[int, Field(ge=0, le=5_000)]


class CascadeSettings(BaseModel):
    """The agent's own keys of ``conf/model/cascade.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    speaker: dict[str, str]
    turn_detection: TurnDetection
    reply_latency_s: Annotated[float, Field(ge=0, le=60)]
    asr: str
    llm: LlmSettings


class Cascade:
    """Runs ``rows`` independent conversations over one recogniser, one responder and one voice."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, rows: int, settings: CascadeSettings, ears: Ears, brain: Brain, mouth: Mouth) -> None:
        self.rows = rows
        self.facts = AgentFacts(
            name="cascade",
            conditioning="full" if brain.conditioned else "none",
            transcript="native",
            versions=_versions("silero-vad", "faster-whisper", "kokoro-onnx"),
        )
        self._parts = (settings, ears.transcribe, brain, mouth)
        self._conversations: dict[int, _Conversation] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        """A new conversation: nothing heard, nothing said."""
        self._conversations[row] = _Conversation(prompt, *self._parts)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear 20 ms of every active row."""
        return [self._conversations[row].hear(pcm[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        """Forget the row's conversation."""
        self._conversations.pop(row, None)

    def close(self) -> None:
        """Forget everything."""
        self._conversations.clear()


class _Conversation:
    """One row."""

    def __init__(
        self, prompt: str, settings: CascadeSettings, transcribe: Callable[[Pcm], str], brain: Brain, mouth: Mouth
    ) -> None:
        turns = settings.turn_detection
        self._vad = StreamingVad(VadSettings(threshold=turns.threshold, min_silence_ms=turns.silence_ms))
        self._prefix = turns.prefix_ms * SAMPLE_RATE_HZ // 1000
        self._latency = to_samples(settings.reply_latency_s)
        self._transcribe, self._brain, self._mouth = transcribe, brain, mouth
        self._dialogue = [Message("system", prompt)] if prompt else []
        self._playback = Playback()
        self._frames: list[Pcm] = []
        self._heard = 0
        self._turn_start = 0

    def hear(self, frame: Pcm) -> list[Emission]:
        self._frames.append(frame.copy())
        self._heard += len(frame)
        emissions: list[Emission] = []
        for event in self._vad.push(frame):
            if isinstance(event, SpeechStart):
                self._turn_start = max(0, event.at_samples - self._prefix)
                if self._playback.busy:
                    self._playback.stop()
                    emissions.append(Interrupted("user_speech"))
            else:
                self._answer(event.at_samples)
        return emissions + self._playback.pull(self._heard, len(frame))

    def _answer(self, turn_end: int) -> None:
        turn = np.concatenate(self._frames)[self._turn_start : turn_end]
        self._dialogue.append(Message("user", self._transcribe(turn)))
        answer = self._brain.answer(self._dialogue)
        if answer:
            self._dialogue.append(Message("assistant", answer))
            self._playback.schedule(
                self._heard + self._latency, Utterance.word_by_word(answer, self._mouth.say(answer))
            )


def _versions(*packages: str) -> Mapping[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
