"""PersonaPlex with a few hundred thousand random weights, through the fork's own code: to see whether it works.

What it says is noise: no verdict on it means anything.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from dsbif.agents.moshi_tiny import SEED, awaken, tokenizer_bytes

_VOICE_FRAMES = 5
_SHAPES: dict[str, dict[str, Any]] = {
    "_seanet_kwargs": {"dimension": 32, "n_filters": 2},
    "_transformer_kwargs": {
        "d_model": 32,
        "num_heads": 2,
        "num_layers": 1,
        "dim_feedforward": 64,
        "input_dimension": 32,
        "output_dimensions": [32],
    },
    # The codes of silence and of the user's tone are fixed numbers up to 2008: there must be as many.
    "_quantizer_kwargs": {"dimension": 16, "input_dimension": 32, "output_dimension": 32},
    "_lm_kwargs": {
        "dim": 64,
        "num_heads": 2,
        "num_layers": 2,
        "hidden_scale": 2.0,
        "context": 250,
        "depformer_dim": 32,
        "depformer_dim_feedforward": 64,
        "depformer_num_heads": 2,
        "depformer_num_layers": 1,
    },
}
"""Of the fork's ``loaders``, made small; everything else is as it is there."""


def tokenizer() -> Any:
    """As of the tiny Moshi."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer_bytes())


def make_models(device: str, dtype: Any, text_card: int) -> tuple[Any, Any]:
    """Codec and language model with weights of the fixed seed; the caller's random state stays as it was."""
    import torch

    loaders: Any = importlib.import_module("moshi.models.loaders")
    shapes = {**_SHAPES, "_lm_kwargs": {**_SHAPES["_lm_kwargs"], "text_card": text_card}}
    with ExitStack() as small, torch.random.fork_rng(devices=[]):
        for name, values in shapes.items():
            small.enter_context(patch.dict(getattr(loaders, name), values))
        small.enter_context(patch.object(loaders, "load_model", lambda model, filename: None))
        torch.manual_seed(SEED)
        mimi = loaders.get_mimi("none.safetensors", "cpu")
        awaken(mimi)
        lm = loaders.get_moshi_lm(None, device="cpu", dtype=torch.float32)
    return mimi.to(device), lm.to(device=device, dtype=dtype)


def give_voice(lm_gen: Any) -> None:
    """0.4 s of noise for a voice."""
    sound = np.random.default_rng(SEED).normal(0, 0.1, (1, _VOICE_FRAMES * 1920))
    lm_gen.voice_prompt, lm_gen.voice_prompt_audio = "tiny", sound.astype(np.float32)
    lm_gen.voice_prompt_embeddings = lm_gen.voice_prompt_cache = None
