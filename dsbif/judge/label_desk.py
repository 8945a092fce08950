"""A person's desk: which cases lie on it, which are labelled, and how an answer becomes a judgement.

A person answers what the judge answers, in the judge's format, so that the two can be held against each other. What was
labelled of the same words stays labelled; where words, persona or questions change, the case is open again.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from dsbif.door import explain
from dsbif.files import stable_hash
from dsbif.judge.label_text import FORM_HASH
from dsbif.judge.prompt import JudgeItem, messages_for
from dsbif.judge.reply import Fields, Status
from dsbif.judge.store import Judgement, Store

PROVIDER = "person"
_DONE = (Status.OK, Status.REFUSED)
_SKIPPED = "the person could not say"


def sample(items: Sequence[JudgeItem], size: int) -> list[JudgeItem]:
    """The same ``size`` items every time, in the same order; a larger sample begins with the smaller one.

    Items without a transcript are left out: no judge can be compared on them.
    """
    known = [item for item in items if not item.lacks_transcript]
    return sorted(known, key=lambda item: hashlib.sha256(f"label:{item.test_case_id}".encode()).hexdigest())[:size]


class AnswerError(ValueError):
    """What is wrong with an answer, for the person who gave it."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Cases in the order in which they are asked; numbers count from 1."""

    who: str
    items: Sequence[JudgeItem]
    store: Store

    @property
    def done(self) -> int:
        """How many are labelled or passed over."""
        return sum(self.answered(number) is not None for number in range(1, len(self.items) + 1))

    def first_open(self, after: int = 0) -> int | None:
        """The next case without an answer, looked for behind ``after`` first; None where all have one."""
        numbers = range(1, len(self.items) + 1)
        still = [number for number in numbers if self.answered(number) is None]
        return next((number for number in still if number > after), still[0] if still else None)

    def answered(self, number: int) -> Judgement | None:
        """The answer to a case as it is now."""
        item = self.items[number - 1]
        known = self.store.latest.get(item.test_case_id)
        current = known is not None and known.status in _DONE and known.request_hash == self._asked(item)
        return known if current else None

    def answer(self, number: int, form: Mapping[str, str]) -> Judgement:
        """Keep an answer.

        Args:
            number: of the case.
            form: the fields of the page.

        Raises:
            AnswerError: a field is missing or out of its range.
            JudgeError: the disk is full.
        """
        item = self.items[number - 1]
        fields = None if form.get("skip") else _fields(form, item.case.level.is_conflict)
        judgement = Judgement(
            test_case_id=item.test_case_id,
            status=Status.OK if fields else Status.REFUSED,
            judge=f"{PROVIDER}-{self.who}",
            provider=PROVIDER,
            model=self.who,
            prompt_hash=FORM_HASH,
            transcript_hash=item.transcript_hash,
            request_hash=self._asked(item),
            parameters={"heard": True},
            fields=fields,
            problem="" if fields else _SKIPPED,
            attempts=1,
        )
        self.store.append(judgement)
        return judgement

    def _asked(self, item: JudgeItem) -> str:
        return stable_hash([PROVIDER, self.who, FORM_HASH, list(messages_for(item))])[:16]


_WANTED = {"register_fit": "register, 0 to 5", "content_fit": "content, 0 to 5", "pas": "PAS, 0 to 100"}


def _fields(form: Mapping[str, str], conflict: bool) -> Fields:
    values: dict[str, Any] = dict.fromkeys(("formalize", "timeline", "register_rationale", "content_rationale"), "")
    for name, told in _WANTED.items():
        try:
            values[name] = int(form.get(name, ""))
        except ValueError:
            raise AnswerError(f"Please give {told}, as a whole number.") from None
    values["summary"] = form.get("summary", "").strip()
    values["l4_category"] = form.get("l4_category") or None
    if conflict and values["l4_category"] is None:
        raise AnswerError("Please say who won.")
    if not conflict:
        values["l4_category"] = None
    try:
        return Fields.model_validate(values)
    except ValidationError as error:
        raise AnswerError(f"That cannot be kept: {explain(error)}.") from None
