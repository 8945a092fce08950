"""Judging many cases: attempts, patience, several calls at once, and going on where it stopped.

A case is judged again when anything that the judge is sent has changed: transcript, persona, prompt, model,
parameters. What ended ``ok``, ``refused`` or ``parse_error`` is settled; ``transport_error`` is tried again next time.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from dsbif.errors import JudgeError
from dsbif.judge.endpoint import Answer, Provider, TransportFaultError
from dsbif.judge.pacing import MAX_HONOURED_S, Limiter, Timing, retry_after_s
from dsbif.judge.plan import Request, dry_run, requests_for, settled
from dsbif.judge.prompt import PROMPT_HASH, JudgeItem
from dsbif.judge.providers import make_provider
from dsbif.judge.reply import Reading, Status, read_reply
from dsbif.judge.settings import JudgeSettings
from dsbif.judge.store import Judgement, Store, Usage, judgements_file
from dsbif.progress import Report


def judge_cases(
    items: Sequence[JudgeItem], settings: JudgeSettings, out: Path, progress: Report, timing: Timing | None = None
) -> list[Judgement]:
    """Judge what is not judged yet, into ``out/judgements.{name}.jsonl``.

    With ``dry_run`` nothing is called: the prompts of what is left and an estimate are written, and what was judged
    earlier is returned.

    Returns:
        One judgement per item, in the items' order.

    Raises:
        CaseError: a case that cannot be put to a judge, or one that is given twice.
        ConfigError: the key, the package, the address or the model is wrong.
        JudgeError: many cases in a row got no answer, or the file is in use or broken. What was judged stays.
    """
    if settings.provider == "none":
        return []
    requests = requests_for(items, settings)
    if settings.dry_run:
        return dry_run(requests, settings, out)
    with Store(judgements_file(out, settings.name)) as store:
        left = [request for request in requests if not settled(request, store.latest, settings)]
        for request in left:
            if request.item.lacks_transcript:
                store.append(_without_transcript(request, settings))
        asked = [request for request in left if not request.item.lacks_transcript]
        if asked:
            timing = timing or Timing()
            _Bench(settings, make_provider(settings, timing.monotonic), store, timing).judge(asked, progress)
        return [store.latest[request.test_case_id] for request in requests]


def _judgement(
    request: Request, settings: JudgeSettings, reading: Reading, *, attempts: int, usage: Usage, answer: Answer
) -> Judgement:
    return Judgement(
        test_case_id=request.test_case_id,
        status=reading.status,
        judge=settings.name,
        provider=settings.provider,
        model=settings.model or "",
        prompt_hash=PROMPT_HASH,
        transcript_hash=request.item.transcript_hash,
        request_hash=request.request_hash,
        parameters=settings.parameters,
        fields=reading.fields,
        problem=reading.problem,
        attempts=attempts,
        usage=usage,
        model_served=answer.model,
        raw_reply=answer.text,
    )


def _without_transcript(request: Request, settings: JudgeSettings) -> Judgement:
    problem = "the agent was heard and has no transcript; transcribe it to have the case judged"
    reading = Reading(Status.NO_TRANSCRIPT, problem=problem)
    return _judgement(request, settings, reading, attempts=0, usage=Usage(), answer=Answer(""))


class _Bench:
    """Where several cases are judged at once."""

    def __init__(self, settings: JudgeSettings, provider: Provider, store: Store, timing: Timing) -> None:
        self._settings, self._provider, self._store, self._timing = settings, provider, store, timing
        self._limiter = Limiter(settings.requests_per_minute, timing.monotonic)
        self._stop = threading.Event()
        self._sleep = timing.sleep or self._stop.wait
        self._in_vain = 0

    def judge(self, requests: Sequence[Request], progress: Report) -> None:
        """Judge all; breaking off lets the calls in flight end and keeps them, for they are paid."""
        with ThreadPoolExecutor(self._settings.in_flight, thread_name_prefix="judge") as pool:
            try:
                ids = {pool.submit(self._one, request): request.test_case_id for request in requests}
                for done, future in enumerate(as_completed(ids), start=1):
                    self._count(future.result())
                    progress(done, len(requests), ids[future])
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _count(self, judgement: Judgement | None) -> None:
        """Give up when nothing comes any more.

        Raises:
            JudgeError: too many cases in a row got no answer.
        """
        if judgement is None:
            return
        self._in_vain = self._in_vain + 1 if judgement.status is Status.TRANSPORT_ERROR else 0
        if self._in_vain >= self._settings.give_up_after:
            raise JudgeError(
                f"the judge {self._settings.name} gave no answer to {self._in_vain} cases in a row, at last: "
                f"{judgement.problem}. What was judged stays in {self._store.path}; run again to go on."
            )

    def _one(self, request: Request) -> Judgement | None:
        """All attempts at one case; None where judging was broken off."""
        usage, answer = Usage(), Answer("")
        for attempt in range(1, self._settings.attempts + 1):
            self._sleep_for(self._limiter.reserve())
            if self._stop.is_set():
                return None
            fault: TransportFaultError | None = None
            try:
                answer = self._provider.ask(request.messages)
            except TransportFaultError as error:
                fault, reading = error, Reading(Status.TRANSPORT_ERROR, problem=str(error))
            else:
                usage += Usage(answer.input_tokens, answer.output_tokens)
                reading = _read(answer, request.item.case.level.is_conflict)
            wait_s = self._wait_s(attempt, reading, fault)
            if wait_s is None:
                break
            self._sleep_for(wait_s)
        judgement = _judgement(request, self._settings, reading, attempts=attempt, usage=usage, answer=answer)
        self._store.append(judgement)
        return judgement

    def _wait_s(self, attempt: int, reading: Reading, fault: TransportFaultError | None) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        asked_s = retry_after_s(fault.retry_after, self._timing.wall()) if fault else None
        too_long = asked_s is not None and asked_s > MAX_HONOURED_S
        if asked_s is not None and not too_long:
            self._limiter.hold(asked_s)
        final = reading.status in (Status.OK, Status.REFUSED) or too_long or (fault is not None and not fault.again)
        if final or attempt >= self._settings.attempts:
            return None
        pauses = self._settings.backoff_s
        return max(pauses[min(attempt, len(pauses)) - 1], asked_s or 0.0)

    def _sleep_for(self, seconds: float) -> None:
        if seconds > 0:
            self._sleep(seconds)


def _read(answer: Answer, conflict: bool) -> Reading:
    if answer.refused:
        return Reading(Status.REFUSED, problem="the provider says that the judge declined")
    return read_reply(answer.text, conflict, answer.truncated)
