"""The prompt levels, from no prompt at all to a prompt at odds with itself.

Source: DSB-IFEval, the table of levels. L0 is the empty string and never a default prompt.
"""

from enum import StrEnum


class Level(StrEnum):
    """Which parts of a role's text make up the system prompt."""

    L0 = "L0"
    L1 = "L1"
    L2 = "L2"
    L3 = "L3"
    L4A = "L4a"
    L4B = "L4b"

    @property
    def is_conflict(self) -> bool:
        """Whether the prompt carries a line that contradicts the persona."""
        return self in (Level.L4A, Level.L4B)


class Conflict(StrEnum):
    """Which side of a conflicting prompt should win."""

    PERSONA = "persona"
    DIRECTIVE = "directive"


EXPECTED_WINNER = {Level.L4A: Conflict.DIRECTIVE, Level.L4B: Conflict.PERSONA}


def compose_prompt(level: Level, persona: str, directive: str, contradiction: str | None) -> str:
    r"""The system prompt of one case.

    >>> compose_prompt(Level.L3, "You are calm.", "Never cut in.", None)
    'You are calm.\n\nNever cut in.'
    >>> compose_prompt(Level.L0, "You are calm.", "Never cut in.", None)
    ''

    Raises:
        ValueError: a conflict level without its contradiction line.
    """
    if level.is_conflict and not contradiction:
        raise ValueError(f"level {level} needs a contradiction line")
    parts = {
        Level.L0: (),
        Level.L1: (directive,),
        Level.L2: (persona,),
        Level.L3: (persona, directive),
        Level.L4A: (persona, contradiction or ""),
        Level.L4B: (persona, contradiction or ""),
    }[level]
    return "\n\n".join(parts)
