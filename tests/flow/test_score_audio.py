"""Espeak speech through hearing, measuring and judging: pauses around the merge, bursts, displaced and mixed audio."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from builders import PAPER, a_case, a_recording
from numpy.typing import NDArray

from dsbif.audio.resample import resample
from dsbif.audio.silero import speech_spans
from dsbif.audio.wav import write_pcm16
from dsbif.bench.actions import PASSED_BY_SILENCE, Action
from dsbif.bench.case import Case, UserTurn
from dsbif.build.render import render_turn
from dsbif.build.script import Line
from dsbif.build.voices import Engine
from dsbif.score.heard import BadAudio, Heard
from dsbif.score.measure import MERGE_GAP_S, Measurement, measure, measurement_line, read_measurement
from dsbif.score.sweep import sweep
from dsbif.score.vad import hear
from dsbif.score.verdict import Verdict, judge_case
from dsbif.session.recording import TextPiece, Transcript
from dsbif.session.tape import Tape
from dsbif.spans import Span, merge

Pcm = NDArray[np.float32]
RATE = 24_000
ONSET_S = 6.0
DURATION_S = 34.0
VOICES = ("en-us+m1", "en-us+m2", "en-us+f1", "en-us+f4")
TARGET = ("five five five", "Alder Street")
READ_BACK = Transcript("native", (TextPiece(RATE * 20, "555, Alder Street."),))


def say(engine: Engine, text: str, voice: str = "en-us+f4") -> Pcm:
    return render_turn([Line("a", text=text)], engine, voice).samples


def silence(duration_s: float) -> Pcm:
    return np.zeros(round(duration_s * RATE), np.float32)


class Stage:
    """A user with a pause in turn 2, on disk, and an agent to be put beside it."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder, self.engine = folder, engine
        lines = [
            Line("s1", text="I should have come over last night,"),
            Line("pause", pause_s=2.5),
            Line("s3", text="and now she does not know who I am."),
        ]
        self.turns = {
            "t1": render_turn([Line("turn1", text="My mother collapsed in the kitchen.")], engine, "en-us+m1"),
            "t2": render_turn(lines, engine, "en-us+m1"),
        }
        built = []
        for name, turn in self.turns.items():
            write_pcm16(folder / f"{name}.wav", turn.samples, RATE)
            built.append(UserTurn(f"{name}.wav", "0" * 64, len(turn.samples), turn.segments))
        pause = next(segment.span for segment in self.turns["t2"].segments if segment.name == "pause")
        self.turn1, self.turn2, self.pause = built[0], built[1], pause
        self.w0_s = ONSET_S + pause.start_s

    def case(self, action: Action = Action.TAKE_TURN) -> Case:
        barge_in = action in (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP)
        return a_case(
            expected_action=action,
            role="R2",
            window=Span(0.0, 3.0) if barge_in else self.pause,
            readback=TARGET if action is Action.READBACK else (),
            verifier_params={},
            turn1=self.turn1,
            turn2=self.turn2,
        )

    def user(self, turn2_at_s: float = ONSET_S) -> Pcm:
        track = silence(DURATION_S)
        for name, at_s in (("t1", 0.0), ("t2", turn2_at_s)):
            samples = self.turns[name].samples
            at = round(at_s * RATE)
            track[at : at + len(samples)] = samples
        return track

    def agent(self, text: str = "I am with you.", after_w0_s: float = 0.8) -> Pcm:
        track, said = silence(DURATION_S), say(self.engine, text)
        at = round((self.w0_s + after_w0_s) * RATE)
        track[at : at + len(said)] = said
        return track

    def hear(self, user: Pcm, agent: Pcm, rate_hz: int = RATE, subtype: str = "PCM_16") -> Heard | BadAudio:
        path = self.folder / "case.wav"
        tracks = [resample(track, RATE, rate_hz) for track in (user, agent)]
        soundfile.write(path, np.stack(tracks, axis=1), rate_hz, subtype=subtype)
        return hear(path, self.case(), a_recording(self.case(), DURATION_S, ONSET_S), self.folder)

    def measure(self, sound: Heard | BadAudio, action: Action = Action.TAKE_TURN, read: bool = True) -> Measurement:
        case = self.case(action)
        transcript = READ_BACK if read else Transcript("none")
        found = measure(case, a_recording(case, DURATION_S, ONSET_S, transcript=transcript), sound)
        assert isinstance(found, Measurement), found
        return found

    def passes(self, sound: Heard | BadAudio, read: bool = True) -> dict[Action, bool]:
        verdicts = {
            action: judge_case(self.case(action), self.measure(sound, action, read), PAPER) for action in Action
        }
        return {action: isinstance(verdict, Verdict) and verdict.passed for action, verdict in verdicts.items()}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, espeak: Engine) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"), espeak)


SENTENCES = (
    ("I am with you.", "Tell me more about it."),
    ("Take a slow breath now.", "Where does it hurt?"),
    ("Okay.", "And what happened then?"),
)


@pytest.mark.parametrize(
    ("pause_s", "fewest", "most"),
    [(0.25, 48, 48), (0.30, 46, 48), (0.35, 36, 46), (0.40, 14, 32), (0.45, 0, 5), (0.50, 0, 0)],
)
def test_real_pauses_around_the_merge(espeak: Engine, pause_s: float, fewest: int, most: int) -> None:
    """The table in ``measure``: 48, 48, 41, 23, 1 and 0 of 48 are closed (four voices, three pairs, four places)."""
    closed = 0
    for voice in VOICES:
        for one, other in SENTENCES:
            first, second = say(espeak, one, voice), say(espeak, other, voice)
            for shift_s in (0.0, 0.008, 0.016, 0.024):
                pcm = np.concatenate([silence(1.0 + shift_s), first, silence(pause_s), second, silence(1.0)])
                middle_s = 1.0 + shift_s + len(first) / RATE + pause_s / 2
                closed += any(span.contains(middle_s) for span in merge(speech_spans(pcm, RATE), MERGE_GAP_S))
    assert fewest <= closed <= most


def test_a_burst_is_scored_as_it_was_placed(stage: Stage) -> None:
    """Twenty seconds of speech delivered within two: every sample is kept and the onset is the first one's."""
    said = say(stage.engine, "And then, as I was saying, it all goes on and on without any end in sight,")
    speech = np.tile(said, 10)[: 20 * RATE]
    arrival = round((stage.w0_s + 0.8) * RATE)
    tape = Tape()
    tape.user(stage.user())
    pieces = [speech[start : start + 9_600] for start in range(0, len(speech), 9_600)]
    for number, piece in enumerate(pieces):
        tape.agent(arrival + number * 2 * RATE // len(pieces), piece)
    track = tape.stereo()[:, 1]
    assert np.array_equal(track[arrival : arrival + len(speech)], speech)
    m = stage.measure(stage.hear(stage.user(), track))
    assert m.genuine_s == pytest.approx(0.8, abs=0.1)
    assert m.begun[0].duration_s == pytest.approx(20.0, abs=0.2)
    assert not m.censored


@pytest.mark.parametrize("off_s", [0.0005, -0.0005, 0.012, -0.019])
def test_a_record_whose_onset_was_rounded_is_scored(stage: Stage, off_s: float) -> None:
    m = stage.measure(stage.hear(stage.user(ONSET_S + off_s), stage.agent()))
    assert m.genuine_s == pytest.approx(0.8, abs=0.1)


def test_a_record_whose_onset_is_wrong_is_not(stage: Stage) -> None:
    sound = stage.hear(stage.user(ONSET_S + 0.2), stage.agent())
    assert isinstance(sound, BadAudio)
    assert "no clean turn 2 at 6.000 s: the record's onset is wrong" in sound.reason


def test_both_voices_on_both_channels_are_no_recording(stage: Stage) -> None:
    mixed = stage.user() + stage.agent(after_w0_s=2.0, text="I am with you, and I will stay on the line with you.")
    sound = stage.hear(mixed, mixed)
    assert isinstance(sound, BadAudio)
    assert "channel 0" in sound.reason


def test_the_user_inverted_shifted_and_louder_is_the_user(stage: Stage) -> None:
    changed = -1.2 * stage.user() + np.float32(0.05)
    assert isinstance(stage.hear(changed, stage.agent(), subtype="FLOAT"), Heard)


def test_a_click_does_not_hide_a_quiet_voice(stage: Stage) -> None:
    agent = stage.agent()
    agent *= 10 ** (-40 / 20) / np.abs(agent).max()
    agent[1_000] = 0.5
    sound = stage.hear(stage.user(), agent, subtype="FLOAT")
    assert isinstance(sound, Heard)
    assert sound.flags == ("quiet_agent",)
    assert sound.agent_peak_dbfs == pytest.approx(-40, abs=2.0)


def test_speech_ends_at_the_last_sample_or_well_before_it(espeak: Engine) -> None:
    """Why the tolerance for censored speech need not be finer: between 0 and 62 ms nothing ends."""
    words = say(espeak, "and so it goes on")
    left = []
    for tail_ms in range(0, 260, 20):
        pcm = np.concatenate([silence(1.0), words, silence(tail_ms / 1000)])
        left.append(len(pcm) / RATE - speech_spans(pcm, RATE)[-1].end_s)
    assert left[0] < 0.001
    assert left[-1] > 0.062
    assert all(rest < 0.001 or rest > 0.062 for rest in left)


@pytest.mark.parametrize(("rate_hz", "subtype"), [(16_000, "PCM_16"), (48_000, "FLOAT")])
@pytest.mark.parametrize("talks", [False, True])
def test_all_nine_verdicts_are_those_of_the_same_audio_at_another_rate(
    stage: Stage, rate_hz: int, subtype: str, talks: bool
) -> None:
    agent = stage.agent() if talks else silence(DURATION_S)
    reference = stage.passes(stage.hear(stage.user(), agent))
    assert stage.passes(stage.hear(stage.user(), agent, rate_hz, subtype)) == reference


def test_a_silent_agent_passes_three_and_fails_six(stage: Stage) -> None:
    passes = stage.passes(stage.hear(stage.user(), silence(DURATION_S)), read=False)
    assert {action for action, passed in passes.items() if passed} == PASSED_BY_SILENCE


def test_a_short_word_in_the_pause_passes_what_it_must(stage: Stage) -> None:
    passes = stage.passes(stage.hear(stage.user(), stage.agent("Okay.", after_w0_s=0.5)))
    expected = {Action.BACKCHANNEL, Action.TAKE_TURN, Action.INTERRUPT, Action.READBACK, Action.CONTINUE}
    assert {action for action, passed in passes.items() if passed} == expected


def test_judging_what_was_stored_equals_hearing_again(stage: Stage) -> None:
    agents = (silence(DURATION_S), stage.agent("Okay.", 0.5), stage.agent("I am with you, go on.", 1.7))
    cases = [replace(stage.case(action), test_case_id=f"IFD-{action}") for action in Action]
    for agent in agents:
        first, again = (stage.hear(stage.user(), agent) for _ in range(2))
        stored, fresh = {}, {}
        for case in cases:
            line = json.dumps(measurement_line(stage.measure(first, case.expected_action)))
            stored[case.test_case_id] = read_measurement(json.loads(line), "here")
            fresh[case.test_case_id] = stage.measure(again, case.expected_action)
        assert dict(sweep(cases, stored, PAPER)) == dict(sweep(cases, fresh, PAPER))
