"""What the prompt level does: gaps between runs of one model, by role, and on audio that several roles share.

Conventions
-----------
* A gap is a difference of shares in percentage points, from counts and never from rounded percentages:
  Entailment Gap = L1 − L2, Redundancy Gain = L3 − L2, Role Tax = L3 − L1.
* Its interval is Newcombe's. Its p is an exact McNemar test over pairs, the same conversation at both levels, with
  Holm's correction over all gaps of one table. A pair with an unscored side is in no test, and is counted.
* A level that was not run is said to be missing; nothing stands in for it.
* The per-role gap is over all of a role's cells, the matched table over C1 and C4, instances 1 to 4, whose user audio
  is byte-identical for R1, R2 and R3, at every level but L4b.

Source: DSB-IFEval, effects and matched audio; interval and tests are ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from dsbif.bench.actions import HEADLINE
from dsbif.bench.levels import Level
from dsbif.errors import ConfigError
from dsbif.report.aggregate import Summary, share_of
from dsbif.report.stats import Share, difference_interval, holm, mcnemar
from dsbif.score.rows import ResultRow

GAPS = {
    "Entailment Gap": (Level.L1, Level.L2),
    "Redundancy Gain": (Level.L3, Level.L2),
    "Role Tax": (Level.L3, Level.L1),
}
MATCHED_ROLES = ("R1", "R2", "R3")
MATCHED_PROBES = ("C1", "C4")
MATCHED_INSTANCES = (1, 2, 3, 4)
MATCHED_LEVELS = (Level.L0, Level.L1, Level.L2, Level.L3, Level.L4A)


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference between two levels of one model.

    ``points``: percentage points, None where ``missing`` names levels that were not run or not scored at all.
    ``only_first`` and ``only_second``: pairs that passed at one level alone; ``p`` is corrected.
    """

    model: str
    name: str
    aggregate: str
    first: Share
    second: Share
    points: float | None
    interval_points: tuple[float, float] | None
    pairs: int
    unpaired: int
    only_first: int
    only_second: int
    p: float | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleGap:
    """The Entailment Gap of one role, over all of its cells."""

    model: str
    role: str
    first: Share
    second: Share
    points: float | None


@dataclass(frozen=True, slots=True)
class Matched:
    """One role on the audio that it shares with two others."""

    model: str
    role: str
    share: Share
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything that is said across runs."""

    gaps: tuple[Gap, ...]
    roles: tuple[RoleGap, ...]
    matched: tuple[Matched, ...]
    missing: tuple[str, ...]


def effects(summaries: Sequence[Summary]) -> Effects:
    """Compare runs of one or several models.

    Raises:
        ConfigError: two runs of one model and level, or runs that were not scored alike.
    """
    _check_alike(summaries)
    models = _by_model(summaries)
    return Effects(
        gaps=_corrected([gap for model, levels in models.items() for gap in _gaps(model, levels)]),
        roles=tuple(gap for model, levels in models.items() for gap in _role_gaps(model, levels)),
        matched=tuple(found for model, levels in models.items() for found in _matched(model, levels)),
        missing=tuple(line for model, levels in models.items() for line in _missing(model, levels)),
    )


def _check_alike(summaries: Sequence[Summary]) -> None:
    how = {
        "windows": {summary.conditions.windows for summary in summaries},
        "LISTEN rule": {summary.conditions.listen_rule for summary in summaries},
        "thresholds": {summary.conditions.thresholds for summary in summaries},
        "rules version": {row.rules_version for summary in summaries for row in summary.rows},
    }
    differing = [f"{name} ({' and '.join(sorted(found))})" for name, found in how.items() if len(found) > 1]
    if differing:
        raise ConfigError(
            f"these runs were not scored alike: they differ in {', '.join(differing)}. Score them again the same way "
            "(stage=score) before comparing them."
        )


def _by_model(summaries: Sequence[Summary]) -> Mapping[str, Mapping[Level, Summary]]:
    models: dict[str, dict[Level, Summary]] = {}
    for summary in summaries:
        levels = models.setdefault(summary.conditions.model, {})
        for level in {row.level for row in summary.rows}:
            if level in levels:
                raise ConfigError(
                    f"there are two runs of {summary.conditions.model} at {level}; name one of them, or give the "
                    "models different names (model.name=…)."
                )
            levels[level] = summary
    return models


def _rows(levels: Mapping[Level, Summary], level: Level) -> list[ResultRow]:
    return [row for row in levels[level].rows if row.level is level] if level in levels else []


def _gaps(model: str, levels: Mapping[Level, Summary]) -> Iterable[Gap]:
    if len({Level.L1, Level.L2, Level.L3} & levels.keys()) < 2:
        return
    for name, (first, second) in GAPS.items():
        for aggregate in ("headline", "all"):
            one, two = (_of(aggregate, _rows(levels, level)) for level in (first, second))
            yield _gap(model, name, aggregate, (first, one), (second, two))


def _of(aggregate: str, rows: Iterable[ResultRow]) -> list[ResultRow]:
    return [row for row in rows if aggregate == "all" or row.action in HEADLINE]


def _gap(
    model: str, name: str, aggregate: str, first: tuple[Level, list[ResultRow]], second: tuple[Level, list[ResultRow]]
) -> Gap:
    one, two = share_of(first[1]), share_of(second[1])
    passed = [{row.conversation_id: row.passed for row in rows} for _, rows in (first, second)]
    both = sorted(passed[0].keys() & passed[1].keys())
    pairs = [(passed[0][key], passed[1][key]) for key in both]
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    only_first, only_second = sum(a and not b for a, b in whole), sum(b and not a for a, b in whole)
    interval = difference_interval(one, two)
    return Gap(
        model=model,
        name=name,
        aggregate=aggregate,
        first=one,
        second=two,
        points=_points(one, two),
        interval_points=None if interval is None else (100 * interval[0], 100 * interval[1]),
        pairs=len(whole),
        unpaired=len(passed[0].keys() | passed[1].keys()) - len(whole),
        only_first=only_first,
        only_second=only_second,
        p=mcnemar(only_first, only_second) if whole else None,
        missing=tuple(str(level) for level, rows in (first, second) if not share_of(rows).n),
    )


def _points(first: Share, second: Share) -> float | None:
    if first.share is None or second.share is None:
        return None
    return 100 * (first.k * second.n - second.k * first.n) / (first.n * second.n)


def _corrected(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Holm over everything that is tested in one table."""
    tested = [index for index, gap in enumerate(gaps) if gap.p is not None]
    adjusted = dict(zip(tested, holm([gaps[index].p or 0.0 for index in tested]), strict=True))
    return tuple(replace(gap, p=adjusted.get(index)) for index, gap in enumerate(gaps))


def _role_gaps(model: str, levels: Mapping[Level, Summary]) -> Iterable[RoleGap]:
    if not {Level.L1, Level.L2} <= levels.keys():
        return
    one, two = _rows(levels, Level.L1), _rows(levels, Level.L2)
    for role in sorted({row.role for row in (*one, *two)}):
        first, second = (share_of(row for row in rows if row.role == role) for rows in (one, two))
        yield RoleGap(model, role, first, second, _points(first, second))


def _matched(model: str, levels: Mapping[Level, Summary]) -> Iterable[Matched]:
    there = tuple(level for level in MATCHED_LEVELS if level in levels)
    for role in MATCHED_ROLES:
        rows = [
            row
            for level in there
            for row in _rows(levels, level)
            if row.role == role and row.probe in MATCHED_PROBES and row.instance in MATCHED_INSTANCES
        ]
        if rows:
            yield Matched(model, role, share_of(rows), tuple(map(str, there)))


def _missing(model: str, levels: Mapping[Level, Summary]) -> Iterable[str]:
    absent = [str(level) for level in (Level.L1, Level.L2, Level.L3) if level not in levels]
    if len(absent) == 1:
        yield f"{model}: {', '.join(absent)} missing"
    for level, summary in sorted(levels.items()):
        unscored = sum(row.passed is None for row in summary.rows if row.level is level)
        if unscored:
            yield f"{model} at {level}: {unscored} cases unscored, in no figure"


def effects_json(found: Effects) -> dict[str, Any]:
    """All of it for other tools; shares as k and n, gaps in percentage points."""
    return asdict(found)
