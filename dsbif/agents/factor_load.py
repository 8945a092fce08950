"""F-Actor's parts from their checkpoints: a Llama with audio heads through transformers, NanoCodec through NeMo.

A checkpoint is a Llama's folder whose safetensors hold, beside the Llama, ``dsu_head`` (all heads' logits in one
matrix), ``audio_embeds.0`` to ``.7`` (one table a head) and ``speaker_embed_proj`` (a voice's 192 numbers to one
embedding, which stands before the prompt). A step's embedding is the sum of its nine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsbif.agents.factor import Parts
from dsbif.agents.factor_loop import CODEBOOKS, CODES, HEADS, Logits
from dsbif.agents.factor_sound import CODEC_FRAME, CODEC_HZ
from dsbif.agents.factor_words import FLOOR_TOKENS
from dsbif.errors import ConfigError

if TYPE_CHECKING:
    from dsbif.agents.factor import FactorSettings
    from dsbif.agents.factor_loop import Codes, Floats

VOCABULARY = CODES + 2
SPEAKER_SIZE = 192


def load_parts(settings: FactorSettings) -> Parts:
    """Model, codec and tokenizer.

    Raises:
        ConfigError: a package, file or voice is missing, or a checkpoint is not of F-Actor's shape.
    """
    try:
        import torch
        import transformers  # type: ignore[import-not-found]
        from nemo import __version__ as nemo  # type: ignore[import-not-found]
    except ImportError as error:
        raise ConfigError(
            f'F-Actor needs NeMo and transformers ({error}): pip install "dsbif[factor]", or name an interpreter that '
            "has them with model.python=…"
        ) from error
    voice = _voice(settings.speakers, settings.speaker)
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        torch.set_num_threads(1)  # other sums are other words; and steps this small are slower on two cores
    home = _folder(settings.checkpoint)
    versions = {
        "checkpoint": settings.checkpoint,
        "codec": settings.codec,
        "torch": str(torch.__version__),
        "transformers": str(transformers.__version__),
        "nemo": str(nemo),
    }
    codec = NanoCodec(settings.codec, device)
    return Parts(LlamaFrames(home, voice, device, settings.dtype), codec, HubTokenizer(home), versions)


def _voice(speakers: str | None, speaker: str) -> Floats:
    wanted = (
        "a JSON object of 192 numbers by voice, such as training/example_speakers/speaker_embeddings.json of the "
        "published code"
    )
    if speakers is None:
        raise ConfigError(f"F-Actor needs a voice: model.speakers=FILE, {wanted}.")
    try:
        table = json.loads(Path(speakers).read_text(encoding="utf-8"))
        if speaker not in table:
            raise ConfigError(f"{speakers} has no voice '{speaker}'; it has: {', '.join(sorted(table))}.")
        found = np.asarray(table[speaker], np.float32)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"model.speakers names {speakers}, which cannot be used ({error}); wanted {wanted}."
        ) from error
    if found.shape != (SPEAKER_SIZE,) or not np.isfinite(found).all():
        raise ConfigError(f"{speakers}: voice '{speaker}' is not {SPEAKER_SIZE} finite numbers.")
    return found


def _folder(checkpoint: str) -> Path:
    home = Path(checkpoint)
    if not home.is_dir():
        if home.is_absolute() or checkpoint.startswith("."):
            raise ConfigError(f"model.checkpoint names {checkpoint}, which is no folder.")
        from huggingface_hub import snapshot_download

        try:
            home = Path(snapshot_download(checkpoint))
        except Exception as error:
            raise ConfigError(
                f"the checkpoint {checkpoint} is no folder, and the hub does not give it: {_line(error)}"
            ) from error
    best = home / "best_model"
    return best if best.is_dir() else home


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class LlamaFrames:
    """A ``FrameModel`` through transformers; ``past`` is its key-value cache."""

    def __init__(self, home: Path, voice: Floats, device: str, dtype: str) -> None:
        import torch
        from transformers import DynamicCache, LlamaForCausalLM
        from transformers.utils import logging  # type: ignore[import-not-found]

        logging.set_verbosity_error()  # else it warns of the audio heads, which are read below
        logging.disable_progress_bar()
        kind = getattr(torch, dtype)
        try:
            self._llama = LlamaForCausalLM.from_pretrained(home).to(device, kind).eval()
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(f"{home} holds no Llama that can be loaded: {_line(error)}") from error
        width = self._llama.config.hidden_size
        weights = {name: tensor.to(device, kind) for name, tensor in _extra_weights(home, width).items()}
        self._torch, self._cache, self._device = torch, DynamicCache, device
        self._head = (weights["dsu_head.weight"], weights["dsu_head.bias"])
        self._tables = [weights[f"audio_embeds.{head}.weight"] for head in range(HEADS)]
        project = (weights["speaker_embed_proj.weight"], weights["speaker_embed_proj.bias"])
        with torch.inference_mode():
            self._voice = torch.nn.functional.linear(torch.tensor(voice, device=device, dtype=kind), *project)

    def prefill(self, prompt: Sequence[int]) -> tuple[Logits, Any]:
        """Read the voice and the prompt's tokens."""
        with self._torch.inference_mode():
            tokens = self._llama.get_input_embeddings()(self._torch.tensor(list(prompt), device=self._device))
            return self._read(self._torch.cat([self._voice[None], tokens]), self._cache())

    def step(self, audio: Codes, text: int, past: Any) -> tuple[Logits, Any]:
        """Read the sum of a step's nine embeddings."""
        with self._torch.inference_mode():
            summed = self._llama.get_input_embeddings()(self._torch.tensor(text, device=self._device))
            for head, code in enumerate(audio.tolist()):
                summed = summed + self._tables[head][code]
            return self._read(summed[None], past)

    def _read(self, embeddings: Any, past: Any) -> tuple[Logits, Any]:
        out = self._llama.model(inputs_embeds=embeddings[None], past_key_values=past, use_cache=True)
        hidden = out.last_hidden_state[0, -1]
        audio = self._torch.nn.functional.linear(hidden, *self._head).view(HEADS, -1)
        text = self._llama.lm_head(hidden)
        return Logits(audio.float().cpu().numpy(), text.float().cpu().numpy()), out.past_key_values


def _extra_weights(home: Path, width: int) -> Mapping[str, Any]:
    """What the checkpoint holds beside the Llama, its shapes checked."""
    from safetensors import safe_open

    wanted = {
        "dsu_head.weight": (HEADS * VOCABULARY, width),
        "dsu_head.bias": (HEADS * VOCABULARY,),
        "speaker_embed_proj.weight": (width, SPEAKER_SIZE),
        "speaker_embed_proj.bias": (width,),
        **{f"audio_embeds.{head}.weight": (VOCABULARY, width) for head in range(HEADS)},
    }
    found: dict[str, Any] = {}
    for path in sorted(home.glob("*.safetensors")):
        with safe_open(str(path), framework="pt", device="cpu") as file:
            there = wanted.keys() & set(file.keys())
            found.update({name: file.get_tensor(name) for name in there})
    for name, shape in wanted.items():
        if name not in found:
            raise ConfigError(f"{home} is no F-Actor checkpoint: it holds no {name}.")
        if tuple(found[name].shape) != shape:
            raise ConfigError(f"{home}: {name} has shape {tuple(found[name].shape)}; F-Actor's is {shape}.")
    return found


class HubTokenizer:
    """The checkpoint's own tokenizer."""

    def __init__(self, home: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(home)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{home} holds no tokenizer: {_line(error)}") from error
        table = self._tokenizer.get_vocab()
        if FLOOR_TOKENS[0] not in table:
            raise ConfigError(f"{home} is no F-Actor checkpoint: its tokenizer has no {FLOOR_TOKENS[0]}.")
        special = set(self._tokenizer.all_special_ids)
        self.floor = frozenset(special | {table[token] for token in FLOOR_TOKENS if token in table})

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens, beginning as the tokenizer begins."""
        return [int(token) for token in self._tokenizer(prompt).input_ids]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of a word's tokens."""
        return str(self._tokenizer.decode(list(tokens)))

    def begins_word(self, token: int) -> bool:
        """Whether the token begins with a space, which byte-level vocabularies write as Ġ and others as ▁."""
        return str(self._tokenizer.convert_ids_to_tokens(token)).startswith(("Ġ", "▁", " "))


class NanoCodec:
    """NeMo's codec from a ``.nemo`` file or the hub."""

    def __init__(self, name: str, device: str) -> None:
        import torch
        from nemo.collections.tts.models import AudioCodecModel  # type: ignore[import-not-found]

        if name.endswith(".nemo") and not Path(name).is_file():
            raise ConfigError(f"model.codec names {name}, which does not exist.")
        load = AudioCodecModel.restore_from if name.endswith(".nemo") else AudioCodecModel.from_pretrained
        try:
            self._codec = load(name, map_location=torch.device(device)).eval()
        except Exception as error:
            raise ConfigError(f"the codec {name} cannot be loaded: {_line(error)}") from error
        shape = (self._codec.sample_rate, self._codec.samples_per_frame, self._codec.num_codebooks)
        if shape != (CODEC_HZ, CODEC_FRAME, CODEBOOKS):
            raise ConfigError(
                f"the codec {name} has {shape[0]} Hz, {shape[1]} samples a frame and {shape[2]} codebooks; F-Actor's "
                f"has {CODEC_HZ}, {CODEC_FRAME} and {CODEBOOKS}."
            )
        self._torch, self._device = torch, device

    def encode(self, pcm: Floats) -> Codes:
        """Float32 [n * 1764] to int64 [4, n]."""
        with self._torch.inference_mode():
            audio = self._torch.from_numpy(np.ascontiguousarray(pcm)).to(self._device)[None]
            length = self._torch.tensor([len(pcm)], device=self._device)
            codes, _ = self._codec.encode(audio=audio, audio_len=length)
        return np.asarray(codes[0].cpu().numpy(), np.int64)

    def decode(self, codes: Codes) -> Floats:
        """Int64 [4, n] to float32 [n * 1764]."""
        with self._torch.inference_mode():
            tokens = self._torch.from_numpy(np.ascontiguousarray(codes)).to(self._device)[None]
            length = self._torch.tensor([codes.shape[1]], device=self._device)
            audio, _ = self._codec.decode(tokens=tokens, tokens_len=length)
        return np.asarray(audio[0].float().cpu().numpy(), np.float32)
