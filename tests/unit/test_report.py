import io
import json
from dataclasses import replace

import pytest
from builders import a_row
from rich.console import Console

from dsbif.bench.actions import Action
from dsbif.bench.levels import Level
from dsbif.report.aggregate import Conditions, Summary, summary_json
from dsbif.report.stats import Share
from dsbif.report.tables import across_runs, run_table
from dsbif.report.track import case_cells, without_secrets
from dsbif.score.rows import ResultRow


def _summary(*rows: ResultRow, level: str = "L2", conditioning: str = "none") -> Summary:
    return Summary(Conditions("test", level, "causal", "in_window", "paper", conditioning), rows)


def _mixed() -> Summary:
    return _summary(
        a_row("a"),
        a_row("b", passes=False),
        a_row("c", expected_action=Action.INTERRUPT),
        a_row("d", unscored=True),
        a_row("e", unscored=True, expected_action=Action.LISTEN, role="R4"),
    )


def _printed(renderable: object, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_headline_leaves_proactive_actions_out_and_unscored_cases_count_nowhere() -> None:
    summary = _mixed()
    assert summary.headline == Share(1, 2)
    assert summary.all == Share(2, 3)
    assert (summary.n_expected, len(summary.scored), summary.complete) == (5, 3, False)
    assert summary.actions == {
        Action.LISTEN: Share(0, 0),
        Action.TAKE_TURN: Share(1, 2),
        Action.INTERRUPT: Share(1, 1),
    }
    assert summary.roles == {"R1": Share(2, 3), "R4": Share(0, 0)}


def test_summary_json_holds_the_contract() -> None:
    written = summary_json(_mixed())
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["headline"] == {"k": 1, "n": 2, "share": 0.5, "low": pytest.approx(0.0945, abs=1e-4), "high": pytest.approx(0.9055, abs=1e-4)}  # fmt: skip  # noqa: E501
    assert (written["model"], written["level"], written["n_expected"], written["n_scored"]) == ("test", "L2", 5, 3)
    assert written["actions"]["TAKE_TURN"] == {"k": 1, "n": 2}
    assert written["unscored"][0] == {"tid": "d", "reason": "bad_audio", "detail": "one NaN"}
    assert (written["rules_version"], written["listen_rule"], written["windows"]) == ("1", "in_window", "causal")


def test_nothing_scored_is_no_share_and_never_zero_percent() -> None:
    summary = _summary(a_row("d", unscored=True))
    assert summary_json(summary)["all"] == {"k": 0, "n": 0, "share": None, "low": None, "high": None}
    assert "0.0 %" not in _printed(run_table(summary), 100)


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_says_everything_at_any_width(width: int) -> None:
    text = _printed(run_table(_mixed()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    for wanted in (
        "headline",
        "1/2",
        "50.0 %",
        "TAKE_TURN",
        "INTERRUPT *",
        "prompt NOT applied",
        "bad_audio",
        "one NaN",
    ):
        assert wanted in text
    assert "3 of 5 cases scored" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("transcript", "told"),
    [
        ("native", "; the agent's own words;"),
        ("none", "; no transcript;"),
        ("whisper-tiny-en faster-whisper 1.2.1", "; words by whisper-tiny-en faster-whisper 1.2.1;"),
    ],
)
def test_the_table_says_whose_words_they_are(transcript: str, told: str) -> None:
    summary = replace(_mixed(), conditions=replace(_mixed().conditions, transcript=transcript))
    assert told in _printed(run_table(summary), 200)
    assert summary_json(summary)["transcript"] == transcript


def test_l4a_says_what_it_is_scored_against() -> None:
    text = _printed(run_table(_summary(a_row("a", level=Level.L4A), level="L4a")), 120)
    assert "scored against the persona" in text


def test_a_detail_with_markup_is_shown_as_it_is() -> None:
    row = a_row("d", unscored=True)
    assert row.unscored is not None
    text = _printed(run_table(_summary(row)), 120)
    assert "one NaN" in text


def test_many_unscored_cases_are_cut_short_in_the_table_alone() -> None:
    summary = _summary(*(a_row(f"case-{n}", unscored=True) for n in range(30)))
    assert "and 18 more in summary.json" in _printed(run_table(summary), 100)
    assert len(summary_json(summary)["unscored"]) == 30


def test_runs_stand_beside_each_other() -> None:
    text = _printed(across_runs([_mixed(), _summary(a_row("a"), level="L3")]), 120)
    assert "9.5 – 90.5" in text
    assert "3/5" in text
    assert "L3" in text


def test_a_row_fills_every_column_of_the_tracked_table() -> None:
    assert case_cells(a_row("a"))[:6] == ["a", "R1", "C1", 1, "TAKE_TURN", True]
    assert len(case_cells(a_row("a"))) == len(case_cells(a_row("d", unscored=True))) == 13
    assert case_cells(a_row("d", unscored=True))[-1] == "bad_audio: one NaN"


def test_secrets_never_reach_a_tracker() -> None:
    config = {"llm": {"api_key": "sk-1", "token": "t", "max_tokens": 9, "api_key_env": "X", "password": ""}, "n": [1]}
    assert without_secrets(config) == {
        "llm": {"api_key": "***", "token": "***", "max_tokens": 9, "api_key_env": "X", "password": ""},
        "n": [1],
    }
