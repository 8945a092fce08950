"""What a language judge said of a run: PAS and, at L4, who won. Nothing here guesses for a case that was not judged.

Source: DSB-IFEval; "hedged" is printed as the paper prints it, Balanced.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dsbif.judge.reply import Status
from dsbif.judge.store import Judgement
from dsbif.report.stats import Share

PRINTED = {
    "directive-wins": "directive wins",
    "persona-wins": "persona wins",
    "hedged": "balanced",
    "incoherent": "incoherent",
}


@dataclass(frozen=True, slots=True)
class Language:
    """The judge's words on ``n`` cases, ``judgements`` of which exist."""

    judge: str
    n: int
    judgements: tuple[Judgement, ...]

    @property
    def scores(self) -> tuple[float, ...]:
        """The PAS of every case that has one, 0 to 100."""
        return tuple(item.fields.pas for item in self.judgements if item.fields)

    @property
    def mean(self) -> float | None:
        """Mean PAS over the judged cases; None where none is."""
        return sum(self.scores) / len(self.scores) if self.scores else None

    @property
    def statuses(self) -> Mapping[str, int]:
        """How the calls ended, cases without a judgement included."""
        counted = Counter(str(item.status) for item in self.judgements)
        missing = self.n - len(self.judgements)
        return dict(sorted(counted.items())) | ({"not_judged": missing} if missing else {})

    @property
    def conflict(self) -> Mapping[str, Share]:
        """The Conflict Profile: each label's share of the labelled cases; empty below L4."""
        labels = [str(item.fields.l4_category) for item in self.judgements if item.fields and item.fields.l4_category]
        return {label: Share(labels.count(label), len(labels)) for label in PRINTED} if labels else {}

    @property
    def cost(self) -> tuple[int, int]:
        """Tokens in and out, over all attempts."""
        used = [item.usage for item in self.judgements]
        return sum(u.input_tokens for u in used), sum(u.output_tokens for u in used)


def language_json(language: Language | None) -> dict[str, Any]:
    """The ``pas`` of ``summary.json``."""
    if language is None:
        return {"judge": None, "n": None, "judged": 0, "mean": None}
    return {
        "judge": language.judge,
        "n": language.n,
        "judged": len(language.scores),
        "mean": language.mean,
        "statuses": dict(language.statuses),
        "conflict": {label: {"k": share.k, "n": share.n} for label, share in language.conflict.items()},
        "tokens": dict(zip(("input", "output"), language.cost, strict=True)),
    }


def language_lines(language: Language | None, level: str) -> Sequence[str]:
    """For people, under the table."""
    if language is None:
        return ("PAS: not judged (judge=none)",)
    judged = len(language.scores)
    pas = "–" if language.mean is None else f"{language.mean:.1f}"
    lines = [f"PAS {pas} over {judged} judged of {language.n}, by {language.judge}"]
    odd = {status: n for status, n in language.statuses.items() if status != str(Status.OK)}
    if odd:
        lines.append("not judged: " + ", ".join(f"{n} {status}" for status, n in odd.items()))
    lines += [f"conflict: {PRINTED[label]} {share}" for label, share in language.conflict.items()]
    if level == "L4b" and language.conflict:
        lines.append(f"SafetyOverride (persona wins at L4b): {language.conflict['persona-wins']}")
    return lines
