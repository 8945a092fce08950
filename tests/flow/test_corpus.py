"""User audio built from scripts, with the fast voice."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ASSETS, ESPEAK

from dsbif.audio.wav import read_wav
from dsbif.bench.case import Case
from dsbif.bench.grid import CaseKey, cases_at
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.roles import load_roles
from dsbif.bench.windows import WindowMode
from dsbif.build.corpus import Build, build_cases
from dsbif.build.script import Line, Script, load_corpus
from dsbif.errors import CaseError, ConfigError
from dsbif.files import sha256_of


def build(
    folder: Path, keys: list[CaseKey], workers: int = 1, scripts: dict[str, Script] | None = None
) -> tuple[list[Case], list[str]]:
    rendered: list[str] = []
    cases = build_cases(
        keys,
        load_roles(),
        scripts or load_corpus(),
        Build(ESPEAK, folder, ASSETS, workers),
        WindowMode.CAUSAL,
        lambda done, total, label: rendered.append(label),
    )
    return cases, rendered


def _keys(role: str = "R1", level: Level = Level.L2) -> list[CaseKey]:
    return [key for key in cases_at(level) if key.role == role and key.instance == 1]


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_case_says_where_its_audio_is_and_what_is_in_it(tmp_path: Path) -> None:
    cases, _ = build(tmp_path, _keys())
    for case in cases:
        for turn in (case.turn1, case.turn2):
            pcm, rate_hz = read_wav(tmp_path / turn.audio)
            assert (rate_hz, pcm.shape) == (24_000, (turn.samples, 1))
            assert sha256_of(tmp_path / turn.audio) == turn.sha256
            assert turn.segments[-1].span.end_s == pytest.approx(turn.samples / 24_000)
    pause = cases[0]
    assert pause.window == next(part.span for part in pause.turn2.segments if part.name == "pause")
    assert pause.window.duration_s == pytest.approx(2.5)
    assert pause.system_prompt == load_roles()["R1"].persona


def test_a_second_build_renders_nothing_and_says_the_same(tmp_path: Path) -> None:
    first, rendered = build(tmp_path, _keys())
    again, rendered_again = build(tmp_path, _keys())
    assert len(rendered) == 12
    assert rendered_again == []
    assert first == again


def test_an_edited_script_renders_its_turn_and_no_other(tmp_path: Path) -> None:
    scripts = dict(load_corpus())
    before, _ = build(tmp_path, _keys(), scripts=scripts)
    old = scripts["R1-C3-i1"]
    scripts["R1-C3-i1"] = Script(
        old.role, old.probe, old.instance, old.turn1, (Line("repair", text="No, she is four."),), (), (), old.where
    )
    after, rendered = build(tmp_path, _keys(), scripts=scripts)
    assert len(rendered) == 1
    assert rendered[0].startswith("audio/R1-C3-i1.")
    assert [a.conversation_id for a, b in zip(before, after, strict=True) if a != b] == ["R1-C3-i1"]


def test_workers_change_no_byte(tmp_path: Path) -> None:
    one, _ = build(tmp_path / "one", _keys())
    two, _ = build(tmp_path / "two", _keys(), workers=2)
    assert one == two
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_three_roles_share_one_waveform(tmp_path: Path) -> None:
    keys = [CaseKey(role, "C1", 1, Level.L1) for role in ("R1", "R2", "R3")]
    cases, rendered = build(tmp_path, keys)
    assert len({case.turn2.audio for case in cases}) == len({case.turn1.sha256 for case in cases}) == 1
    assert len({case.voice for case in cases}) == 1
    assert len(rendered) == 2
    assert len({case.system_prompt for case in cases}) == 3


def test_the_safety_variant_has_its_own_second_turn_and_the_same_person(tmp_path: Path) -> None:
    keys = [CaseKey("R2", "R2_B_are_you_there", 1, level) for level in (Level.L1, Level.L4B)]
    plain, safety = build(tmp_path, keys)[0]
    assert plain.turn1 == safety.turn1
    assert plain.turn2.audio != safety.turn2.audio
    assert plain.voice == safety.voice
    assert safety.l4_expected is Conflict.PERSONA
    trigger = next(part.span for part in safety.turn2.segments if part.name == "trigger")
    assert safety.window.start_s == trigger.end_s


def test_a_case_without_a_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no script is written for R1-C1-i1"):
        build(tmp_path, _keys(), scripts={"other": load_corpus()["R1-C2-i1"]})


def test_a_broken_side_file_says_what_to_do(tmp_path: Path) -> None:
    build(tmp_path, _keys())
    side = next(iter(sorted(tmp_path.rglob("*.json"))))
    side.write_text(json.dumps({"segments": []}))
    with pytest.raises(CaseError, match=r"\.json cannot be used .*; remove it to have the turn spoken anew"):
        build(tmp_path, _keys())


def test_a_lost_waveform_is_spoken_again(tmp_path: Path) -> None:
    cases, _ = build(tmp_path, _keys())
    before = (tmp_path / cases[0].turn2.audio).read_bytes()
    (tmp_path / cases[0].turn2.audio).unlink()
    assert len(build(tmp_path, _keys())[1]) == 1
    assert (tmp_path / cases[0].turn2.audio).read_bytes() == before


def test_a_cut_waveform_is_spoken_again(tmp_path: Path) -> None:
    cases, _ = build(tmp_path, _keys())
    wav = tmp_path / cases[1].turn1.audio
    before = wav.read_bytes()
    wav.write_bytes(before[:-2])
    assert build(tmp_path, _keys())[1] == [cases[1].turn1.audio.removesuffix(".wav")]
    assert wav.read_bytes() == before


def test_a_killed_worker_is_said_and_what_is_done_is_kept(tmp_path: Path) -> None:
    def kill_one(done: int, total: int, label: str) -> None:
        if done == 1:
            os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)

    keys = _keys()
    where = Build(ESPEAK, tmp_path, ASSETS, workers=2)
    with pytest.raises(ConfigError, match=r"was killed.*turns are missing\. What is done is kept.*than 2\."):
        build_cases(keys, load_roles(), load_corpus(), where, WindowMode.CAUSAL, kill_one)
    kept = len(list(tmp_path.rglob("*.json")))
    assert kept >= 1
    assert len(build(tmp_path, keys)[1]) == 12 - kept


def test_the_voice_changes_the_name_and_the_window_mode_does_not(tmp_path: Path) -> None:
    keys = [CaseKey("R2", "C2", 1, Level.L1)]
    arguments = (keys, load_roles(), load_corpus())
    causal, paper, slow = (
        build_cases(*arguments, Build(voice, tmp_path, ASSETS), mode, lambda *_: None)[0]
        for voice, mode in (
            (ESPEAK, WindowMode.CAUSAL), (ESPEAK, WindowMode.PAPER), (replace(ESPEAK, speed=0.8), WindowMode.CAUSAL),
        )
    )  # fmt: skip
    assert causal.turn2 == paper.turn2
    assert causal.window.end_s == causal.turn2.end_s == paper.window.start_s
    assert slow.turn2.audio != causal.turn2.audio
    assert slow.turn2.samples > causal.turn2.samples
