"""Which cases are still to be judged, what each would be asked, and what that may cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dsbif.errors import CaseError
from dsbif.files import stable_hash, write_json, write_jsonl
from dsbif.judge.prompt import PROMPT_HASH, JudgeItem, Messages, messages_for
from dsbif.judge.reply import Status
from dsbif.judge.settings import JudgeSettings
from dsbif.judge.store import Judgement, judgements_file, read_judgements

CHARS_PER_TOKEN = 4
"""Rough, for estimates alone."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What judging will cost at most, from the length of the prompts; prices as in the settings."""

    cases: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Request:
    """One case as it goes out. ``request_hash`` covers every word and how it is asked."""

    item: JudgeItem
    messages: Messages
    request_hash: str

    @property
    def test_case_id(self) -> str:
        """The case's id."""
        return self.item.test_case_id


def estimate(items: Sequence[JudgeItem], settings: JudgeSettings, out: Path) -> Estimate:
    """What judging the rest of these cases will cost at most, one attempt each. Calls nothing, writes nothing."""
    return _estimate(left(requests_for(items, settings), settings, out), settings)


def requests_for(items: Sequence[JudgeItem], settings: JudgeSettings) -> list[Request]:
    """What each case would be asked, in the items' order.

    Raises:
        CaseError: a case that cannot be put to a judge, or one that is given twice.
    """
    requests: dict[str, Request] = {}
    for item in items:
        messages = messages_for(item)
        how = [settings.provider, settings.model, settings.parameters]
        key = stable_hash([*how, "no transcript" if item.lacks_transcript else list(messages)])[:16]
        if item.test_case_id in requests:
            raise CaseError(f"case {item.test_case_id} is to be judged twice; give every case once.")
        requests[item.test_case_id] = Request(item, messages, key)
    return list(requests.values())


def settled(request: Request, latest: Mapping[str, Judgement], settings: JudgeSettings) -> bool:
    """Whether the case need not be asked again."""
    known = latest.get(request.test_case_id)
    if known is None or known.request_hash != request.request_hash:
        return False
    unusable = known.status in (Status.PARSE_ERROR, Status.REFUSED)
    return known.status in (Status.OK, Status.NO_TRANSCRIPT) or (unusable and not settings.retry_unusable)


def left(requests: Sequence[Request], settings: JudgeSettings, out: Path) -> list[Request]:
    """Those that would be called."""
    path = judgements_file(out, settings.name)
    latest = read_judgements(path)[0] if path.exists() else {}
    return [r for r in requests if not r.item.lacks_transcript and not settled(r, latest, settings)]


def _estimate(requests: Sequence[Request], settings: JudgeSettings) -> Estimate:
    chars = sum(len(message["content"]) for request in requests for message in request.messages)
    tokens_in, tokens_out = chars // CHARS_PER_TOKEN, len(requests) * settings.max_tokens
    return Estimate(len(requests), tokens_in, tokens_out, settings.cost_usd(tokens_in, tokens_out))


def dry_run(requests: Sequence[Request], settings: JudgeSettings, out: Path) -> list[Judgement]:
    """Write the prompts of what is left, and an estimate; returns what is settled."""
    rest = left(requests, settings, out)
    cost = _estimate(rest, settings)
    rows = (
        {"test_case_id": r.test_case_id, "request_hash": r.request_hash, "messages": list(r.messages)} for r in rest
    )
    write_jsonl(out / f"judge-prompts.{settings.name}.jsonl", rows)
    write_json(
        out / f"judge-estimate.{settings.name}.json",
        {
            "model": settings.model,
            "prompt_hash": PROMPT_HASH,
            "cases": cost.cases,
            "input_tokens_about": cost.input_tokens,
            "output_tokens_at_most": cost.output_tokens,
            "cost_usd_at_most_about": cost.cost_usd,
        },
    )
    path = judgements_file(out, settings.name)
    latest = read_judgements(path)[0] if path.exists() else {}
    return [latest[r.test_case_id] for r in requests if settled(r, latest, settings)]
