from pathlib import Path

import pytest
from builders import a_case

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.manifest import write_manifest
from dsbif.build.spoken import check_audio, main
from dsbif.spans import Span


def turn(audio: str, *durations: tuple[str, float]) -> UserTurn:
    """A turn of named speech segments, one after the other."""
    at, segments = 0.0, []
    for name, duration_s in durations:
        segments.append(TimedSegment(name, "speech", "Words.", Span(at, at + duration_s)))
        at += duration_s
    return UserTurn(audio, "0" * 64, round(at * 24_000), tuple(segments))


def a_spoken(turn1_s: float = 8.0, s1_s: float = 5.0, s3_s: float = 5.0) -> Case:
    """C1: targets 8 s, 5 s and 5 s."""
    return a_case(
        turn1=turn("audio/a.t1.wav", ("turn1", turn1_s)), turn2=turn("audio/a.t2.wav", ("s1", s1_s), ("s3", s3_s))
    )


@pytest.mark.parametrize("durations_s", [(8.0, 5.0, 5.0), (4.0, 2.5, 7.5), (12.0, 7.5, 2.5)])
def test_within_half_of_the_target_is_kept(durations_s: tuple[float, float, float]) -> None:
    assert check_audio([a_spoken(*durations_s)]) == []


@pytest.mark.parametrize(
    ("durations_s", "where", "detail"),
    [
        ((3.9, 5.0, 5.0), "audio/a.t1.wav", "turn1 takes 3.9 s with voice af_heart; its target is 8 s"),
        ((8.0, 2.4, 5.0), "audio/a.t2.wav", "s1 takes 2.4 s with voice af_heart; its target is 5 s"),
        ((8.0, 5.0, 7.6), "audio/a.t2.wav", "s3 takes 7.6 s with voice af_heart; its target is 5 s"),
    ],
)
def test_more_than_half_off_is_told(durations_s: tuple[float, float, float], where: str, detail: str) -> None:
    (fault,) = check_audio([a_spoken(*durations_s)])
    assert (fault.where, fault.rule, fault.detail) == (where, "spoken length", detail)


def test_a_check_phrase_may_be_short_and_not_long() -> None:
    for check_s, faults in ((0.3, 0), (1.8, 0), (1.9, 1)):
        turn2 = turn("audio/b.t2.wav", ("s1", 5.0), ("check", check_s), ("s4", 5.0))
        assert len(check_audio([a_case(probe="C4", turn1=a_spoken().turn1, turn2=turn2)])) == faults


def test_the_l4b_variant_has_its_own_targets() -> None:
    turn2 = turn("audio/c.t2.wav", ("s1", 5.0), ("check", 1.0), ("s4", 5.0), ("trigger", 4.0), ("tail", 5.0))
    case = a_case(
        probe="R2_B_are_you_there", level=Level.L4B, expected_action=Action.INTERRUPT, l4_expected=Conflict.PERSONA,
        turn1=a_spoken().turn1, turn2=turn2,
    )  # fmt: skip
    assert [fault.detail[:12] for fault in check_audio([case])] == ["trigger take"]


def test_a_shared_turn_is_told_once() -> None:
    assert len(check_audio([a_spoken(3.0), a_spoken(3.0)])) == 1


def test_the_command_reads_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    write_manifest(good, [a_spoken()])
    write_manifest(bad, [a_spoken(3.0)])
    assert (main([str(good)]), main([str(bad)])) == (0, 1)
    out, err = capsys.readouterr()
    assert out == "audio of 1 cases: 0 faults\naudio of 1 cases: 1 faults\n"
    assert "audio/a.t1.wav: R1-C1-i1: spoken length: turn1 takes 3.0 s" in err


@pytest.mark.parametrize(
    ("arguments", "message"), [([], "usage: "), (["--help"], "usage: "), (["no.jsonl"], "cannot be read")]
)
def test_the_command_says_what_it_wants(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
