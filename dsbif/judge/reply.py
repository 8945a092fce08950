"""What the judge sent back, made into scores or into the reason why there are none.

Reading is tolerant of the wrapping (code fences, prose around the object, a trailing comma) and strict about the
meaning: every field there, of its type, in its range. Nothing is guessed, and nothing ever becomes 0.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsbif.door import explain

MAX_REPLY_CHARS = 64_000
"""Far above what 900 tokens can hold; bounds the work on a runaway reply."""
_MAX_STARTS = 50


class Status(StrEnum):
    """How a case ended. Only ``ok`` carries scores.

    ``no_transcript``: the agent was heard and nobody knows what it said, so nobody was asked.
    """

    OK = "ok"
    PARSE_ERROR = "parse_error"
    REFUSED = "refused"
    TRANSPORT_ERROR = "transport_error"
    NO_TRANSCRIPT = "no_transcript"


Fit = Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)]
L4Category = Literal["directive-wins", "persona-wins", "hedged", "incoherent"]


class Fields(BaseModel):
    """The fields of a good reply. ``pas`` is the score, 0 to 100; the fits go from 0 to 5."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")
    formalize: str
    timeline: str | list[str]
    register_fit: Fit
    register_rationale: str
    content_fit: Fit
    content_rationale: str
    pas: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    l4_category: L4Category | None = None
    summary: str


@dataclass(frozen=True, slots=True)
class Reading:
    """``fields`` where the status is ok; else ``problem`` says what is wrong."""

    status: Status
    fields: Fields | None = None
    problem: str = ""


class _UnreadableError(ValueError):
    """There is no usable object in the reply."""


def read_reply(text: str, conflict: bool, truncated: bool = False) -> Reading:
    """Read a reply.

    Args:
        text: what the judge wrote.
        conflict: whether the case is one of L4, where ``l4_category`` is required; elsewhere it must be null.
        truncated: whether the provider says that the reply was cut at its limit.
    """
    try:
        found = _one_object(text)
        fields = Fields.model_validate(found)
        if conflict and fields.l4_category is None:
            raise _UnreadableError("l4_category is missing; a conflict case needs one")
        if not conflict and fields.l4_category is not None:
            raise _UnreadableError(f"l4_category is '{fields.l4_category}' for a case without a conflict; wanted null")
    except _UnreadableError as error:
        return _without_fields(text, str(error), truncated)
    except ValidationError as error:
        return Reading(Status.PARSE_ERROR, problem=explain(error))
    return Reading(Status.OK, fields)


def _without_fields(text: str, problem: str, truncated: bool) -> Reading:
    if truncated:
        return Reading(Status.PARSE_ERROR, problem=f"the reply was cut at the token limit; {problem}")
    if reads_as_refusal(text):
        return Reading(Status.REFUSED, problem="the judge declined in words")
    return Reading(Status.PARSE_ERROR, problem=problem)


_REFUSAL = re.compile(
    r"""^\W*(?:
        (?:i['’]?m|i\ am|we['’]?re|we\ are|so|my\ apologies|apologies)?[\s,]*
        (?:sorry|apologi[sz]e|apologies|afraid|unable|not\ able|not\ comfortable)\b
      | (?:i|we)\ (?:can\s?not|can['’]?t|won['’]?t|will\ not|must\ decline|do\ not\ feel|don['’]?t\ feel|decline)\b
      | as\ an?\ (?:ai|language\ model)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def reads_as_refusal(text: str) -> bool:
    """Whether a reply without an object declines: it opens as refusals do.

    >>> reads_as_refusal("I'm sorry, but I can't help with that.")
    True
    >>> reads_as_refusal("The assistant says sorry twice.")
    False
    """
    return "{" not in text and bool(_REFUSAL.match(text.strip()))


def _one_object(text: str) -> dict[str, Any]:
    if not text.strip():
        raise _UnreadableError("the reply is empty")
    if len(text) > MAX_REPLY_CHARS:
        raise _UnreadableError(f"the reply has {len(text)} characters; {MAX_REPLY_CHARS} at most are read")
    found = list(_objects(text))
    scored = [item for item in found if "pas" in item]
    if len(scored) > 1:
        raise _UnreadableError(f"the reply holds {len(scored)} JSON objects with a 'pas'; one is wanted")
    if not found:
        raise _UnreadableError("the reply holds no JSON object")
    return (scored or found)[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects of a text, in order."""
    position = 0
    for _ in range(_MAX_STARTS):
        start = text.find("{", position)
        if start < 0:
            return
        try:
            found, length = _decode(text[start:])
        except (ValueError, RecursionError):
            position = start + 1
            continue
        yield found
        position = start + length


def _decode(text: str) -> tuple[dict[str, Any], int]:
    """One object at the start of a text, and how many characters it takes.

    Raises:
        ValueError: there is none, even with trailing commas blanked out.
    """
    try:
        return _DECODER.raw_decode(text)
    except json.JSONDecodeError:
        return _DECODER.raw_decode(_blank_trailing_commas(text))


_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*"|,(?=\s*[}\]])', re.DOTALL)


def _blank_trailing_commas(text: str) -> str:
    r"""Trailing commas outside strings become blanks; nothing moves.

    >>> _blank_trailing_commas('{"a": [1, 2,], "b": ",}",}')
    '{"a": [1, 2 ], "b": ",}" }'
    """
    return _STRING_OR_COMMA.sub(lambda match: " " if match.group() == "," else match.group(), text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _AmbiguousError("a key stands twice in the reply")
    json.dumps(found, ensure_ascii=False).encode()  # a lone surrogate is JSON and no text
    return found


class _AmbiguousError(ValueError):
    pass


def _no_constant(name: str) -> float:
    raise _AmbiguousError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
