"""Moshi, Kyutai's speech-to-speech model, through its own package: rows of one batch, each at its own frame.

Rows start and stop at any frame: the package's execution mask holds the others still, and its streaming state is reset
row by row. As in the package's own inference script, a case's first codes are shown to the model twice, since it
replaces the first by its initial tokens: no sound of the user's is lost, and the agent's frame ``n`` is there when the
user's frame ``n`` has been heard.

Moshi has no place for a persona: the prompt reaches nobody, at any level, and results say so.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.moshi_dice import Dice
from dsbif.agents.moshi_words import SILENT_TOKENS, Words, piece_text
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsbif.agents.personaplex import PersonaplexSettings
    from dsbif.session.pcm import Pcm

FRAME_SAMPLES = 1920
"""80 ms at 24 kHz."""


@dataclass(frozen=True, slots=True)
class MoshiSettings:
    """The agent's own keys of ``conf/model/moshi.yaml``, where each is explained."""

    weights: str
    temperature: float
    temperature_text: float
    top_k: int
    top_k_text: int
    dtype: str
    device: str

    def __post_init__(self) -> None:
        check_model(self)


def check_model(settings: MoshiSettings | PersonaplexSettings) -> None:
    """The keys of a model that runs here; a temperature of 0 is greedy.

    Raises:
        ValueError: one is out of range, or there are no weights.
    """
    for name in ("temperature", "temperature_text"):
        if not 0 <= getattr(settings, name) <= 10:
            raise ValueError(f"{name} is {getattr(settings, name)}; wanted 0 to 10")
    for name in ("top_k", "top_k_text"):
        if not 1 <= getattr(settings, name) <= 100_000:
            raise ValueError(f"{name} is {getattr(settings, name)}; wanted 1 to 100000")
    if settings.dtype not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"dtype is '{settings.dtype}'; wanted float32, bfloat16 or float16")
    if not settings.weights:
        raise ValueError("weights is empty; wanted a name of the hub, a folder, or tiny")


@dataclass(frozen=True, slots=True)
class Parts:
    """What the agent is made of: the package's models, a text token's piece by its id, and versions for the record."""

    mimi: Any
    lm: Any
    piece: Callable[[int], str]
    device: str
    versions: Mapping[str, str]


class Moshi:
    """``rows`` conversations in one batch. With sampling, each draws from its own case's seed."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, settings: MoshiSettings, rows: int, parts: Parts | None = None) -> None:
        if parts is None:
            from dsbif.agents.moshi_load import load_parts

            parts = load_parts(settings)
        import torch

        package = importlib.import_module("moshi.models.lm")
        self.rows = rows
        self.facts = AgentFacts("moshi", "none", "native", {**parts.versions, "rows": str(rows)})
        self._torch, self._piece, self._device = torch, parts.piece, parts.device
        lm, self._mimi = parts.lm, parts.mimi
        most = max(min(settings.top_k, lm.card), min(settings.top_k_text, lm.text_card))
        self._dice = Dice(package, rows, 1 + lm.dep_q, most, parts.device)
        self._lm_gen: Any = package.LMGen(
            lm,
            temp=settings.temperature,
            temp_text=settings.temperature_text,
            top_k=settings.top_k,
            top_k_text=settings.top_k_text,
            support_out_of_sync=True,
        )
        self._open = contextlib.ExitStack()
        with torch.no_grad():
            self._open.enter_context(self._mimi.streaming(rows))
            self._open.enter_context(self._lm_gen.streaming(rows))
        self._masks: dict[int, bytes] = {}
        self._new = np.zeros(rows, bool)
        self._words = [Words() for _ in range(rows)]

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Forget the row's past; the prompt has no place to go."""
        one = np.arange(self.rows) == row
        with self._torch.no_grad():
            for module in (self._mimi, self._lm_gen):
                module.reset_streaming(self._torch.from_numpy(one))
        self._masks.clear()  # a reset lets the row run again
        self._new |= one
        self._words[row] = Words()
        self._dice.seed(row, seed)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear 80 ms of every active row, float32 [rows, 1920]."""
        on = np.asarray(active, bool)
        with self._torch.no_grad():
            text, audio = self._frame(pcm, on)
        return [
            emitted(self._words[row], int(text[row]), self._piece, audio[row]) if on[row] else ()
            for row in range(self.rows)
        ]

    def stop(self, row: int) -> None:
        """Nothing to do: the next start resets the row, and until then it is held still."""

    def close(self) -> None:
        """Give the streaming state back."""
        self._open.close()

    def _frame(self, pcm: Pcm, on: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Pcm]:
        """Text tokens [rows], negative where a row has none yet, and sound [rows, 1920]."""
        sound = self._torch.from_numpy(np.ascontiguousarray(pcm, np.float32)).to(self._device)[:, None]
        self._let_run(self._mimi, on)
        codes = self._mimi.encode(sound)
        if (new := on & self._new).any():
            self._think(codes, new)
            self._new &= ~new
        tokens = self._think(codes, on)
        text = tokens[:, 0, 0].cpu().numpy()
        speaking = on & (text >= 0)
        if not speaking.any():
            return text, np.zeros_like(pcm)
        self._let_run(self._mimi, speaking)
        said = self._mimi.decode(tokens[:, 1:].clamp(min=0))
        return text, said[:, 0].float().cpu().numpy()

    def _think(self, codes: Any, on: NDArray[np.bool_]) -> Any:
        self._let_run(self._lm_gen, on)
        with self._dice.thrown(on.tolist()):
            return self._lm_gen.step(codes)

    def _let_run(self, module: Any, on: NDArray[np.bool_]) -> None:
        if self._masks.get(id(module)) != on.tobytes():
            module.set_exec_mask(self._torch.from_numpy(on.copy()).to(self._device))
            self._masks[id(module)] = on.tobytes()


def emitted(words: Words, text: int, piece: Callable[[int], str], audio: Pcm) -> list[Emission]:
    """A frame's sound, and the word that ends with it; nothing where the row has no token yet (a negative one).

    Args:
        words: the row's.
        text: the frame's text token.
        piece: a token's piece by its id.
        audio: the frame's sound, float32 [1920].
    """
    if text < 0:
        return []
    word = words.text(piece_text(piece(text))) if text not in SILENT_TOKENS else words.sound(len(audio))
    return [AgentAudio(audio), *([AgentText(word)] if word else [])]
