"""Tables for a terminal, at any width, and for a log file. Renderables only; nothing is printed here."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.bench.actions import PROACTIVE
from dsbif.report.aggregate import Summary, flagged
from dsbif.report.pas_tables import language_lines, pas_across, role_table
from dsbif.report.stats import Share
from dsbif.score import RULES_VERSION

_SHOWN = 12
_CONDITIONING = {
    "full": "prompt applied",
    "partial": "prompt applied in part",
    "none": "prompt NOT applied: this agent has no way to take one",
}
_WORDS = {"native": "the agent's own words", "none": "no transcript"}


def run_table(summary: Summary) -> RenderableType:
    """One run: conditions, both aggregates, every action, what is unscored."""
    parts: list[RenderableType] = [Text(""), _title(summary), _actions(summary)]
    parts += [Text(line) for line in _notes(summary)]
    parts += role_table(summary)
    if summary.unscored:
        parts.append(_unscored(summary))
    return Group(*parts)


def _title(summary: Summary) -> Text:
    c = summary.conditions
    text = Text.assemble((c.model, "bold"), " at ", (c.level, "bold"))
    text.append(f"   {len(summary.scored)} of {summary.n_expected} cases scored\n")
    text.append(
        f"{_CONDITIONING.get(c.conditioning, c.conditioning)}; {_words(c.transcript)}; thresholds {c.thresholds}, "
        f"windows {c.windows}, LISTEN {c.listen_rule}, rules {RULES_VERSION}",
        style="dim",
    )
    return text


def _words(transcript: str) -> str:
    """Whose words were read back and judged, for a reader."""
    return _WORDS.get(transcript, f"words by {transcript}")


def _actions(summary: Summary) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("IAS")
    table.add_column("k/n", justify="right")
    table.add_column("share", justify="right")
    table.add_column("95 % interval", justify="right")
    _add(table, "headline", summary.headline, "bold")
    _add(table, "all", summary.all, "bold")
    table.add_section()
    for action, share in summary.actions.items():
        _add(table, f"{action}{' *' if action in PROACTIVE else ''}", share)
    return table


def _add(table: Table, name: str, share: Share, style: str = "") -> None:
    table.add_row(name, *_cells(share), style=style)


def _cells(share: Share) -> tuple[str, str, str]:
    if share.interval is None:
        return f"{share.k}/{share.n}", "–", "–"
    low, high = share.interval
    return f"{share.k}/{share.n}", f"{100 * share.k / share.n:.1f} %", f"{100 * low:.1f} – {100 * high:.1f}"


def _notes(summary: Summary) -> list[str]:
    notes = ["* proactive: counted in all, not in headline"]
    notes += language_lines(summary.language, summary.rows)
    if summary.conditions.level == "L4a":
        notes.append(
            "L4a is scored against the persona, although the contradicting line should win; see docs/scores.md"
        )
    if summary.borderline:
        notes.append(f"{summary.borderline} verdicts lie within 60 ms of their limit (borderline; they count)")
    silent = summary.silent_at_barge_in
    if silent.k:
        notes.append(f"in {silent.k} of {silent.n} barge-ins the agent was silent when the user came in")
    notes += [f"{n} recordings are flagged {flag}" for flag, n in flagged(summary.rows).items()]
    return notes


def _unscored(summary: Summary) -> Table:
    table = Table(show_edge=False, pad_edge=False, title="not scored, in no denominator", title_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("reason", no_wrap=True)
    table.add_column("detail", overflow="fold")
    for row in summary.unscored[:_SHOWN]:
        if row.unscored:
            table.add_row(row.test_case_id, str(row.unscored.reason), Text(row.unscored.detail))
    if len(summary.unscored) > _SHOWN:
        table.add_row("…", "", f"and {len(summary.unscored) - _SHOWN} more in summary.json")
    return table


def across_runs(summaries: Sequence[Summary]) -> RenderableType:
    """Several runs under one another: models by levels, headline and all."""
    table = Table(show_edge=False, pad_edge=False, title="IAS of all runs", title_justify="left")
    for name in ("model", "level", "IAS"):
        table.add_column(name, no_wrap=True)
    for name in ("k/n", "share", "95 % interval", "scored"):
        table.add_column(name, justify="right", no_wrap=True)
    last = None
    for summary in summaries:
        c = summary.conditions
        if last not in (None, c.model):
            table.add_section()
        last = c.model
        scored = f"{len(summary.scored)}/{summary.n_expected}"
        table.add_row(c.model, c.level, "headline", *_cells(summary.headline), scored)
        table.add_row("", "", "all", *_cells(summary.all), "")
    return Group(Text(""), table, *pas_across(summaries))
