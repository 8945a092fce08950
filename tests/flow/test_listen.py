"""A corpus heard by machines: what the detector and the recogniser are held against."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ASSETS, ESPEAK

from dsbif import listen
from dsbif.audio.wav import Samples, read_wav, write_pcm16
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Level
from dsbif.bench.manifest import write_manifest
from dsbif.bench.roles import load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build.corpus import Build, build_cases
from dsbif.build.render import render_turn
from dsbif.build.script import Line, load_corpus
from dsbif.build.voices import Engine
from dsbif.spans import Span


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Case]]:
    """A check with its pause, and a repair, in espeak's voices."""
    folder = tmp_path_factory.mktemp("corpus")
    keys = [CaseKey("R1", "C4", 1, Level.L1), CaseKey("R2", "C3", 1, Level.L1)]
    build = Build(ESPEAK, folder, ASSETS)
    cases = build_cases(keys, load_roles(), load_corpus(), build, WindowMode.CAUSAL, lambda *_: None)
    write_manifest(folder / "manifest.jsonl", cases)
    return folder, cases


def _hear(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    status = listen.main([f"corpus={folder}", f"assets={ASSETS}", *words])
    return status, json.loads((folder / "ear.json").read_text())


@pytest.fixture
def spoken(espeak: Engine) -> tuple[UserTurn, Samples]:
    """Two segments with two seconds between them."""
    lines = [
        Line("s1", text="One two three, four five six."),
        Line("pause", pause_s=2.0),
        Line("s3", text="Seven eight nine."),
    ]
    turn = render_turn(lines, espeak, "en-us+m1")
    return UserTurn("t.wav", "0" * 64, len(turn.samples), turn.segments), turn.samples


def test_bias_and_spread_are_told_per_engine(
    corpus: tuple[Path, list[Case]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = corpus
    status, found = _hear(folder, "sample=3")
    assert status == 0
    assert (found["turns"], list(found["engines"])) == (4, ["espeak"])
    espeak = found["engines"]["espeak"]
    # Turn 1, the part before the pause (its check joined to it) and the part after; turn 1 and the repair.
    assert espeak["onsets"]["n"] == espeak["offsets"]["n"] == 5
    assert espeak["onsets"] == found["onsets"]
    assert abs(espeak["onsets"]["mean_s"]) <= 0.1
    assert 0 < espeak["offsets"]["mean_s"] <= 0.15
    assert (espeak["transcribed"], espeak["word_error_rate"]) == (3, found["word_error_rate"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "espeak, 4 turns, onsets:" in shown
    assert "100.0% of 5 within 0.15 s" in shown


def test_every_engine_has_its_own_lines(corpus: tuple[Path, list[Case]], tmp_path: Path) -> None:
    folder, (one, two) = corpus
    (tmp_path / "audio").symlink_to(folder / "audio")
    write_manifest(tmp_path / "manifest.jsonl", [replace(one, voice="af_heart"), replace(two, voice="somebody")])
    found = _hear(tmp_path, "sample=100")[1]
    assert {name: (row["turns"], row["transcribed"]) for name, row in found["engines"].items()} == {
        "kokoro": (2, 4), "other": (2, 2),
    }  # fmt: skip
    assert found["transcribed"] == 6
    assert [line["errors"] / line["words"] for line in found["worst"]] == sorted(
        (line["errors"] / line["words"] for line in found["worst"]), reverse=True
    )


def test_edges_are_those_of_construction(spoken: tuple[UserTurn, Samples]) -> None:
    heard = listen.hear_turn(*spoken)
    assert heard.faults == ()
    assert [edge.kind for edge in heard.edges] == ["onset", "offset"] * 2
    assert all(abs(edge.error_s) <= listen.TOLERANCE_S for edge in heard.edges)


def test_an_edge_that_construction_puts_elsewhere_is_off_by_as_much(spoken: tuple[UserTurn, Samples]) -> None:
    turn, samples = spoken
    true = [edge.error_s for edge in listen.hear_turn(turn, samples).edges]
    first, pause, last = turn.segments
    moved = replace(last, span=Span(last.span.start_s - 0.4, last.span.end_s - 0.25))
    edges = listen.hear_turn(replace(turn, segments=(first, pause, moved)), samples).edges
    assert [edge.error_s for edge in edges] == pytest.approx([true[0], true[1], true[2] + 0.4, true[3] + 0.25])


def test_an_edge_beyond_the_tolerance_fails_the_command(
    corpus: tuple[Path, list[Case]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, (_, case) = corpus
    samples = read_wav(folder / case.turn2.audio)[0][:, 0]
    late = np.concatenate([np.zeros(7_200, np.float32), samples])
    (part,) = case.turn2.segments
    segments = (replace(part, span=Span(0.0, len(late) / 24_000)),)
    write_pcm16(tmp_path / case.turn1.audio, read_wav(folder / case.turn1.audio)[0][:, 0], 24_000)
    write_pcm16(tmp_path / case.turn2.audio, late, 24_000)
    write_manifest(
        tmp_path / "manifest.jsonl", [replace(case, turn2=replace(case.turn2, samples=len(late), segments=segments))]
    )
    status, found = _hear(tmp_path, "sample=all")
    assert (status, found["transcribed"]) == (1, 2)
    assert found["faults"] == []
    (edge,) = found["late_edges"]
    assert edge.startswith(f"{case.turn2.audio}: onset +0.")
    assert found["engines"]["espeak"]["onsets"]["within_tolerance"] == 0.5
    assert "edges more than 0.15 s off: 1" in capsys.readouterr().out


def test_a_silent_segment_beside_a_spoken_one_is_missed(espeak: Engine) -> None:
    said = render_turn([Line("s1", text="One two three, four five six.")], espeak, "en-us+m1").samples
    end_s = len(said) / 24_000
    segments = (
        TimedSegment("s1", "speech", "One.", Span(0.0, end_s)),
        TimedSegment("check", "speech", "You know?", Span(end_s + 0.06, end_s + 0.86)),
    )
    samples = np.concatenate([said, np.zeros(round(0.86 * 24_000), np.float32)])
    (fault,) = listen.hear_turn(UserTurn("t.wav", "0" * 64, len(samples), segments), samples).faults
    assert " is heard at check [" in fault


def test_a_turn_of_silence_has_no_edges() -> None:
    segments = (TimedSegment("s1", "speech", "One.", Span(0.0, 2.0)),)
    heard = listen.hear_turn(UserTurn("t.wav", "0" * 64, 48_000, segments), np.zeros(48_000, np.float32))
    assert heard.edges == ()
    assert heard.faults == ("t.wav: nothing is heard at s1 [0.000 → 2.000]",)


def test_speech_in_a_pause_is_heard(spoken: tuple[UserTurn, Samples]) -> None:
    turn, samples = spoken
    _, pause, last = turn.segments
    starts = round(last.span.start_s * 24_000)
    word = samples[starts : starts + 12_000]
    talked = samples.copy()
    middle = round((pause.span.start_s + 0.7) * 24_000)
    talked[middle : middle + len(word)] = word
    (fault,) = listen.hear_turn(turn, talked).faults
    assert fault == f"t.wav: speech is heard in the pause pause {pause.span}"


def test_a_corpus_of_silence_is_a_fault_and_no_traceback(
    corpus: tuple[Path, list[Case]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, (_, case) = corpus
    for turn in (case.turn1, case.turn2):
        write_pcm16(tmp_path / turn.audio, np.zeros(turn.samples, np.float32), 24_000)
    write_manifest(tmp_path / "manifest.jsonl", [case])
    status, found = _hear(tmp_path, "sample=1")
    assert (status, found["onsets"], len(found["faults"])) == (1, {"n": 0}, 2)
    assert "espeak, 2 turns, onsets: none heard" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wanted", "heard", "errors"),
    [
        ((), (), 0),
        (("a", "b", "c"), ("a", "b", "c"), 0),
        (("a", "b", "c"), (), 3),
        ((), ("a", "b"), 2),
        (("a", "b", "c"), ("a", "x", "c"), 1),
        (("a", "b", "c"), ("b", "c", "d"), 2),
        (("a", "b", "c", "d"), ("d", "c", "b", "a"), 4),
    ],
)
def test_word_errors(wanted: tuple[str, ...], heard: tuple[str, ...], errors: int) -> None:
    assert listen.word_errors(wanted, heard) == errors


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sample=²", "sample=²: wanted all, or a number from 1."),
        ("sample=0", "sample=0: wanted all, or a number from 1."),
        ("asr=wisper-tiny", "asr=wisper-tiny: there is no such recogniser. Did you mean 'whisper-tiny-en'?"),
        ("asr=kokoro-82m-int8", "asr=kokoro-82m-int8: there is no such recogniser. Valid: whisper-tiny-en."),
        ("corpus=nowhere", "the manifest nowhere/manifest.jsonl cannot be read"),
    ],
)
def test_what_cannot_be_heard_is_one_paragraph(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert listen.main([word]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"dsbif: {message}")


def test_a_manifest_of_no_case_and_lost_audio_are_named(
    corpus: tuple[Path, list[Case]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "manifest.jsonl").write_text("")
    assert listen.main([f"corpus={tmp_path}", f"assets={ASSETS}"]) == 2
    assert "holds no case" in capsys.readouterr().err
    write_manifest(tmp_path / "manifest.jsonl", corpus[1])
    assert listen.main([f"corpus={tmp_path}", f"assets={ASSETS}"]) == 2
    assert "does not exist; record or build it again" in capsys.readouterr().err
    assert not (tmp_path / "ear.json").exists()
