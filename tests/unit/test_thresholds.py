from typing import Any

import pytest
import yaml
from builders import a_case

from dsbif.bench.actions import Action
from dsbif.errors import CaseError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.score.thresholds import Thresholds


def _raw(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load((CONF_DIR / "thresholds" / "paper.yaml").read_text()), **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_wiat_s": {"default": 1}}, r"there is no threshold 'max_wiat_s'\. Did you mean 'max_wait_s'\?"),
        ({"max_wait_s": {"default": -1}}, r"key 'thresholds.max_wait_s.default': .*greater than or equal to 0"),
        ({"max_wait_s": {"default": float("nan")}}, r"key 'thresholds.max_wait_s.default': .*finite"),
        ({"coverage": {"default": "most"}}, r"key 'thresholds.coverage.default'"),
        ({"coverage": {"R1": 0.5}}, r"thresholds.coverage has no 'default'"),
        ({"yield_latency_ms": {"default": 600, "R44": 1}}, r"names 'R44', which is no role\. Did you mean 'R4'"),
        ({"listen_rule": "sometimes"}, r"key 'thresholds.listen_rule'"),
    ],
)
def test_a_threshold_that_cannot_be_meant_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Thresholds.from_mapping(_raw(**changes))


def test_a_missing_threshold_is_an_error() -> None:
    raw = _raw()
    del raw["overlap_s"]
    with pytest.raises(ConfigError, match=r"key 'thresholds.overlap_s': Field required"):
        Thresholds.from_mapping(raw)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_wait_s": float("nan")}, r"IFD-R1-C1-i1-L4a: verifier parameter max_wait_s is nan; wanted a finite"),
        ({"max_latency_ms": -1.0}, r"max_latency_ms is -1.0; wanted a finite number from 0 up. Correct the manifest"),
        ({"bc_ceiling_s": float("inf")}, r"bc_ceiling_s is inf"),
        ({"coverage": 90.0}, r"coverage is 90.0; wanted a share from 0 to 1"),
    ],
)
def test_a_limit_that_a_case_carries_must_be_one(params: dict[str, float], message: str) -> None:
    with pytest.raises(CaseError, match=message):
        Thresholds.from_mapping(_raw()).for_case(a_case(verifier_params=params))


def test_what_else_a_release_keeps_among_its_parameters_is_no_limit() -> None:
    case = a_case(verifier_params={"window_pad": -5.0, "max_wait_s": 0.9})
    assert Thresholds.from_mapping(_raw()).for_case(case).max_wait_s == 0.9


def test_a_coverage_in_percent_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"key 'thresholds.coverage.default': .*less than or equal to 1; found '90'"):
        Thresholds.from_mapping(_raw(coverage={"default": 90}))


@pytest.mark.parametrize(
    ("action", "interrupt_s", "yield_s"),
    [(Action.INTERRUPT, 0.25, 0.6), (Action.YIELD, 1.2, 0.25), (Action.CONTINUE, 1.2, 0.25)],
)
def test_a_cases_latency_is_that_of_its_own_action(action: Action, interrupt_s: float, yield_s: float) -> None:
    case = a_case(role="R3", expected_action=action, verifier_params={"max_latency_ms": 250})
    limits = Thresholds.from_mapping(_raw()).for_case(case)
    assert (limits.interrupt_latency_s, limits.yield_latency_s) == (interrupt_s, yield_s)


def test_the_papers_thresholds_are_the_papers() -> None:
    """Every default and override of the paper's table, once more and by hand."""
    paper = Thresholds.from_mapping(_raw())
    roles = ("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8")
    limits = [paper.for_case(a_case(role=role, verifier_params={})) for role in roles]
    assert [limit.max_wait_s for limit in limits] == [2.0, 2.0, 1.5, 2.0, 2.0, 1.2, 2.0, 0.8]
    assert [limit.interrupt_latency_s for limit in limits] == [1.5, 1.5, 1.2, 1.5, 1.5, 1.2, 1.5, 1.5]
    for limit in limits:
        assert (limit.bc_ceiling_s, limit.bc_window_max, limit.yield_latency_s) == (1.0, 1, 0.6)
        assert (limit.coverage, limit.overlap_s, limit.borderline_s) == (0.9, 0.0, 0.06)
