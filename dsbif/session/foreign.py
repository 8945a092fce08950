"""Records that somebody else's orchestrator wrote: the paper's ``{tid}.rec.json``, or ours.

Of a foreign record only what scoring needs is read: ``turn2_onset_s``, and the transcript where there is one (a text,
or an object with ``text``). Everything else may be there and is not looked at.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsbif.bench.case import Case
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.session.pcm import SAMPLE_RATE_HZ
from dsbif.session.recording import Recording, TextPiece, Transcript, read_recording


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)
    turn2_onset_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False, strict=True)]
    model: str = "unknown"
    transcript: str | dict[str, Any] | None = None


def read_any_recording(path: Path, case: Case, duration_s: float) -> Recording:
    """Read a record of ours, or what can be used of another's.

    Args:
        path: the ``rec.json``.
        case: whose record it is.
        duration_s: of the recording beside it, which a foreign record need not name.

    Raises:
        CaseError: no JSON object, or ``turn2_onset_s`` is missing or no number.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and "rec_version" in raw:
            return read_recording(path)
        foreign = _Foreign.model_validate(raw)
    except (OSError, ValueError) as error:
        fault = explain(error) if isinstance(error, ValidationError) else error
        raise CaseError(f"the record {path} cannot be used: {fault}.") from error
    return Recording(
        test_case_id=case.test_case_id,
        conversation_id=case.conversation_id,
        model=foreign.model,
        status="ok",
        samples=round(duration_s * SAMPLE_RATE_HZ),
        turn2_onset_samples=round(foreign.turn2_onset_s * SAMPLE_RATE_HZ),
        turn2_by="take-turn" if case.barge_in_after_s is None else "barge-in",
        window_turn2=case.window,
        transcript=_transcript(foreign.transcript),
        seed=0,
    )


def _transcript(value: str | dict[str, Any] | None) -> Transcript:
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        return Transcript("none")
    source = value.get("source") if isinstance(value, dict) else None
    return Transcript("asr" if source == "asr" else "native", (TextPiece(0, text),))
