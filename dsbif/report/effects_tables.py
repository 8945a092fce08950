"""Tables across runs for a terminal and a log file. Renderables only; nothing is printed here."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.errors import ConfigError
from dsbif.report.aggregate import Summary
from dsbif.report.effects import Effects, Gap, Matched, RoleGap, effects


def effects_tables(found: Effects) -> list[RenderableType]:
    """Gaps, gaps by role, shared audio, and what is missing; a table without rows is left out."""
    parts: list[RenderableType] = []
    if found.gaps:
        parts += [Text(""), _gaps(found.gaps)]
    if found.roles:
        parts += [Text(""), _roles(found.roles)]
    if found.matched:
        parts += [Text(""), _matched(found.matched)]
    parts += [Text(line, style="dim") for line in found.missing]
    return parts


def compared(summaries: Sequence[Summary]) -> list[RenderableType]:
    """Effects between finished runs; one line of why, where they cannot be compared."""
    try:
        return effects_tables(effects(summaries))
    except ConfigError as error:
        return [Text(""), Text(f"no effects are shown: {error}")]


def _table(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(show_edge=False, pad_edge=False, title=title, title_justify="left")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _gaps(gaps: Sequence[Gap]) -> Table:
    title = "Effects of the prompt in points of IAS (p: McNemar over pairs, Holm over all)"
    table = _table(title, ("", "IAS"), ("from", "to", "points", "95 % interval", "p"))
    last = None
    for gap in gaps:
        if gap.model != last:
            table.add_row(Text(gap.model, style="bold"))
        last = gap.model
        table.add_row(gap.name, gap.aggregate, *_gap_cells(gap))
    return table


def _gap_cells(gap: Gap) -> tuple[str, ...]:
    if gap.points is None or gap.interval_points is None:
        return "", "", "", f"{' and '.join(gap.missing)} missing", ""
    low, high = gap.interval_points
    return (
        f"{gap.second.k}/{gap.second.n}", f"{gap.first.k}/{gap.first.n}", f"{gap.points:+.1f}",
        f"{low:+.1f} … {high:+.1f}", "–" if gap.p is None else f"{gap.p:.3f}",
    )  # fmt: skip


def _roles(gaps: Sequence[RoleGap]) -> Table:
    models = list(dict.fromkeys(gap.model for gap in gaps))
    table = _table("Entailment Gap by role, all actions: points (passed at L1 and L2 of n)", ("role",), models)
    cells = {(gap.role, gap.model): gap for gap in gaps}
    for role in sorted({gap.role for gap in gaps}):
        table.add_row(role, *(_role_cell(cells.get((role, model))) for model in models))
    return table


def _role_cell(gap: RoleGap | None) -> str:
    if gap is None or gap.points is None:
        return "–"
    of = f"of {gap.first.n}" if gap.first.n == gap.second.n else f"of {gap.first.n} and {gap.second.n}"
    return f"{gap.points:+.1f} ({gap.first.k}, {gap.second.k} {of})"


def _matched(found: Sequence[Matched]) -> Table:
    title = "IAS on byte-identical audio: C1 and C4, instances 1 to 4"
    table = _table(title, ("model", "levels", "role"), ("k/n, 95 % interval",))
    last = None
    for one in found:
        head = (one.model, " ".join(one.levels)) if one.model != last else ("", "")
        last = one.model
        table.add_row(*head, one.role, str(one.share))
    return table
