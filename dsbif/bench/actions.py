"""The nine floor actions.

Source: DSB-IFEval, the table of verifiers; names keep the paper's spelling.
"""

from enum import StrEnum


class Action(StrEnum):
    """What an agent should do with the floor in a case's window."""

    LISTEN = "LISTEN"
    TAKE_TURN = "TAKE_TURN"
    BACKCHANNEL = "BACKCHANNEL"
    YIELD = "YIELD"
    INTERRUPT = "INTERRUPT"
    READBACK = "READBACK"
    NO_BACKCHANNEL = "NO_BACKCHANNEL"
    ACCEPT_OVERLAP = "ACCEPT_OVERLAP"
    CONTINUE = "CONTINUE"


PROACTIVE = frozenset(
    {Action.BACKCHANNEL, Action.NO_BACKCHANNEL, Action.INTERRUPT, Action.CONTINUE, Action.ACCEPT_OVERLAP}
)
"""The starred actions of the paper; its headline score leaves them out."""

HEADLINE = tuple(action for action in Action if action not in PROACTIVE)
"""LISTEN, TAKE_TURN, YIELD, READBACK: the actions that the paper's headline IAS covers (31 of 48 cells)."""

PASSED_BY_SILENCE = frozenset({Action.LISTEN, Action.NO_BACKCHANNEL, Action.CONTINUE})
"""An agent that never speaks passes these three and fails the other six."""
