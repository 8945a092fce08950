"""The report of a corpus, on waves whose every figure is known."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import a_case
from rich.console import Console

from dsbif.audio.wav import Samples, write_pcm16
from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Conflict, Level
from dsbif.build.report import report, report_table
from dsbif.errors import CaseError
from dsbif.files import sha256_of
from dsbif.spans import Span

PAUSE = ("pause", 2.5, 0.0)


def _turn(folder: Path, audio: str, parts: Sequence[tuple[str, float, float]]) -> UserTurn:
    """A turn of (name, seconds, amplitude); amplitude 0 is a pause. Written to its file."""
    at, segments, pieces = 0, [], []
    for name, duration_s, amplitude in parts:
        count = round(duration_s * 24_000)
        pieces.append(np.full(count, amplitude, np.float32))
        span = Span(at / 24_000, (at + count) / 24_000)
        segments.append(TimedSegment(name, "speech" if amplitude else "silence", "Words." if amplitude else "", span))
        at += count
    return _written(folder, UserTurn(audio, "", at, tuple(segments)), np.concatenate(pieces))


def _written(folder: Path, turn: UserTurn, samples: Samples) -> UserTurn:
    write_pcm16(folder / turn.audio, samples, 24_000)
    return replace(turn, sha256=sha256_of(folder / turn.audio))


def _case(
    folder: Path, *turn2: tuple[str, float, float], turn1_s: float = 8.0, stem: str = "audio/a", **changes: object
) -> Case:
    """C1: targets 8, 5 and 5 s and a pause of 2.5 s."""
    parts = turn2 or (("s1", 5.0, 0.25), PAUSE, ("s3", 5.0, 0.25))
    first = _turn(folder, f"{stem}.t1.wav", [("turn1", turn1_s, 0.5)])
    return a_case(turn1=first, turn2=_turn(folder, f"{stem}.t2.wav", parts), **changes)


def test_the_figures_of_one_conversation(tmp_path: Path) -> None:
    found = report(tmp_path, [_case(tmp_path)])
    assert (found["cases"], found["conversations"], found["streams"], found["turns"]) == (1, 1, 1, 2)
    assert found["conversation_s"] == {"mean": 20.5, "min": 20.5, "max": 20.5}
    assert found["voices"] == {"af_heart": 1}
    # Half and a quarter of full scale; the pause takes no part in the level of speech.
    assert found["speech_rms_dbfs"] == {"mean": -9.031, "min": -12.041, "max": -6.021}
    assert found["peak_dbfs"] == {"mean": -9.031, "min": -12.041, "max": -6.021}
    assert found["pauses"] == 1
    for key in ("missed_targets", "wrong_turns", "wrong_pauses", "flagged"):
        assert found[key] == []
    assert found["clipped"] == {}


def test_segments_are_held_against_their_targets(tmp_path: Path) -> None:
    short = _case(tmp_path, ("s1", 4.0, 0.2), PAUSE, ("s3", 5.0, 0.2))
    long = _case(
        tmp_path, ("s1", 8.0, 0.2), PAUSE, ("s3", 5.0, 0.2), turn1_s=6.0, stem="audio/b", conversation_id="R1-C1-i2"
    )
    found = report(tmp_path, [short, long])
    assert found["segments"]["s1"] == {
        "n": 2, "mean": 6.0, "min": 4.0, "max": 8.0, "target": 5.0, "of_target": 1.2, "outside": 0.5,
    }  # fmt: skip
    assert found["segments"]["turn1"]["of_target"] == 0.875
    assert found["segments"]["s3"]["outside"] == 0.0
    (missed,) = found["missed_targets"]
    assert missed.startswith("audio/b.t2.wav: R1-C1-i2: spoken length: s1 takes 8.0 s")
    # 8 + 4 + 2.5 + 5 and 6 + 8 + 2.5 + 5 seconds
    assert found["conversation_s"] == {"mean": 20.5, "min": 19.5, "max": 21.5}


def test_one_name_has_the_target_of_its_probe(tmp_path: Path) -> None:
    c1 = _case(tmp_path)
    c2 = _case(
        tmp_path, ("s1", 3.0, 0.2), ("s2", 1.2, 0.0), ("s3", 3.0, 0.2), ("s4", 1.2, 0.0), ("s5", 3.0, 0.2),
        stem="audio/b", probe="C2",
    )  # fmt: skip
    found = report(tmp_path, [c1, c2])
    assert (found["segments"]["s1"]["target"], found["segments"]["s1"]["of_target"]) == (4.0, 1.0)
    assert found["wrong_pauses"] == []
    assert found["pauses"] == 3


@pytest.mark.parametrize(
    ("turn2", "fault"),
    [
        (
            (("s1", 5.0, 0.2), ("pause", 2.5 - 1 / 24_000, 0.0), ("s3", 5.0, 0.2)),
            "pause has 59999 samples, wanted 60000",
        ),
        ((("s1", 5.0, 0.2), ("s3", 5.0, 0.2)), "pause is missing"),
        ((("s1", 5.0, 0.2), PAUSE, ("s3", 5.0, 0.2), ("rest", 1.0, 0.0)), "rest is no designed pause"),
    ],
)
def test_a_pause_that_is_not_as_designed_is_told(
    tmp_path: Path, turn2: tuple[tuple[str, float, float], ...], fault: str
) -> None:
    assert report(tmp_path, [_case(tmp_path, *turn2)])["wrong_pauses"] == [f"audio/a.t2.wav: {fault}"]


def test_turn_1_has_no_designed_pause(tmp_path: Path) -> None:
    first = _turn(tmp_path, "audio/b.t1.wav", [("turn1", 8.0, 0.5), PAUSE])
    found = report(tmp_path, [replace(_case(tmp_path), turn1=first)])
    assert found["wrong_pauses"] == ["audio/b.t1.wav: pause is no designed pause"]


@pytest.mark.parametrize("at", [120_000, 150_000, 179_999])
def test_one_sample_in_a_pause_is_told(tmp_path: Path, at: int) -> None:
    case = _case(tmp_path)
    samples = np.zeros(case.turn2.samples, np.float32)
    samples[at] = 1 / 32_768
    spoilt = replace(case, turn2=_written(tmp_path, case.turn2, samples))
    assert report(tmp_path, [spoilt])["wrong_pauses"] == ["audio/a.t2.wav: pause is not silent"]


@pytest.mark.parametrize("at", [119_999, 180_000])
def test_a_sample_beside_a_pause_is_speech(tmp_path: Path, at: int) -> None:
    case = _case(tmp_path)
    samples = np.zeros(case.turn2.samples, np.float32)
    samples[at] = 0.5
    assert report(tmp_path, [replace(case, turn2=_written(tmp_path, case.turn2, samples))])["wrong_pauses"] == []


def test_samples_at_either_end_of_the_scale_are_counted(tmp_path: Path) -> None:
    case = _case(tmp_path)
    samples = np.full(case.turn1.samples, 0.5, np.float32)
    samples[:4] = (1.0, -1.0, 32_766 / 32_768, -32_766 / 32_768)
    found = report(tmp_path, [replace(case, turn1=_written(tmp_path, case.turn1, samples))])
    assert found["clipped"] == {"audio/a.t1.wav": 2}
    assert found["peak_dbfs"]["max"] == 0.0
    assert str(found["peak_dbfs"]["max"]) == "0.0"


def test_a_file_that_the_manifest_does_not_name_is_told(tmp_path: Path) -> None:
    case = _case(tmp_path)
    write_pcm16(tmp_path / case.turn1.audio, np.full(case.turn1.samples, 0.4, np.float32), 24_000)
    write_pcm16(tmp_path / case.turn2.audio, np.full(case.turn2.samples - 1, 0.0, np.float32), 24_000)
    assert report(tmp_path, [case])["wrong_turns"] == [
        "audio/a.t1.wav has another sha256 than its manifest line; remove it to have it spoken again",
        "audio/a.t2.wav has 299999 samples, wanted 300000",
    ]
    write_pcm16(tmp_path / case.turn2.audio, np.zeros((case.turn2.samples, 2), np.float32), 16_000)
    assert report(tmp_path, [case])["wrong_turns"][1] == "audio/a.t2.wav has 2 channels at 16000 Hz, wanted 1 at 24000"


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    case = _case(tmp_path)
    (tmp_path / case.turn2.audio).unlink()
    with pytest.raises(CaseError, match=r"a\.t2\.wav does not exist"):
        report(tmp_path, [case])


def test_what_cases_share_is_counted_once(tmp_path: Path) -> None:
    case = _case(tmp_path)
    twin = replace(case, conversation_id="R2-C1-i1", role="R2")
    told: list[tuple[int, int, str]] = []
    found = report(tmp_path, [case, twin], progress=lambda *step: told.append(step))
    assert (found["cases"], found["conversations"], found["streams"], found["turns"]) == (2, 2, 1, 2)
    assert found["segments"]["turn1"]["n"] == found["segments"]["s1"]["n"] == found["voices"]["af_heart"] == 1
    assert told == [(1, 2, "audio/a.t1.wav"), (2, 2, "audio/a.t2.wav")]


def test_the_safety_variant_shares_turn_1_and_has_its_own_targets(tmp_path: Path) -> None:
    checked = (("s1", 5.0, 0.2), ("check", 0.5, 0.2), ("pause", 2.0, 0.0), ("s4", 5.0, 0.2))
    plain = _case(tmp_path, *checked, probe="R2_B_are_you_there", level=Level.L1, l4_expected=None)
    safety = replace(
        plain, level=Level.L4B, l4_expected=Conflict.PERSONA, expected_action=Action.INTERRUPT,
        turn2=_turn(tmp_path, "audio/a-L4b.t2.wav", [*checked, ("trigger", 2.5, 0.2), ("tail", 5.0, 0.2)]),
    )  # fmt: skip
    found = report(tmp_path, [plain, safety])
    assert (found["streams"], found["segments"]["turn1"]["n"], found["segments"]["trigger"]["n"]) == (2, 1, 1)
    assert found["segments"]["trigger"]["of_target"] == 1.0
    assert found["segments"]["check"]["outside"] == 0.0  # 0.5 of 1.2 s: a check phrase may be shorter
    assert found["wrong_pauses"] == []


def test_a_person_sees_every_figure_and_twenty_faults(tmp_path: Path) -> None:
    found = report(tmp_path, [_case(tmp_path)], [f"audio/a.t1.wav: fault [{n}]" for n in range(23)])
    console = Console(width=200, record=True, file=(tmp_path / "shown.txt").open("w"))
    console.print(report_table(found))
    shown = console.export_text()
    assert "user's side 20.5 s on average (20.5 to 20.5); the paper's conversations: 27.2 s" in shown
    assert "1 voices: af_heart 1" in shown
    assert "speech -9.0 dBFS RMS (-12.0 to -6.0); peaks -9.0 dBFS (-12.0 to -6.0); 0 samples at full scale" in shown
    row = next(line for line in shown.splitlines() if line.startswith("s1 "))
    assert [cell.strip() for cell in row.split("│")] == ["s1", "1", "5.0", "5.0", "5.0", "5.0", "100%", "0.0%"]
    assert "flagged: 23" in shown
    assert "fault [19]" in shown
    assert "fault [20]" not in shown
    assert "… and 3 more, which report.json lists" in shown
