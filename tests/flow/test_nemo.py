"""NeMo itself: a recogniser and a codec of its real classes, tiny and random, saved and loaded as checkpoints are.

Everything runs in the environment that has NeMo (`make test` makes it), as children of these tests.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import dsbif, summary
from conftest import REPOSITORY
from nemo_models import WORDS, nemo_python

from dsbif.audio.asr_parakeet import Parakeet
from dsbif.errors import ConfigError

RATE = 24_000


def _in_nemo(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [nemo_python(), str(REPOSITORY / "tests" / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip().splitlines()[-1]


def test_parakeets_class_is_loaded_from_its_file_and_hears_utterances(tmp_path: Path) -> None:
    model = _in_nemo("nemo_models.py", "parakeet", str(tmp_path))
    rng = np.random.default_rng(0)
    spoken = [rng.uniform(-0.2, 0.2, samples).astype(np.float32) for samples in (RATE, 9600, 3 * RATE)]
    log = tmp_path / "logs" / "parakeet.log"
    parakeet = Parakeet(model, "auto", 2, Path(nemo_python()), log)
    try:
        assert parakeet.engine.startswith("tiny-parakeet.nemo nemo ")
        texts = parakeet.transcribe(spoken, RATE)
        assert texts == parakeet.transcribe(spoken, RATE)
    finally:
        parakeet.close()
    # Its weights are random, so what it says has no sense; it is made of its vocabulary's letters.
    assert [type(text) for text in texts] == [str] * 3
    assert {letter for text in texts for letter in text} <= set(WORDS)
    assert "successfully restored" in log.read_text()

    spoilt = tmp_path / "spoilt.nemo"
    spoilt.write_bytes(b"no archive")
    with pytest.raises(ConfigError, match=r"spoilt\.nemo cannot be loaded: .*See .*parakeet\.log"):
        Parakeet(str(spoilt), "cpu", 2, Path(nemo_python()), log)

    words = ("transcript=parakeet", f"transcript.model={model}", f"transcript.python={nemo_python()}")
    done = dsbif(tmp_path, "model=oracle", "role=R6", "run=heard", *words)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "runs/heard/transcripts.parakeet.jsonl").read_text().splitlines()]
    assert len(rows) == summary(tmp_path, "heard")["n_scored"] == 6
    assert {(row["source"], row["engine"]) for row in rows} == {("asr", parakeet.engine)}
    verdicts = (tmp_path / "runs/heard/verdicts.jsonl").read_text()
    assert f"as heard by {parakeet.engine}" in verdicts


def test_factor_from_checkpoints_of_its_shape(tmp_path: Path) -> None:
    found: dict[str, Any] = json.loads(_in_nemo("nemo_factor.py", str(tmp_path)))
    print(f"real-time factor of the tiny model on one thread: {found['rtf']:.2f}")
    assert found["samples"] == 38 * 1920, "40 frames, the first two of delay"
    assert 0 < found["loudest"] <= 1
    assert (found["again"], found["other"]) == (True, False)
    assert set(found["words"]) <= set(WORDS.split())
    assert len(found["words"]) > 5
    assert "Narrative:\n- the agent says yes\n" in found["notes"][0]
    assert found["versions"]["nemo"]
    # Cached steps are the sequence read at once; windows of two seconds are the whole conversation.
    assert found["steps"] < 1e-4
    assert found["decoding"] < 1e-5
    assert found["codes"] == 1.0
    said = found["faults"]
    assert "is no F-Actor checkpoint: it holds no dsu_head.bias" in said["no head"]
    assert "dsu_head.bias has shape (32264,); F-Actor's is (32272,)" in said["another shape"]
    assert "nowhere, which is no folder" in said["no folder"]
    assert "holds no Llama that can be loaded" in said["no llama"]
    assert "nowhere.nemo, which does not exist" in said["no codec"]
    assert "spoilt.nemo cannot be loaded" in said["spoilt codec"]
    assert "F-Actor needs a voice: model.speakers=FILE" in said["no voices"]
    assert "has no voice 'nobody'; it has: brian" in said["no such voice"]
    assert "nowhere.json, which cannot be used" in said["no such file"]

    home = tmp_path / "tiny-factor"
    words = (f"model.checkpoint={home}", f"model.codec={tmp_path / 'tiny-codec.nemo'}", "model.speaker=brian",
             f"model.speakers={home / 'speaker_embeddings.json'}", f"model.python={nemo_python()}")  # fmt: skip
    done = dsbif(tmp_path, "model=factor", "role=R6", "probe=C2", "run=factor", *words)
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs/factor/recordings").glob("*.rec.json")
    rec = json.loads(path.read_text())
    assert (rec["status"], rec["conditioning"], rec["transcript"]["source"]) == ("ok", "full", "native")
    assert set(rec["transcript"]["text"].split()) <= set(WORDS.split())
    assert "Narrative:\n- You " in rec["notes"][0]["text"]
    # One stretch of speech from the third frame to the end.
    assert [item["position_samples"] for item in rec["emissions"]] == [3 * 1920]
    assert summary(tmp_path, "factor")["n_scored"] == 1
