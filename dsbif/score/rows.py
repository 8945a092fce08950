"""One row a case: what every report folds over, and what ``verdicts.jsonl`` holds."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dsbif.bench.actions import Action
from dsbif.bench.case import Case
from dsbif.bench.levels import Level
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.files import write_jsonl
from dsbif.score import RULES_VERSION
from dsbif.score.measure import Measurement, Unscored
from dsbif.score.verdict import Verdict


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A case and what came of it. Exactly one of ``verdict`` and ``unscored`` is there.

    ``conflict_followed``: at L4a, whether the agent did *not* do what the persona expects; None elsewhere.
    ``agent_silent_at_w0``: None where nothing was measured.
    """

    test_case_id: str
    conversation_id: str
    model: str
    role: str
    role_name: str
    probe: str
    instance: int
    level: Level
    action: Action
    verdict: Verdict | None
    unscored: Unscored | None
    conflict_followed: bool | None
    agent_silent_at_w0: bool | None
    flags: tuple[str, ...]
    rules_version: str = RULES_VERSION

    @property
    def passed(self) -> bool | None:
        """Pass, fail, or None where the case is unscored."""
        return None if self.verdict is None else self.verdict.passed


def make_row(case: Case, model: str, measured: Measurement | Unscored, result: Verdict | Unscored) -> ResultRow:
    """Join a case with its measurement and its verdict."""
    verdict = result if isinstance(result, Verdict) else None
    return ResultRow(
        test_case_id=case.test_case_id,
        conversation_id=case.conversation_id,
        model=model,
        role=case.role,
        role_name=case.role_name,
        probe=case.probe,
        instance=case.instance,
        level=case.level,
        action=case.expected_action,
        verdict=verdict,
        unscored=result if isinstance(result, Unscored) else None,
        conflict_followed=not verdict.passed if verdict and case.level is Level.L4A else None,
        agent_silent_at_w0=measured.agent_silent_at_w0 if isinstance(measured, Measurement) else None,
        flags=measured.flags if isinstance(measured, Measurement) else (),
    )


def inventory(cases: Sequence[Case], rows: Iterable[ResultRow]) -> list[ResultRow]:
    """The rows in the order of the cases, joined by id.

    Raises:
        CaseError: a row is missing, stands twice or belongs to no case; names the ids.
    """
    found = list(rows)
    counted = Counter(row.test_case_id for row in found)
    wanted = [case.test_case_id for case in cases]
    faults = {
        "stand twice": [tid for tid, n in counted.items() if n > 1],
        "belong to no case": sorted(counted.keys() - set(wanted)),
        "are missing": [tid for tid in wanted if tid not in counted],
    }
    told = [f"{', '.join(ids[:5])}{' …' if len(ids) > 5 else ''} {what}" for what, ids in faults.items() if ids]
    if told:
        raise CaseError(f"the results do not match the manifest: {'; '.join(told)}. Nothing is averaged over them.")
    by_id = {row.test_case_id: row for row in found}
    return [by_id[tid] for tid in wanted]


_adapter: TypeAdapter[ResultRow] = TypeAdapter(ResultRow)


def write_rows(path: Path, rows: Iterable[ResultRow]) -> None:
    """Write ``verdicts.jsonl``, whole or not at all."""
    write_jsonl(path, (row_line(row) for row in rows))


def row_line(row: ResultRow) -> dict[str, Any]:
    """The JSON object of a row."""
    return asdict(row)


def read_rows(path: Path) -> list[ResultRow]:
    """Read ``verdicts.jsonl``.

    Raises:
        CaseError: missing file, broken JSON or a wrong type; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path} cannot be read: {error}. Score the run again (stage=score).") from error
    return [_read_row(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def _read_row(line: str, where: str) -> ResultRow:
    try:
        return _adapter.validate_python(json.loads(line))
    except ValueError as error:
        fault = explain(error) if isinstance(error, ValidationError) else error
        raise CaseError(f"{where}: {fault}. Score the run again.") from error
