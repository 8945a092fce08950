"""The four kinds of error a person can act on, by who must act.

Each message says what was found, what was wanted, which case or file, and what to do.
Anything else that escapes is a defect of dsbif and keeps its traceback.
"""

from __future__ import annotations


class DsbifError(Exception):
    """Base of every error that is shown to a person as one paragraph."""


class ConfigError(DsbifError):
    """The command, the configuration or the installation must change."""


class CaseError(DsbifError):
    """A script, a manifest line or a recording must change."""


class AgentError(DsbifError):
    """The agent under test failed; the case is recorded as failed and never scored."""


class JudgeError(DsbifError):
    """The language judge failed; the case is recorded as not judged."""


class AgentLostError(AgentError):
    """The agent's process or connection went away; the case is tried once more, afresh."""


class AgentBusyError(AgentError):
    """The agent has no session free; ``retry_after_s`` is its wish for how long to wait, if it named one."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
