"""PersonaPlex's parts: from the hub, from a folder, or tiny and random; and its voices."""

from __future__ import annotations

import contextlib
import importlib
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsbif.agents.moshi_load import TINY, check_hub_name, device_of, one_line, record_of
from dsbif.agents.personaplex import Parts
from dsbif.errors import ConfigError

if TYPE_CHECKING:
    from dsbif.agents.personaplex import PersonaplexSettings

_VOICES = "voices.tgz"
_NEEDED = (
    "PersonaPlex needs NVIDIA's fork of the package moshi, which cannot live beside Kyutai's ({found}). Make an "
    "environment of its own and name it: python3 -m venv .venv-personaplex && .venv-personaplex/bin/pip install "
    '"git+https://github.com/NVIDIA/personaplex#subdirectory=moshi", then model.python=.venv-personaplex/bin/python.'
)


def load_parts(settings: PersonaplexSettings) -> Parts:
    """Codec, language model, tokenizer and voice.

    Raises:
        ConfigError: the fork is not installed, or weights or voice are not there.
    """
    os.environ.setdefault("NO_TORCH_COMPILE", "1")  # the fork compiles small pieces, for which no compiler may be there
    package = _fork()
    import torch

    device = device_of(settings.device, torch)
    dtype = getattr(torch, settings.dtype)
    load: Callable[..., tuple[Any, ...]] = _tiny if settings.weights == TINY else _checkpoint
    mimi, lm, words, load_voice = load(settings, device, dtype)
    versions = record_of(settings, "moshi-personaplex", device, torch)
    return Parts(package, mimi, lm, load_voice, words.encode, words.id_to_piece, device, versions)


def _fork() -> Any:
    try:
        package = importlib.import_module("moshi.models.lm")
        importlib.import_module("sentencepiece")
    except ImportError as error:
        raise ConfigError(_NEEDED.format(found=error)) from error
    if not hasattr(package, "SILENCE_TOKENS"):
        raise ConfigError(_NEEDED.format(found="which is what this environment has"))
    return package


def _tiny(settings: PersonaplexSettings, device: str, dtype: Any) -> tuple[Any, ...]:
    from dsbif.agents import personaplex_tiny

    words = personaplex_tiny.tokenizer()
    mimi, lm = personaplex_tiny.make_models(device, dtype, words.vocab_size())
    return mimi, lm, words, personaplex_tiny.give_voice


def _checkpoint(settings: PersonaplexSettings, device: str, dtype: Any) -> tuple[Any, ...]:
    import sentencepiece

    loaders: Any = importlib.import_module("moshi.models.loaders")
    weights, codec, tokenizer = (
        _file(settings.weights, name) for name in (loaders.MOSHI_NAME, loaders.MIMI_NAME, loaders.TEXT_TOKENIZER_NAME)
    )
    voice = _voice(settings)
    try:
        words = sentencepiece.SentencePieceProcessor(str(tokenizer))
        mimi = loaders.get_mimi(str(codec), device)
        lm = loaders.get_moshi_lm(str(weights), device=device, dtype=dtype)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{settings.weights} cannot be loaded: {one_line(error)}") from error
    lm.eval()
    return mimi, lm, words, lambda lm_gen: give_voice(lm_gen, voice, device)


def _file(weights: str, name: str) -> Path:
    home = Path(weights)
    if home.is_dir():
        if not (home / name).is_file():
            raise ConfigError(f"{home} is no PersonaPlex checkpoint: {name} is missing.")
        return home / name
    check_hub_name(weights, "nvidia/personaplex-7b-v1")
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(weights, name))
    except Exception as error:
        raise ConfigError(
            f"the checkpoint {weights} is no folder, and the hub does not give its {name}: {one_line(error)}. Its "
            "licence must be accepted on the hub, and HF_TOKEN set."
        ) from error


def _voice(settings: PersonaplexSettings) -> Path:
    """The voice's file: in the folder that is named, else unpacked from the checkpoint's archive beside it."""
    home = Path(settings.voices) if settings.voices is not None else _unpacked(_file(settings.weights, _VOICES))
    path = home / settings.voice
    if path.is_file():
        return path
    there = ", ".join(sorted(other.name for other in home.glob("*.pt"))) if home.is_dir() else ""
    raise ConfigError(f"model.voice names {settings.voice}, which is not in {home}; there: {there or 'no voice'}.")


def _unpacked(archive: Path) -> Path:
    """The archive's voices, beside it; several processes may ask at once."""
    home = archive.parent / "voices"
    if not home.is_dir():
        with tempfile.TemporaryDirectory(dir=archive.parent) as room, tarfile.open(archive) as tar:
            tar.extractall(room, filter="data")
            with contextlib.suppress(OSError):  # another was faster
                (Path(room) / "voices").rename(home)
    return home


def give_voice(lm_gen: Any, path: Path, device: str) -> None:
    """A voice as saved embeddings (``.pt``), or as a recording that the fork encodes."""
    if path.suffix != ".pt":
        lm_gen.load_voice_prompt(str(path))
        return
    import torch

    saved = torch.load(path, map_location=device, weights_only=True)
    lm_gen.voice_prompt, lm_gen.voice_prompt_audio = str(path), None
    lm_gen.voice_prompt_embeddings, lm_gen.voice_prompt_cache = saved["embeddings"], saved["cache"]
