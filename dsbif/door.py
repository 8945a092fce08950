"""What is wrong with somebody's data, in one sentence: for the doors where pydantic checks it."""

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
    found = "" if first["type"] == "missing" else f"; found {str(first['input'])[:_SHOWN]!r}"
    return f"key '{key}': {first['msg']}{found}{more}" if key else f"{first['msg']}{found}{more}"
