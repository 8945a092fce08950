"""What was heard in a recording, as plain values: the seam between audio and measurement."""

from dataclasses import dataclass

from dsbif.spans import Span


@dataclass(frozen=True, slots=True)
class BadAudio:
    """The recording cannot be scored, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What a recording holds: unmerged spans in session seconds, peaks in dBFS (None: digital silence), flags."""

    duration_s: float
    user_spans: tuple[Span, ...]
    agent_spans: tuple[Span, ...]
    user_peak_dbfs: float | None
    agent_peak_dbfs: float | None
    leakage_db: float | None
    flags: tuple[str, ...]
