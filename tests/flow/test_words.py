"""Word times of a corpus: what is kept, what is tried again, what is flagged."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ASSETS, ESPEAK

from dsbif.audio.wav import Samples
from dsbif.bench.case import Case
from dsbif.bench.grid import CaseKey, cases_at
from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest
from dsbif.bench.roles import load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build import words
from dsbif.build.__main__ import main
from dsbif.build.corpus import Build, build_cases
from dsbif.build.render import render_turn
from dsbif.build.script import Line, load_corpus
from dsbif.build.voices import ENGINES, Engine, VoiceSettings
from dsbif.build.words import ALIGNERS, UnknownWordError, Word, align_corpus, align_pocketsphinx
from dsbif.errors import CaseError, ConfigError
from dsbif.files import sha256_of

CHECK = CaseKey("R1", "C4", 1, Level.L1)
REPAIR = CaseKey("R2", "C3", 1, Level.L1)
Align = Callable[[Samples, str], tuple[Word, ...]]


class Unsteady:
    """An engine that says the same text at another level every time."""

    identity = "unsteady"
    voices = ("x",)

    def __init__(self) -> None:
        self.takes = 0

    def speak(self, text: str, voice: str) -> Samples:
        self.takes += 1
        return np.full(24_000, 0.1 + 0.001 * self.takes, np.float32)


@pytest.fixture
def unsteady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Build:
    engine = Unsteady()
    monkeypatch.setitem(ENGINES, "unsteady", lambda settings, assets: engine)
    return Build(VoiceSettings("unsteady", ("x",)), tmp_path, tmp_path)


def _cases(build: Build, *keys: CaseKey) -> list[Case]:
    return build_cases(keys, load_roles(), load_corpus(), build, WindowMode.CAUSAL, lambda *_: None)


def _lines(build: Build) -> dict[str, dict[str, Any]]:
    """Lines of ``words.jsonl`` by audio."""
    lines = [json.loads(line) for line in (build.corpus_dir / "words.jsonl").read_text().splitlines()]
    assert len({line["audio"] for line in lines}) == len(lines)
    return {line["audio"]: line for line in lines}


def _align(build: Build, *keys: CaseKey) -> tuple[Sequence[Case], list[str], list[str]]:
    """The cases after alignment, what was flagged, and which turns were aligned."""
    aligned: list[str] = []
    cases, flagged = align_corpus(
        build, _cases(build, *keys), "pocketsphinx", lambda: _cases(build, *keys), lambda *step: aligned.append(step[2])
    )
    return cases, flagged, aligned


def _install(monkeypatch: pytest.MonkeyPatch, align: Align) -> None:
    monkeypatch.setitem(ALIGNERS, "pocketsphinx", align)


def _halves(samples: Samples, text: str) -> tuple[Word, ...]:
    """Two words, each half of the segment."""
    end_s = len(samples) / 24_000
    return (Word("first", 0.0, end_s / 2), Word("second", end_s / 2, end_s))


def _never(samples: Samples, text: str) -> tuple[Word, ...]:
    raise CaseError("it does not fit")


def test_pocketsphinx_finds_every_word_of_a_sentence_in_order(espeak: Engine) -> None:
    text = "My father fell down the stairs this morning."
    samples = render_turn([Line("s", text=text)], espeak, "en-us+m1").samples
    found = align_pocketsphinx(samples, text)
    assert [word.word for word in found] == ["my", "father", "fell", "down", "the", "stairs", "this", "morning"]
    assert found[0].start < 0.2
    assert abs(found[-1].end - len(samples) / 24_000) < 0.2
    assert all(word.start < word.end for word in found)


def test_a_line_holds_segments_and_words_in_turn_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path, ASSETS)
    (case,), flagged, _ = _align(build, CHECK)
    assert flagged == []
    lines = _lines(build)
    assert {audio: line["sha256"] for audio, line in lines.items()} == {
        turn.audio: turn.sha256 for turn in (case.turn1, case.turn2)
    }
    second = lines[case.turn2.audio]
    names = ["s1", "check", "pause", "s4"]
    assert [part["name"] for part in second["segments"]] == names
    assert [part["kind"] for part in second["segments"]] == ["speech", "speech", "silence", "speech"]
    last = case.turn2.segments[-1].span
    assert second["segments"][-1]["start"] == pytest.approx(last.start_s, abs=1e-6)
    assert [word["segment"] for word in second["words"]] == ["s1", "s1", "check", "check", "s4", "s4"]
    middle_s = (last.start_s + last.end_s) / 2
    assert second["words"][-1]["start"] == pytest.approx(middle_s, abs=0.001)
    assert second["words"][-1]["end"] == pytest.approx(last.end_s, abs=0.001)


def test_what_has_not_changed_is_not_aligned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path, ASSETS)
    assert len(_align(build, CHECK)[2]) == 2
    before = (tmp_path / "words.jsonl").read_bytes()
    assert _align(build, CHECK)[2] == []
    assert (tmp_path / "words.jsonl").read_bytes() == before


def test_a_smaller_build_keeps_the_lines_of_other_turns_as_long_as_their_audio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path, ASSETS)
    (_, repair), _, _ = _align(build, CHECK, REPAIR)
    assert _align(build, CHECK)[2] == []
    assert len(_lines(build)) == 4
    (tmp_path / repair.turn2.audio).unlink()
    _align(build, CHECK)
    assert len(_lines(build)) == 3


def test_another_dictionary_aligns_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path / "corpus", ASSETS)
    _align(build, CHECK)
    (tmp_path / "other.txt").write_text("pavlova P AA V L OW V AH\n")
    monkeypatch.setattr(words, "_PRONUNCIATIONS", tmp_path / "other.txt")
    assert len(_align(build, CHECK)[2]) == 2


@pytest.mark.parametrize("text", ["{", "[1]\n", '{"audio": "x"}\n', "\xff"])
def test_a_broken_file_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path, ASSETS)
    (tmp_path / "words.jsonl").write_text(text, encoding="latin-1")
    assert len(_align(build, CHECK)[2]) == len(_lines(build)) == 2


def test_what_is_done_before_an_interruption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _halves)
    build = Build(ESPEAK, tmp_path, ASSETS)
    cases = _cases(build, CHECK, REPAIR)

    def interrupt(done: int, total: int, label: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align_corpus(build, cases, "pocketsphinx", lambda: cases, interrupt)
    assert len(_lines(build)) == 3
    assert len(_align(build, CHECK, REPAIR)[2]) == 1


def test_an_engine_that_repeats_itself_is_asked_once_and_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def fails_on_check(samples: Samples, text: str) -> tuple[Word, ...]:
        calls.append(text)
        return _never(samples, text) if len(text.split()) < 5 else _halves(samples, text)

    _install(monkeypatch, fails_on_check)
    build = Build(ESPEAK, tmp_path, ASSETS)
    (case,), flagged, _ = _align(build, CHECK)
    fault = "check: it does not fit; spoken again, espeak gives the same samples"
    assert flagged == [f"{case.turn2.audio}: {fault}"]
    assert len(calls) == 4
    assert sha256_of(tmp_path / case.turn2.audio) == case.turn2.sha256
    assert [word["segment"] for word in _lines(build)[case.turn2.audio]["words"]] == ["s1", "s1", "s4", "s4"]
    assert _align(build, CHECK)[1:] == (flagged, [])
    assert len(calls) == 4


def test_a_word_without_pronunciation_has_nothing_spoken_again(
    unsteady: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(samples: Samples, text: str) -> tuple[Word, ...]:
        raise UnknownWordError("no pronunciation of zzqx")

    _install(monkeypatch, unknown)
    before = _cases(unsteady, REPAIR)
    cases, flagged, aligned = _align(unsteady, REPAIR)
    assert cases == before
    assert sorted(fault.partition(": ")[2] for fault in flagged) == [
        "repair: no pronunciation of zzqx",
        "turn1: no pronunciation of zzqx",
    ]
    assert len(aligned) == 2


def test_an_engine_that_differs_may_say_it_better(unsteady: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def likes_the_fourth_take(samples: Samples, text: str) -> tuple[Word, ...]:
        return _halves(samples, text) if samples.max() > 0.1035 else _never(samples, text)

    _install(monkeypatch, likes_the_fourth_take)
    before = _cases(unsteady, REPAIR)[0]
    (after,), flagged, aligned = _align(unsteady, REPAIR)
    assert flagged == []
    # Takes 1 and 2 are the turns as built; both are spoken again as takes 3 and 4, and one of them once more.
    one, other = sorted((before.turn1.audio, before.turn2.audio))
    assert aligned == [one, other, one, other, one]
    for was, turn in ((before.turn1, after.turn1), (before.turn2, after.turn2)):
        assert turn.audio == was.audio
        assert turn.sha256 != was.sha256
        assert sha256_of(unsteady.corpus_dir / turn.audio) == turn.sha256
    assert {line["sha256"] for line in _lines(unsteady).values()} == {after.turn1.sha256, after.turn2.sha256}


def test_after_three_more_takes_it_is_flagged(unsteady: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, _never)
    cases, flagged, aligned = _align(unsteady, REPAIR)
    assert len(aligned) == 2 * 4
    assert f"{cases[0].turn2.audio}: repair: it does not fit; 3 more takes of the turn fitted no better" in flagged
    assert {line["sha256"] for line in _lines(unsteady).values()} == {cases[0].turn1.sha256, cases[0].turn2.sha256}
    assert _align(unsteady, REPAIR)[1:] == (flagged, [])


def test_no_aligner_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    cases = _cases(Build(ESPEAK, tmp_path, ASSETS), CHECK)
    (tmp_path / "words.jsonl").write_text("mine")
    assert align_corpus(Build(ESPEAK, tmp_path, ASSETS), cases, "none", list, lambda *_: None) == (cases, [])
    assert (tmp_path / "words.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("aligner", "module", "message"),
    [
        ("pocketsphinx", "pocketsphinx", r'needs a package: pip install "dsbif\[align\]"'),
        ("mms", "torchaudio.pipelines", r'needs torchaudio .*: pip install "torch==2\.9\.\*" "torchaudio==2\.9\.\*"'),
    ],
)
def test_a_missing_package_is_told_before_anything_is_spoken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    aligner: str,
    module: str,
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=message):
        words.aligner_identity(aligner)
    folder = tmp_path / "corpus"
    assert main(["voice=espeak", "subset=quick", f"aligner={aligner}", f"corpus={folder}", f"assets={ASSETS}"]) == 2
    assert capsys.readouterr().err.startswith(f"dsbif: aligner={aligner} needs")
    assert not folder.exists()


def test_a_killed_worker_is_said_and_what_is_done_is_kept(tmp_path: Path) -> None:
    keys = [key for key in cases_at(Level.L1) if key.role == "R1" and key.instance == 1]
    build = Build(ESPEAK, tmp_path, ASSETS, workers=2)
    cases = _cases(build, *keys)

    def kill_one(done: int, total: int, label: str) -> None:
        if done == 1:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    with pytest.raises(ConfigError, match=r"aligned words was killed.*What is done is kept.*than 2\."):
        align_corpus(build, cases, "pocketsphinx", lambda: cases, kill_one)
    assert 1 <= len(_lines(build)) < 12


def test_the_command_builds_a_level_named_twice_once_and_reports_what_is_flagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(samples: Samples, text: str) -> tuple[Word, ...]:
        raise UnknownWordError(f"no pronunciation of {text}")

    _install(monkeypatch, unknown)
    arguments = ["voice=espeak", "subset=quick", "levels=L1,L1", "aligner=pocketsphinx", "workers=1"]
    assert main([*arguments, f"corpus={tmp_path}", f"assets={ASSETS}"]) == 0
    cases = read_manifest(tmp_path / "manifest.jsonl")
    found = json.loads((tmp_path / "report.json").read_text())
    assert len(cases) == len({case.test_case_id for case in cases}) == 48
    spoken = sum(len(turn.speech) for turn in {t.audio: t for c in cases for t in (c.turn1, c.turn2)}.values())
    assert len(found["flagged"]) == spoken
    assert found["wrong_turns"] == []


@pytest.mark.parametrize(
    ("words_given", "message"),
    [
        (["workers=²"], "workers=²: wanted auto, or a number from 1 to 1024."),
        (["corpus="], "corpus=: wanted a folder, such as corpus=data/corpus."),
        (["levels=l1"], "levels=l1: there is no such value."),
        (["aligner=mmz"], "aligner=mmz: there is no such value. Did you mean 'mms'?"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_paragraph(
    words_given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words_given) == 2
    assert capsys.readouterr().err.startswith(f"dsbif: {message}")


def test_a_corpus_folder_that_cannot_be_made_is_one_paragraph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["voice=espeak", "subset=quick", f"corpus={tmp_path / 'file' / 'corpus'}", f"assets={ASSETS}"]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "file" in line
    assert line.startswith("dsbif: ")
