from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Level
from dsbif.build.script import TINTS, Line, load_corpus, load_scripts, scan_corpus, scan_scripts, tint_of
from dsbif.errors import CaseError

C1: dict[str, Any] = {
    "probe": "C1",
    "instance": 1,
    "turn1": "My father fell.",
    "turn2": [{"say": "He  was on the stairs,\n"}, {"pause": 2.5}, {"say": "and nobody came."}],
}
C3: dict[str, Any] = {"probe": "C3", "instance": 2, "turn1": "Explain it.", "turn2": [{"say": "No, the other."}]}


def write(folder: Path, role: str, *conversations: Any, name: str = "") -> Path:
    path = folder / f"{name or role}.yaml"
    path.write_text(yaml.safe_dump({"role": role, "conversations": list(conversations)}))
    return path


def test_a_conversation_comes_in_with_named_lines_and_plain_white_space(tmp_path: Path) -> None:
    (script,) = load_scripts(write(tmp_path, "R1", C1))
    assert script.conversation_id == "R1-C1-i1"
    assert script.turn2 == (
        Line("s1", text="He was on the stairs,"), Line("pause", pause_s=2.5), Line("s3", text="and nobody came."),
    )  # fmt: skip
    assert script.where.endswith("R1.yaml:2")


def test_the_safety_variant_serves_l4b_alone(tmp_path: Path) -> None:
    turn = [{"say": "One."}, {"say": "you know?"}, {"pause": 2.0}, {"say": "Two."}]
    late = [*turn, {"say": "My arm is numb,"}, {"say": "three."}]
    entry = {"probe": "R2_B_are_you_there", "instance": 1, "turn1": "T.", "turn2": turn, "safety_turn2": late}
    (script,) = load_scripts(write(tmp_path, "R2", entry))
    at = {level: CaseKey("R2", script.probe, 1, level) for level in (Level.L4A, Level.L4B)}
    assert [line.name for line in script.turn2_for(at[Level.L4A])] == ["s1", "check", "pause", "s4"]
    assert [line.name for line in script.turn2_for(at[Level.L4B])][-2:] == ["trigger", "tail"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"turn2": [{"say": "One,"}, {"say": "two."}]}, "turn 2 is say, say; its probe wants say, pause 2.5, say"),
        ({"turn2": [{"say": "One,"}, {"pause": 2.0}, {"say": "two."}]}, "turn 2 is say, pause 2, say"),
        ({"turn2": []}, "turn 2 is empty"),
        ({"turn2": [{"say": "a", "pause": 1}]}, "either 'say: text' or 'pause: seconds'"),
        ({"turn2": [{"say": " "}, {"pause": 2.5}, {"say": "b"}]}, r"turn2\.0\.say.*spoken text must hold words"),
        ({"turn1": ""}, "turn1.*spoken text must hold words"),
        ({"turn1": 7}, "turn1.*spoken text must hold words"),
        ({"turn1": None}, "turn1"),
        ({"probe": "C9"}, "R1 has no probe 'C9'"),
        ({"probe": "R1_A_red_flag_casul"}, "Did you mean 'R1_A_red_flag_casual'"),
        ({"probe": "R2_A_long_silence"}, "R1 has no probe 'R2_A_long_silence'"),
        ({"instance": 6}, "instance.*less than or equal to 5"),
        ({"trun1": "x"}, "trun1.*Extra inputs are not permitted"),
        ({"safety_turn2": [{"say": "a"}]}, "C1 has no safety_turn2"),
        ({"same_as": "R2"}, "same_as borrows the whole conversation"),
    ],
)
def test_a_fault_names_file_line_and_reason(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path, "R1", C3, {**C1, **change})
    with pytest.raises(CaseError, match=message) as caught:
        load_scripts(path)
    assert str(caught.value).startswith(f"{path}:7: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("role: R9\nconversations: []\n", "key 'role'"),
        ("role: R1\n", "key 'conversations'"),
        ("role: R1\nconversations: [1]\n", "key 'conversations.0'"),
        ("role: [\n", "cannot be used"),
        ("", "cannot be used"),
        ("role: R2\nconversations: []\n", "says role: R2; its name says R1"),
    ],
)
def test_a_file_that_is_no_script_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "R1.yaml"
    path.write_text(text)
    with pytest.raises(CaseError, match=message):
        load_scripts(path)


def test_bytes_that_are_no_text_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "R1.yaml").write_bytes(b"\xff\xfe\x00role")
    with pytest.raises(CaseError, match=r"R1\.yaml cannot be used"):
        load_scripts(tmp_path / "R1.yaml")
    with pytest.raises(CaseError, match=r"R2\.yaml cannot be used.*No such file"):
        load_scripts(tmp_path / "R2.yaml")


def test_a_conversation_stands_once(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"R1\.yaml:\d+: C1 i1 stands at .*R1\.yaml:2 already"):
        load_scripts(write(tmp_path, "R1", C1, deepcopy(C1)))


def test_every_fault_of_a_file_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "R1", {**C1, "instance": 9}, C3, {**C3, "probe": "C8"})
    scripts, faults = scan_scripts(path)
    assert [script.conversation_id for script in scripts] == ["R1-C3-i2"]
    assert len(faults) == 2


BORROWED = {"probe": "C1", "instance": 1, "same_as": "R1"}


def test_a_borrowed_conversation_is_the_lenders_under_another_name(tmp_path: Path) -> None:
    files = {"R1": write(tmp_path, "R1", C1), "R2": write(tmp_path, "R2", BORROWED)}
    (lent,), (own,) = load_scripts(files["R1"]), load_scripts(files["R2"], files)
    assert (own.turn1, own.turn2) == (lent.turn1, lent.turn2)
    assert own.conversation_id == "R2-C1-i1"
    assert own.where.endswith("R2.yaml:2")


@pytest.mark.parametrize(
    ("role", "entry", "message"),
    [
        ("R2", {**BORROWED, "instance": 2}, "R1 has no C1 i2 to borrow"),
        ("R2", {**BORROWED, "same_as": "R7"}, "same_as names 'R7', which has no script file here"),
        ("R2", {**BORROWED, "same_as": "R2"}, "same_as names 'R2'"),
        ("R2", {**BORROWED, "instance": 5}, "R2 C1 i5 shares no audio"),
        ("R2", {**BORROWED, "probe": "C3"}, "R2 C3 i1 shares no audio"),
        ("R4", BORROWED, "R4 C1 i1 shares no audio"),
    ],
)
def test_only_matched_cells_borrow_and_only_what_is_there(
    tmp_path: Path, role: str, entry: dict[str, Any], message: str
) -> None:
    files = {"R1": write(tmp_path, "R1", C1), role: write(tmp_path, role, entry)}
    with pytest.raises(CaseError, match=message):
        load_scripts(files[role], files)


def test_a_folder_without_files_tells_all_eight(tmp_path: Path) -> None:
    scripts, faults = scan_corpus(tmp_path)
    assert (scripts, len(faults)) == ({}, 8)
    with pytest.raises(CaseError, match=r"R1\.yaml cannot be used"):
        load_corpus(tmp_path)


def test_the_projects_own_scripts_load() -> None:
    scripts, faults = scan_corpus()
    assert faults == ()
    assert {cid[:2] for cid in scripts} == {"R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8"}
    assert scripts["R3-C4-i2"].turn2 == scripts["R1-C4-i2"].turn2


def test_tints_do_not_move() -> None:
    """The writers worked with these: R1 C1 is Northeast, 60-74, West, 75+, 45-59."""
    found = [tint_of(f"R1-C1-i{n}") for n in range(1, 6)]
    assert found == ["Northeast", "age 60-74", "West", "age 75+", "age 45-59"]
    assert len(set(TINTS)) == 9
