"""What is wrong with what somebody typed or sent, in one sentence, and what was probably meant."""

import difflib
from collections.abc import Iterable

from pydantic import ValidationError

_SHOWN = 80


def explain(error: ValidationError, under: str = "") -> str:
    """The first fault of a validation, with its key and what was found.

    Args:
        error: what pydantic raised.
        under: where the data hangs, put before the key.
    """
    first = error.errors()[0]
    key = ".".join(str(part) for part in (under, *first["loc"]) if part != "")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    # Of a whole section, the message says what is wrong, and the section is no news.
    whole = first["type"] == "missing" or not isinstance(first["input"], str | int | float | list | tuple | None)
    found = "" if whole else f"; found {str(first['input'])[:_SHOWN]!r}"
    return f"key '{key}': {first['msg']}{found}{more}" if key else f"{first['msg']}{found}{more}"


def nearest(found: str, valid: Iterable[str]) -> str:
    """A hint that names the nearest valid word, or all of them when none is near.

    >>> nearest("max_wiat_s", ["max_wait_s", "coverage"])
    " Did you mean 'max_wait_s'?"
    """
    names = sorted(valid)
    near = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else f" Valid: {', '.join(names)}."
