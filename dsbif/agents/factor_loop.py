"""F-Actor's frame loop: one step of 80 ms at a time, the user's codes forced, the agent's and its text sampled.

A step has eight audio codes and one text token. Heads 0 to 3 are the agent's codebooks, 4 to 7 the user's. Codes stand
two steps after the audio they are of, text does not; the first two steps hold a *delay* code in every head. The model
predicts the user's heads as well, and what it predicts there is overwritten by what the user said.

The codes beyond the codec's own (delay and end) are never sampled, so that no head can end the conversation. Sampling
is numpy's, from a generator of the case's own: neither neighbours nor the device's generator matter.

This module knows neither torch nor NeMo: a model is anything with ``prefill`` and ``step``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Floats = NDArray[np.float32]

DELAY_STEPS = 2
CODES = 4032
"""Of each of the codec's codebooks. Two more stand behind them in every head: first delay, then end."""
DELAY_CODE = CODES
CODEBOOKS = 4
HEADS = 2 * CODEBOOKS


@dataclass(frozen=True, slots=True)
class Logits:
    """What the model expects of the next step: float32 [heads, codes + 2] and float32 [text vocabulary]."""

    audio: Floats
    text: Floats


class FrameModel(Protocol):
    """A language model over steps; ``past`` is whatever it wants to be handed back."""

    def prefill(self, prompt: Sequence[int]) -> tuple[Logits, Any]:
        """Read the prompt's tokens."""

    def step(self, audio: Codes, text: int, past: Any) -> tuple[Logits, Any]:
        """Read one step: int64 [heads] and a text token."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; temperature 0 takes the likeliest."""

    temperature: float
    top_p: float
    top_k: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step gave: the agent's codes, int64 [4], None while they are delayed; and a text token."""

    codes: Codes | None
    text: int


class Loop:
    """One conversation."""

    def __init__(self, model: FrameModel, prompt: Sequence[int], sampling: Sampling, seed: int) -> None:
        self._model, self._sampling = model, sampling
        self._rng = np.random.default_rng(seed)
        self._next, self._past = model.prefill(prompt)
        self._last: tuple[Codes, int] | None = None
        self.steps = 0

    def step(self, user: Codes | None) -> Step:
        """Take one step.

        Args:
            user: the user's codes of two steps ago, int64 [4]; None, and only then, in the first two steps.
        """
        delayed = self.steps < DELAY_STEPS
        if delayed != (user is None):
            raise ValueError(f"step {self.steps}: the user's codes begin at step {DELAY_STEPS}")
        if self._last is not None:
            self._next, self._past = self._model.step(*self._last, self._past)
        audio = np.full(HEADS, DELAY_CODE, np.int64)
        if user is not None:
            audio[:CODEBOOKS] = [draw(head[:CODES], self._sampling, self._rng) for head in self._next.audio[:CODEBOOKS]]
            audio[CODEBOOKS:] = user
        text = draw(self._next.text, self._sampling, self._rng)
        self._last = (audio, text)
        self.steps += 1
        return Step(None if delayed else audio[:CODEBOOKS].copy(), text)


def draw(logits: Floats, sampling: Sampling, rng: np.random.Generator) -> int:
    """One token: the ``top_k`` likeliest, of these the fewest that hold ``top_p`` of all probability.

    >>> draw(np.log(np.array([0.1, 0.6, 0.3], np.float32)), Sampling(1.0, 0.5, 3), np.random.default_rng(0))
    1

    Raises:
        ValueError: a logit is no number.
    """
    scores = logits.astype(np.float64)
    if np.isnan(scores).any():
        raise ValueError("the model's logits are no numbers (NaN)")
    if sampling.temperature == 0:
        return int(scores.argmax())
    weights = np.exp((scores - scores.max()) / sampling.temperature)
    weights /= weights.sum()
    best = np.argsort(-weights, kind="stable")[: sampling.top_k]
    kept = weights[best]
    # The one that crosses the line is kept, so that there is always one.
    kept = kept[np.cumsum(kept) - kept < sampling.top_p]
    cumulated = np.cumsum(kept)
    return int(best[np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")])
