"""F-Actor: a Llama over NanoCodec's codes that hears and speaks at once, told by a narrative who it is.

The published code lets two copies of the model talk to each other; the loop that hears a user is ours
(``factor_loop``): when frame ``n`` has been heard, step ``n + 2 - lookahead_frames`` is taken with the codes of frame
``n - lookahead_frames``. With the two frames that the model's codes are late anyway as the encoder's look ahead, step
``n`` is taken when frame ``n`` has been heard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsbif.agents.factor_loop import DELAY_STEPS, FrameModel, Loop, Sampling
from dsbif.agents.factor_sound import FRAME_SAMPLES, Codec, UserEar, Voice
from dsbif.agents.factor_words import Tokenizer, Words, narrative
from dsbif.errors import AgentError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Note

if TYPE_CHECKING:
    from dsbif.agents.factor_loop import Floats
    from dsbif.session.pcm import Pcm

_MOST_LOOKAHEAD = 8


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """The agent's own keys of ``conf/model/factor.yaml``, where each is explained."""

    checkpoint: str
    codec: str
    speakers: str | None
    speaker: str
    agent_name: str
    user_name: str
    backchannels: int
    interruptions: int
    starts_dialogue: bool
    temperature: float
    top_p: float
    top_k: int
    max_frames: int
    lookahead_frames: int
    context_frames: int
    dtype: str
    device: str

    def __post_init__(self) -> None:
        _within("backchannels", self.backchannels, 0, 40)
        _within("interruptions", self.interruptions, 0, 20)
        _within("temperature", self.temperature, 0, 10)
        _within("top_p", self.top_p, 0.01, 1)
        _within("top_k", self.top_k, 1, 100_000)
        _within("max_frames", self.max_frames, DELAY_STEPS + 1, 100_000)
        _within("lookahead_frames", self.lookahead_frames, 0, _MOST_LOOKAHEAD)
        _within("context_frames", self.context_frames, self.lookahead_frames + 4, 1000)
        if self.dtype not in ("float32", "bfloat16", "float16"):
            raise ValueError(f"dtype is '{self.dtype}'; wanted float32, bfloat16 or float16")


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; wanted {least:g} to {most:g}")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the agent is made of; given by tests, else loaded by ``factor_load``."""

    model: FrameModel
    codec: Codec
    tokenizer: Tokenizer
    versions: Mapping[str, str]


class Factor:
    """``rows`` conversations over one model, stepped one after another; none knows of the others."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, settings: FactorSettings, rows: int, parts: Parts | None = None) -> None:
        if parts is None:
            from dsbif.agents.factor_load import load_parts

            parts = load_parts(settings)
        self.rows = rows
        self.facts = AgentFacts("factor", "full", "native", parts.versions)
        self._settings, self._parts = settings, parts
        self._conversations: dict[int, _Conversation] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Read the narrative afresh: nothing heard, nothing said."""
        self._conversations[row] = _Conversation(self._settings, self._parts, prompt, seed)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear 80 ms of every active row, float32 [rows, 1920]."""
        return [self._one(row, pcm[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        """Forget the row's conversation and its cache."""
        self._conversations.pop(row, None)

    def close(self) -> None:
        """Forget everything."""
        self._conversations.clear()

    def _one(self, row: int, pcm: Floats) -> Sequence[Emission]:
        try:
            return self._conversations[row].hear(pcm)
        except Exception as error:
            failed = AgentError(f"F-Actor failed: {error or type(error).__name__}")
            failed.row = row  # type: ignore[attr-defined]
            raise failed from error


class _Conversation:
    """One case."""

    def __init__(self, settings: FactorSettings, parts: Parts, persona: str, seed: int) -> None:
        self._ear = UserEar(parts.codec, settings.context_frames, settings.lookahead_frames)
        self._voice = Voice(parts.codec, settings.context_frames)
        self._words = Words(parts.tokenizer)
        self._max_frames = settings.max_frames
        prompt = narrative(
            persona,
            (settings.agent_name, settings.user_name),
            (settings.backchannels, settings.interruptions),
            settings.starts_dialogue,
        )
        self._pending: list[Emission] = [Note("prompt", prompt)]
        sampling = Sampling(settings.temperature, settings.top_p, settings.top_k)
        self._loop = Loop(parts.model, parts.tokenizer.encode(prompt), sampling, seed)
        # Steps that need nothing of the user are taken before the first frame, as many as the look ahead leaves.
        self._early = max(0, settings.lookahead_frames - DELAY_STEPS)
        for _ in range(DELAY_STEPS - settings.lookahead_frames):
            self._text(self._loop.step(None).text)

    def hear(self, pcm: Floats) -> list[Emission]:
        """One frame of the user, and what the agent then says."""
        codes = self._ear.hear(pcm)
        emissions, self._pending = self._pending, []
        if self._early:
            self._early -= 1
            return emissions
        if self._loop.steps >= self._max_frames:
            return emissions
        step = self._loop.step(codes)
        if step.codes is not None:
            emissions.append(AgentAudio(self._voice.speak(step.codes)))
        self._text(step.text)
        if self._loop.steps == self._max_frames:
            self._pending.append(Note("max_frames", f"fell silent after {self._max_frames} frames"))
        emissions += self._pending
        self._pending = []
        return emissions

    def _text(self, token: int) -> None:
        if word := self._words.push(token):
            self._pending.append(AgentText(word))
