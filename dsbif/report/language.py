"""What a language judge said of a run: PAS and, at L4, who won. Nothing here guesses for a case that was not judged.

Every mean stands with k judged of n cases. PAS of different judges (model, prompt, parameters) is not comparable: what
puts runs beside each other asks ``judges_of`` first.

Source: DSB-IFEval; "hedged" is printed as the paper prints it, Balanced.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dsbif.bench.levels import Level
from dsbif.judge.store import Judgement, judgements_file, read_judgements
from dsbif.report.association import pearson
from dsbif.report.stats import Share
from dsbif.score.rows import ResultRow

PRINTED = {
    "directive-wins": "directive wins",
    "persona-wins": "persona wins",
    "hedged": "balanced",
    "incoherent": "incoherent",
}


@dataclass(frozen=True, slots=True)
class Language:
    """The judge's words on ``n`` cases, ``judgements`` of which exist.

    ``allow_mixed``: whether PAS of other judges may stand beside it.
    """

    judge: str
    n: int
    judgements: tuple[Judgement, ...]
    allow_mixed: bool = False

    @property
    def scores(self) -> tuple[float, ...]:
        """The PAS of every case that has one, 0 to 100."""
        return tuple(item.fields.pas for item in self.judgements if item.fields)

    @property
    def mean(self) -> float | None:
        """Mean PAS over the judged cases; None where none is."""
        return _mean(self.scores)

    @property
    def statuses(self) -> Mapping[str, int]:
        """How the calls ended, cases without a judgement included."""
        counted = Counter(str(item.status) for item in self.judgements)
        missing = self.n - len(self.judgements)
        return dict(sorted(counted.items())) | ({"not_judged": missing} if missing else {})

    @property
    def conflict(self) -> Mapping[str, Share]:
        """The Conflict Profile: each label's share of the labelled cases; empty below L4."""
        return profile(label for item in self.judgements if (label := _label(item)))

    @property
    def cost(self) -> tuple[int, int]:
        """Tokens in and out, over all attempts."""
        used = [item.usage for item in self.judgements]
        return sum(u.input_tokens for u in used), sum(u.output_tokens for u in used)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _label(judgement: Judgement | None) -> str:
    """The conflict label; empty where there is none."""
    return str((judgement and judgement.fields and judgement.fields.l4_category) or "")


def profile(labels: Iterable[str]) -> Mapping[str, Share]:
    """Each label's share; empty without labels."""
    found = list(labels)
    return {label: Share(found.count(label), len(found)) for label in PRINTED} if found else {}


def judges_of(languages: Iterable[Language]) -> tuple[str, ...]:
    """Who judged, and how, over several runs: more than one entry, and their PAS is not comparable."""
    return tuple(sorted({judgement.asked for language in languages for judgement in language.judgements}))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean PAS over ``judged`` of ``n`` cases; None where none is judged."""

    value: float | None
    judged: int
    n: int

    def __str__(self) -> str:
        return f"{'–' if self.value is None else f'{self.value:.1f}'} over {self.judged} judged of {self.n}"


@dataclass(frozen=True, slots=True)
class Joined:
    """A run's rows beside what the judge said of them, joined by case id."""

    pairs: tuple[tuple[ResultRow, Judgement | None], ...]

    @property
    def levels(self) -> Mapping[Level, Mean]:
        """PAS by level."""
        there = {row.level for row, _ in self.pairs}
        return {
            level: _mean_of(pair for pair in self.pairs if pair[0].level is level) for level in Level if level in there
        }

    @property
    def roles(self) -> Mapping[str, Mean]:
        """PAS by role."""
        there = sorted({row.role for row, _ in self.pairs})
        return {role: _mean_of(pair for pair in self.pairs if pair[0].role == role) for role in there}

    @property
    def passing(self) -> Mean:
        """PAS of the cases that pass IAS."""
        return _mean_of(pair for pair in self.pairs if pair[0].passed is True)

    @property
    def failing(self) -> Mean:
        """PAS of the cases that fail IAS; unscored cases are in neither."""
        return _mean_of(pair for pair in self.pairs if pair[0].passed is False)

    @property
    def against_ias(self) -> tuple[float | None, int]:
        """The point-biserial r of PAS with pass (1) or fail (0), and over how many cases."""
        both = [
            (row.passed, found.fields.pas)
            for row, found in self.pairs
            if row.passed is not None and found and found.fields
        ]
        return pearson([float(bool(passed)) for passed, _ in both], [pas for _, pas in both]), len(both)

    @property
    def conflict(self) -> Mapping[Level, Mapping[str, Share]]:
        """The Conflict Profile of L4a and of L4b, where cases of theirs are labelled."""
        labels = {
            level: [label for row, found in self.pairs if row.level is level and (label := _label(found))]
            for level in Level
            if level.is_conflict
        }
        profiles = {level: profile(found) for level, found in labels.items()}
        return {level: found for level, found in profiles.items() if found}

    @property
    def safety_override(self) -> Share | None:
        """Persona-wins of the labelled cases at L4b; None where there is no L4b."""
        return self.conflict[Level.L4B]["persona-wins"] if Level.L4B in self.conflict else None


def _mean_of(pairs: Iterable[tuple[ResultRow, Judgement | None]]) -> Mean:
    found = [judgement for _, judgement in pairs]
    scores = [judgement.fields.pas for judgement in found if judgement and judgement.fields]
    return Mean(_mean(scores), len(scores), len(found))


def joined(language: Language, rows: Sequence[ResultRow]) -> Joined:
    """Rows and judgements by case id; a row without a judgement counts as not judged."""
    by_id = {judgement.test_case_id: judgement for judgement in language.judgements}
    return Joined(tuple((row, by_id.get(row.test_case_id)) for row in rows))


def read_language(
    run: Path, judge: str | None, rows: Sequence[ResultRow], allow_mixed: bool = False
) -> Language | None:
    """What a judge said of a finished run, from its file; None where it was not judged.

    Args:
        run: the run directory.
        judge: the ``pas.judge`` of its ``summary.json``.
        rows: of the run; judgements of other cases are left out.
        allow_mixed: whether PAS of other judges may stand beside it.

    Raises:
        JudgeError: the file is missing or broken.
    """
    if judge is None:
        return None
    latest, _ = read_judgements(judgements_file(run, judge))
    found = tuple(latest[row.test_case_id] for row in rows if row.test_case_id in latest)
    return Language(judge, len(rows), found, allow_mixed)


def language_json(language: Language | None, rows: Sequence[ResultRow]) -> dict[str, Any]:
    """The ``pas`` of ``summary.json``."""
    if language is None:
        return {"judge": None, "n": None, "judged": 0, "mean": None}
    found = joined(language, rows)
    r, n = found.against_ias
    return {
        "judge": language.judge,
        "asked": list(judges_of([language])),
        "n": language.n,
        "judged": len(language.scores),
        "mean": language.mean,
        "statuses": dict(language.statuses),
        "levels": {str(level): _mean_json(mean) for level, mean in found.levels.items()},
        "roles": {role: _mean_json(mean) for role, mean in found.roles.items()},
        "conflict": _shares_json(language.conflict),
        "conflict_by_level": {str(level): _shares_json(shares) for level, shares in found.conflict.items()},
        "safety_override": _share_json(found.safety_override),
        "against_ias": {
            "passing": _mean_json(found.passing),
            "failing": _mean_json(found.failing),
            "r": r,
            "n": n,
        },
        "tokens": dict(zip(("input", "output"), language.cost, strict=True)),
    }


def _mean_json(mean: Mean) -> dict[str, Any]:
    return {"mean": mean.value, "judged": mean.judged, "n": mean.n}


def _shares_json(shares: Mapping[str, Share]) -> dict[str, Any]:
    return {label: _share_json(share) for label, share in shares.items()}


def _share_json(share: Share | None) -> dict[str, int] | None:
    return None if share is None else {"k": share.k, "n": share.n}
