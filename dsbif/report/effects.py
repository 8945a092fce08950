"""What the prompt level does: gaps between runs of one model, by role, and on audio that several roles share.

Conventions
-----------
* A gap is a difference of shares in percentage points, from counts and never from rounded percentages:
  Entailment Gap = L1 − L2, Redundancy Gain = L3 − L2, Role Tax = L3 − L1.
* Gaps are over pairs, the same role, probe and instance at both levels. A pair with a side that is unscored or was not
  run is left out, and counted. On complete data a gap is the difference of the two levels' IAS.
* The interval is Newcombe's for pairs; p is an exact McNemar test, with Holm's correction over all gaps of one table.
* A level that was not run is said to be missing; nothing stands in for it.
* The per-role gap is over all of a role's cells. The matched table is over C1 and C4, instances 1 to 4, whose user
  audio is byte-identical for R1, R2 and R3, at every level but L4b; a stream counts where all its roles are scored.

Source: DSB-IFEval, effects and matched audio; interval and tests are ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dsbif.bench.actions import HEADLINE
from dsbif.bench.grid import MATCHED_INSTANCES, MATCHED_PROBES, MATCHED_ROLES
from dsbif.bench.levels import Level
from dsbif.report.aggregate import Summary
from dsbif.report.alike import by_model, check_alike, notes
from dsbif.report.pairs import Pairs, pair
from dsbif.report.ranking import Ranking
from dsbif.report.stats import Share, holm
from dsbif.score.rows import ResultRow

GAPS = {
    "Entailment Gap": (Level.L1, Level.L2),
    "Redundancy Gain": (Level.L3, Level.L2),
    "Role Tax": (Level.L3, Level.L1),
}
MATCHED_LEVELS = (Level.L0, Level.L1, Level.L2, Level.L3, Level.L4A)
_COMPARED = (Level.L1, Level.L2, Level.L3)
_Levels = Mapping[Level, Summary]


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference between two levels of one model, over ``headline``, ``all`` or one role.

    ``missing``: why there is none ("L1 missing", "L2 unscored"). ``p`` is corrected over the table it stands in.
    """

    model: str
    name: str
    over: str
    pairs: Pairs
    missing: tuple[str, ...]
    p: float | None


@dataclass(frozen=True, slots=True)
class Matched:
    """One role on the audio that it shares; ``left_out`` streams are not scored for every role of ``roles``."""

    model: str
    role: str
    share: Share
    levels: tuple[str, ...]
    roles: tuple[str, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything that is said across runs.

    ``levels``: one summary a model and level. ``rankings`` are empty where no sweep was made.
    """

    levels: tuple[Summary, ...]
    gaps: tuple[Gap, ...]
    roles: tuple[Gap, ...]
    matched: tuple[Matched, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]
    rankings: tuple[Ranking, ...] = ()


def effects(summaries: Sequence[Summary]) -> Effects:
    """Compare runs of one or several models.

    Raises:
        ConfigError: two runs of one model and level, or runs that were not scored alike.
    """
    models = by_model(summaries)
    levels = tuple(summary for found in models.values() for summary in found.values())
    check_alike(levels)
    gaps = _corrected([gap for model, found in models.items() for gap in _gaps(model, found)])
    roles = _corrected([gap for model, found in models.items() for gap in _role_gaps(model, found)])
    matched = tuple(one for model, found in models.items() for one in _matched(model, found))
    return Effects(
        levels=levels,
        gaps=gaps,
        roles=roles,
        matched=matched,
        missing=(
            *(line for model, found in models.items() for line in _missing(model, found)),
            *(_left_out(gap) for gap in gaps if gap.pairs.left_out and not gap.missing),
            *_unmatched(matched),
        ),
        notes=tuple(notes(levels)),
    )


def _gaps(model: str, levels: _Levels) -> Iterable[Gap]:
    if len(levels.keys() & set(_COMPARED)) < 2:
        return
    for name in GAPS:
        for over in ("headline", "all"):
            yield _gap(model, name, over, levels)


def _role_gaps(model: str, levels: _Levels) -> Iterable[Gap]:
    if not {Level.L1, Level.L2} <= levels.keys():
        return
    for role in sorted({row.role for level in (Level.L1, Level.L2) for row in levels[level].rows}):
        yield _gap(model, "Entailment Gap", role, levels)


def _gap(model: str, name: str, over: str, levels: _Levels) -> Gap:
    sides = [(level, _rows(levels, level, over)) for level in GAPS[name]]
    first, second = ({(row.role, row.probe, row.instance): row.passed for row in rows} for _, rows in sides)
    pairs = pair(first, second)
    missing = tuple(
        f"{level} {'unscored' if rows else 'missing'}"
        for level, rows in sides
        if not any(row.passed is not None for row in rows)
    )
    return Gap(model, name, over, pairs, missing or (() if pairs.n else ("no pair",)), pairs.p)


def _rows(levels: _Levels, level: Level, over: str) -> list[ResultRow]:
    rows = levels[level].rows if level in levels else ()
    return [
        row for row in rows if over == "all" or (row.action in HEADLINE if over == "headline" else row.role == over)
    ]


def _corrected(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Holm over everything that is tested in one table."""
    tested = [index for index, gap in enumerate(gaps) if gap.p is not None]
    adjusted = dict(zip(tested, holm([gaps[index].p or 0.0 for index in tested]), strict=True))
    return tuple(replace(gap, p=adjusted.get(index)) for index, gap in enumerate(gaps))


def _matched(model: str, levels: _Levels) -> Iterable[Matched]:
    there = [level for level in MATCHED_LEVELS if level in levels]
    streams: dict[tuple[Level, str, int], dict[str, bool | None]] = {}
    for level in there:
        for row in levels[level].rows:
            if row.role in MATCHED_ROLES and row.probe in MATCHED_PROBES and row.instance in MATCHED_INSTANCES:
                streams.setdefault((level, row.probe, row.instance), {})[row.role] = row.passed
    roles = tuple(role for role in MATCHED_ROLES if any(role in found for found in streams.values()))
    if len(roles) < 2:
        return
    whole = [found for found in streams.values() if all(found.get(role) is not None for role in roles)]
    for role in roles:
        share = Share(sum(bool(found[role]) for found in whole), len(whole))
        yield Matched(model, role, share, tuple(map(str, there)), roles, len(streams) - len(whole))


def _missing(model: str, levels: _Levels) -> Iterable[str]:
    if absent := [str(level) for level in Level if level not in levels]:
        yield f"{model}: {', '.join(absent)} missing"
    for level, summary in levels.items():
        if summary.unscored:
            yield f"{model} at {level}: {len(summary.unscored)} of {summary.n_expected} unscored, in no figure"


def _left_out(gap: Gap) -> str:
    left_out = f"{gap.pairs.left_out} left out for want of a side"
    return f"{gap.model}, {gap.name} over {gap.over}: {gap.pairs.n} pairs, {left_out}"


def _unmatched(matched: Sequence[Matched]) -> Iterable[str]:
    for one in {one.model: one for one in matched}.values():
        if absent := [role for role in MATCHED_ROLES if role not in one.roles]:
            yield f"{one.model}, shared audio: {' and '.join(absent)} missing"
        if one.left_out:
            yield f"{one.model}, shared audio: {one.left_out} left out, not scored for all of {', '.join(one.roles)}"
