"""F-Actor from tiny random checkpoints, where NeMo is: ``python nemo_factor.py FOLDER`` prints its findings."""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from nemo_models import codec, factor

FRAME = 1920


def settings(folder: Path, **changes: Any) -> Any:
    from dsbif.agents.factor import FactorSettings

    home = folder / "tiny-factor"
    values: dict[str, Any] = {
        "checkpoint": str(home), "codec": str(folder / "tiny-codec.nemo"),
        "speakers": str(home / "speaker_embeddings.json"), "speaker": "brian", "agent_name": "Brian",
        "user_name": "Tom", "backchannels": 2, "interruptions": 2, "starts_dialogue": False, "temperature": 1.0,
        "top_p": 0.9, "top_k": 40, "max_frames": 1024, "lookahead_frames": 2, "context_frames": 25,
        "dtype": "float32", "device": "auto",
    }  # fmt: skip
    return FactorSettings(**{**values, **changes})


def conversation(agent: Any, seed: int, frames: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    agent.start(0, "the agent says yes", seed)
    speech, words, notes = [], [], []
    started = time.perf_counter()
    for _ in range(frames):
        for item in agent.step(rng.uniform(-0.1, 0.1, (1, FRAME)).astype(np.float32), [True])[0]:
            kind = type(item).__name__
            if kind == "AgentAudio":
                speech.append(item.pcm)
            else:
                (words if kind == "AgentText" else notes).append(item.text)
    wall_s = time.perf_counter() - started
    agent.stop(0)
    return {"pcm": np.concatenate(speech), "words": words, "notes": notes, "rtf": wall_s / (frames * 0.08)}


def steps_against_one_pass(parts: Any) -> float:
    """The largest difference between logits of the cached steps and of the whole sequence read at once."""
    import torch
    from transformers import LlamaForCausalLM

    model = parts.model
    rng = np.random.default_rng(2)
    prompt = parts.tokenizer.encode("yes and no")
    steps = [(rng.integers(0, 4034, 8), int(rng.integers(0, 20))) for _ in range(6)]
    logits, past = model.prefill(prompt)
    found = [logits]
    for audio, text in steps:
        logits, past = model.step(audio, text, past)
        found.append(logits)

    home = Path(parts.versions["checkpoint"])
    from safetensors.torch import load_file

    weights = load_file(str(home / "model.safetensors"))
    llama = LlamaForCausalLM.from_pretrained(home).eval()
    voice = torch.tensor(json.loads((home / "speaker_embeddings.json").read_text())["brian"])
    embed = llama.get_input_embeddings()
    rows = [weights["speaker_embed_proj.weight"] @ voice + weights["speaker_embed_proj.bias"]]
    rows += [embed(torch.tensor(token)) for token in prompt]
    for audio, text in steps:
        rows.append(sum(weights[f"audio_embeds.{h}.weight"][audio[h]] for h in range(8)) + embed(torch.tensor(text)))
    with torch.no_grad():
        hidden = llama.model(inputs_embeds=torch.stack(rows)[None]).last_hidden_state[0, len(prompt) :]
        audio_all = (hidden @ weights["dsu_head.weight"].T + weights["dsu_head.bias"]).view(len(found), 8, 4034)
        text_all = llama.lm_head(hidden)
    pairs = [(audio_all[n], one.audio) for n, one in enumerate(found)] + [
        (text_all[n], one.text) for n, one in enumerate(found)
    ]
    return float(max(np.abs(whole.numpy() - step).max() for whole, step in pairs))


def windows_against_the_whole(parts: Any) -> tuple[float, float]:
    """Speech decoded from windows against all of it at once; the share of codes that a long look ahead gets right."""
    from dsbif.agents.factor_sound import UserEar, resampled

    rng = np.random.default_rng(3)
    codes = rng.integers(0, 4032, (4, 60))
    whole = parts.codec.decode(codes)
    windows = np.concatenate([parts.codec.decode(codes[:, max(0, n - 24) : n + 1])[-1764:] for n in range(60)])
    user = rng.uniform(-0.3, 0.3, 60 * FRAME).astype(np.float32)
    ear = UserEar(parts.codec, 25, 6)
    heard = [ear.hear(user[n * FRAME : (n + 1) * FRAME]) for n in range(60)]
    offline = parts.codec.encode(resampled(user, 24_000, 22_050))
    inside = np.stack([one for one in heard[25:] if one is not None], axis=1)
    same = inside == offline[:, 19 : 19 + inside.shape[1]]
    return float(np.abs(whole - windows).max()), float(same.mean())


def faults(folder: Path) -> dict[str, str]:
    """What is said of checkpoints that are not F-Actor's."""
    from safetensors.torch import load_file, save_file

    from dsbif.agents.factor_load import load_parts
    from dsbif.errors import ConfigError

    bare, bent = folder / "bare", folder / "bent"
    for home in (bare, bent):
        shutil.copytree(folder / "tiny-factor", home)
    weights = load_file(str(bare / "model.safetensors"))
    save_file(
        {k: v for k, v in weights.items() if k != "dsu_head.bias"}, str(bare / "model.safetensors"), {"format": "pt"}
    )
    weights["dsu_head.bias"] = weights["dsu_head.bias"][:-8].clone()
    save_file(weights, str(bent / "model.safetensors"), {"format": "pt"})
    spoilt = folder / "spoilt.nemo"
    spoilt.write_bytes(b"no archive")
    cases = {
        "no head": {"checkpoint": str(bare)},
        "another shape": {"checkpoint": str(bent)},
        "no folder": {"checkpoint": str(folder / "nowhere")},
        "no llama": {"checkpoint": str(folder)},
        "no codec": {"codec": str(folder / "nowhere.nemo")},
        "spoilt codec": {"codec": str(spoilt)},
        "no voices": {"speakers": None},
        "no such voice": {"speaker": "nobody"},
        "no such file": {"speakers": str(folder / "nowhere.json")},
    }
    said = {}
    for name, change in cases.items():
        try:
            load_parts(settings(folder, **change))
            said[name] = "nothing"
        except ConfigError as error:
            said[name] = str(error)
    return said


def main(folder: Path) -> None:
    codec(folder)
    factor(folder)
    from dsbif.agents.factor import Factor
    from dsbif.agents.factor_load import load_parts

    parts = load_parts(settings(folder))
    agent = Factor(settings(folder), 1, parts)
    one, again, other = (conversation(agent, seed, 40) for seed in (1, 1, 2))
    decoding, codes = windows_against_the_whole(parts)
    print(
        json.dumps(
            {
                "versions": dict(parts.versions),
                "samples": len(one["pcm"]),
                "loudest": float(np.abs(one["pcm"]).max()),
                "again": bool(np.array_equal(one["pcm"], again["pcm"])) and one["words"] == again["words"],
                "other": bool(np.array_equal(one["pcm"], other["pcm"])),
                "words": one["words"],
                "notes": one["notes"],
                "rtf": one["rtf"],
                "steps": steps_against_one_pass(parts),
                "decoding": decoding,
                "codes": codes,
                "faults": faults(folder),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
