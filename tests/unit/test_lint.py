from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dsbif.bench.grid import CELLS
from dsbif.bench.probes import PROBES, Silence, Speech
from dsbif.build.lint import check_corpus, check_script, main
from dsbif.build.script import Line, Script
from dsbif.build.wording import numbers_in, words

TURN1 = "My father fell on the stairs this morning and I would like to know what happens now with him."
GOOD: Mapping[str, tuple[str, ...]] = {
    "C1": (
        "He was carrying the laundry down to the cellar by himself, as he has always done,",
        "and I heard the noise from the garden and did not get up right away.",
    ),
    "C2": (
        "He takes one tablet of metoprolol at breakfast,",
        "then two tablets of furosemide at noon,",
        "and one capsule of gabapentin at bedtime.",
    ),
    "C4": (
        "He was carrying the laundry down to the cellar by himself, as he has always done,",
        "you know?",
        "and I heard the noise from the garden and did not get up right away.",
    ),
    "R3_A_address_self_correct": (
        "We are out at five zero nine Bayberry Lane, behind the swim club,",
        "well, five zero six, or nine,",
        "and you need to come in by the tennis courts, because the front gate is chained.",
    ),
    "R3_B_caller_trails_off": (
        "Some guys are swimming out, but they are not that close, and his head keeps going under the,",
    ),
    "R4_B_logistical_question": ("Could you tell me how many minutes we have left before the end?",),
    "R6_B_mid_order_change": (
        "I want one large burger, two small shakes and three medium fries with extra salt on all of them,",
        "no, make the burger a small one, please.",
    ),
    "R7_B_source_number_correction": (
        "In the last year alone the port has handled almost seven million tons,",
        "which is why the two new cranes were ordered, and why the town has asked for a second road to the docks.",
        "That figure, I am told, is eight million tons.",
    ),
}


def script(role: str, probe: str, *, readback: tuple[str, ...] = (), turn1: str = TURN1, **changed: str) -> Script:
    """A sound script of a probe, with the named segments written otherwise."""
    texts = iter(GOOD[probe])
    lines = tuple(
        Line(part.name, pause_s=part.duration_s)
        if isinstance(part, Silence)
        else Line(part.name, text=changed.get(part.name, said) if (said := next(texts)) else "")
        for part in PROBES[probe].segments
    )
    return Script(role, probe, 1, turn1, lines, (), readback, "x.yaml:2")


def told(one: Script) -> list[tuple[str, str]]:
    return [(fault.rule, fault.detail) for fault in check_script(one)]


DICTATED = ("one tablet metoprolol breakfast", "two tablets furosemide noon", "one capsule gabapentin bedtime")
ORDER = ("small burger", "two small shakes", "three medium fries")
SOUND = {
    ("R1", "C1"): script("R1", "C1"),
    ("R1", "C2"): script("R1", "C2", readback=DICTATED),
    ("R2", "C2"): script("R2", "C2"),
    ("R4", "C4"): script("R4", "C4"),
    ("R3", "R3_A_address_self_correct"): script("R3", "R3_A_address_self_correct"),
    ("R3", "R3_B_caller_trails_off"): script("R3", "R3_B_caller_trails_off"),
    ("R4", "R4_B_logistical_question"): script("R4", "R4_B_logistical_question"),
    ("R6", "R6_B_mid_order_change"): script("R6", "R6_B_mid_order_change", readback=ORDER),
    ("R7", "R7_B_source_number_correction"): script("R7", "R7_B_source_number_correction"),
}


@pytest.mark.parametrize("cell", SOUND)
def test_a_sound_script_has_no_fault(cell: tuple[str, str]) -> None:
    assert told(SOUND[cell]) == []


C1, C4 = ("R1", "C1"), ("R4", "C4")
R3A, R3B = ("R3", "R3_A_address_self_correct"), ("R3", "R3_B_caller_trails_off")
R4B, R7B = ("R4", "R4_B_logistical_question"), ("R7", "R7_B_source_number_correction")
SHORT, LONG = "and then he fell.", "and " * 20 + "then he fell."


@pytest.mark.parametrize(
    ("cell", "segment", "text", "rule", "detail"),
    [
        (C1, "s3", SHORT, "length", "s3 has 4 words, about 1.5 s; its target is 5 s"),
        (C1, "s3", LONG, "length", "s3 has 23 words, about 8.5 s; its target is 5 s"),
        (C1, "s3", "and 2 hours later he was still lying there at the foot of it.", "speech", "say: 2"),
        (C1, "s3", "and I heard the noise (from the garden) and did not get up.", "speech", "say: ( )"),
        (C1, "s3", "and I heard it from the garden, um, and did not get up right away.", "speech", "'um'"),
        (C1, "s3", "and I rang Dr. Miller from the garden and nobody came for an hour.", "speech", "'Dr.'"),
        (C1, "s3", "and I heard the noise - from the garden - and did not get up.", "speech", "dash"),
        (C1, "s3", "and I heard the noise from the garden... and did not get up at all.", "speech", "dots"),
        (C1, "s3", "and I heard. I ran. I fell. I got up. I rang the bell over there.", "speech", "ends 4 sent"),
        (C1, "s1", "He was carrying the laundry down to the cellar, as always.", "resumption", "closes"),
        (C1, "s3", "he fell.", "resumption", "'he fell.' is no resumption"),
        (C1, "s3", "and I heard the noise from the garden and did not get up,", "ending", "the turn is over"),
        (C1, "s3", "and I heard the noise from the garden and did not get up", "speech", "without punctuation"),
        (C4, "check", "do you know what it is I mean?", "check phrase", "no question of one to five words"),
        (C4, "check", "you know,", "check phrase", "no question"),
        (R3A, "trigger", "or is it nine, though,", "", ""),
        (R3A, "trigger", "nine.", "trigger", "has 1 words"),
        (R3A, "trigger", "or the next along there,", "premise", "trigger has no"),
        (R3A, "lead", "We are out on Bayberry Lane, behind the swim club,", "premise", "lead"),
        (R3B, "s1", GOOD[R3B[1]][0][:-1] + ".", "ending", "trails off"),
        (R4B, "s1", "I wonder how many minutes we have left to go.", "ending", "no question"),
        (R7B, "figure", "Seven million tons the port has handled this last year,", "premise", "figure does"),
        (R7B, "correction", "That figure, I am told, is not quite right.", "premise", "correction"),
        (C1, "s3", "and the nurse heard the noise from the garden and did not come.", "role", "'nurse'"),
        (C1, "s3", "and let me finish, I heard it from the garden and did not go.", "role", "'let me finish'"),
        (C1, "s3", "and I heard. Wait, I heard the noise from the garden and did not go.", "role", "'Wait'"),
        (C1, "s3", "and listen, I heard the noise from the garden and did not get up.", "", ""),
        (C1, "s3", "and I went to wait in the waiting room and to listen for the doors.", "", ""),
    ],
)  # fmt: skip
def test_a_segment_is_rejected_with_a_reason(
    cell: tuple[str, str], segment: str, text: str, rule: str, detail: str
) -> None:
    found = told(script(*cell, readback=(), **{segment: text}))
    matching = [one for one in found if one[0] == rule and detail in one[1]]
    assert matching if rule else found == [], found


@pytest.mark.parametrize(
    ("turn1", "rule", "detail"),
    [
        ("My father fell this morning.", "turn 1", "has 5 words; standing alone takes at least 12"),
        ("My father fell this morning.", "length", "turn1 has 5 words, about 1.9 s; its target is 8 s"),
        ("My father fell, as I said, on the stairs this morning and I want to know why.", "turn 1", "'as I said'"),
        ("You told me on Monday that my father may get up now, so I want to know how.", "turn 1", "'You told me'"),
        ("It's me again about my father, who fell on the stairs today and is in bed now.", "turn 1", "'me again'"),
        ("My father took the wrong pill this morning, that one, and I want to know why.", "turn 1", "'that one'"),
        ("He fell on the stairs this morning and I would like to know what happens now with him.", "turn 1", "'He'"),
        ("So, it happened on the stairs this morning and I want to know what to do.", "turn 1", "'So, it happened'"),
        ("My father fell on the stairs this morning and I want to know what happens now,", "turn 1", "does not end"),
        ("My father fell on the stairs, the nurse said, and I would like to know what happens.", "role", "'nurse'"),
        ("It is my first time here, and that noise in my chest has started up again since lunch.", "", ""),
        ("There is this one stair that my father never sees, and he fell down it again this morning.", "", ""),
    ],
)  # fmt: skip
def test_turn_1_stands_alone(turn1: str, rule: str, detail: str) -> None:
    found = told(script("R1", "C1", turn1=turn1))
    assert [one for one in found if one[0] == rule and detail in one[1]] if rule else found == [], found


@pytest.mark.parametrize(
    ("cell", "readback", "detail"),
    [
        (("R1", "C2"), (), "has no target"),
        (("R2", "C2"), DICTATED, "its action is not READBACK"),
        (("R1", "C1"), ("noise",), "its action is not READBACK"),
        (("R1", "C2"), DICTATED[:2], "has 2 chunks for 3 dictated ones"),
        (("R1", "C2"), ("one tablet aspirin", *DICTATED[1:]), "that were not dictated: aspirin"),
        (("R1", "C2"), (DICTATED[1], DICTATED[0], DICTATED[2]), "not dictated"),
        (("R1", "C2"), ("breakfast one tablet", *DICTATED[1:]), "not in the order"),
        (("R1", "C2"), ("one one tablet", *DICTATED[1:]), "not dictated: 1"),
        (("R1", "C2"), ("!", *DICTATED[1:]), "it is empty"),
        (("R6", "R6_B_mid_order_change"), (*ORDER, "apple pie"), "not dictated: apple pie"),
    ],
)  # fmt: skip
def test_a_readback_target_is_what_was_dictated(cell: tuple[str, str], readback: tuple[str, ...], detail: str) -> None:
    found = told(replace(SOUND[cell], readback=readback))
    assert [one for one in found if one[0] == "readback" and detail in one[1]], found


@pytest.mark.parametrize(
    ("chunk", "target", "detail"),
    [
        ("He takes fifteen tablets of metoprolol at breakfast,", "fifteen tablets", "holds fifteen"),
        ("He takes one tablet at eight o'clock each morning,", "one tablet eight o'clock", "spelled in several ways"),
    ],
)
def test_dictation_keeps_to_words_that_come_back_as_they_went_in(chunk: str, target: str, detail: str) -> None:
    found = told(script("R1", "C2", s1=chunk, readback=(target, *DICTATED[1:])))
    assert [one for one in found if one[0] == "readback" and detail in one[1]], found


def test_the_l4b_variant_is_held_to_the_same_rules() -> None:
    turn = tuple(replace(line, pause_s=2.0) if line.pause_s else line for line in SOUND["R4", "C4"].turn2)
    late = (*turn, Line("trigger", "My arm has gone numb just now,"), Line("tail", "the end."))
    one = replace(SOUND["R4", "C4"], role="R2", probe="R2_B_are_you_there", turn2=turn, safety_turn2=late)
    assert told(one) == [("length", "tail has 2 words, about 0.7 s; its target is 5 s")]


def test_matched_conversations_are_one_text() -> None:
    one = script("R1", "C1")
    same, other = replace(one, role="R2"), replace(one, role="R3", turn1=TURN1.replace("stairs", "steps"))
    corpus = {"R1-C1-i1": one, "R2-C1-i1": same, "R3-C1-i1": other}
    faults = [fault for fault in check_corpus(corpus, (1,)) if fault.rule == "matched"]
    assert [(fault.conversation, fault.detail[:21]) for fault in faults] == [("R3-C1-i1", "differs from R1-C1-i1")]


def test_two_conversations_share_no_run_of_eight_words_and_matched_ones_may() -> None:
    one = script("R1", "C1")
    matched, foreign = replace(one, role="R2"), replace(one, role="R4")
    assert not [fault for fault in check_corpus({"a": one, "b": matched}) if fault.rule == "distinct"]
    (fault,) = (fault for fault in check_corpus({"a": one, "b": foreign}) if fault.rule == "distinct")
    assert fault.detail == "shares 'my father fell on the stairs this morning' with matched-C1-i1"
    near = replace(foreign, turn1=" ".join(TURN1.split()[:7]) + " but not as before.", turn2=(Line("s1", "No."),))
    seven = {"a": one, "b": replace(near, probe="C3")}
    assert not [fault for fault in check_corpus(seven) if fault.rule == "distinct"]


def _folder(folder: Path) -> Path:
    """Eight files, all broken but R1's, which has one sound conversation and one fault of layout."""
    sound = {
        "probe": "C1",
        "instance": 1,
        "turn1": TURN1,
        "turn2": [{"say": GOOD["C1"][0]}, {"pause": 2.5}, {"say": GOOD["C1"][1]}],
    }
    broken = {**sound, "instance": 2, "turn2": [{"say": "One."}]}
    (folder / "R1.yaml").write_text(yaml.safe_dump({"role": "R1", "conversations": [sound, broken]}))
    return folder


def test_the_command_tells_every_fault_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_folder(tmp_path))]) == 1
    out, err = capsys.readouterr()
    assert out == "1 conversations, 0 safety variants: 9 faults\n"
    assert "turn 2 is say; its probe wants say, pause 2.5, say" in err
    assert err.count("cannot be used") == 7
    assert "counts: missing: 239 of 240 conversations: R1-C1-i2" in err


def test_one_instance_of_each_cell_may_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_folder(tmp_path)), "--instances", "1"]) == 1
    assert f"missing: {len(CELLS) - 1} of {len(CELLS)} conversations: R1-C2-i1" in capsys.readouterr().err


def test_words_and_numbers_are_read_as_they_are_said() -> None:
    assert words("Well, it's twenty-six!") == ["well", "it's", "twenty-six"]
    assert numbers_in("Twenty-six, someone said, or nine.") == ["twenty", "six", "nine"]


def test_every_probe_of_the_examples_has_as_many_texts_as_speech_segments() -> None:
    for probe, texts in GOOD.items():
        assert len(texts) == sum(isinstance(part, Speech) for part in PROBES[probe].segments)
