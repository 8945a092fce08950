"""Measuring: spans become durations, once, and for every threshold that may be asked later.

Conventions
-----------
* Seconds on the session clock, unrounded. ``w0`` and ``w1`` are the window's ends, [w0, w1).
* All agent spans are merged utterances: gaps under 0.3 s are closed. The gap is the detector's, which hears both edges
  of a pause closer than they are (pad, late offsets, the 32 ms grid). Of 48 real pauses between espeak sentences, were
  closed:

  ====== ====  ====  ====  ====  ====  ====  ====  ====
  pause  0.25  0.30  0.32  0.35  0.38  0.40  0.42  0.45
  closed 100%  100%   94%   85%   62%   48%   21%    2%
  ====== ====  ====  ====  ====  ====  ====  ====  ====

* A span *begins in* the window when w0 <= start < w1; it is *in* the window when it shares time with it, and is then
  clipped to it.
* ``genuine`` is the onset, from w0 on, of the first agent span that begins in the window: speech that already holds the
  floor does not count. w1 bounds onsets only.
* ``offset`` is the end, from w0 on, of the span that covers w0, else of the first that begins later. A span that runs
  to the end of the recording is *censored* and has no offset: the end of a file is not a decision to stop.

Divergences from the paper
--------------------------
1. User spans come from construction, not from a detector on channel 0. A detector is 0 to 76 ms late at onsets and 16
   to 62 ms late at offsets, so the paper's overlaps are a little longer: ACCEPT_OVERLAP is a hair stricter here.
2. ``w0`` comes from construction as well. Against a detector's w0, latencies are up to 62 ms longer here: TAKE_TURN,
   INTERRUPT and YIELD are a hair stricter.
3. The window is cut at the end of the recording, where the paper's terminal windows may run past it. Neutral: nothing
   can begin after the end.
4. A recording that ends before the user does is no audio to score. The paper does not say; left in, it would pass
   LISTEN by being short. Lowers LISTEN, NO_BACKCHANNEL and BACKCHANNEL where such files exist.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dsbif.bench.actions import Action
from dsbif.bench.case import Case
from dsbif.bench.tokens import tokens
from dsbif.door import explain
from dsbif.errors import CaseError
from dsbif.score.heard import BadAudio, Heard
from dsbif.score.readback import Readback, readback
from dsbif.session.pcm import SAMPLE_RATE_HZ
from dsbif.session.recording import Recording
from dsbif.spans import Span, clip, merge, overlap_s, starting_in

MERGE_GAP_S = 0.3
END_TOLERANCE_S = 0.032
"""A span that ends within one detector window of the recording's end is censored. The detector ends speech either at
the last sample or at least 66 ms before it (90 ms of silence on a 32 ms grid, less the pad); nothing lies between."""
_FRAME_S = 0.020


class Reason(StrEnum):
    """Why a case has no verdict. It leaves the denominator and is listed."""

    BAD_AUDIO = "bad_audio"
    AGENT_ERROR = "agent_error"
    MISSING = "missing"
    NO_TRANSCRIPT = "no_transcript"
    TURN2_NOT_REACHED = "turn2_not_reached"


@dataclass(frozen=True, slots=True)
class Unscored:
    """No verdict: a failure is never a score."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Begun:
    """An agent utterance that begins in the window: its onset from w0 on and its whole length, in seconds."""

    onset_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything a verdict may need, as durations.

    ``speech_in_window_s``: seconds of agent speech inside the window. ``user_resumes_s``: from w0 to the first user
    onset after the first utterance begun in the window. ``overlap_s``: agent in window against user.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(allow_inf_nan=False)

    test_case_id: str
    w0_s: float
    w1_s: float
    duration_s: float
    agent_spans: tuple[Span, ...]
    user_spans: tuple[Span, ...]
    user_vad_spans: tuple[Span, ...]
    genuine_s: float | None
    offset_s: float | None
    agent_silent_at_w0: bool
    censored: bool
    begun: tuple[Begun, ...]
    speech_in_window_s: float
    user_resumes_s: float | None
    overlap_s: float
    readback: Readback | None
    transcript_source: str
    user_peak_dbfs: float | None
    agent_peak_dbfs: float | None
    leakage_db: float | None
    flags: tuple[str, ...]
    transcript_engine: str = ""


def measure(case: Case, recording: Recording, heard: Heard | BadAudio) -> Measurement | Unscored:
    """Turn what was heard into durations, or say why there are none.

    Args:
        case: the window, the user's segments and the dictation, in turn time.
        recording: turn 2's onset, the transcript, and what became of the agent.
        heard: unmerged spans in session seconds, or what is wrong with the audio.
    """
    if recording.status == "agent_error":
        return Unscored(Reason.AGENT_ERROR, recording.error)
    if recording.turn2_onset_s is None:
        return Unscored(Reason.TURN2_NOT_REACHED, "the session ended before turn 2 began")
    if isinstance(heard, BadAudio):
        return Unscored(Reason.BAD_AUDIO, heard.reason)
    window = case.window.shifted(recording.turn2_onset_s)
    if window.start_s >= heard.duration_s:
        return Unscored(
            Reason.BAD_AUDIO,
            f"the recording ends at {heard.duration_s:.3f} s, before the window opens at {window.start_s:.3f} s",
        )
    user_ends_s = recording.turn2_onset_s + min(case.turn2.end_s, case.turn2.samples / SAMPLE_RATE_HZ)
    if user_ends_s > heard.duration_s + _FRAME_S:
        return Unscored(
            Reason.BAD_AUDIO,
            f"the recording ends at {heard.duration_s:.3f} s, while the user speaks until {user_ends_s:.3f} s",
        )
    return _measured(case, recording, heard, Span(window.start_s, min(window.end_s, heard.duration_s)))


def _measured(case: Case, recording: Recording, heard: Heard, window: Span) -> Measurement:
    agent = merge(heard.agent_spans, MERGE_GAP_S)
    user = user_spans(case, recording)
    begun = starting_in(agent, window)
    inside = clip(agent, window)
    offset_s, censored = _offset(agent, window.start_s, heard.duration_s)
    return Measurement(
        test_case_id=case.test_case_id,
        w0_s=window.start_s,
        w1_s=window.end_s,
        duration_s=heard.duration_s,
        agent_spans=agent,
        user_spans=user,
        user_vad_spans=merge(heard.user_spans, MERGE_GAP_S),
        genuine_s=begun[0].start_s - window.start_s if begun else None,
        offset_s=offset_s,
        agent_silent_at_w0=not any(span.contains(window.start_s) for span in agent),
        censored=censored,
        begun=tuple(Begun(span.start_s - window.start_s, span.duration_s) for span in begun),
        speech_in_window_s=sum((span.duration_s for span in inside), 0.0),
        user_resumes_s=_resumes(user, begun, window.start_s),
        overlap_s=overlap_s(inside, user),
        readback=_readback(case, recording),
        transcript_source=recording.transcript.source,
        user_peak_dbfs=heard.user_peak_dbfs,
        agent_peak_dbfs=heard.agent_peak_dbfs,
        leakage_db=heard.leakage_db,
        flags=(*recording.flags, *heard.flags),
        transcript_engine=recording.transcript.engine,
    )


def user_spans(case: Case, recording: Recording) -> tuple[Span, ...]:
    """Where the user speaks, in session time, from construction, merged like the agent's."""
    onset_s = recording.turn2_onset_s or 0.0
    spans = (*case.turn1.speech, *(span.shifted(onset_s) for span in case.turn2.speech))
    return merge(spans, MERGE_GAP_S)


def _offset(agent: tuple[Span, ...], w0_s: float, duration_s: float) -> tuple[float | None, bool]:
    """The offset from w0 on, and whether the span that would give it is censored."""
    later = [span for span in agent if span.end_s > w0_s]
    if not later:
        return None, False
    if later[0].end_s >= duration_s - END_TOLERANCE_S:
        return None, True
    return later[0].end_s - w0_s, False


def _resumes(user: tuple[Span, ...], begun: tuple[Span, ...], w0_s: float) -> float | None:
    if not begun:
        return None
    return next((span.start_s - w0_s for span in user if span.start_s > begun[0].start_s), None)


def _readback(case: Case, recording: Recording) -> Readback | None:
    asked = case.expected_action is Action.READBACK and any(tokens(chunk) for chunk in case.readback)
    if not asked or recording.turn2_onset_samples is None:
        return None
    return readback(case.readback, recording.transcript, recording.turn2_onset_samples)


_adapter: TypeAdapter[Measurement] = TypeAdapter(Measurement)


def measurement_line(measurement: Measurement) -> dict[str, Any]:
    """The JSON object of a measurement; floats in full, so that judging it again gives the same verdict."""
    return asdict(measurement)


def read_measurement(raw: object, where: str) -> Measurement:
    """A measurement from the JSON object of its line.

    Raises:
        CaseError: a key is missing or has a wrong type, with ``where``.
    """
    try:
        return _adapter.validate_python(raw)
    except ValidationError as error:
        raise CaseError(f"{where}: {explain(error)}. Remove the file to have the recordings measured again.") from error
