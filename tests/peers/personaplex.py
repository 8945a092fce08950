"""Stand-ins for the parts of PersonaPlex, with the interface of NVIDIA's fork.

A codec of loudness, and a model whose every token depends on all that it has read since it was reset.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

from dsbif.agents.personaplex import Parts, Personaplex, PersonaplexSettings

Tensor = Any
SETTINGS: dict[str, Any] = {
    "weights": "stand-in", "voice": "NATF0.pt", "voices": None, "temperature": 0.8, "temperature_text": 0.7,
    "top_k": 250, "top_k_text": 25, "dtype": "float32", "device": "cpu",
}  # fmt: skip
SILENCE, SINE = range(100, 108), range(200, 208)
VOICE_FRAMES = 3
WORDS = ("<unk>", "<s>", "</s>", "<pad>", "▁yes", "▁no", "▁four", "teen")


@dataclass
class _State:
    cache: Tensor


class Mimi:
    """A frame's loudness, eight times over; a frame after another differs by how many came since the reset."""

    sample_rate, frame_rate = 24_000, 12.5

    def __init__(self) -> None:
        self.frames = 0

    @contextmanager
    def streaming(self, rows: int) -> Iterator[None]:
        yield

    def reset_streaming(self) -> None:
        self.frames = 0

    def encode(self, sound: Tensor) -> Tensor:
        assert sound.shape[1:] == (1, 1920)
        self.frames += 1
        loudness = (sound.square().mean(-1).sqrt() * 400).round().long() + self.frames % 2
        return loudness.clamp(0, 63).expand(-1, 8)[..., None]

    def decode(self, codes: Tensor) -> Tensor:
        assert codes.shape[1:] == (8, 1)
        wave = torch.sin(torch.arange(1920) / 12)
        return (0.1 + 0.5 * codes[:, :1, :].float() / 256) * wave


class Lm:
    dep_q, card, text_card = 16, 256, len(WORDS)


class LMGen:
    """``read`` keeps what every step was given: text, the agent's codes, the user's codes; None where it was not."""

    zero_text_code = 3

    def __init__(self, lm: Lm, **settings: Any) -> None:
        self.settings = settings
        self.voice_prompt_audio: Any = None
        self.voice_prompt_embeddings: Any = None
        self.voice_prompt_cache: Any = None
        self.read: list[tuple[Any, Any, Any]] = []
        generator = torch.Generator().manual_seed(0)
        self._heads = 2 * torch.randn(17, 256, 8, generator=generator)

    @contextmanager
    def streaming(self, rows: int) -> Iterator[None]:
        self._streaming_state = _State(torch.zeros(rows, 17, 4, dtype=torch.long))
        self._past = torch.zeros(rows, 8)
        yield

    def reset_streaming(self) -> None:
        self._past = torch.zeros_like(self._past)
        self.read.clear()

    def step_embeddings(self, embedding: Tensor) -> None:
        self.read.append(("voice", tuple(embedding.shape), None))
        self._past = torch.tanh(self._past + embedding.mean())

    def step(self, input_tokens: Tensor = None, moshi_tokens: Tensor = None, text_token: Tensor = None) -> Tensor:
        given = [None if tokens is None else tokens.squeeze(-1).tolist() for tokens in (moshi_tokens, input_tokens)]
        self.read.append((None if text_token is None else text_token.tolist(), *given))
        mixed = sum(
            torch.sin(tokens.float().mean(1)) * weight
            for tokens, weight in ((moshi_tokens, 0.1), (input_tokens, 0.2))
            if tokens is not None
        )
        text = 0 if text_token is None else torch.sin(text_token[:, None].float()) * 0.3
        self._past = torch.tanh(self._past * 0.97 + mixed / 4 + text)
        logits = torch.einsum("hcw,bw->bhc", self._heads, self._past)[:, :, None, None]
        kinds = [(self.settings["temp_text"], self.settings["top_k_text"], Lm.text_card)]
        kinds += [(self.settings["temp"], self.settings["top_k"], Lm.card)] * 16
        drawn = [
            package.sample_token(logits[:, at, :, :, :card], True, temperature, top_k)
            for at, (temperature, top_k, card) in enumerate(kinds)
        ]
        return torch.cat(drawn, 1)


package: Any = ModuleType("stand_in.lm")
package.LMGen, package.SILENCE_TOKENS, package.SINE_TOKENS = LMGen, np.array(SILENCE), np.array(SINE)
package.sample_token = lambda *arguments: 1 / 0  # each row must draw from its own case's seed


def encode(text: str) -> list[int]:
    """A token a word."""
    return [4 + len(word) % 4 for word in text.split()]


def give_voice(lm_gen: LMGen) -> None:
    lm_gen.voice_prompt_audio = np.full((1, VOICE_FRAMES * 1920 - 100), 0.1, np.float32)


def make(rows: int, **changes: Any) -> Personaplex:
    parts = Parts(package, Mimi(), Lm(), give_voice, encode, lambda token: WORDS[token], "cpu", {})
    return Personaplex(PersonaplexSettings(**{**SETTINGS, **changes}), rows, parts)


class StandIn(Personaplex):
    """As an agent of one's own, for runs."""

    def __init__(self, rows: int) -> None:
        parts = Parts(package, Mimi(), Lm(), give_voice, encode, lambda token: WORDS[token], "cpu", {})
        super().__init__(PersonaplexSettings(**SETTINGS), rows, parts)


def texts(lm_gen: LMGen, row: int = 0) -> Sequence[Any]:
    """What a row read as text; None where it spoke freely."""
    return [None if text is None else text[row] for text, _, _ in lm_gen.read]
