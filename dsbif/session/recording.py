"""What is kept of an episode, beside its two channels: the value behind ``{tid}.rec.json``.

Positions are kept twice: as sample counts on the 24 kHz session clock, which scoring uses, and as seconds rounded to
a millisecond, for people.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.files import write_json
from dsbif.session.agent import Conditioning
from dsbif.session.pcm import SAMPLE_RATE_HZ
from dsbif.spans import Span

REC_VERSION = 1


@dataclass(frozen=True, slots=True)
class AudioPlaced:
    """Agent audio: when it arrived, where on the agent's channel it was placed, how long it is."""

    arrival_samples: int
    position_samples: int
    samples: int


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the agent's own transcript and the session time at which it came."""

    time_samples: int
    text: str


@dataclass(frozen=True, slots=True)
class Interruption:
    """The agent reported that it stopped its own speech (``kind`` is the agent's word for it).

    ``dropped_samples``: queued audio that was then forgotten, where the model's ``on_interrupt`` is ``truncate``.
    """

    time_samples: int
    kind: str
    dropped_samples: int = 0


@dataclass(frozen=True, slots=True)
class NoteTaken:
    """Something the agent's side wanted kept: the prompt as it was sent, words that were never heard."""

    time_samples: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the agent said. ``source``: ``native``, ``asr``, or ``none`` where nothing can tell."""

    source: Literal["native", "asr", "none"]
    pieces: tuple[TextPiece, ...] = ()
    engine: str = ""

    @property
    def text(self) -> str:
        """The whole transcript."""
        return " ".join(piece.text.strip() for piece in self.pieces if piece.text.strip())


@dataclass(frozen=True, slots=True)
class Recording:
    """One episode.

    ``turn2_by``: what started turn 2: ``take-turn``, ``barge-in``, ``onset-timeout`` (the agent never spoke), or
    ``not-reached``. ``agent_onset_samples``: the onset that a barge-in was counted from, found by ``detector``.
    ``lateness_ms``: percentiles of how late frames went out on a wall clock; empty in lockstep.
    """

    test_case_id: str
    conversation_id: str
    model: str
    status: Literal["ok", "agent_error"]
    samples: int
    turn2_onset_samples: int | None
    turn2_by: Literal["take-turn", "barge-in", "onset-timeout", "not-reached"]
    window_turn2: Span
    transcript: Transcript
    seed: int
    conditioning: Conditioning = "full"
    error: str = ""
    agent_onset_samples: int | None = None
    detector: Mapping[str, Any] = field(default_factory=dict)
    emissions: tuple[AudioPlaced, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    lateness_ms: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[NoteTaken, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Length of both channels in seconds."""
        return self.samples / SAMPLE_RATE_HZ

    @property
    def turn2_onset_s(self) -> float | None:
        """Session time of turn 2's first sample."""
        return None if self.turn2_onset_samples is None else self.turn2_onset_samples / SAMPLE_RATE_HZ

    @property
    def window(self) -> Span | None:
        """The trigger window in session time, cut at the end of the recording; None if turn 2 was not reached."""
        if self.turn2_onset_s is None:
            return None
        window = self.window_turn2.shifted(self.turn2_onset_s)
        end_s = max(window.start_s, min(window.end_s, self.duration_s))
        return Span(window.start_s, end_s)


def seconds(samples: int | None) -> float | None:
    """Session samples as seconds rounded to a millisecond, for files."""
    return None if samples is None else round(samples / SAMPLE_RATE_HZ, 3)


def write_recording(path: Path, recording: Recording) -> None:
    """Write ``rec.json``, whole or not at all."""
    write_json(path, recording_json(recording))


def recording_json(rec: Recording) -> dict[str, Any]:
    """The JSON object of ``rec.json``."""
    window = rec.window
    return {
        "rec_version": REC_VERSION,
        "test_case_id": rec.test_case_id,
        "conversation_id": rec.conversation_id,
        "model": rec.model,
        "conditioning": rec.conditioning,
        "status": rec.status,
        "error": rec.error,
        "sample_rate_hz": SAMPLE_RATE_HZ,
        "samples": rec.samples,
        "duration_s": seconds(rec.samples),
        "turn2_onset_samples": rec.turn2_onset_samples,
        "turn2_onset_s": seconds(rec.turn2_onset_samples),
        "turn2_by": rec.turn2_by,
        "trigger_window": window and {"start_s": round(window.start_s, 3), "end_s": round(window.end_s, 3)},
        "window_turn2": {"start_s": round(rec.window_turn2.start_s, 6), "end_s": round(rec.window_turn2.end_s, 6)},
        "agent_onset_samples": rec.agent_onset_samples,
        "agent_onset_s": seconds(rec.agent_onset_samples),
        "detector": dict(rec.detector),
        "transcript": {
            "text": rec.transcript.text,
            "source": rec.transcript.source,
            "engine": rec.transcript.engine,
            "pieces": [
                {"time_samples": piece.time_samples, "time_s": seconds(piece.time_samples), "text": piece.text}
                for piece in rec.transcript.pieces
            ],
        },
        "emissions": [
            {
                "arrival_samples": item.arrival_samples,
                "position_samples": item.position_samples,
                "samples": item.samples,
                "arrival_s": seconds(item.arrival_samples),
                "position_s": seconds(item.position_samples),
            }
            for item in rec.emissions
        ],
        "interruptions": [
            {
                "time_samples": item.time_samples,
                "time_s": seconds(item.time_samples),
                "kind": item.kind,
                "dropped_samples": item.dropped_samples,
            }
            for item in rec.interruptions
        ],
        "notes": [
            {
                "time_samples": note.time_samples,
                "time_s": seconds(note.time_samples),
                "name": note.name,
                "text": note.text,
            }
            for note in rec.notes
        ],
        "lateness_ms": {name: round(value, 3) for name, value in rec.lateness_ms.items()},
        "seed": rec.seed,
        "versions": dict(rec.versions),
        "flags": list(rec.flags),
    }


_adapter: TypeAdapter[Recording] = TypeAdapter(Recording)


def read_recording(path: Path) -> Recording:
    """Read ``rec.json``.

    Raises:
        CaseError: missing file, broken JSON, wrong type or another version of the format.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        version = raw.get("rec_version") if isinstance(raw, dict) else None
        if version != REC_VERSION:
            raise ValueError(f"its rec_version is {version!r}, wanted {REC_VERSION}")
        return _adapter.validate_python(raw)
    except (OSError, ValueError) as error:  # both pydantic's and JSON's errors are ValueErrors
        fault = explain(error) if isinstance(error, ValidationError) else error
        raise CaseError(f"the record {path} cannot be used: {fault}. Remove it to record the case again.") from error
