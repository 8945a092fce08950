"""Moshi's parts: from a checkpoint of the hub, from a folder, or tiny and random."""

from __future__ import annotations

import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsbif.agents.moshi import FRAME_SAMPLES, Parts
from dsbif.errors import ConfigError

if TYPE_CHECKING:
    from dsbif.agents.moshi import MoshiSettings
    from dsbif.agents.personaplex import PersonaplexSettings

TINY = "tiny"
_NEEDED = (
    'Moshi needs its package ({error}): pip install "dsbif[moshi]", or name an interpreter that has it with '
    "model.python=…"
)


def load_parts(settings: MoshiSettings) -> Parts:
    """Codec, language model and tokenizer.

    Raises:
        ConfigError: a package is missing, or the weights are not there or are not those of a Moshi.
    """
    if settings.device == "cpu":
        os.environ.setdefault("NO_TORCH_COMPILE", "1")  # gains nothing there and needs a compiler
    try:
        import sentencepiece
        import torch
        from moshi.models import loaders
    except ImportError as error:
        raise ConfigError(_NEEDED.format(error=error)) from error
    device = device_of(settings.device, torch)
    dtype = getattr(torch, settings.dtype)
    if settings.weights == TINY:
        from dsbif.agents import moshi_tiny

        words = sentencepiece.SentencePieceProcessor(model_proto=moshi_tiny.tokenizer_bytes())
        mimi, lm = moshi_tiny.make_models(device, dtype, words.vocab_size())
    else:
        info = _checkpoint(settings.weights, loaders)
        try:
            mimi, words = info.get_mimi(device=device), info.get_text_tokenizer()
            lm = info.get_moshi(device=device, dtype=dtype)
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{settings.weights} cannot be loaded: {one_line(error)}") from error
    _check(settings.weights, mimi, lm)
    return Parts(mimi, lm, words.id_to_piece, device, record_of(settings, "moshi", device, torch))


def record_of(settings: MoshiSettings | PersonaplexSettings, package: str, device: str, torch: Any) -> dict[str, str]:
    """What a record says of weights, package and machine."""
    return {
        "weights": settings.weights,
        "moshi": _version_of(package),
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "dtype": settings.dtype,
    }


def device_of(asked: str, torch: Any) -> str:
    """The device that a setting means; where it is the CPU, PyTorch is kept to one thread.

    Raises:
        ConfigError: it is none, or is not there.
    """
    device = _device(asked, torch)
    if device == "cpu":
        torch.set_num_threads(1)  # a worker a core; threads that wait for one another cost more than they gain
    return device


def _device(asked: str, torch: Any) -> str:
    there = bool(torch.cuda.is_available())
    if asked == "auto":
        return "cuda" if there else "cpu"
    if asked.startswith("cuda") and not there:
        raise ConfigError(f"model.device={asked}: this PyTorch ({torch.__version__}) sees no GPU.")
    try:
        return str(torch.device(asked))
    except RuntimeError as error:
        raise ConfigError(f"model.device={asked} is no device; wanted auto, cpu, cuda or cuda:N.") from error


def _checkpoint(weights: str, loaders: Any) -> Any:
    home = Path(weights)
    if home.is_dir():
        return _from_folder(home, loaders)
    check_hub_name(weights, loaders.DEFAULT_REPO)
    try:
        return loaders.CheckpointInfo.from_hf_repo(weights)
    except Exception as error:
        raise ConfigError(
            f"the checkpoint {weights} is no folder, and the hub does not give it: {one_line(error)}"
        ) from error


def check_hub_name(weights: str, example: str) -> None:
    """Whether what is no folder can be a name of the hub.

    Raises:
        ConfigError: it cannot.
    """
    if Path(weights).is_absolute() or weights.startswith(".") or weights.count("/") != 1:
        raise ConfigError(
            f"model.weights names {weights}, which is no folder; wanted one, a name of the hub such as "
            f"{example}, or {TINY}."
        )


def _from_folder(home: Path, loaders: Any) -> Any:
    """A folder as the hub has them; without a ``config.json`` it is the 7B model under the names of its release."""
    config: dict[str, Any] = {}
    path = home / "config.json"
    try:
        if path.is_file():
            config = json.loads(path.read_text(encoding="utf-8"))
        files = {
            "moshi_weights": _inside(home, config.get("moshi_name", loaders.MOSHI_NAME)),
            "mimi_weights": _inside(home, config.get("mimi_name", loaders.MIMI_NAME)),
            "tokenizer": _inside(home, config.get("tokenizer_name", loaders.TEXT_TOKENIZER_NAME)),
        }
        if not config:
            return loaders.CheckpointInfo(**files)
        codec = config.get("mimi_config_name")
        more = {} if codec is None else {"mimi_config_path": _inside(home, codec)}
        return loaders.CheckpointInfo.from_hf_repo(str(home), **files, config_path=path, **more)
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} is no configuration of a Moshi checkpoint: {one_line(error)}") from error


def _inside(home: Path, name: str) -> Path:
    path = Path(name.removeprefix("file://")) if name.startswith("file://") else home / name
    if not path.is_file():
        raise ConfigError(f"{home} is no Moshi checkpoint: {path.name} is missing.")
    return path


def _check(weights: str, mimi: Any, lm: Any) -> None:
    shape = (int(mimi.sample_rate), int(mimi.frame_size))
    if shape != (24_000, FRAME_SAMPLES):
        raise ConfigError(
            f"{weights} has a codec of {shape[0]} Hz and {shape[1]} samples a frame; wanted 24000 and 1920."
        )
    if lm.dep_q < 1 or lm.fuser is not None:
        raise ConfigError(f"{weights} is no model that talks with a user: it hears only, or translates.")


def _version_of(package: str) -> str:
    """An installed package's version, for the record."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def one_line(error: BaseException) -> str:
    """An error's words, for the inside of a sentence."""
    return " ".join(str(error).split())[:300] or type(error).__name__
