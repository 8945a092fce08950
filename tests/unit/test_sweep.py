"""180 configurations over 1,038 synthetic measurements."""

import json
from functools import cache
from random import Random

import pytest
from builders import PAPER, a_case, a_recording, heard

from dsbif.bench.actions import HEADLINE, Action
from dsbif.bench.case import Case
from dsbif.bench.grid import full_grid
from dsbif.score.measure import Measurement, Unscored, measure, measurement_line, read_measurement
from dsbif.score.sweep import POINTS, SweepPoint, sweep
from dsbif.score.verdict import Verdict, judge_case
from dsbif.spans import Span

PAPERS_POINT = SweepPoint(2.0, 600.0, 1500.0, 1.0)


def _agent(random: Random) -> tuple[tuple[float, float], ...]:
    """Agents of every kind: silent, holding the floor for a while, beginning sooner or later, one word or two."""
    onset, length = 13.0 + random.uniform(0, 2.9), random.uniform(0.1, 1.6)
    kinds = ((), ((12.0, 13.0 + random.uniform(0, 2)),), ((onset, onset + length),), ((onset, 19.0),))
    return random.choice((*kinds, ((13.1, 13.1 + length / 2), (14.7, 15.0))))


@cache
def _everything() -> tuple[tuple[Case, ...], dict[str, Measurement | Unscored]]:
    cases, measured, random = [], {}, Random(0)
    for key in full_grid():
        case = a_case(
            test_case_id=key.test_case_id,
            role=key.role,
            level=key.level,
            expected_action=key.action,
            window=Span(3.0, 6.0),
            readback=("five",) if key.action is Action.READBACK else (),
            verifier_params={},
        )
        cases.append(case)
        measured[case.test_case_id] = measure(case, a_recording(case), heard(*_agent(random)))
    return tuple(cases), measured


def _passed(verdicts: dict[str, Verdict | Unscored], cases: list[Case]) -> tuple[bool, ...]:
    found = [verdicts[case.test_case_id] for case in cases]
    assert all(isinstance(verdict, Verdict) for verdict in found)
    return tuple(isinstance(verdict, Verdict) and verdict.passed for verdict in found)


def test_the_sweep_is_three_by_five_by_three_by_four() -> None:
    assert len(POINTS) == len(set(POINTS)) == 180
    assert POINTS[0] == SweepPoint(1.5, 200.0, 1000.0, 0.6)
    assert POINTS[-1] == SweepPoint(2.5, 1500.0, 2000.0, 1.2)
    assert PAPERS_POINT in POINTS


def test_all_points_are_judged_and_only_fifteen_can_differ_in_the_headline() -> None:
    cases, measured = _everything()
    assert len(cases) == len(measured) == 1_038
    headline = [case for case in cases if case.expected_action in HEADLINE]
    by_pair: dict[tuple[float, float], set[tuple[bool, ...]]] = {}
    everything = set()
    for point, verdicts in sweep(cases, measured, PAPER):
        by_pair.setdefault((point.max_wait_s, point.yield_latency_ms), set()).add(_passed(dict(verdicts), headline))
        everything.add(_passed(dict(verdicts), list(cases)))
    assert {len(outcomes) for outcomes in by_pair.values()} == {1}
    assert len({next(iter(outcomes)) for outcomes in by_pair.values()}) == len(by_pair) == 15
    assert len(everything) == 180


def test_rescoring_what_was_stored_equals_measuring_again() -> None:
    cases, measured = _everything()
    some = cases[::7]
    assert {case.expected_action for case in some} == set(Action)
    stored = {}
    for case in some:
        found = measured[case.test_case_id]
        assert isinstance(found, Measurement)
        stored[case.test_case_id] = read_measurement(json.loads(json.dumps(measurement_line(found))), "here")
    again = {case.test_case_id: measured[case.test_case_id] for case in some}
    assert dict(sweep(some, stored, PAPER)) == dict(sweep(some, again, PAPER))


@pytest.mark.parametrize(
    ("action", "role", "agent", "papers", "swept"),
    [
        (Action.TAKE_TURN, "R8", (14.5, 19.0), False, True),  # 1.5 s: R8 may wait 0.8 s
        (Action.INTERRUPT, "R6", (14.3, 19.0), False, True),  # 1.3 s: R6 has 1.2 s
        (Action.TAKE_TURN, "R2", (14.5, 19.0), True, True),
    ],
)
def test_a_swept_value_replaces_the_roles_own(
    action: Action, role: str, agent: tuple[float, float], papers: bool, swept: bool
) -> None:
    case = a_case(expected_action=action, role=role, window=Span(3.0, 5.5), verifier_params={})
    measured = measure(case, a_recording(case), heard(agent))
    ours = judge_case(case, measured, PAPER)
    at_point = dict(sweep([case], {case.test_case_id: measured}, PAPER))[PAPERS_POINT][case.test_case_id]
    assert isinstance(ours, Verdict)
    assert isinstance(at_point, Verdict)
    assert (ours.passed, at_point.passed) == (papers, swept)


def test_a_swept_value_replaces_what_the_case_carries_and_leaves_the_rest() -> None:
    case = a_case(
        expected_action=Action.YIELD, window=Span(3.0, 5.5), verifier_params={"max_latency_ms": 100, "coverage": 0.5}
    )
    measured = measure(case, a_recording(case), heard((12.0, 13.5)))
    own = judge_case(case, measured, PAPER)
    at_point = dict(sweep([case], {case.test_case_id: measured}, PAPER))[PAPERS_POINT][case.test_case_id]
    assert isinstance(own, Verdict)
    assert isinstance(at_point, Verdict)
    assert (own.passed, own.limit, at_point.passed, at_point.limit) == (False, 0.1, True, 0.6)


def test_what_is_unscored_is_unscored_at_every_point() -> None:
    case = a_case(window=Span(3.0, 5.5))
    lost = measure(case, a_recording(case, turn2_onset_samples=None, turn2_by="not-reached"), heard())
    assert all(verdicts[case.test_case_id] is lost for _, verdicts in sweep([case], {case.test_case_id: lost}, PAPER))
