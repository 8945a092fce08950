"""`python -m dsbif.build` and `python -m dsbif.listen` on a small corpus of espeak speech."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ASSETS

from dsbif import listen
from dsbif.audio.wav import read_wav, write_pcm16
from dsbif.bench.case import TimedSegment, UserTurn
from dsbif.bench.manifest import read_manifest
from dsbif.build.__main__ import main, parse
from dsbif.build.render import render_turn
from dsbif.build.script import Line
from dsbif.build.voices import Engine, VoiceSettings, make_engine
from dsbif.build.words import align_pocketsphinx, align_turn
from dsbif.errors import CaseError, ConfigError
from dsbif.spans import Span


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 48 first instances at L1, in espeak's voices."""
    folder = tmp_path_factory.mktemp("corpus")
    words = ["voice=espeak", "subset=quick", "levels=L1", f"corpus={folder}", f"assets={ASSETS}", "workers=2"]
    assert main(words) == 0
    return folder


def _tree(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.wav")}


def test_the_manifest_and_the_report_describe_the_audio(corpus: Path) -> None:
    cases = read_manifest(corpus / "manifest.jsonl")
    found = json.loads((corpus / "report.json").read_text())
    assert (len(cases), found["cases"], found["conversations"], found["streams"]) == (48, 48, 48, 44)
    assert found["wrong_pauses"] == found["missed_targets"] == found["flagged"] == []
    assert sum(found["voices"].values()) == 44
    turn2 = [case.turn2 for case in {case.turn2.audio: case for case in cases}.values()]
    turn1 = [case.turn1 for case in {case.turn1.audio: case for case in cases}.values()]
    mean_s = (sum(t.samples for t in turn2) + sum(t.samples for t in turn1)) / 44 / 24_000
    assert found["conversation_s"]["mean"] == pytest.approx(mean_s, abs=0.002)
    assert found["pauses"] == sum(part.kind == "silence" for turn in turn2 for part in turn.segments)


def test_a_second_build_speaks_nothing(corpus: Path) -> None:
    before = _tree(corpus)
    assert main(["voice=espeak", "subset=quick", "levels=L1", f"corpus={corpus}", f"assets={ASSETS}"]) == 0
    assert _tree(corpus) == before


def test_a_spoilt_pause_is_reported(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dsbif.build.report import report

    case = next(case for case in read_manifest(corpus / "manifest.jsonl") if case.probe == "C1")
    for turn in (case.turn1, case.turn2):
        samples = read_wav(corpus / turn.audio)[0][:, 0]
        if turn is case.turn2:
            pause = next(part.span for part in turn.segments if part.kind == "silence")
            samples[round(pause.start_s * 24_000) + 100] = 0.5
            samples[5] = 1.0
        write_pcm16(tmp_path / turn.audio, samples, 24_000)
    found = report(tmp_path, [case])
    assert found["wrong_pauses"] == [f"{case.turn2.audio}: pause is not silent"]
    assert found["clipped"] == {case.turn2.audio: 1}


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("voice=kokro", r"voice=kokro: there is no such value\. Did you mean 'kokoro'\?"),
        ("levels=L1,L9", r"levels=L9: there is no such value"),
        ("worker=2", r"'worker=2' is no setting .* Did you mean|Valid"),
        ("workers=none", r"workers=none: wanted auto, or a number"),
        ("aligner=sphinx", r"aligner=sphinx: .*pocketsphinx"),
        ("windows=official", r"windows=official: there is no such value"),
        ("full", r"'full' is no setting"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_one_paragraph(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=message):
        parse([word])
    assert main([word]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_an_empty_folder_of_scripts_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["voice=espeak", f"scripts={tmp_path}", f"corpus={tmp_path}", f"assets={ASSETS}"]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.fixture(scope="module")
def kokoro() -> Engine:
    return make_engine(VoiceSettings("kokoro", ("am_michael",), 0.85), ASSETS)


def test_words_of_kokoros_speech_are_found_in_order_and_inside_the_segment(kokoro: Engine) -> None:
    text = "My father fell down the stairs this morning."
    samples = render_turn([Line("s", text=text)], kokoro, "am_michael").samples
    words = align_pocketsphinx(samples, text)
    assert [word.word for word in words] == ["my", "father", "fell", "down", "the", "stairs", "this", "morning"]
    assert words[0].start <= 0.15
    assert words[-1].end == pytest.approx(len(samples) / 24_000, abs=0.15)
    for one, other in itertools.pairwise(words):
        assert one.start < one.end <= other.start + 0.011


def test_words_are_shifted_to_turn_time_and_what_cannot_be_aligned_is_flagged(kokoro: Engine, tmp_path: Path) -> None:
    lines = [Line("s1", text="I need two large fries,"), Line("pause", pause_s=1.2), Line("s3", text="and one cola.")]
    turn = render_turn(lines, kokoro, "am_michael")
    write_pcm16(tmp_path / "t.wav", turn.samples, 24_000)
    line = align_turn(tmp_path, "pocketsphinx", UserTurn("t.wav", "0" * 64, len(turn.samples), turn.segments))
    assert line["flagged"] == []
    third = next(part.span for part in turn.segments if part.name == "s3")
    said = [word for word in line["words"] if word["segment"] == "s3"]
    assert [word["word"] for word in said] == ["and", "one", "cola"]
    assert all(third.start_s <= word["start"] and word["end"] <= third.end_s + 0.02 for word in said)
    odd = (TimedSegment("s1", "speech", "Zzqx the fries.", Span(0.0, 1.0)),)
    line = align_turn(tmp_path, "pocketsphinx", UserTurn("t.wav", "0" * 64, 24_000, odd))
    assert line["words"] == []
    assert line["flagged"] == ["s1: no pronunciation of zzqx; add it to pronunciations.txt"]


def test_audio_that_is_not_the_text_is_a_fault_and_the_next_segment_is_none_the_worse(kokoro: Engine) -> None:
    text = "My father fell down the stairs this morning."
    samples = render_turn([Line("s", text=text)], kokoro, "am_michael").samples
    with pytest.raises(CaseError, match="pocketsphinx"):
        align_pocketsphinx(samples[:4_800], text)
    assert len(align_pocketsphinx(samples, text)) == 8


def test_mms_says_what_it_needs_where_torchaudio_does_not_fit(kokoro: Engine) -> None:
    from dsbif.build.words import align_mms

    with pytest.raises(ConfigError, match="aligner=mms needs torchaudio"):
        align_mms(np.zeros(24_000, np.float32), "hello")


def test_the_corpus_is_heard_as_it_was_built(corpus: Path) -> None:
    assert listen.main([f"corpus={corpus}", f"assets={ASSETS}", "sample=4"]) == 0
    found = json.loads((corpus / "ear.json").read_text())
    assert found["faults"] == []
    assert found["onsets"]["within_tolerance"] == found["offsets"]["within_tolerance"] == 1.0
    assert found["onsets"]["n"] > 80
    assert (found["transcribed"], len(found["worst"])) == (4, 4)
    assert 0 <= found["word_error_rate"] < 0.6


def test_speech_in_a_pause_and_a_silent_segment_are_heard(espeak: Engine) -> None:
    spoken = render_turn([Line("s1", text="One two three, four five six.")], espeak, "en-us+m1")
    end_s = len(spoken.samples) / 24_000
    said_to_be_pause = (TimedSegment("pause", "silence", "", Span(0.0, end_s)),)
    silent = (TimedSegment("s2", "speech", "Seven.", Span(end_s + 1, end_s + 2)),)
    samples = np.concatenate([spoken.samples, np.zeros(72_000, np.float32)])
    turn = UserTurn("t.wav", "0" * 64, len(samples), said_to_be_pause + silent)
    faults = listen.hear_turn(turn, samples).faults
    assert any("speech is heard in the pause" in fault for fault in faults)
    assert any("nothing is heard at" in fault for fault in faults)


@pytest.mark.parametrize(
    ("word", "message"), [("sample=few", "wanted all, or a number"), ("corpsu=x", "Did you mean 'corpus'")]
)
def test_listening_takes_no_setting_that_cannot_be_meant(
    word: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listen.main([word]) == 2
    assert message in capsys.readouterr().err
