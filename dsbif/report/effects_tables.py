"""Effects across runs as tables for a terminal and as JSON. Renderables only; nothing is printed here."""

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.errors import ConfigError
from dsbif.report.aggregate import Summary, summary_json
from dsbif.report.effects import Effects, Gap, Matched, effects
from dsbif.report.ranking import Ranking, ranking_json
from dsbif.report.stats import Share
from dsbif.score.sweep import POINTS

_GAPS = "Effects of the prompt in points of IAS (p: McNemar over pairs, Holm over all)"
_ROLES = "Entailment Gap by role, all actions (p: McNemar over pairs, Holm over all)"
_FIGURES = ("from", "to", "points", "95 % interval", "p")
_MATCHED = "IAS on byte-identical audio: C1 and C4, instances 1 to 4"
_SWEEP = f"Ranking by Entailment Gap over the sweep's {len(POINTS)} thresholds: Kendall's tau"


def effects_tables(found: Effects) -> list[RenderableType]:
    """Gaps, gaps by role, shared audio, the sweep, and what is missing; a table without rows is left out."""
    parts: list[RenderableType] = []
    if found.gaps:
        parts += [Text(""), _gaps(found.gaps)]
    if found.roles:
        parts += [Text(""), _roles(found.roles)]
    if found.matched:
        parts += [Text(""), _matched(found.matched)]
    lines = [*found.missing, *found.notes]
    if found.rankings:
        parts += [Text(""), _rankings(found.rankings)]
        lines.insert(0, "only wait and yield latency touch the headline: 15 of the sweep's thresholds can differ there")
    if lines:
        parts.append(Text("\n".join(("", *lines)), style="dim"))
    return parts


def compared(summaries: Sequence[Summary]) -> list[RenderableType]:
    """Effects between finished runs; one line of why, where they cannot be compared."""
    try:
        return effects_tables(effects(summaries))
    except ConfigError as error:
        return [Text(f"\nno effects are shown: {error}")]


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(show_edge=False, pad_edge=False, title=title, title_justify="left")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _gaps(gaps: Sequence[Gap]) -> Table:
    table = _table(_GAPS, ("", "IAS"), _FIGURES)
    model = name = ""
    for gap in gaps:
        if gap.model != model:
            table.add_row(Text(gap.model, style="bold"))
            name = ""
        table.add_row(gap.name if gap.name != name else "", gap.over, *_gap_cells(gap))
        model, name = gap.model, gap.name
    return table


def _roles(gaps: Sequence[Gap]) -> Table:
    table = _table(_ROLES, ("model", "role"), _FIGURES)
    model = ""
    for gap in gaps:
        table.add_row(gap.model if gap.model != model else "", gap.over, *_gap_cells(gap))
        model = gap.model
    return table


def _gap_cells(gap: Gap) -> tuple[str, ...]:
    found = gap.pairs
    if gap.missing or found.points is None or found.interval_points is None:
        return "", "", "", " and ".join(gap.missing), ""
    low, high = found.interval_points
    return (
        f"{found.second.k}/{found.n}", f"{found.first.k}/{found.n}", f"{found.points:+.1f}",
        f"{low:+.1f} … {high:+.1f}", "–" if gap.p is None else f"{gap.p:.3f}",
    )  # fmt: skip


def _matched(found: Sequence[Matched]) -> Table:
    table = _table(_MATCHED, ("model", "levels", "role"), ("k/n, 95 % interval",))
    last = None
    for one in found:
        head = (one.model, " ".join(one.levels)) if one.model != last else ("", "")
        last = one.model
        table.add_row(*head, one.role, str(one.share))
    return table


def _rankings(found: Sequence[Ranking]) -> Table:
    table = _table(_SWEEP, ("IAS",), ("mean", "median", "min", "max", "sd", "1st kept", "1st, 2nd", "order", "all tie"))
    for one in found:
        cells = ["–"] * 8
        if one.figures:
            kept = (one.kept_first, one.kept_two, one.kept_order)
            cells = [*(f"{value:.3f}" for value in one.figures.values()), *(f"{n}/{len(one.taus)}" for n in kept)]
        table.add_row(one.aggregate, *cells, str(one.taus.count(None)))
    return table


def effects_json(found: Effects) -> dict[str, Any]:
    """All of it for other tools: shares as k and n, gaps in percentage points.

    ``levels`` holds the ``summary.json`` of every model and level, PAS, Conflict Profile and SafetyOverride included.
    """
    return {
        "levels": [summary_json(summary) for summary in found.levels],
        "gaps": [_gap_json(gap) for gap in found.gaps],
        "roles": [_gap_json(gap) for gap in found.roles],
        "matched": [
            {"model": one.model, "role": one.role, **_share_json(one.share), "levels": list(one.levels),
             "left_out": one.left_out}
            for one in found.matched
        ],
        "sweep": [ranking_json(one) for one in found.rankings],
        "missing": list(found.missing),
        "notes": list(found.notes),
    }  # fmt: skip


def _gap_json(gap: Gap) -> dict[str, Any]:
    found = gap.pairs
    return {
        "model": gap.model,
        "name": gap.name,
        "over": gap.over,
        "first": _share_json(found.first),
        "second": _share_json(found.second),
        "points": found.points,
        "interval_points": found.interval_points,
        "pairs": {
            "both": found.both,
            "only_first": found.only_first,
            "only_second": found.only_second,
            "neither": found.neither,
            "left_out": found.left_out,
        },
        "p": gap.p,
        "missing": list(gap.missing),
    }


def _share_json(share: Share) -> dict[str, int]:
    return {"k": share.k, "n": share.n}
