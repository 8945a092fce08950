"""How firmly models are ranked by their Entailment Gap: the ranking at each of the sweep's 180 configurations.

Conventions
-----------
* Each configuration's ranking is held against the one at the runs' own thresholds, with Kendall's tau-b. Where all
  models tie, tau is not defined: such configurations are counted, and are in no mean.
* ``sd`` is over the configurations that are there, not an estimate for others.
* For "kept", models with equal gaps stand in the order of their names.

In the headline only the 15 pairs of wait and yield latency can differ: its four actions have no other swept limit.

Source: DSB-IFEval, the threshold sweep.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dsbif.bench.actions import HEADLINE
from dsbif.bench.case import Case
from dsbif.bench.levels import Level
from dsbif.report.pairs import pair
from dsbif.report.stats import kendall_tau
from dsbif.score.measure import Measurement, Unscored
from dsbif.score.sweep import POINTS, sweep
from dsbif.score.thresholds import Thresholds
from dsbif.score.verdict import Verdict, judge_case

AGGREGATES = ("headline", "all")
Verdicts = Mapping[str, Verdict | Unscored]


@dataclass(frozen=True, slots=True)
class Rescorable:
    """What judging a model's cases at L1 and L2 again needs; ``measured`` is by case id."""

    cases: tuple[Case, ...]
    measured: Mapping[str, Measurement | Unscored]
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Ranking:
    """One aggregate. ``points``: each model's gap at the runs' own thresholds. ``taus``: one a configuration.

    ``kept_first``, ``kept_two`` and ``kept_order``: configurations with the same model first, the same two models first
    in the same order, and the same order throughout.
    """

    aggregate: str
    points: Mapping[str, float]
    taus: tuple[float | None, ...]
    kept_first: int
    kept_two: int
    kept_order: int

    @property
    def defined(self) -> tuple[float, ...]:
        """The taus of configurations in which not all models tie."""
        return tuple(tau for tau in self.taus if tau is not None)

    @property
    def order(self) -> tuple[str, ...]:
        """Models by falling gap."""
        return _order(self.points)

    @property
    def figures(self) -> Mapping[str, float] | None:
        """Mean, median, least, greatest and standard deviation of tau; None where it is never defined."""
        taus = self.defined
        if not taus:
            return None
        return {
            "mean": statistics.fmean(taus),
            "median": statistics.median(taus),
            "min": min(taus),
            "max": max(taus),
            "sd": statistics.pstdev(taus),
        }


def rankings(models: Mapping[str, Rescorable]) -> tuple[Ranking, ...]:
    """The sweep over several models, headline and all; nothing below two models, which cannot be ranked.

    A model without a complete pair in an aggregate is in no ranking of it.
    """
    own = {name: _gaps(one.cases, _judged(one)) for name, one in models.items()}
    swept = {name: [_gaps(one.cases, at) for _, at in sweep(one.cases, one.measured, one.thresholds)]
             for name, one in models.items()}  # fmt: skip
    found = []
    for aggregate in AGGREGATES:
        points = {name: gap for name in models if (gap := own[name][aggregate]) is not None}
        if len(points) > 1:
            at_points = [
                {name: swept[name][index][aggregate] or 0.0 for name in points} for index in range(len(POINTS))
            ]
            found.append(ranking(aggregate, points, at_points))
    return tuple(found)


def ranking(aggregate: str, points: Mapping[str, float], swept: Sequence[Mapping[str, float]]) -> Ranking:
    """Hold the ranking at each configuration against the one by ``points``."""
    names, orders, own = list(points), [_order(at) for at in swept], _order(points)
    return Ranking(
        aggregate=aggregate,
        points=points,
        taus=tuple(kendall_tau([points[name] for name in names], [at[name] for name in names]) for at in swept),
        kept_first=sum(order[:1] == own[:1] for order in orders),
        kept_two=sum(order[:2] == own[:2] for order in orders),
        kept_order=sum(order == own for order in orders),
    )


def _order(points: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(points, key=lambda name: (-points[name], name)))


def _judged(one: Rescorable) -> Verdicts:
    return {case.test_case_id: judge_case(case, one.measured[case.test_case_id], one.thresholds) for case in one.cases}


def _gaps(cases: Sequence[Case], verdicts: Verdicts) -> Mapping[str, float | None]:
    """The Entailment Gap in points, by aggregate."""
    gaps: dict[str, float | None] = {}
    for aggregate in AGGREGATES:
        passed: dict[Level, dict[tuple[str, str, int], bool | None]] = {Level.L1: {}, Level.L2: {}}
        for case in cases:
            if case.level in passed and (aggregate == "all" or case.expected_action in HEADLINE):
                found = verdicts[case.test_case_id]
                outcome = found.passed if isinstance(found, Verdict) else None
                passed[case.level][case.role, case.probe, case.instance] = outcome
        gaps[aggregate] = pair(passed[Level.L1], passed[Level.L2]).points
    return gaps


def ranking_json(found: Ranking) -> dict[str, Any]:
    """One ranking for other tools."""
    return {**asdict(found), "order": list(found.order), "tau": found.figures, "undefined": found.taus.count(None)}
