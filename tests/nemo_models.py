"""Tiny random models of the real classes, made where NeMo is installed: ``python nemo_models.py KIND FOLDER``.

They have the checkpoints' shape and nothing of their sense: what they show is that loading, calling and saving work.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

WORDS = "the agent says yes and no to you or me one two three four five six seven eight nine ten"
FLOOR = ("[SILENCE_PAD]", "[UTTERANCE_PAD]", "[WORD_PAD]", "[BC]", "[INTER]")
AUDIO_VOCABULARY = 4032 + 2
HEADS = 8


def parakeet(folder: Path) -> Path:
    """A FastConformer TDT recogniser of some 30,000 weights over a sentencepiece vocabulary of 48."""
    import sentencepiece
    import torch
    from nemo.collections.asr.models import EncDecRNNTBPEModel
    from omegaconf import OmegaConf

    torch.manual_seed(0)
    text, tokenizer = folder / "words.txt", folder / "tokenizer"
    tokenizer.mkdir()
    text.write_text("\n".join(WORDS.split()) + "\n")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(text), model_prefix=str(tokenizer / "tokenizer"), vocab_size=48, model_type="bpe",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    with (tokenizer / "vocab.txt").open("w") as out:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer / "tokenizer.model"))
        out.writelines(f"{pieces.id_to_piece(number)}\n" for number in range(pieces.get_piece_size()))
    durations = [0, 1, 2, 3, 4]
    asr = "nemo.collections.asr.modules."
    config = OmegaConf.create(
        {
            "sample_rate": 16000,
            "labels": [],
            "tokenizer": {"dir": str(tokenizer), "type": "bpe"},
            "model_defaults": {"enc_hidden": 16, "pred_hidden": 16, "joint_hidden": 16, "tdt_durations": durations,
                               "num_tdt_durations": len(durations)},
            "preprocessor": {"_target_": asr + "AudioToMelSpectrogramPreprocessor", "sample_rate": 16000,
                             "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01,
                             "window": "hann", "features": 32, "n_fft": 512, "dither": 1e-5, "pad_to": 0},
            "encoder": {"_target_": asr + "ConformerEncoder", "feat_in": 32, "feat_out": -1, "n_layers": 1,
                        "d_model": 16, "subsampling": "dw_striding", "subsampling_factor": 8,
                        "subsampling_conv_channels": 16, "causal_downsampling": False, "ff_expansion_factor": 2,
                        "self_attention_model": "rel_pos", "n_heads": 2, "att_context_size": [-1, -1],
                        "xscaling": False, "untie_biases": True, "pos_emb_max_len": 500, "conv_kernel_size": 5,
                        "conv_norm_type": "batch_norm", "dropout": 0.0, "dropout_pre_encoder": 0.0,
                        "dropout_emb": 0.0, "dropout_att": 0.0},
            "decoder": {"_target_": asr + "RNNTDecoder", "normalization_mode": None, "random_state_sampling": False,
                        "blank_as_pad": True, "vocab_size": 48,
                        "prednet": {"pred_hidden": 16, "pred_rnn_layers": 1, "t_max": None, "dropout": 0.0}},
            "joint": {"_target_": asr + "RNNTJoint", "log_softmax": None, "preserve_memory": False,
                      "fuse_loss_wer": False, "fused_batch_size": 4, "num_classes": 48, "vocabulary": [],
                      "num_extra_outputs": len(durations),
                      "jointnet": {"joint_hidden": 16, "activation": "relu", "dropout": 0.0}},
            "decoding": {"strategy": "greedy_batch", "model_type": "tdt", "durations": durations,
                         "greedy": {"max_symbols": 10}},
            "loss": {"loss_name": "tdt", "tdt_kwargs": {"fastemit_lambda": 0.0, "durations": durations,
                                                        "sigma": 0.02, "omega": 0.1}},
            "validation_ds": {"manifest_filepath": None, "sample_rate": 16000, "shuffle": False,
                              "batch_size": 4, "use_start_end_token": False},
            "optim": {"name": "adamw", "lr": 0.1},
        }
    )  # fmt: skip
    model = EncDecRNNTBPEModel(cfg=config)
    path = folder / "tiny-parakeet.nemo"
    model.save_to(str(path))
    return path


def codec(folder: Path) -> Path:
    """A codec with NanoCodec's rate, hop and codebooks (22,050 Hz, 1764, 4 of 4032) and hardly any weights."""
    import torch
    from nemo.collections.tts.models import AudioCodecModel
    from omegaconf import OmegaConf

    torch.manual_seed(0)
    tts = "nemo.collections.tts."
    rates = [2, 3, 6, 7, 7]
    config = OmegaConf.create(
        {
            "sample_rate": 22050,
            "samples_per_frame": 1764,
            "audio_encoder": {"_target_": tts + "modules.audio_codec_modules.HiFiGANEncoder", "encoded_dim": 16,
                              "down_sample_rates": rates, "base_channels": 2, "resblock_kernel_sizes": [3],
                              "resblock_dilation_sizes": [1]},
            "vector_quantizer": {"_target_": tts + "modules.audio_codec_modules.GroupFiniteScalarQuantizer",
                                 "num_groups": 4, "num_levels_per_group": [9, 8, 8, 7]},
            "audio_decoder": {"_target_": tts + "modules.audio_codec_modules.CausalHiFiGANDecoder", "input_dim": 16,
                              "up_sample_rates": rates[::-1], "base_channels": 64, "resblock_kernel_sizes": [3],
                              "resblock_dilation_sizes": [1]},
            "discriminator": None,
            "loss_resolutions": [[512, 128, 512]],
            "mel_loss_dims": [20],
            "commit_loss_scale": 0.0,
            "generator_loss": {"_target_": tts + "losses.audio_codec_loss.GeneratorSquaredLoss"},
            "discriminator_loss": {"_target_": tts + "losses.audio_codec_loss.DiscriminatorSquaredLoss"},
        }
    )  # fmt: skip
    model = AudioCodecModel(cfg=config)
    path = folder / "tiny-codec.nemo"
    model.save_to(str(path))
    return path


def factor(folder: Path) -> Path:
    """A checkpoint folder of F-Actor's shape: Llama with eight audio heads, their embeddings, a speaker projection."""
    import torch
    from safetensors.torch import load_file, save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    home = folder / "tiny-factor"
    special = ("<|begin_of_text|>", "<|eot_id|>", "<unk>")
    words = [f"Ġ{word}" for word in WORDS.split()]
    table = {word: number for number, word in enumerate([*special, *FLOOR, *words])}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[1], unk_token=special[2],
        additional_special_tokens=list(FLOOR),
    )  # fmt: skip
    size = 32
    shape = LlamaConfig(vocab_size=len(table), hidden_size=size, intermediate_size=64, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
                        bos_token_id=0, eos_token_id=1)  # fmt: skip
    LlamaForCausalLM(shape).save_pretrained(home)
    fast.save_pretrained(home)
    file = home / "model.safetensors"
    weights: dict[str, Any] = load_file(str(file))
    weights["dsu_head.weight"] = torch.randn(AUDIO_VOCABULARY * HEADS, size) * 0.3
    weights["dsu_head.bias"] = torch.zeros(AUDIO_VOCABULARY * HEADS)
    weights["speaker_embed_proj.weight"] = torch.randn(size, 192) * 0.1
    weights["speaker_embed_proj.bias"] = torch.zeros(size)
    weights.update({f"audio_embeds.{head}.weight": torch.randn(AUDIO_VOCABULARY, size) * 0.1 for head in range(HEADS)})
    save_file({key: value.contiguous() for key, value in weights.items()}, str(file), metadata={"format": "pt"})
    speakers = {"brian": [0.01 * number for number in range(192)]}
    (home / "speaker_embeddings.json").write_text(json.dumps(speakers))
    return home


def nemo_python() -> str:
    """The interpreter that has NeMo: the environment beside this checkout's own, which `make test` makes, or this one.

    Raises:
        RuntimeError: neither has it.
    """
    beside = Path(__file__).parent.parent / ".venv-nemo" / "bin" / "python"
    if beside.is_file():
        return str(beside)
    if importlib.util.find_spec("nemo") is not None:
        return sys.executable
    raise RuntimeError(f"NeMo is neither in {beside} nor here; `make test` installs it")


if __name__ == "__main__":
    kinds, where = sys.argv[1].split(","), Path(sys.argv[2])
    for kind in kinds:
        print({"parakeet": parakeet, "codec": codec, "factor": factor}[kind](where))
