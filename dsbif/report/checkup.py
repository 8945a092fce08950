"""What a judge's check-up came to: how often it finds what we wrote, over how many judged items, at what price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dsbif.judge.checkup_set import FITS, CheckItem, class_of, in_band
from dsbif.judge.reply import L4Category
from dsbif.judge.settings import JudgeSettings
from dsbif.judge.store import Judgement, Usage
from dsbif.report.association import Confusion
from dsbif.report.stats import Share

LABELS: tuple[str, ...] = get_args(L4Category)
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """One judged item: what was expected and what the judge's answer amounts to."""

    test_case_id: str
    expected: str
    found: str
    pas: float
    in_band: bool | None


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of items: ``n`` of them, those judged as ``findings``."""

    title: str
    n: int
    classes: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def confusion(self) -> Confusion:
        """Expected against found."""
        return Confusion(self.classes, tuple((one.expected, one.found) for one in self.findings))

    @property
    def accuracy(self) -> Share:
        """Found as expected, of the judged."""
        return Share(self.confusion.right, len(self.findings))

    @property
    def banded(self) -> Share:
        """PAS within the expected class's band, where a class has one."""
        told = [one.in_band for one in self.findings if one.in_band is not None]
        return Share(sum(told), len(told))


@dataclass(frozen=True, slots=True)
class Checkup:
    """Both parts, and what the calls took."""

    settings: JudgeSettings
    asked: tuple[str, ...]
    fit: Part
    conflict: Part
    not_judged: dict[str, int]
    usage: Usage
    calls: int

    @property
    def complete(self) -> bool:
        """Whether every item was judged."""
        return not self.not_judged

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Of the parts that have a judged item."""
        return tuple(share for part in (self.fit, self.conflict) if (share := part.accuracy.share) is not None)


def checkup(items: Sequence[CheckItem], judgements: Sequence[Judgement], settings: JudgeSettings) -> Checkup:
    """Hold what a judge said against what was expected; judgements are joined by id, some may be absent."""
    by_id = {judgement.test_case_id: judgement for judgement in judgements}
    not_judged: dict[str, int] = {}
    findings: dict[bool, list[Finding]] = {True: [], False: []}
    for one in items:
        judgement = by_id.get(one.item.test_case_id)
        if judgement is None or judgement.fields is None:
            status = str(judgement.status) if judgement else "not_judged"
            not_judged[status] = not_judged.get(status, 0) + 1
        else:
            findings[one.is_conflict].append(_finding(one, judgement))
    parts = {
        conflict: Part(
            "conflict labels" if conflict else "classes of fit",
            sum(one.is_conflict is conflict for one in items),
            LABELS if conflict else FITS,
            tuple(findings[conflict]),
        )
        for conflict in (False, True)
    }
    usage = sum((judgement.usage for judgement in judgements), Usage())
    asked = tuple(sorted({judgement.asked for judgement in judgements}))
    calls = sum(judgement.attempts for judgement in judgements)
    return Checkup(settings, asked, parts[False], parts[True], dict(sorted(not_judged.items())), usage, calls)


def _finding(one: CheckItem, judgement: Judgement) -> Finding:
    fields = judgement.fields
    assert fields is not None
    spoke = bool(one.item.transcript.text)
    found = str(fields.l4_category) if one.is_conflict else class_of(fields, spoke)
    band = None if one.is_conflict else in_band(one.expected, fields.pas)
    return Finding(judgement.test_case_id, one.expected, found, fields.pas, band)


def checkup_json(found: Checkup) -> dict[str, Any]:
    """``checkup.{name}.json``."""
    return {
        "judge": found.settings.name,
        "asked": list(found.asked),
        "fit": _part_json(found.fit),
        "conflict": _part_json(found.conflict),
        "not_judged": found.not_judged,
        "calls": found.calls,
        "tokens": {"input": found.usage.input_tokens, "output": found.usage.output_tokens},
        "cost_usd": found.settings.cost_usd(found.usage.input_tokens, found.usage.output_tokens),
    }


def _part_json(part: Part) -> dict[str, Any]:
    matrix = part.confusion
    return {
        "judged": len(part.findings),
        "n": part.n,
        "right": part.accuracy.k,
        "accuracy": part.accuracy.share,
        "macro_f1": matrix.macro_f1,
        "in_band": {"k": part.banded.k, "n": part.banded.n},
        "confusion": {row: {column: matrix.count(row, column) for column in matrix.columns} for row in part.classes},
        "wrong": [
            {"item": one.test_case_id, "expected": one.expected, "found": one.found, "pas": one.pas}
            for one in part.findings
            if one.found != one.expected
        ],
    }


def checkup_table(found: Checkup) -> RenderableType:
    """For people: both parts with their matrices, what was not judged, what it took."""
    parts: list[RenderableType] = [Text(f"check-up of {found.settings.name}", style="bold")]
    parts += [Text(asked, style="dim") for asked in found.asked]
    for part in (found.fit, found.conflict):
        parts += _part_lines(part)
    if found.not_judged:
        parts.append(Text("not judged: " + ", ".join(f"{n} {status}" for status, n in found.not_judged.items())))
    cost = found.settings.cost_usd(found.usage.input_tokens, found.usage.output_tokens)
    price = "unknown: this judge has no prices" if cost is None else f"{cost:.4f} USD"
    tokens = f"{found.usage.input_tokens} tokens in, {found.usage.output_tokens} out"
    return Group(*parts, Text(f"{found.calls} calls, {tokens}, cost {price}"))


def _part_lines(part: Part) -> list[RenderableType]:
    f1 = part.confusion.macro_f1
    lines: list[RenderableType] = [
        Text(f"\n{part.title}: {len(part.findings)} judged of {part.n}"),
        Text(f"accuracy {part.accuracy}, macro-F1 {'–' if f1 is None else f'{f1:.2f}'}"),
    ]
    if part.banded.n:
        lines.append(Text(f"PAS in the band of its class: {part.banded}"))
    if part.findings:
        lines.append(_matrix(part))
    wrong = [one for one in part.findings if one.found != one.expected]
    lines += [
        Text(f"  {one.test_case_id}: {one.expected}, found {one.found}, PAS {one.pas:g}") for one in wrong[:_SHOWN]
    ]
    if len(wrong) > _SHOWN:
        lines.append(Text(f"  and {len(wrong) - _SHOWN} more in the JSON"))
    return lines


def _matrix(part: Part) -> Table:
    matrix = part.confusion
    table = Table("expected ↓  found →", show_edge=False, pad_edge=False)
    for column in matrix.columns:
        table.add_column(column, justify="right")
    for row in part.classes:
        counts = (matrix.count(row, column) for column in matrix.columns)
        table.add_row(row, *(str(count or "·") for count in counts))
    return table
