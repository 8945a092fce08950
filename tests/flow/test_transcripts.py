"""Whose words count: the agent's own or a recogniser's, from speech to verdict and judge."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from builders import a_case, a_recording
from command import dsbif, summary
from judge_server import Act, judge_server

from dsbif.audio.asr_parakeet import Parakeet
from dsbif.audio.asr_whisper import Whisper
from dsbif.audio.wav import write_pcm16
from dsbif.build.assets import locate
from dsbif.build.voices import Engine
from dsbif.errors import ConfigError
from dsbif.session.recording import Recording, Transcript
from dsbif.transcripts import read_chosen, utterances

RATE = 24_000
NOISE = np.random.default_rng(0).uniform(-0.1, 0.1, RATE).astype(np.float32)


def _stereo(
    folder: Path, *said: tuple[float, np.ndarray[Any, Any]], duration_s: float = 20.0
) -> tuple[Path, Recording]:
    stereo = np.zeros((round(duration_s * RATE), 2), np.float32)
    for at_s, pcm in said:
        start = round(at_s * RATE)
        stereo[start : start + len(pcm), 1] = pcm
    path = folder / "x.stereo.wav"
    write_pcm16(path, stereo, RATE)
    return path, a_recording(a_case(), duration_s=duration_s, turn2_onset_s=10.0)


def _texts(folder: Path, assets: Path, recording: Recording, wav: Path) -> list[tuple[float, str]]:
    found = utterances(wav, recording)
    assert found is not None
    whisper = Whisper(locate("whisper-tiny-en", assets))
    return [(onset_s, whisper.transcribe(mono, found[1])) for onset_s, mono in found[0]]


def test_each_utterance_has_its_words_and_its_time(tmp_path: Path, espeak: Engine, assets: Path) -> None:
    first = espeak.speak("Good morning, how are you?", "en-us+f4")
    second = espeak.speak("Please wait here.", "en-us+f4")
    wav, recording = _stereo(tmp_path, (3.0, first), (12.0, second))
    (one_s, one), (two_s, two) = _texts(tmp_path, assets, recording, wav)
    assert "morning" in one.lower()
    assert "wait" in two.lower()
    assert 2.9 < one_s < 3.3
    assert 11.9 < two_s < 12.3


def test_an_utterance_that_runs_into_turn_two_is_cut_there(tmp_path: Path, espeak: Engine) -> None:
    line = espeak.speak("Good morning, how are you and how is everybody at home today?", "en-us+f4")
    wav, recording = _stereo(tmp_path, (9.0, line))
    found = utterances(wav, recording)
    assert found is not None
    (one_s, before), (two_s, after) = found[0]
    assert 8.9 < one_s < 9.3
    assert two_s == 10.0
    # 0.15 s around the utterance, and nothing around the cut
    assert len(before) == round(10.0 * RATE) - round((one_s - 0.15) * RATE)
    assert len(before) + len(after) < len(line) + 0.6 * RATE


def test_audio_that_cannot_be_trusted_has_no_transcript(tmp_path: Path) -> None:
    wav, recording = _stereo(tmp_path)
    assert utterances(wav, recording) == ([], RATE)
    stereo, _ = soundfile.read(wav, dtype="float32")
    stereo[5, 1] = np.nan
    soundfile.write(wav, stereo, RATE, subtype="FLOAT")
    assert utterances(wav, recording) is None
    wav.write_bytes(b"RIFF")
    assert utterances(wav, recording) is None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle at R6, whose READBACK is spoken and reported; and the same agent with its words withheld."""
    folder = tmp_path_factory.mktemp("transcripts")
    done = dsbif(folder, "model=oracle", "role=R6", "run=said")
    assert done.returncode == 0, done.stderr
    recordings = folder / "runs/said/recordings"
    (folder / "runs/mute/recordings").mkdir(parents=True)
    for name in ("config.yaml", "manifest.jsonl"):
        (folder / "runs/mute" / name).write_bytes((folder / "runs/said" / name).read_bytes())
    for path in recordings.iterdir():
        target = folder / "runs/mute/recordings" / path.name
        if path.suffix == ".json":
            rec = json.loads(path.read_text())
            rec["transcript"] = {"source": "none", "pieces": []}
            target.write_text(json.dumps(rec))
        else:
            target.write_bytes(path.read_bytes())
    return folder


def _lines(path: Path) -> dict[str, dict[str, Any]]:
    return {row["test_case_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_whisper_is_heard_instead_of_the_agent_where_asked(place: Path) -> None:
    run = place / "runs/said"
    done = dsbif(place, "stage=score", "run=said", "transcript=whisper")
    assert done.returncode == 0, done.stderr
    rows, verdicts = _lines(run / "transcripts.whisper.jsonl"), _lines(run / "verdicts.jsonl")
    assert list(rows) == list(verdicts)
    (tid,) = [tid for tid, row in verdicts.items() if row["action"] == "READBACK" and "_B_" in tid]
    engine = rows[tid]["engine"]
    assert engine.startswith("whisper-tiny-en faster-whisper ")
    assert rows[tid]["source"] == "asr"
    rec = json.loads((run / f"recordings/{tid}.rec.json").read_text())
    assert all(piece["time_samples"] >= rec["turn2_onset_samples"] for piece in rows[tid]["pieces"][-1:])
    assert f"as heard by {engine}" in verdicts[tid]["verdict"]["why"]
    measured = _lines(run / "measurements.jsonl")[tid]["measured"]
    assert (measured["transcript_source"], measured["transcript_engine"]) == ("asr", engine)
    assert (measured["readback"]["source"], measured["readback"]["scope"]) == ("asr", "from-turn-2")
    assert rec["transcript"]["source"] == "native"
    assert summary(place, "said")["transcript"] == engine
    assert f"words by {engine}" in " ".join(done.stdout.split())
    # and back: the agent's own words, which the first run scored
    assert dsbif(place, "stage=score", "run=said").returncode == 0
    assert summary(place, "said")["transcript"] == "native"
    assert "as heard by" not in _lines(run / "verdicts.jsonl")[tid]["verdict"]["why"]


def test_what_is_transcribed_is_not_transcribed_again_until_its_audio_changes(place: Path) -> None:
    path = place / "runs/said/transcripts.whisper.jsonl"
    dsbif(place, "stage=score", "run=said", "transcript=whisper")
    before, touched = _lines(path), path.stat().st_mtime_ns
    done = dsbif(place, "stage=score", "run=said", "transcript=whisper")
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mtime_ns == touched
    assert "is transcribed" not in done.stderr
    tid = sorted(before)[0]
    wav = place / f"runs/said/recordings/{tid}.stereo.wav"
    kept = wav.read_bytes()
    stereo, rate = soundfile.read(wav, dtype="float32")
    stereo[:, 1] = 0
    write_pcm16(wav, stereo, rate)
    done = dsbif(place, "stage=score", "run=said", "transcript=whisper")
    wav.write_bytes(kept)
    assert "is transcribed: 1 of 1" in done.stderr
    after = _lines(path)
    assert (before[tid]["text"] != "", after[tid]["pieces"]) == (True, [])
    assert after[tid]["wav_sha256"] != before[tid]["wav_sha256"]
    assert {key: row for key, row in after.items() if key != tid} == {k: r for k, r in before.items() if k != tid}


def test_a_broken_recording_is_listed_and_the_others_are_transcribed(place: Path) -> None:
    wav = sorted((place / "runs/mute/recordings").glob("*.wav"))[0]
    kept = wav.read_bytes()
    stereo, rate = soundfile.read(wav, dtype="float32")
    stereo[100, 1] = np.inf
    soundfile.write(wav, stereo, rate, subtype="FLOAT")
    done = dsbif(place, "stage=score", "run=mute", "transcript=whisper", "workers=2")
    wav.write_bytes(kept)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    tid = wav.name.removesuffix(".stereo.wav")
    # Two processes wrote down the same words as one did.
    assert dsbif(place, "stage=score", "run=said", "transcript=whisper").returncode == 0
    alone = _lines(place / "runs/said/transcripts.whisper.jsonl")
    assert _lines(place / "runs/mute/transcripts.whisper.jsonl") == {k: row for k, row in alone.items() if k != tid}
    assert [case["reason"] for case in summary(place, "mute")["unscored"]] == ["bad_audio"]


def test_auto_asks_the_recogniser_only_where_the_agent_says_nothing(place: Path) -> None:
    done = dsbif(place, "stage=score", "run=mute")
    assert done.returncode == 1
    assert {case["reason"] for case in summary(place, "mute")["unscored"]} == {"no_transcript"}
    assert summary(place, "mute")["transcript"] == "none"
    assert "transcript=whisper makes one" in (place / "runs/mute/verdicts.jsonl").read_text()
    done = dsbif(place, "stage=score", "run=mute", "transcript=auto")
    assert done.returncode == 0, done.stderr
    assert summary(place, "mute")["unscored"] == []
    assert "as heard by whisper-tiny-en" in (place / "runs/mute/verdicts.jsonl").read_text()
    path = place / "runs/said/transcripts.whisper.jsonl"
    path.unlink(missing_ok=True)
    done = dsbif(place, "stage=score", "run=said", "transcript=auto")
    assert done.returncode == 0, done.stderr
    assert not [row for row in (_lines(path) if path.exists() else {}).values() if row["text"]]
    assert "as heard by" not in (place / "runs/said/verdicts.jsonl").read_text()


def test_the_judge_is_shown_the_same_words(place: Path) -> None:
    with judge_server(lambda n, body: Act()) as server:
        done = dsbif(
            place, "stage=judge", "run=mute", "transcript=whisper", "judge=compatible", f"judge.base_url={server.url}",
            "judge.model=tiny", "judge.name=tiny", OPENAI_API_KEY="sk-x",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        shown = " ".join(body["messages"][-1]["content"] for body in server.bodies)
    rows = _lines(place / "runs/mute/transcripts.whisper.jsonl")
    texts = [row["text"] for row in rows.values() if row["text"]]
    assert len(texts) >= 4
    assert all(text.split()[0] in shown for text in texts)


def test_a_spoilt_file_of_transcripts_says_what_to_do(place: Path) -> None:
    path = place / "runs/mute/transcripts.whisper.jsonl"
    dsbif(place, "stage=score", "run=mute", "transcript=whisper")
    good = path.read_text()
    for spoilt in ("{", good.replace('"pieces"', '"bits"')):
        path.write_text(spoilt)
        done = dsbif(place, "stage=score", "run=mute", "transcript=whisper")
        assert done.returncode == 2
        assert "transcripts.whisper.jsonl cannot be used" in done.stderr
        assert "Remove it" in done.stderr
    path.write_text(good)


def test_the_chosen_transcript_is_laid_over_the_record(place: Path) -> None:
    rec = sorted((place / "runs/said/recordings").glob("*.rec.json"))[0]
    case = a_case()
    chosen = Transcript("asr", (), "an engine")
    assert read_chosen(rec, case, 1.0, chosen).transcript is chosen
    assert read_chosen(rec, case, 1.0, None).transcript.source == "native"


# Parakeet's process: what goes wrong. That it works is shown where NeMo is.


def _interpreter(folder: Path, body: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport sys, json\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _parakeet(folder: Path, python: Path | None, model: str = "nvidia/some-model") -> Parakeet:
    return Parakeet(model, "cpu", 4, python, folder / "parakeet.log")


def test_an_environment_without_nemo_is_told_the_command(tmp_path: Path) -> None:
    blocked = _interpreter(
        tmp_path,
        "import runpy\nsys.modules['nemo'] = None\nsys.argv = sys.argv[2:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')",
    )
    with pytest.raises(ConfigError, match=r'has no NeMo \(.*nemo.*\): pip install "dsbif\[factor\]"'):
        _parakeet(tmp_path, blocked)


def test_a_model_file_or_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"transcript\.model names .*gone\.nemo, which does not exist"):
        _parakeet(tmp_path, None, model=str(tmp_path / "gone.nemo"))
    with pytest.raises(ConfigError, match=r"transcript\.python names .*nowhere, which cannot be run"):
        _parakeet(tmp_path, tmp_path / "nowhere")


def test_a_process_that_dies_is_quoted(tmp_path: Path) -> None:
    dies = _interpreter(tmp_path, "sys.stderr.write('out of memory on device 0'); sys.exit(9)")
    with pytest.raises(ConfigError, match=r"ended with status 9; its last words, in .*parakeet\.log: out of memory on"):
        _parakeet(tmp_path, dies)


def test_a_process_that_dies_at_work_or_answers_too_little(tmp_path: Path) -> None:
    says = "print(json.dumps({'ready': 'nemo 0'}), flush=True)\nline = sys.stdin.readline()\n"
    with pytest.raises(ConfigError, match="ended with status 7"):
        _parakeet(tmp_path, _interpreter(tmp_path, says + "sys.exit(7)")).transcribe([NOISE], RATE)
    short = _parakeet(tmp_path, _interpreter(tmp_path, says + "print(json.dumps({'texts': ['a']}), flush=True)"))
    assert short.engine == "nvidia/some-model nemo 0"
    assert short.transcribe([], RATE) == []
    with pytest.raises(ConfigError, match="could not transcribe: 2 utterances were sent"):
        short.transcribe([NOISE, NOISE], RATE)
    short.close()
    short.close()
    failing = "print(json.dumps({'failed': 'OutOfMemoryError: 3 GiB'}), flush=True)"
    with pytest.raises(ConfigError, match="could not transcribe: OutOfMemoryError: 3 GiB"):
        _parakeet(tmp_path, _interpreter(tmp_path, says + failing)).transcribe([NOISE], RATE)


def test_what_was_written_down_before_a_failure_is_kept_and_not_asked_for_again(place: Path, tmp_path: Path) -> None:
    obeys = (
        "print(json.dumps({'ready': 'nemo 0'}), flush=True)\n"
        "for number, line in enumerate(sys.stdin):\n"
        "    if number == LIMIT: sys.exit(7)\n"
        "    texts = [f'{len(json.loads(line)[\"wavs\"])} heard'] * len(json.loads(line)['wavs'])\n"
        "    print(json.dumps({'texts': texts}), flush=True)\n"
    )
    path = place / "runs/mute/transcripts.parakeet.jsonl"
    words = ("stage=score", "run=mute", "transcript=parakeet", f"transcript.python={tmp_path / 'python'}")
    _interpreter(tmp_path, obeys.replace("LIMIT", "2"))
    done = dsbif(place, *words)
    assert done.returncode == 2
    assert "ended with status 7" in done.stderr
    kept = [row for row in _lines(path).values() if row["pieces"]]
    assert len(kept) == 2
    assert dsbif(place, "stage=score", "run=mute", "transcript=whisper").returncode == 0
    spoken = [row for row in _lines(place / "runs/mute/transcripts.whisper.jsonl").values() if row["pieces"]]
    _interpreter(tmp_path, obeys.replace("LIMIT", str(len(spoken) - 2)))
    done = dsbif(place, *words)
    assert done.returncode == 0, done.stderr
    rows = _lines(path)
    assert [rows[row["test_case_id"]] for row in kept] == kept
    assert {row["engine"] for row in rows.values()} == {"nvidia/parakeet-tdt-0.6b-v2 nemo 0"}
    path.unlink()


def test_a_recogniser_that_fails_ends_the_command_with_one_paragraph(place: Path) -> None:
    done = dsbif(place, "stage=score", "run=mute", "transcript=parakeet", "transcript.python=/nowhere/python")
    assert done.returncode == 2
    assert "transcript.python names /nowhere/python" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place / "runs/mute/transcripts.parakeet.jsonl").exists()
