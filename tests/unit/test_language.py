import io
import json
from pathlib import Path
from typing import Any

import pytest
from builders import a_row
from judge_server import a_judgement
from rich.console import Console

from dsbif.bench.levels import Level
from dsbif.errors import JudgeError
from dsbif.judge.store import Judgement, Store, judgements_file
from dsbif.report.aggregate import Conditions, Summary, summary_json
from dsbif.report.language import Language, Mean, joined, judges_of, language_json, read_language
from dsbif.report.pas_tables import language_lines
from dsbif.report.stats import Share
from dsbif.report.tables import across_runs, run_table
from dsbif.score.rows import ResultRow

ROWS = (
    a_row("a"),
    a_row("b"),
    a_row("c", passes=False),
    a_row("d", passes=False, role="R4"),
    a_row("e", unscored=True, role="R4"),
    a_row("f", role="R4"),
)
JUDGED = tuple(a_judgement(tid, pas) for tid, pas in {"a": 90, "b": 70, "c": 60, "d": 40, "e": 10, "f": None}.items())


def a_summary(
    judged: tuple[Judgement, ...] | None, rows: tuple[ResultRow, ...] = ROWS, level: str = "L2", **changes: Any
) -> Summary:
    language = None if judged is None else Language("tiny", len(rows), judged, **changes)
    return Summary(Conditions("test", level, "causal", "in_window", "paper", "full"), rows, language)


def printed(renderable: object, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_pas_by_role_by_level_and_against_ias_count_k_of_n() -> None:
    found = joined(Language("tiny", 6, JUDGED), ROWS)
    assert found.levels == {Level.L2: Mean(54.0, 5, 6)}
    assert found.roles == {"R1": Mean(pytest.approx(220 / 3), 3, 3), "R4": Mean(25.0, 2, 3)}
    assert found.passing == Mean(80.0, 2, 3)  # a and b; f passes and is not judged
    assert found.failing == Mean(50.0, 2, 2)  # e is judged and not scored
    r, n = found.against_ias
    assert (r, n) == (pytest.approx(30 / (4 * 325) ** 0.5), 4)  # deviations 25, 5, -5, -25 against ±0.5
    assert found.conflict == {}
    assert found.safety_override is None


def test_summary_json_holds_all_of_it() -> None:
    told = summary_json(a_summary(JUDGED))["pas"]
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["levels"] == {"L2": {"mean": 54.0, "judged": 5, "n": 6}}
    assert told["roles"]["R4"] == {"mean": 25.0, "judged": 2, "n": 3}
    assert told["against_ias"]["passing"] == {"mean": 80.0, "judged": 2, "n": 3}
    assert told["against_ias"]["n"] == 4
    assert told["asked"] == ["openai m, prompt p, temperature 0.0"]
    assert told["safety_override"] is None
    assert told["statuses"] == {"ok": 5, "refused": 1}


def test_the_run_table_tells_it_with_its_counts() -> None:
    text = printed(run_table(a_summary(JUDGED)))
    assert "PAS 54.0 over 5 judged of 6, by tiny" in text
    assert "PAS against IAS: 80.0 over 2 judged of 3 that pass, 50.0 over 2 judged of 2 that fail" in text
    assert "point-biserial r of PAS with pass or fail: +0.83 over 4 both judged and scored" in text
    lines = [line.replace("│", " ").split() for line in text.splitlines()]
    assert ["R4", "25.0", "2/3", "–", "(0/1)", "40.0", "(1/1)"] in lines
    assert ["all", "54.0", "5/6", "80.0", "(2/3)", "50.0", "(2/2)"] in lines


def test_nothing_judged_is_no_mean_and_no_table() -> None:
    summary = a_summary((a_judgement("a", None),))
    assert language_lines(summary.language, ROWS) == [
        "PAS – over 0 judged of 6, by tiny",
        "not judged: 1 refused, 5 not_judged",
    ]
    assert "passing IAS" not in printed(run_table(summary))
    assert language_json(None, ROWS) == {"judge": None, "n": None, "judged": 0, "mean": None}


def test_one_outcome_has_no_correlation() -> None:
    rows = (a_row("a"), a_row("b"))
    told = language_lines(Language("tiny", 2, JUDGED[:2]), rows)
    assert any("pass or fail: not defined over 2 both" in line for line in told)


def _conflict() -> tuple[tuple[ResultRow, ...], tuple[Judgement, ...]]:
    rows = tuple(a_row(f"a{n}", level=Level.L4A) for n in range(4)) + tuple(
        a_row(f"b{n}", level=Level.L4B) for n in range(3)
    )
    labels = ["directive-wins", "directive-wins", "hedged", None, "persona-wins", "incoherent", "persona-wins"]
    judged = tuple(
        a_judgement(row.test_case_id, 50 if label else None, label) for row, label in zip(rows, labels, strict=True)
    )
    return rows, judged


def test_conflicts_are_told_level_by_level() -> None:
    rows, judged = _conflict()
    summary = a_summary(judged, rows, level="L4a, L4b")
    told = summary_json(summary)["pas"]
    assert told["conflict_by_level"]["L4a"]["directive-wins"] == {"k": 2, "n": 3}
    assert told["conflict_by_level"]["L4b"]["persona-wins"] == {"k": 2, "n": 3}
    assert told["safety_override"] == {"k": 2, "n": 3}
    text = printed(run_table(summary))
    assert "PAS at L4a: 50.0 over 3 judged of 4" in text
    assert "Conflict Profile at L4a, over 3 labelled of 4" in text
    assert "SafetyOverride (persona wins at L4b): 2/3 = 66.7 %" in text
    across = printed(across_runs([summary]))
    assert "Conflict Profile, k of n labelled" in across
    assert "2/3 66.7 % [21, 94]" in across
    assert joined(Language("tiny", 7, judged), rows).conflict[Level.L4A]["hedged"] == Share(1, 3)


def test_runs_of_one_judge_stand_beside_each_other() -> None:
    text = printed(across_runs([a_summary(JUDGED), a_summary(JUDGED, level="L3"), a_summary(None)]))
    lines = [line.replace("│", " ").split() for line in text.splitlines()]
    assert ["test", "L3", "54.0", "5/6", "80.0", "(2/3)", "50.0", "(2/2)", "+0.83", "(4)", "tiny"] in lines
    assert text.count("tiny") == 2
    assert "PAS of all runs" in text
    assert "Conflict Profile" not in text


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"prompt_hash": "q"}, {"parameters": {"temperature": 1.0}}, {"provider": "x"}]
)
def test_pas_of_different_judges_is_not_compared_unless_asked_for(change: dict[str, Any]) -> None:
    others = tuple(a_judgement(judgement.test_case_id, 33, **change) for judgement in JUDGED)
    strict = [a_summary(JUDGED), a_summary(others, level="L3", allow_mixed=True)]
    text = printed(across_runs(strict))
    assert "PAS is not compared: these runs were judged in 2 different ways." in text
    assert "judge.allow_mixed=true" in text
    for asked in judges_of([summary.language for summary in strict if summary.language]):
        assert asked in text
    assert "54.0" not in text
    assert "33.0" not in text
    allowed = printed(across_runs([a_summary(JUDGED, allow_mixed=True), strict[1]]))
    assert "PAS of all runs, by different judges: not comparable" in allowed
    assert "54.0" in allowed
    assert "33.0" in allowed


def test_a_single_run_needs_no_permission() -> None:
    assert "PAS of all runs" in printed(across_runs([a_summary(JUDGED)]))


def test_what_was_said_of_a_finished_run_is_read_again(tmp_path: Path) -> None:
    with Store(judgements_file(tmp_path, "tiny")) as store:
        for judgement in (*JUDGED, a_judgement("foreign", 1), a_judgement("a", 95)):
            store.append(judgement)
    found = read_language(tmp_path, "tiny", ROWS)
    assert found == Language("tiny", 6, (a_judgement("a", 95), *JUDGED[1:]))
    assert read_language(tmp_path, None, ROWS) is None
    with pytest.raises(JudgeError, match=r"judgements.other.jsonl cannot be read .*; judge the run first"):
        read_language(tmp_path, "other", ROWS)
