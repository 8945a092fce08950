"""Effects of the prompt, against figures worked out by hand and the published ones."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from builders import a_case
from rich.console import Console

from dsbif.bench.actions import HEADLINE, Action
from dsbif.bench.grid import cases_at
from dsbif.bench.levels import Level
from dsbif.errors import ConfigError
from dsbif.report.aggregate import Conditions, Summary
from dsbif.report.effects import Gap, effects, effects_json
from dsbif.report.effects_tables import effects_tables
from dsbif.report.stats import Share
from dsbif.score.measure import Reason, Unscored
from dsbif.score.rows import ResultRow, make_row
from dsbif.score.verdict import Label, Verdict

CONDITIONS = Conditions("moshi", "L1", "causal", "in_window", "paper", "none")


def a_row(level: Level, role: str, probe: str, instance: int, action: Action, passed: bool | None) -> ResultRow:
    case = a_case(
        test_case_id=f"IFD-{role}-{probe}-i{instance}-{level}", conversation_id=f"{role}-{probe}-i{instance}",
        role=role, probe=probe, instance=instance, level=level, expected_action=action,
    )  # fmt: skip
    unscored = Unscored(Reason.MISSING, "x")
    row = make_row(case, "moshi", unscored, unscored)
    if passed is None:
        return row
    return replace(row, unscored=None, verdict=Verdict(passed, None, None, "", Label.SILENT, False, "because"))


def a_run(level: Level, passed: int, model: str = "moshi", last: bool = False, **changes: Any) -> Summary:
    """The whole grid of a level: the first ``passed`` of the headline's cases pass (or the last), and nothing else."""
    keys = list(cases_at(level))
    counted = [key.test_case_id for key in keys if key.action in HEADLINE]
    chosen = set(counted[len(counted) - passed :] if last else counted[:passed])
    rows = tuple(
        a_row(level, key.role, key.probe, key.instance, key.action, key.test_case_id in chosen) for key in keys
    )
    return Summary(replace(CONDITIONS, model=model, level=str(level), **changes), rows)


def gap(found: Any, name: str, aggregate: str = "headline") -> Gap:
    (one,) = [gap for gap in found.gaps if (gap.name, gap.aggregate) == (name, aggregate)]
    return one


@pytest.mark.parametrize(
    ("l1", "l2", "l3", "entailment", "redundancy", "tax"),
    [
        (17, 10, 10, 4.52, 0.0, -4.52),  # PersonaPlex
        (55, 40, 43, 9.68, 1.94, -7.74),  # F-Actor
        (49, 49, 41, 0.0, -5.16, -5.16),  # Moshi
        (30, 32, 27, -1.29, -3.23, -1.94),  # GPT-Realtime: from rounded percentages it would be -1.2
        (71, 67, 70, 2.58, 1.94, -0.65),  # MiniCPM-o
        (72, 73, 72, -0.65, -0.65, 0.0),  # Fun-Audio-Chat
    ],
)
def test_the_published_counts_give_the_published_gaps(
    l1: int, l2: int, l3: int, entailment: float, redundancy: float, tax: float
) -> None:
    found = effects([a_run(Level.L1, l1), a_run(Level.L2, l2), a_run(Level.L3, l3)])
    assert gap(found, "Entailment Gap").points == pytest.approx(entailment, abs=0.005)
    assert gap(found, "Redundancy Gain").points == pytest.approx(redundancy, abs=0.005)
    assert gap(found, "Role Tax").points == pytest.approx(tax, abs=0.005)
    assert gap(found, "Entailment Gap").first == Share(l1, 155)


@pytest.mark.parametrize(("l1", "l2", "l3"), list(product((0, 40, 155), repeat=3)))
def test_the_tax_is_the_gain_less_the_gap(l1: int, l2: int, l3: int) -> None:
    found = effects([a_run(Level.L1, l1), a_run(Level.L2, l2), a_run(Level.L3, l3)])
    points = {name: gap(found, name).points or 0.0 for name in ("Entailment Gap", "Redundancy Gain", "Role Tax")}
    assert points["Role Tax"] == pytest.approx(points["Redundancy Gain"] - points["Entailment Gap"])


def test_pairs_are_the_same_conversation_at_both_levels() -> None:
    # The first 10 pass at L1, the last 2 at L2: twelve discordant pairs, 10 against 2.
    found = effects([a_run(Level.L1, 10), a_run(Level.L2, 2, last=True)])
    one = gap(found, "Entailment Gap")
    assert (one.pairs, one.unpaired, one.only_first, one.only_second) == (155, 0, 10, 2)
    # Exact: 2·(1 + 12 + 66)/4096 = 0.03857; Holm over the two tests there are, the second being the same.
    assert one.p == pytest.approx(2 * 0.03857421875)
    assert one.points == pytest.approx(100 * 8 / 155)
    assert one.interval_points is not None
    assert one.interval_points[0] < one.points < one.interval_points[1]


def test_an_unscored_side_is_in_no_pair_and_is_told() -> None:
    one, two = a_run(Level.L1, 10), a_run(Level.L2, 10)
    broken = replace(one, rows=(a_row(Level.L1, "R1", "C1", 1, one.rows[0].action, None), *one.rows[1:]))
    assert broken.rows[0].conversation_id == one.rows[0].conversation_id
    found = effects([broken, two])
    assert gap(found, "Entailment Gap", "all").unpaired == 1
    assert gap(found, "Entailment Gap", "all").pairs == 239
    assert "moshi at L1: 1 cases unscored, in no figure" in found.missing


def test_a_level_that_was_not_run_is_missing_and_nothing_stands_in() -> None:
    found = effects([a_run(Level.L2, 10), a_run(Level.L3, 20)])
    assert gap(found, "Entailment Gap").points is None
    assert gap(found, "Entailment Gap").missing == ("L1",)
    assert gap(found, "Redundancy Gain").points == pytest.approx(100 * 10 / 155)
    assert found.missing == ("moshi: L1 missing",)
    assert found.roles == ()


def test_levels_without_effects_have_none() -> None:
    found = effects([a_run(Level.L0, 5)])
    assert (found.gaps, found.roles, found.missing) == ((), (), ())
    assert effects([]).matched == ()


def test_the_gap_of_a_role_is_over_all_of_its_thirty_cases() -> None:
    found = effects([a_run(Level.L1, 155), a_run(Level.L2, 0)])
    assert {one.role: one.first.n for one in found.roles} == {f"R{n}": 30 for n in range(1, 9)}
    assert sum(one.first.k for one in found.roles) == 155
    assert all(one.points == pytest.approx(100 * one.first.k / 30) for one in found.roles)


def test_shared_audio_is_thirty_two_cases_a_role_and_thirty_four_with_l0() -> None:
    levels = (Level.L1, Level.L2, Level.L3, Level.L4A)
    found = effects([a_run(level, 0) for level in levels])
    assert {one.role: one.share for one in found.matched} == {role: Share(0, 32) for role in ("R1", "R2", "R3")}
    with_l0 = effects([a_run(level, 0) for level in (Level.L0, *levels, Level.L4B)])
    assert {one.share.n for one in with_l0.matched} == {34}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"windows": "paper"}, r"not scored alike: they differ in windows \(causal and paper\)"),
        ({"listen_rule": "onset_only"}, r"differ in LISTEN rule \(in_window and onset_only\)"),
        ({"thresholds": "role_table"}, r"differ in thresholds \(paper and role_table\)"),
    ],
)
def test_runs_that_were_scored_differently_are_not_compared(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        effects([a_run(Level.L1, 1), a_run(Level.L2, 1, **changes)])


def test_rules_of_another_version_are_not_compared() -> None:
    other = a_run(Level.L2, 1)
    other = replace(other, rows=tuple(replace(row, rules_version="0") for row in other.rows))
    with pytest.raises(ConfigError, match=r"differ in rules version \(0 and 1\)"):
        effects([a_run(Level.L1, 1), other])


def test_two_runs_of_one_model_and_level_are_not_guessed_between() -> None:
    with pytest.raises(ConfigError, match=r"there are two runs of moshi at L1; name one of them"):
        effects([a_run(Level.L1, 1), a_run(Level.L1, 2)])


def test_models_stand_apart() -> None:
    found = effects([a_run(Level.L1, 1), a_run(Level.L2, 1), a_run(Level.L1, 2, "b"), a_run(Level.L2, 1, "b")])
    assert [one.model for one in found.gaps] == ["moshi"] * 6 + ["b"] * 6
    assert {one["model"] for one in effects_json(found)["gaps"]} == {"moshi", "b"}


def test_the_tables_fit_a_terminal_and_say_what_is_missing() -> None:
    console = Console(width=80, record=True)
    console.print(*effects_tables(effects([a_run(Level.L2, 10), a_run(Level.L3, 20)])))
    console.print(*effects_tables(effects([a_run(Level.L1, 55), a_run(Level.L2, 40), a_run(Level.L3, 43)])))
    text = console.export_text()
    assert "…" not in text.replace(" … ", "")  # nothing is cut off
    assert "L1 missing" in text
    assert "55/155" in text
    assert "+9.7" in text
