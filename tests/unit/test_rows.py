from pathlib import Path

import pytest
from builders import a_case, a_row

from dsbif.bench.levels import Level
from dsbif.errors import CaseError
from dsbif.score.rows import inventory, read_rows, write_rows


def test_rows_survive_the_trip_through_their_file(tmp_path: Path) -> None:
    rows = [a_row("a"), a_row("b", unscored=True), a_row("c", level=Level.L4A)]
    write_rows(tmp_path / "verdicts.jsonl", rows)
    assert read_rows(tmp_path / "verdicts.jsonl") == rows


def test_a_conflict_that_was_followed_is_the_complement_at_l4a_alone() -> None:
    row = a_row("a", level=Level.L4A)
    assert row.conflict_followed is (not row.passed)
    assert a_row("a", level=Level.L2).conflict_followed is None
    assert a_row("a", level=Level.L4A, unscored=True).conflict_followed is None


def test_rows_are_joined_by_id_and_never_by_position() -> None:
    cases = [a_case(test_case_id=tid) for tid in ("a", "b", "c")]
    rows = [a_row("c"), a_row("a"), a_row("b")]
    assert [row.test_case_id for row in inventory(cases, rows)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "b"], r"c are missing"),
        (["a", "b", "c", "b"], r"b stand twice"),
        (["a", "b", "c", "x"], r"x belong to no case"),
        (["a", "a", "x"], r"a stand twice; x belong to no case; b, c are missing"),
    ],
)
def test_results_that_do_not_match_the_manifest_are_refused(ids: list[str], message: str) -> None:
    cases = [a_case(test_case_id=tid) for tid in ("a", "b", "c")]
    with pytest.raises(CaseError, match=message):
        inventory(cases, [a_row(tid) for tid in ids])


@pytest.mark.parametrize("text", ["{", "[]", '{"test_case_id": 3}'])
def test_a_broken_line_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdicts.jsonl").write_text(text + "\n")
    with pytest.raises(CaseError, match=r"verdicts.jsonl:1: .* Score the run again"):
        read_rows(tmp_path / "verdicts.jsonl")


def test_missing_verdicts_say_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="stage=score"):
        read_rows(tmp_path / "absent.jsonl")
