"""How far two judges of the same cases agree: labels, scores, and which cases could not be compared.

A pair counts where both judgements are ``ok`` and of the same words; every other case is left out and counted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from dsbif.bench.levels import Level
from dsbif.judge.reply import L4Category, Status
from dsbif.judge.store import Judgement
from dsbif.report.association import Confusion, cohen_kappa, spearman

LABELS: tuple[str, ...] = get_args(L4Category)
Judgements = Mapping[str, Judgement]
"""By case id."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two judges over ``n`` cases, ``n_conflict`` of them at L4.

    ``scores`` are the pairs of PAS (first, second), ``labels`` the pairs of conflict labels. ``left_out`` counts the
    cases without a pair by the reason; a case has one reason, the first judge's where both lack something.
    """

    first: str
    second: str
    n: int
    n_conflict: int
    scores: tuple[tuple[float, float], ...]
    labels: tuple[tuple[str, str], ...]
    left_out: Mapping[str, int]

    @property
    def mean_difference(self) -> float | None:
        """Mean of PAS(second) − PAS(first); None without pairs."""
        differences = [second - first for first, second in self.scores]
        return sum(differences) / len(differences) if differences else None

    @property
    def mean_distance(self) -> float | None:
        """Mean of the unsigned differences, which do not cancel; None without pairs."""
        distances = [abs(second - first) for first, second in self.scores]
        return sum(distances) / len(distances) if distances else None

    @property
    def spearman(self) -> float | None:
        """Rank correlation of PAS; None below two pairs or where one judge gave one score only."""
        return spearman([first for first, _ in self.scores], [second for _, second in self.scores])

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of the labels; None without pairs, or where both gave one label only."""
        return cohen_kappa([first for first, _ in self.labels], [second for _, second in self.labels])

    @property
    def crossed(self) -> Confusion:
        """Labels of the first judge against those of the second."""
        return Confusion(LABELS, self.labels)


def compare(first: Judgements, second: Judgements, names: tuple[str, str], levels: Mapping[str, Level]) -> Agreement:
    """Hold two judges' words against each other.

    Args:
        first: judgements by case id; those of cases that ``levels`` does not name are not looked at.
        second: likewise.
        names: of the two judges.
        levels: the level of every case of the run.
    """
    left_out: Counter[str] = Counter()
    scores: list[tuple[float, float]] = []
    labels: list[tuple[str, str]] = []
    for case in levels:
        one, other = first.get(case), second.get(case)
        reason = _lacks(names[0], one) or _lacks(names[1], other)
        if reason or one is None or other is None or not one.fields or not other.fields:
            left_out[reason] += 1
        elif one.transcript_hash != other.transcript_hash:
            left_out["they judged different words"] += 1
        else:
            scores.append((one.fields.pas, other.fields.pas))
            if one.fields.l4_category and other.fields.l4_category:
                labels.append((str(one.fields.l4_category), str(other.fields.l4_category)))
    conflicts = sum(level.is_conflict for level in levels.values())
    return Agreement(*names, len(levels), conflicts, tuple(scores), tuple(labels), dict(sorted(left_out.items())))


def _lacks(name: str, judgement: Judgement | None) -> str:
    if judgement is None:
        return f"not judged by {name}"
    return "" if judgement.status is Status.OK else f"{judgement.status} by {name}"


def agreement_json(agreement: Agreement) -> dict[str, Any]:
    """One pair of judges in ``agreement.json``."""
    return {
        "first": agreement.first,
        "second": agreement.second,
        "n": agreement.n,
        "left_out": dict(agreement.left_out),
        "pas": {
            "pairs": len(agreement.scores),
            "n": agreement.n,
            "spearman": agreement.spearman,
            "mean_difference": agreement.mean_difference,
            "mean_distance": agreement.mean_distance,
        },
        "labels": {
            "pairs": len(agreement.labels),
            "n": agreement.n_conflict,
            "agreed": agreement.crossed.right,
            "kappa": agreement.kappa,
            "crossed": {a: {b: agreement.crossed.count(a, b) for b in LABELS} for a in LABELS},
        },
    }
