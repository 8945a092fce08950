"""From rows to the figures of one run: headline and all, per action, per role, and what is unscored.

Conventions
-----------
* ``headline`` covers LISTEN, TAKE_TURN, YIELD and READBACK, which is what the paper's IAS counts (31 of 48 cells);
  ``all`` covers every case. Both are micro averages: k passed of n scored.
* An unscored case is in no denominator and is always listed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsbif.bench.actions import HEADLINE, Action
from dsbif.report.language import Language, language_json
from dsbif.report.stats import Share
from dsbif.score import RULES_VERSION
from dsbif.score.rows import ResultRow


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what a run was scored: everything that a reader needs in order to compare it.

    ``transcript``: whose words READBACK counts and a judge reads: ``native`` for the agent's own, a recogniser by its
    name and version, ``none``; several, with commas, where cases differ.
    """

    model: str
    level: str
    windows: str
    listen_rule: str
    thresholds: str
    conditioning: str
    transcript: str = "unknown"


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run."""

    conditions: Conditions
    rows: tuple[ResultRow, ...]
    language: Language | None = None

    @property
    def n_expected(self) -> int:
        """Cases that the run is about."""
        return len(self.rows)

    @property
    def scored(self) -> tuple[ResultRow, ...]:
        """Rows with a verdict."""
        return tuple(row for row in self.rows if row.verdict is not None)

    @property
    def unscored(self) -> tuple[ResultRow, ...]:
        """Rows without one."""
        return tuple(row for row in self.rows if row.verdict is None)

    @property
    def complete(self) -> bool:
        """Whether every case is scored."""
        return not self.unscored

    @property
    def headline(self) -> Share:
        """The four actions of the paper's headline."""
        return share_of(row for row in self.rows if row.action in HEADLINE)

    @property
    def all(self) -> Share:
        """Every case."""
        return share_of(self.rows)

    @property
    def actions(self) -> Mapping[Action, Share]:
        """By expected action, in the paper's order; actions without a case are left out."""
        return {
            action: share_of(row for row in self.rows if row.action is action)
            for action in Action
            if any(row.action is action for row in self.rows)
        }

    @property
    def roles(self) -> Mapping[str, Share]:
        """By role, all of its cases."""
        return {role: share_of(r for r in self.rows if r.role == role) for role in sorted({r.role for r in self.rows})}

    @property
    def borderline(self) -> int:
        """Verdicts within 60 ms of their limit."""
        return sum(row.verdict.borderline for row in self.scored if row.verdict)

    @property
    def silent_at_barge_in(self) -> Share:
        """Of the scored barge-in cases, those in which the agent was silent when the user came in."""
        cases = [row for row in self.scored if row.action in _BARGE_INS]
        return Share(sum(bool(row.agent_silent_at_w0) for row in cases), len(cases))


_BARGE_INS = (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP)


def share_of(rows: Iterable[ResultRow]) -> Share:
    """Passed of scored; unscored rows count nowhere."""
    outcomes = [row.passed for row in rows if row.passed is not None]
    return Share(sum(outcomes), len(outcomes))


def summary_json(summary: Summary) -> dict[str, Any]:
    """``summary.json``: the contract that other tools read."""
    conditions = summary.conditions
    return {
        "model": conditions.model,
        "level": conditions.level,
        "n_expected": summary.n_expected,
        "n_scored": len(summary.scored),
        "headline": _share_json(summary.headline),
        "all": _share_json(summary.all),
        "actions": {str(action): {"k": share.k, "n": share.n} for action, share in summary.actions.items()},
        "roles": {role: {"k": share.k, "n": share.n} for role, share in summary.roles.items()},
        "unscored": [
            {"tid": row.test_case_id, "reason": str(row.unscored.reason), "detail": row.unscored.detail}
            for row in summary.unscored
            if row.unscored
        ],
        "pas": language_json(summary.language, summary.rows),
        "borderline": summary.borderline,
        "silent_at_barge_in": {"k": summary.silent_at_barge_in.k, "n": summary.silent_at_barge_in.n},
        "rules_version": RULES_VERSION,
        "listen_rule": conditions.listen_rule,
        "windows": conditions.windows,
        "thresholds": conditions.thresholds,
        "conditioning": conditions.conditioning,
        "transcript": conditions.transcript,
    }


def _share_json(share: Share) -> dict[str, Any]:
    low, high = share.interval or (None, None)
    return {"k": share.k, "n": share.n, "share": share.share, "low": low, "high": high}


def flagged(rows: Sequence[ResultRow]) -> Mapping[str, int]:
    """How many cases carry each flag."""
    names = sorted({flag for row in rows for flag in row.flags})
    return {name: sum(name in row.flags for row in rows) for name in names}
