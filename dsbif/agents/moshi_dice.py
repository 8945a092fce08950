"""Sampling in which a row draws from its own case's seed alone: neighbours, order and device do not matter.

Moshi's package, and what was forked from it, draws every row's tokens from one global generator, so that a row's words
depend on who sits beside it. Here the draw is the same race (the largest of probability over exponential noise, within
the top k), but each row's noise comes from its own generator, written into one buffer before a step, where a captured
CUDA graph finds it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dsbif.errors import ConfigError


class Dice:
    """Stands in for ``sample_token`` of the package's language model.

    Args:
        module: the package's ``models.lm``.
        rows: of the batch.
        draws: tokens a step: one of text, then those of audio.
        most: the largest top k.
        device: where the logits are.

    Raises:
        ConfigError: the package has no ``sample_token`` there: not a version this was written for.
    """

    def __init__(self, module: Any, rows: int, draws: int, most: int, device: Any) -> None:
        import torch

        if not hasattr(module, "sample_token"):
            raise ConfigError(
                f"the package of {module.__name__} samples in an unknown way; wanted moshi 0.2.13 or NVIDIA's fork."
            )
        self._torch, self._module = torch, module
        self._noise = torch.ones((rows, draws, most), device=device)
        self._next: Any = np.ones((rows, draws, most), np.float32)
        self._generators = [np.random.default_rng(0) for _ in range(rows)]
        self._draws, self._draw = draws, 0

    def seed(self, row: int, seed: int) -> None:
        """Begin a case's draws."""
        self._generators[row] = np.random.default_rng(seed)

    @contextmanager
    def thrown(self, rows: Sequence[bool]) -> Iterator[None]:
        """Within, the package samples with the next noise of the given rows; a second step, with the same."""
        for row, on in enumerate(rows):
            if on:
                self._generators[row].standard_exponential(out=self._next[row], dtype=np.float32)
        self._noise.copy_(self._torch.from_numpy(self._next))
        self._draw = 0
        theirs = self._module.sample_token
        self._module.sample_token = self._sample
        try:
            yield
        finally:
            self._module.sample_token = theirs

    def _sample(self, logits: Any, use_sampling: bool = False, temp: float = 1.0, top_k: int = 0) -> Any:
        """Logits [rows, 1, 1, card] to tokens [rows, 1, 1]; the package's own signature."""
        draw, self._draw = self._draw, (self._draw + 1) % self._draws
        if not use_sampling or temp <= 0:
            return logits.argmax(-1)
        most = min(top_k, logits.shape[-1])
        weights, tokens = (logits / temp).softmax(-1).topk(most, -1)
        noise = self._noise[:, draw, :most].view(-1, *[1] * (logits.dim() - 2), most)
        return tokens.gather(-1, (weights / noise).argmax(-1, keepdim=True))[..., 0]
