"""The sweep's ranking of models, with onsets chosen so that every figure can be worked out by hand."""

import json

import pytest
from builders import PAPER, a_case, a_recording, heard

from dsbif.bench.actions import Action
from dsbif.bench.levels import Level
from dsbif.report.ranking import Rescorable, ranking_json, rankings
from dsbif.score.measure import Measurement, Unscored, measure
from dsbif.spans import Span


def a_model(*onsets_s: float, action: Action = Action.TAKE_TURN) -> Rescorable:
    """Four cases a level: at L1 the agent begins after the given seconds, at L2 and in the rest not at all."""
    cases, measured = [], {}
    for level in (Level.L1, Level.L2):
        for instance in range(1, 5):
            case = a_case(
                test_case_id=f"IFD-R2-C1-i{instance}-{level}", role="R2", instance=instance, level=level,
                expected_action=action, window=Span(3.0, 6.0), verifier_params={},
            )  # fmt: skip
            speaks = level is Level.L1 and instance <= len(onsets_s)
            sound = heard((13.0 + onsets_s[instance - 1], 19.0)) if speaks else heard()
            cases.append(case)
            found: Measurement | Unscored = measure(case, a_recording(case), sound)
            measured[case.test_case_id] = found
    return Rescorable(tuple(cases), measured, PAPER)


def test_a_model_that_waits_long_loses_its_place_where_waiting_is_short() -> None:
    # At 2.0 and 2.5 s: slow 100, quick 75, rare 25. At 1.5 s, a third of the points: quick 75, rare 25, slow 0. One
    # pair of three stands there as before and two are turned: tau -1/3.
    models = {"quick": a_model(0.5, 0.5, 0.5), "slow": a_model(1.8, 1.8, 1.8, 1.8), "rare": a_model(0.5)}
    headline, everything = rankings(models)
    assert (headline.aggregate, everything.aggregate) == ("headline", "all")
    assert headline.points == {"quick": 75.0, "slow": 100.0, "rare": 25.0}
    assert headline.order == ("slow", "quick", "rare")
    assert len(headline.taus) == 180
    assert headline.taus.count(1.0) == 120
    assert (headline.kept_first, headline.kept_two, headline.kept_order) == (120, 120, 120)
    assert headline.figures == pytest.approx(
        {"mean": 100 / 180, "median": 1.0, "min": -1 / 3, "max": 1.0, "sd": (32 / 81) ** 0.5}
    )
    written = ranking_json(headline)
    assert json.loads(json.dumps(written, allow_nan=False))["tau"]["min"] == pytest.approx(-1 / 3)


def test_where_all_tie_tau_is_not_defined_and_is_counted() -> None:
    headline, _ = rankings({"a": a_model(1.8), "b": a_model()})
    assert headline.taus.count(None) == 60
    assert headline.figures is not None
    assert headline.figures["mean"] == 1.0
    assert ranking_json(headline)["undefined"] == 60
    tied, _ = rankings({"a": a_model(), "b": a_model()})
    assert tied.figures is None


def test_one_model_cannot_be_ranked_and_proactive_actions_are_in_no_headline() -> None:
    assert rankings({"a": a_model(0.5)}) == ()
    models = {"a": a_model(0.5, action=Action.INTERRUPT), "b": a_model(action=Action.INTERRUPT)}
    assert [one.aggregate for one in rankings(models)] == ["all"]
