"""Stand-ins for F-Actor's parts: a recurrent model of random weights, a codec of tones, a vocabulary of words."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dsbif.agents.factor import Factor, FactorSettings, Parts
from dsbif.agents.factor_loop import CODEBOOKS, CODES, HEADS, Logits
from dsbif.agents.factor_sound import CODEC_FRAME

Codes = NDArray[np.int64]
Floats = NDArray[np.float32]
VOCABULARY = ("<s>", "</s>", "[SILENCE_PAD]", "[WORD_PAD]", " yes", " no", " four", "teen", " alder")
WIDTH = 24
END_CODE = CODES + 1

SETTINGS: dict[str, Any] = {
    "checkpoint": "tiny", "codec": "tiny", "speakers": None, "speaker": "brian", "agent_name": "Gweneth",
    "user_name": "Tom", "backchannels": 2, "interruptions": 1, "starts_dialogue": False, "temperature": 1.0,
    "top_p": 0.9, "top_k": 40, "max_frames": 1024, "lookahead_frames": 2, "context_frames": 8, "dtype": "float32",
    "device": "cpu",
}  # fmt: skip


class TinyModel:
    """What it says next depends on all that it has read; ``read`` keeps every step for the test to look at.

    Args:
        push_end: make the end codes and the end token by far the likeliest.
    """

    def __init__(self, push_end: bool = False) -> None:
        rng = np.random.default_rng(0)
        self._tables = rng.standard_normal((HEADS, CODES + 2, WIDTH)).astype(np.float32)
        self._words = rng.standard_normal((len(VOCABULARY), WIDTH)).astype(np.float32)
        self._mix = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
        self._heads = rng.standard_normal((HEADS, CODES + 2, WIDTH)).astype(np.float32)
        self._text = rng.standard_normal((len(VOCABULARY), WIDTH)).astype(np.float32)
        self._push_end = push_end
        self.prompts: list[list[int]] = []
        self.read: list[tuple[list[int], int]] = []

    def prefill(self, prompt: Sequence[int]) -> tuple[Logits, Floats]:
        self.prompts.append(list(prompt))
        state = np.zeros(WIDTH, np.float32)
        for token in prompt:
            state = np.tanh(self._mix @ state + self._words[token % len(VOCABULARY)])
        return self._logits(state), state

    def step(self, audio: Codes, text: int, past: Any) -> tuple[Logits, Floats]:
        self.read.append((audio.tolist(), text))
        embedded = self._tables[np.arange(HEADS), audio].sum(axis=0) + self._words[text]
        state = np.tanh(self._mix @ past + embedded / 3)
        return self._logits(state), state

    def _logits(self, state: Floats) -> Logits:
        audio, text = self._heads @ state, self._text @ state
        if self._push_end:
            audio[:, CODES:] += 100.0
            text[:2] += 100.0
        return Logits(audio.astype(np.float32), text.astype(np.float32))


class ToneCodec:
    """A frame's loudness, four times over; back it is a tone whose loudness is the first code."""

    def __init__(self) -> None:
        self.decoded: list[Codes] = []

    def encode(self, pcm: Floats) -> Codes:
        frames = pcm.reshape(-1, CODEC_FRAME)
        loudness = np.round(np.sqrt((frames.astype(np.float64) ** 2).mean(axis=1)) * 4000).astype(np.int64)
        return np.repeat(np.clip(loudness, 0, CODES - 1)[None], CODEBOOKS, axis=0)

    def decode(self, codes: Codes) -> Floats:
        self.decoded.append(codes[:, -1])
        tone = np.sin(2 * np.pi * 441 * np.arange(CODEC_FRAME) / 22_050)
        return np.concatenate([tone * (0.1 + 0.3 * column[0] / CODES) for column in codes.T]).astype(np.float32)


class WordTokenizer:
    floor = frozenset(range(4))

    def encode(self, prompt: str) -> list[int]:
        return [0, *(ord(letter) for letter in prompt)]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(VOCABULARY[token] for token in tokens)

    def begins_word(self, token: int) -> bool:
        return VOCABULARY[token].startswith(" ")


def settings(**changes: Any) -> FactorSettings:
    return FactorSettings(**{**SETTINGS, **changes})


def parts(push_end: bool = False) -> Parts:
    return Parts(TinyModel(push_end), ToneCodec(), WordTokenizer(), {"checkpoint": "tiny"})


class StandIn(Factor):
    """As an agent of one's own, for runs."""

    def __init__(self, rows: int) -> None:
        super().__init__(settings(), rows, parts())
