"""Values that several tests start from."""

from typing import Any

from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Conflict, Level
from dsbif.bench.windows import WindowMode
from dsbif.spans import Span


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
