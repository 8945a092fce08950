import json
from pathlib import Path

import pytest

from dsbif.errors import CaseError
from dsbif.session.recording import (
    AudioPlaced,
    Interruption,
    Recording,
    TextPiece,
    Transcript,
    read_recording,
    recording_json,
    write_recording,
)
from dsbif.spans import Span


def _recording() -> Recording:
    return Recording(
        test_case_id="IFD-R1-C1-i1-L2",
        conversation_id="R1-C1-i1",
        model="cascade",
        status="ok",
        samples=240_000,
        turn2_onset_samples=100_001,
        turn2_by="barge-in",
        window_turn2=Span(0.0, 3.0),
        transcript=Transcript("native", (TextPiece(5, "I hear "), TextPiece(9, "you."))),
        seed=3,
        agent_onset_samples=28_001,
        detector={"name": "silero-streaming", "threshold": 0.5, "delay_s": 0.12},
        emissions=(AudioPlaced(480, 480, 9600),),
        interruptions=(Interruption(77, "user_speech"),),
        lateness_ms={"p99": 1.25},
        versions={"silero-vad": "6.2.3"},
        flags=("x",),
    )


def test_a_record_survives_the_trip_through_its_file(tmp_path: Path) -> None:
    write_recording(tmp_path / "a.rec.json", _recording())
    assert read_recording(tmp_path / "a.rec.json") == _recording()


def test_seconds_in_the_file_are_whole_milliseconds_beside_exact_samples() -> None:
    written = recording_json(_recording())
    assert (written["turn2_onset_samples"], written["turn2_onset_s"]) == (100_001, 4.167)
    assert written["trigger_window"] == {"start_s": 4.167, "end_s": 7.167}
    assert written["transcript"]["text"] == "I hear you."


def test_the_window_is_cut_at_the_end_of_the_recording() -> None:
    late = Recording(**{**_as_kwargs(), "samples": 120_000})
    assert late.window is not None
    assert late.window.end_s == 5.0
    beyond = Recording(**{**_as_kwargs(), "samples": 48_000})
    assert beyond.window is not None
    assert beyond.window.duration_s == 0.0


def test_a_case_whose_second_turn_never_came_has_no_window() -> None:
    lost = Recording(**{**_as_kwargs(), "turn2_onset_samples": None, "turn2_by": "not-reached"})
    assert lost.window is None
    assert recording_json(lost)["trigger_window"] is None


def _as_kwargs() -> dict[str, object]:
    return {name: getattr(_recording(), name) for name in Recording.__dataclass_fields__}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"rec_version": 2}', json.dumps({**recording_json(_recording()), "samples": "many"})]
)
def test_a_record_that_cannot_be_used_says_what_to_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.rec.json"
    path.write_text(text)
    with pytest.raises(CaseError, match=r"a\.rec\.json cannot be used: .*Remove it to record the case again"):
        read_recording(path)
