import json
from pathlib import Path
from typing import Any

import pytest
from builders import a_case

from dsbif.bench.actions import Action
from dsbif.bench.levels import Level
from dsbif.bench.manifest import case_line, read_manifest, write_manifest
from dsbif.errors import CaseError
from dsbif.spans import Span


def test_a_case_survives_the_trip_through_its_line(tmp_path: Path) -> None:
    write_manifest(tmp_path / "manifest.jsonl", [a_case()])
    (back,) = read_manifest(tmp_path / "manifest.jsonl")
    assert case_line(back) == case_line(a_case())
    assert back.level is Level.L4A
    assert back.expected_action is Action.TAKE_TURN
    assert back.turn2.end_s == 8.0
    assert back.turn2.text == "My father fell this morning. He still does not know me."


def test_construction_times_survive_to_a_fraction_of_a_sample(tmp_path: Path) -> None:
    write_manifest(tmp_path / "manifest.jsonl", [a_case()])
    (back,) = read_manifest(tmp_path / "manifest.jsonl")
    assert round(back.turn2.segments[0].span.end_s * 24000) == 72001


def test_a_window_at_the_turns_end_is_terminal() -> None:
    assert a_case(window=Span(8.0, 18.0)).terminal
    assert not a_case().terminal


def _with(tmp_path: Path, **changes: Any) -> Path:
    line = case_line(a_case())
    for dotted, value in changes.items():
        target = line
        *parents, last = dotted.split("__")
        for parent in parents:
            target = target[parent]
        target[last] = value
    path = tmp_path / "manifest.jsonl"
    path.write_text(json.dumps(case_line(a_case(test_case_id="first"))) + "\n" + json.dumps(line) + "\n")
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"instance": "one"}, r"manifest.jsonl:2: key 'instance': .*found 'one'"),
        ({"expected_action": "LISTENN"}, r":2: key 'expected_action'"),
        ({"level": "L9"}, r":2: key 'level'"),
        ({"system_prompt": None}, r":2: key 'system_prompt'"),
        ({"trigger_window__start_s": "soon"}, r":2: key 'trigger_window.start_s'"),
        ({"trigger_window__end_s": float("nan")}, r":2: key 'trigger_window.end_s'"),
        ({"turn2__audio": "../../etc/passwd"}, r":2: key 'turn2.audio': .*inside the corpus"),
        ({"turn1__audio": "/etc/passwd"}, r":2: key 'turn1.audio': .*inside the corpus"),
        ({"turn1__audio": "..\\secret.wav"}, r":2: key 'turn1.audio': .*inside the corpus"),
        ({"test_case_id": "../x"}, r":2: key 'test_case_id': .*an id names files"),
        ({"test_case_id": ".hidden"}, r":2: key 'test_case_id': .*an id names files"),
        ({"turn2__sha256": "abc"}, r":2: key 'turn2.sha256'"),
        ({"turn2__segments": []}, r":2: the turn audio/a.t2.wav has no speech segment"),
        ({"barge_in_after_s": -1}, r":2: key 'barge_in_after_s'"),
        ({"readback": "417"}, r":2: key 'readback'"),
    ],
)
def test_a_bad_line_is_named_with_its_key(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CaseError, match=message):
        read_manifest(_with(tmp_path, **changes))


def test_unknown_keys_are_tolerated(tmp_path: Path) -> None:
    assert len(read_manifest(_with(tmp_path, somebody_elses_key={"deep": 1}))) == 2


def test_a_duplicate_is_refused_by_id(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r"case first stands twice \(entries 1 and 2\)"):
        read_manifest(_with(tmp_path, test_case_id="first"))


@pytest.mark.parametrize("line", ["not json", "[1, 2]", '{"test_case_id": "a"', "null"])
def test_a_line_that_is_no_case_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(CaseError, match=r"manifest.jsonl:1"):
        read_manifest(path)


def test_a_huge_line_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_text('"' + "x" * 1_000_001 + '"\n')
    with pytest.raises(CaseError, match=r"at most 1000000 are read"):
        read_manifest(path)


def test_a_missing_manifest_is_a_case_error(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be read"):
        read_manifest(tmp_path / "absent.jsonl")
