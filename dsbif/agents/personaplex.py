"""PersonaPlex, NVIDIA's fork of Moshi with a voice and a role, through the fork's own package.

Before a case the model reads, a frame a token: the voice, half a second of silence, the wrapped system prompt, half a
second of silence. At L0 the prompt has no token at all. Then it goes on frame by frame as Moshi does.

The fork has no execution masks: all rows of a batch are at the same frame, so they start together. Where their prompts
differ in length, a shorter one waits in the first silence; a note in the record says for how long. With ``rows: 1``, as
configured, nothing waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.moshi import FRAME_SAMPLES, check_model, emitted
from dsbif.agents.moshi_dice import Dice
from dsbif.agents.moshi_words import Words
from dsbif.agents.personaplex_words import check_voice, wrapped
from dsbif.errors import AgentError
from dsbif.session.agent import AgentFacts, Emission, Note

if TYPE_CHECKING:
    from dsbif.session.pcm import Pcm

SILENCE_S = 0.5
"""Of silence after the voice, and again after the prompt; as NVIDIA's server and offline script."""
_AUDIO_TOKENS = 8
"""Of the agent's own channel, in a frame of 17: one of text, eight of the agent's, eight of the user's."""


@dataclass(frozen=True, slots=True)
class PersonaplexSettings:
    """The agent's own keys of ``conf/model/personaplex.yaml``, where each is explained."""

    weights: str
    voice: str
    voices: str | None
    temperature: float
    temperature_text: float
    top_k: int
    top_k_text: int
    dtype: str
    device: str

    def __post_init__(self) -> None:
        check_model(self)
        check_voice(self.voice)


@dataclass(frozen=True, slots=True)
class Parts:
    """What the agent is made of.

    ``package``: the fork's ``moshi.models.lm``. ``load_voice``: gives a generator its voice. ``encode`` and ``piece``:
    text to tokens, and a token's piece. ``versions``: for the record.
    """

    package: Any
    mimi: Any
    lm: Any
    load_voice: Callable[[Any], None]
    encode: Callable[[str], Sequence[int]]
    piece: Callable[[int], str]
    device: str
    versions: Mapping[str, str]


@dataclass(slots=True)
class _Row:
    tokens: Sequence[int]
    notes: list[Emission]
    words: Words


class Personaplex:
    """``rows`` conversations in one batch, which start together; each draws from its own case's seed."""

    frame_samples = FRAME_SAMPLES
    equal_start = True

    def __init__(self, settings: PersonaplexSettings, rows: int, parts: Parts | None = None) -> None:
        if parts is None:
            from dsbif.agents.personaplex_load import load_parts

            parts = load_parts(settings)
        import torch

        self.rows = rows
        known = {**parts.versions, "voice": settings.voice, "rows": str(rows)}
        self.facts = AgentFacts("personaplex", "full", "native", known)
        self._torch, self._parts, lm = torch, parts, parts.lm
        most = max(min(settings.top_k, lm.card), min(settings.top_k_text, lm.text_card))
        self._dice = Dice(parts.package, rows, 1 + lm.dep_q, most, parts.device)
        self._lm_gen: Any = parts.package.LMGen(
            lm,
            device=parts.device,
            temp=settings.temperature,
            temp_text=settings.temperature_text,
            top_k=settings.top_k,
            top_k_text=settings.top_k_text,
            sample_rate=parts.mimi.sample_rate,
            frame_rate=parts.mimi.frame_rate,
        )
        self._silence_frames = int(SILENCE_S * parts.mimi.frame_rate)
        self._open = contextlib.ExitStack()
        with torch.no_grad():
            self._open.enter_context(parts.mimi.streaming(rows))
            self._open.enter_context(self._lm_gen.streaming(rows))
            parts.load_voice(self._lm_gen)
        self._waiting: dict[int, _Row] = {}
        self._rows: dict[int, _Row] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Take a case's prompt; all rows that are to start together read theirs before their first frame."""
        text = wrapped(prompt)
        tokens = self._parts.encode(text) if text else ()
        self._waiting[row] = _Row(tokens, [Note("prompt", text)], Words())
        self._dice.seed(row, seed)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Hear 80 ms of every row, float32 [rows, 1920].

        Raises:
            AgentError: a row was started while another is running.
        """
        if self._waiting:
            running = [row for row, on in enumerate(active) if on and row not in self._waiting]
            if running:
                raise AgentError(f"PersonaPlex's rows start together; rows {running} were running already.")
            with self._torch.no_grad():
                self._begin()
        with self._torch.no_grad():
            text, audio = self._frame(pcm, active)
        return [self._emitted(row, int(text[row]), audio[row]) if on else () for row, on in enumerate(active)]

    def stop(self, row: int) -> None:
        """Forget the row's case; its place in the batch runs on unheard until the next start."""
        self._rows.pop(row, None)
        self._waiting.pop(row, None)

    def close(self) -> None:
        """Give the streaming state back."""
        self._open.close()

    def _begin(self) -> None:
        """Forget everything, then read voice and prompts."""
        mimi, lm_gen = self._parts.mimi, self._lm_gen
        mimi.reset_streaming()
        lm_gen.reset_streaming()
        self._rows, self._waiting = self._waiting, {}
        with self._dice.thrown([True] * self.rows):
            self._read_voice()
            self._read_prompts()
        mimi.reset_streaming()  # the voice has gone through it

    def _read_voice(self) -> None:
        """As the fork's own loop, for any number of rows."""
        lm_gen, mimi, torch = self._lm_gen, self._parts.mimi, self._torch
        if lm_gen.voice_prompt_embeddings is not None:
            for embedding in lm_gen.voice_prompt_embeddings:
                lm_gen.step_embeddings(embedding.expand(self.rows, -1, -1))
            lm_gen._streaming_state.cache.copy_(lm_gen.voice_prompt_cache)
            return
        sound = np.asarray(lm_gen.voice_prompt_audio, np.float32)[0]
        for start in range(0, len(sound), FRAME_SAMPLES):
            frame = np.zeros(FRAME_SAMPLES, np.float32)
            piece = sound[start : start + FRAME_SAMPLES]
            frame[: len(piece)] = piece
            heard = torch.from_numpy(frame).to(self._parts.device).expand(self.rows, 1, -1)
            self._read(mimi.encode(heard.contiguous()), [lm_gen.zero_text_code] * self.rows)

    def _read_prompts(self) -> None:
        silence = self._codes(self._parts.package.SILENCE_TOKENS)
        pad = self._lm_gen.zero_text_code
        longest = max(len(row.tokens) for row in self._rows.values())
        after, before = [pad] * self._silence_frames, {}
        for index in range(self.rows):
            row = self._rows.get(index)
            tokens = list(row.tokens) if row is not None else []
            before[index] = [pad] * (self._silence_frames + longest - len(tokens)) + tokens + after
            if row is not None and (waits := longest - len(tokens)):
                row.notes.append(Note("prompt_waits", f"{waits} frames, for a longer prompt in the batch"))
        for frame in range(longest + 2 * self._silence_frames):
            self._read(silence, [before[index][frame] for index in range(self.rows)])

    def _read(self, agent: Any, text: Sequence[int]) -> None:
        """One frame in which everything is given: the agent's codes, a text token for each row, the user's tone."""
        torch = self._torch
        self._lm_gen.step(
            moshi_tokens=agent,
            text_token=torch.tensor(text, dtype=torch.long, device=self._parts.device),
            input_tokens=self._codes(self._parts.package.SINE_TOKENS),
        )

    def _codes(self, tokens: Any) -> Any:
        torch = self._torch
        one = torch.as_tensor(tokens, dtype=torch.long, device=self._parts.device)
        return one.view(1, _AUDIO_TOKENS, 1).expand(self.rows, -1, -1)

    def _frame(self, pcm: Pcm, active: Sequence[bool]) -> tuple[Any, Pcm]:
        """Text tokens [rows] and sound [rows, 1920]."""
        mimi, torch = self._parts.mimi, self._torch
        sound = torch.from_numpy(np.ascontiguousarray(pcm, np.float32)).to(self._parts.device)[:, None]
        codes = mimi.encode(sound)
        with self._dice.thrown(active):
            tokens = self._lm_gen.step(codes)
        said = mimi.decode(tokens[:, 1 : 1 + _AUDIO_TOKENS])
        return tokens[:, 0, 0].cpu().numpy(), said[:, 0].float().cpu().numpy()

    def _emitted(self, index: int, text: int, audio: Pcm) -> list[Emission]:
        row = self._rows[index]
        notes, row.notes = row.notes, []
        return notes + emitted(row.words, text, self._parts.piece, audio)
