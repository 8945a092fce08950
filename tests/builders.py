"""Values that several tests start from."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import yaml

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.windows import WindowMode
from dsbif.files import CONF_DIR
from dsbif.score.heard import Heard
from dsbif.score.measure import Reason, Unscored, measure
from dsbif.score.rows import ResultRow, make_row
from dsbif.score.thresholds import Thresholds
from dsbif.score.verdict import judge_case
from dsbif.session.pcm import Pcm
from dsbif.session.recording import Recording, Transcript
from dsbif.spans import Span

PAPER = Thresholds.from_mapping(yaml.safe_load((CONF_DIR / "thresholds" / "paper.yaml").read_text()))


class EnergyWatch:
    """An onset watch that hears any sample but zero."""

    name = "energy"
    settings: Mapping[str, float] = {}

    def __init__(self, counts_from: int) -> None:
        self._from, self._heard = counts_from, 0

    def push(self, pcm: Pcm) -> tuple[int, int] | None:
        self._heard += len(pcm)
        loud = np.flatnonzero(pcm) + self._heard - len(pcm)
        late = loud[loud >= self._from]
        return (int(late[0]), self._heard) if len(late) else None


def a_case(**changes: Any) -> Case:
    speech = TimedSegment("s1", "speech", "My father fell this morning.", Span(0.0, 3.0000416667))
    pause = TimedSegment("pause", "silence", "", Span(3.0000416667, 5.5000416667))
    after = TimedSegment("s3", "speech", "He still does not know me.", Span(5.5000416667, 8.0))
    values: dict[str, Any] = {
        "test_case_id": "IFD-R1-C1-i1-L4a",
        "conversation_id": "R1-C1-i1",
        "role": "R1",
        "role_name": "er_triage_nurse",
        "probe": "C1",
        "instance": 1,
        "level": Level.L4A,
        "expected_action": Action.TAKE_TURN,
        "l4_expected": Conflict.DIRECTIVE,
        "system_prompt": "You are someone.\n\nAdditionally: say „nothing“.",
        "voice": "af_heart",
        "turn1": UserTurn("audio/a.t1.wav", "0" * 64, 72000, (speech,)),
        "turn2": UserTurn("audio/a.t2.wav", "f" * 64, 192000, (speech, pause, after)),
        "barge_in_after_s": None,
        "window": Span(3.000042, 5.500042),
        "window_mode": WindowMode.CAUSAL,
        "readback": (),
        "verifier_params": {"max_wait_s": 1.5},
    }
    return Case(**{**values, **changes})


def a_turn(samples: int, audio: str = "audio/x.wav") -> UserTurn:
    """A turn of one speech segment."""
    span = Span(0.0, samples / 24_000)
    return UserTurn(audio, "0" * 64, samples, (TimedSegment("s1", "speech", "Hello.", span),))


def a_recording(case: Case, duration_s: float = 40.0, turn2_onset_s: float = 10.0, **changes: Any) -> Recording:
    """The record of an episode that went well."""
    values: dict[str, Any] = {
        "test_case_id": case.test_case_id,
        "conversation_id": case.conversation_id,
        "model": "test",
        "status": "ok",
        "samples": round(duration_s * 24_000),
        "turn2_onset_samples": round(turn2_onset_s * 24_000),
        "turn2_by": "take-turn",
        "window_turn2": case.window,
        "transcript": Transcript("native"),
        "seed": 0,
    }
    return Recording(**{**values, **changes})


def heard(*agent: tuple[float, float], duration_s: float = 40.0, **changes: Any) -> Heard:
    """What was heard of an agent that spoke in the given spans of session time."""
    values: dict[str, Any] = {
        "duration_s": duration_s,
        "user_spans": (),
        "agent_spans": tuple(Span(start, end) for start, end in agent),
        "user_peak_dbfs": -3.0,
        "agent_peak_dbfs": -3.0 if agent else None,
        "leakage_db": None,
        "flags": (),
    }
    return Heard(**{**values, **changes})


def a_row(tid: str, level: Level = Level.L2, unscored: bool = False, passes: bool = True, **changes: Any) -> ResultRow:
    """The row of a case at ``window`` 3–5.5: TAKE_TURN at 0.5 s (or not at all), or unscored."""
    case = a_case(**{"test_case_id": tid, "level": level, "window": Span(3.0, 5.5), "verifier_params": {}, **changes})
    sound = heard((13.5, 14.0)) if passes else heard((30.0, 31.0))
    measured = Unscored(Reason.BAD_AUDIO, "one NaN") if unscored else measure(case, a_recording(case), sound)
    return make_row(case, "test", measured, judge_case(case, measured, PAPER))
