"""``judgements.{name}.jsonl``: one line as each case ends, the last line of a case counts.

A line is written in one piece and synced before the next call goes out from its thread, so a process that is killed
loses the calls in flight and no others. What such a process left of a line is cut off on opening.
"""

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dsbif.door import explain
from dsbif.errors import JudgeError
from dsbif.judge.reply import Fields, Status


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, over all attempts at a case."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one case was judged, and by whom.

    ``fields`` is None unless ``status`` is ok; ``problem`` then says why. ``request_hash`` covers all that the judge
    was sent and how: provider, model, parameters, every word.
    """

    test_case_id: str
    status: Status
    judge: str
    provider: str
    model: str
    prompt_hash: str
    transcript_hash: str
    request_hash: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    fields: Fields | None = None
    problem: str = ""
    attempts: int = 0
    usage: Usage = Usage()
    model_served: str = ""
    raw_reply: str = ""

    def __post_init__(self) -> None:
        if (self.status is Status.OK) != (self.fields is not None):
            raise ValueError("fields go with status ok and with no other")

    @property
    def pas(self) -> float | None:
        """The Persona Adherence Score, 0 to 100; None where the case was not judged."""
        return None if self.fields is None else self.fields.pas

    @property
    def asked(self) -> str:
        """Who judged and how, in words: judgements that differ in this are not comparable."""
        how = ", ".join(f"{key} {value}" for key, value in sorted(self.parameters.items()))
        return f"{self.provider} {self.model}, prompt {self.prompt_hash}, {how}"


_LINE = TypeAdapter(Judgement)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a file of judgements cost: every line counts, superseded ones too."""

    calls: int = 0
    usage: Usage = Usage()

    def plus(self, judgement: Judgement) -> "Totals":
        """With one judgement more."""
        return Totals(self.calls + judgement.attempts, self.usage + judgement.usage)


class Store:
    """The file, open for one process at a time. ``latest`` maps case ids to their last line."""

    def __init__(self, path: Path) -> None:
        """Open, lock, repair and read.

        Raises:
            JudgeError: another process is judging into it, or a line inside it is broken.
        """
        self.path = path
        self.latest: dict[str, Judgement] = {}
        self.totals = Totals()
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise JudgeError(f"{path} cannot be written ({error.strerror}); make room for the judgements.") from error
        try:
            self._open()
        except BaseException:
            os.close(self._file)
            raise

    def _open(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise JudgeError(f"another process is judging into {self.path}; wait for it, or end it.") from error
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for judgement in _parse(self.path, data[:whole]):
            self._keep(judgement)
        if whole < len(data):
            os.ftruncate(self._file, whole)
            if last := _torn(data[whole:]):
                self.append(last)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def append(self, judgement: Judgement) -> None:
        """Write one line, whole or not at all; safe for several threads.

        Raises:
            JudgeError: the disk is full; the file is then as it was.
        """
        line = _LINE.dump_json(judgement) + b"\n"
        with self._lock:
            size = os.fstat(self._file).st_size
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fsync(self._file)
            except OSError as error:
                os.ftruncate(self._file, size)
                raise JudgeError(
                    f"{self.path} cannot be written ({error.strerror}); make room and run again, what was judged stays."
                ) from error
            self._keep(judgement)

    def _keep(self, judgement: Judgement) -> None:
        self.latest[judgement.test_case_id] = judgement
        self.totals = self.totals.plus(judgement)


def _parse(path: Path, data: bytes) -> Iterator[Judgement]:
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            yield _LINE.validate_json(line)
        except ValidationError as error:
            raise JudgeError(
                f"{path}:{number}: {explain(error)}. Remove the line to have its case judged again."
            ) from error


def _torn(rest: bytes) -> Judgement | None:
    """The judgement in a last line without its end, if only the end is missing."""
    try:
        return _LINE.validate_json(rest)
    except ValidationError:
        return None


def judgements_file(out: Path, name: str) -> Path:
    """Where the judgements of a judge lie in a run directory."""
    return out / f"judgements.{name}.jsonl"


def read_judgements(path: Path) -> tuple[dict[str, Judgement], Totals]:
    """The last judgement of each case, and what all of them cost; a torn last line is left out, the file as it is.

    Raises:
        JudgeError: the file cannot be read, or a line inside it is broken.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JudgeError(f"the judgements {path} cannot be read ({error.strerror}); judge the run first.") from error
    whole = data.rfind(b"\n") + 1
    latest, totals = {}, Totals()
    last = _torn(data[whole:])
    for judgement in (*_parse(path, data[:whole]), *([last] if last else [])):
        latest[judgement.test_case_id] = judgement
        totals = totals.plus(judgement)
    return latest, totals
