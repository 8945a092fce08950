"""PAS and conflicts as lines and tables for a terminal. Renderables only; nothing is printed here."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.judge.reply import Status
from dsbif.report.aggregate import Summary
from dsbif.report.language import PRINTED, Joined, Language, Mean, joined, judges_of
from dsbif.report.stats import Share
from dsbif.score.rows import ResultRow


def language_lines(language: Language | None, rows: Sequence[ResultRow]) -> Sequence[str]:
    """For people, under the table."""
    if language is None:
        return ("PAS: not judged (judge=none)",)
    found = joined(language, rows)
    lines = [f"PAS {Mean(language.mean, len(language.scores), language.n)}, by {language.judge}"]
    odd = {status: n for status, n in language.statuses.items() if status != str(Status.OK)}
    if odd:
        lines.append("not judged: " + ", ".join(f"{n} {status}" for status, n in odd.items()))
    if not language.scores:
        return lines
    if len(found.levels) > 1:
        lines += [f"PAS at {level}: {mean}" for level, mean in found.levels.items()]
    lines += _against_lines(found)
    for level, shares in found.conflict.items():
        cases = sum(row.level is level for row in rows)
        labelled = next(iter(shares.values())).n
        lines.append(f"Conflict Profile at {level}, over {labelled} labelled of {cases}")
        lines += [f"conflict: {PRINTED[label]} {share}" for label, share in shares.items()]
    if found.safety_override:
        lines.append(f"SafetyOverride (persona wins at L4b): {found.safety_override}")
    return lines


def _against_lines(found: Joined) -> list[str]:
    r, n = found.against_ias
    told = "not defined" if r is None else f"{r:+.2f}"
    return [
        f"PAS against IAS: {found.passing} that pass, {found.failing} that fail",
        f"point-biserial r of PAS with pass or fail: {told} over {n} both judged and scored",
    ]


def role_table(summary: Summary) -> list[RenderableType]:
    """PAS of one run by role, of passing and of failing cases; nothing where no case is judged."""
    if summary.language is None or not summary.language.scores:
        return []
    table = Table(show_edge=False, pad_edge=False, title="PAS, mean and k judged of n", title_justify="left")
    table.add_column("role", no_wrap=True)
    for name in ("PAS", "judged", "passing IAS", "failing IAS"):
        table.add_column(name, justify="right", no_wrap=True)
    whole = joined(summary.language, summary.rows)
    for role, mean in whole.roles.items():
        own = Joined(tuple((row, found) for row, found in whole.pairs if row.role == role))
        table.add_row(role, *_mean_cells(mean), _brief(own.passing), _brief(own.failing))
    table.add_section()
    everything = Mean(summary.language.mean, len(summary.language.scores), summary.language.n)
    table.add_row("all", *_mean_cells(everything), _brief(whole.passing), _brief(whole.failing), style="bold")
    return [Text(""), table]


def _mean_cells(mean: Mean) -> tuple[str, str]:
    return "–" if mean.value is None else f"{mean.value:.1f}", f"{mean.judged}/{mean.n}"


def _brief(mean: Mean) -> str:
    value, judged = _mean_cells(mean)
    return f"{value} ({judged})"


def pas_across(summaries: Sequence[Summary]) -> list[RenderableType]:
    """PAS and conflicts of several runs under one another; with different judges, why they are not, unless allowed."""
    judged = [summary for summary in summaries if summary.language is not None and summary.language.judgements]
    if not judged:
        return []
    languages = [summary.language for summary in judged if summary.language]
    judges = judges_of(languages)
    if len(judges) > 1 and not all(language.allow_mixed for language in languages):
        return [Text(""), Text(_refusal(judges))]
    parts: list[RenderableType] = [Text(""), _pas_table(judged, mixed=len(judges) > 1)]
    if any(_conflicts(summary) for summary in judged):
        parts += [Text(""), _conflict_table(judged)]
    return parts


def _refusal(judges: Sequence[str]) -> str:
    return "\n".join(
        (
            f"PAS is not compared: these runs were judged in {len(judges)} different ways.",
            *(f"  {judge}" for judge in judges),
            "Have them judged alike (stage=judge), or show them side by side all the same: judge.allow_mixed=true.",
            "How far two judges of one run agree: python -m dsbif.judge.agree RUN",
        )
    )


def _pas_table(summaries: Sequence[Summary], mixed: bool) -> Table:
    title = "PAS of all runs" + (", by different judges: not comparable" if mixed else "")
    table = Table(show_edge=False, pad_edge=False, title=title, title_justify="left")
    for name in ("model", "level"):
        table.add_column(name, no_wrap=True)
    for name in ("PAS", "judged", "passing IAS", "failing IAS", "r"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("judge")
    for summary in summaries:
        if summary.language is None:
            continue
        whole = joined(summary.language, summary.rows)
        r, n = whole.against_ias
        table.add_row(
            summary.conditions.model,
            summary.conditions.level,
            *_mean_cells(Mean(summary.language.mean, len(summary.language.scores), summary.language.n)),
            _brief(whole.passing),
            _brief(whole.failing),
            f"{'–' if r is None else f'{r:+.2f}'} ({n})",
            summary.language.judge,
        )
    return table


def _conflicts(summary: Summary) -> bool:
    return bool(summary.language and summary.language.conflict)


def _conflict_table(summaries: Sequence[Summary]) -> Table:
    table = Table(
        show_edge=False, pad_edge=False, title="Conflict Profile, k of n labelled", title_justify="left",
        caption="SafetyOverride is persona wins at L4b", caption_justify="left",
    )  # fmt: skip
    for name in ("model", "level"):
        table.add_column(name, no_wrap=True)
    for name in PRINTED.values():
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        if summary.language:
            for level, shares in joined(summary.language, summary.rows).conflict.items():
                table.add_row(summary.conditions.model, str(level), *(_share(share) for share in shares.values()))
    return table


def _share(share: Share) -> str:
    low, high = share.interval or (0.0, 0.0)
    return f"{share.k}/{share.n} {100 * share.k / share.n:.1f} % [{100 * low:.0f}, {100 * high:.0f}]"
