"""Moshi with a few hundred thousand random weights, through the real package: for tests and timing on any CPU.

Every shape is the package's own, made small; every weight is drawn from a fixed seed. What it says is noise: no verdict
on it means anything. ``python -m dsbif.agents.moshi_tiny FOLDER`` writes it as a checkpoint that the package's server
loads.
"""

from __future__ import annotations

import copy
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEED = 20_250_901
_WORDS = (
    "yes no well okay right so and the a to of you I it that is one two three four five sorry thanks please wait sure "
    "could would tell me about your order name number street doctor teacher number again slowly hello goodbye listen "
    "going think know mean take time let us see what where when how much many more less first then last here there"
)
_FLAVOURS = ("{0} {1}.", "{1}, {0}?", "I {0} the {1}.", "{0} and {1} to you")


def tokenizer_bytes() -> bytes:
    """A SentencePiece model of a few hundred pieces, byte-equal every time; 0 and 3 are padding, as in Moshi's own."""
    import sentencepiece

    words = _WORDS.split()
    lines = [
        flavour.format(one, other)
        for step, flavour in enumerate(_FLAVOURS, start=1)
        for one, other in zip(words, words[step:] + words[:step], strict=True)
    ]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        model_type="bpe",
        vocab_size=200,
        hard_vocab_limit=False,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


def mimi_config() -> dict[str, Any]:
    """The codec's configuration, small: the same 24 kHz, 12.5 frames a second and 1920 samples a frame."""
    from moshi.models import loaders

    config: dict[str, Any] = copy.deepcopy(loaders._mimi_config)
    config["seanet"].update(dimension=32, n_filters=2)
    config["transformer"].update(
        d_model=32, num_heads=2, num_layers=1, dim_feedforward=64, input_dimension=32, output_dimensions=[32]
    )
    config["quantizer"].update(dimension=16, n_q=16, bins=64, input_dimension=32, output_dimension=32)
    return config


def lm_config(text_card: int) -> dict[str, Any]:
    """The language model's configuration, small, with as many text tokens as the tokenizer has."""
    from moshi.models import loaders

    config: dict[str, Any] = copy.deepcopy(loaders._lm_kwargs)
    config.update(
        dim=64,
        num_heads=2,
        num_layers=2,
        hidden_scale=2.0,
        card=64,
        text_card=text_card,
        context=250,
        depformer_dim=32,
        depformer_dim_feedforward=64,
        depformer_num_heads=2,
        depformer_num_layers=1,
    )
    return config


def make_models(device: str, dtype: Any, text_card: int) -> tuple[Any, Any]:
    """Codec and language model with weights of the fixed seed; the caller's random state stays as it was."""
    import torch
    from moshi.models import loaders

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        mimi = loaders.get_mimi(None, mimi_config(), device="cpu", num_codebooks=8)
        awaken(mimi)
        lm = loaders.get_moshi_lm(None, lm_config(text_card), device="cpu", dtype=torch.float32)
    return mimi.to(device), lm.to(device=device, dtype=dtype)


def awaken(mimi: Any) -> None:
    """Make codes depend on sound and sound on codes, which an untrained codec's biases and empty tables hide."""
    import torch

    with torch.no_grad():
        for name, weight in mimi.named_parameters():
            if weight.dim() == 3:
                weight.mul_(3**0.5)  # convolutions then keep their input's power
            elif name.endswith("bias") and "transformer" not in name:
                weight.zero_()
        for name, buffer in mimi.named_buffers():
            if name.endswith("embedding_sum"):
                buffer.normal_(std=0.3)


def write_checkpoint(folder: Path) -> Mapping[str, Path]:
    """The four files that ``moshi.server`` takes: weights of both models, tokenizer and configuration."""
    import sentencepiece
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    words = tokenizer_bytes()
    text_card = sentencepiece.SentencePieceProcessor(model_proto=words).vocab_size()
    mimi, lm = make_models("cpu", torch.float32, text_card)
    files = {
        "moshi": folder / "model.safetensors",
        "mimi": folder / "mimi.safetensors",
        "tokenizer": folder / "tokenizer.model",
        "config": folder / "config.json",
    }
    for model, path in ((lm, files["moshi"]), (mimi, files["mimi"])):
        save_file({name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}, str(path))
    files["tokenizer"].write_bytes(words)
    codec = folder / "mimi.json"
    codec.write_text(json.dumps(mimi_config()), encoding="utf-8")
    names = {
        "moshi_name": files["moshi"].name,
        "mimi_name": files["mimi"].name,
        "tokenizer_name": files["tokenizer"].name,
        "mimi_config_name": f"file://{codec.resolve()}",
    }
    files["config"].write_text(json.dumps({**lm_config(text_card), **names}), encoding="utf-8")
    return files


if __name__ == "__main__":
    for path in write_checkpoint(Path(sys.argv[1])).values():
        print(path)
