"""Recordings of every kind through the scorer: what is wrong is said, what is right gives the same figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from builders import PAPER, a_case, a_recording
from numpy.typing import NDArray

from dsbif.audio.resample import resample
from dsbif.audio.wav import write_pcm16
from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.build.render import RenderedTurn, render_turn
from dsbif.build.script import Line
from dsbif.build.voices import Engine
from dsbif.score.heard import BadAudio, Heard
from dsbif.score.measure import Measurement, Reason, Unscored, measure
from dsbif.score.vad import hear
from dsbif.score.verdict import Verdict, judge_case
from dsbif.session.recording import Recording
from dsbif.spans import Span

Pcm = NDArray[np.float32]
ONSET_S = 6.0
DURATION_S = 22.0


class Scene:
    """A case on disk with its user audio, and a way to put an agent beside it."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self.folder, self.engine = folder, engine
        turn1 = render_turn([Line("turn1", text="My mother collapsed in the kitchen.")], engine, "en-us+m1")
        turn2 = render_turn(
            [
                Line("s1", text="I should have come over last night,"),
                Line("pause", pause_s=2.5),
                Line("s3", text="and now she does not know who I am."),
            ],
            engine,
            "en-us+m1",
        )
        self.case = self._case(turn1, turn2)
        self.user = np.zeros(round(DURATION_S * 24_000), np.float32)
        self.user[: len(turn1.samples)] = turn1.samples
        self.user[144_000 : 144_000 + len(turn2.samples)] = turn2.samples
        self.w0 = 144_000 + round(self.case.window.start_s * 24_000)

    def _case(self, turn1: RenderedTurn, turn2: RenderedTurn) -> Case:
        turns = []
        for name, turn in (("t1", turn1), ("t2", turn2)):
            write_pcm16(self.folder / f"{name}.wav", turn.samples, 24_000)
            turns.append(UserTurn(f"{name}.wav", "0" * 64, len(turn.samples), turn.segments))
        pause = next(segment.span for segment in turn2.segments if segment.name == "pause")
        return a_case(
            expected_action=Action.TAKE_TURN,
            role="R1",
            window=pause,
            verifier_params={},
            turn1=turns[0],
            turn2=turns[1],
        )

    @property
    def recording(self) -> Recording:
        return a_recording(self.case, DURATION_S, ONSET_S)

    def agent(self, text: str = "I am with you, tell me more about it.", after_w0_s: float = 0.8) -> Pcm:
        track = np.zeros_like(self.user)
        said = render_turn([Line("a", text=text)], self.engine, "en-us+f4").samples
        start = self.w0 + round(after_w0_s * 24_000)
        track[start : start + len(said)] = said
        return track

    def hear(self, stereo: Pcm, rate_hz: int = 24_000, subtype: str = "PCM_16") -> Heard | BadAudio:
        path = self.folder / "case.wav"
        soundfile.write(path, stereo, rate_hz, subtype=subtype)
        return hear(path, self.case, self.recording, self.folder)

    def measure(self, stereo: Pcm, rate_hz: int = 24_000, subtype: str = "PCM_16") -> Measurement:
        result = measure(self.case, self.recording, self.hear(stereo, rate_hz, subtype))
        assert isinstance(result, Measurement)
        return result

    def both(self, agent: Pcm) -> Pcm:
        return np.stack([self.user, agent], axis=1)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, espeak: Engine) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"), espeak)


def test_an_onset_is_measured_where_the_speech_was_put(scene: Scene) -> None:
    m = scene.measure(scene.both(scene.agent(after_w0_s=0.8)))
    assert m.genuine_s == pytest.approx(0.8, abs=0.1)
    verdict = judge_case(scene.case, m, PAPER)
    assert isinstance(verdict, Verdict)
    assert verdict.passed


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_rate_and_sample_format_change_nothing(scene: Scene, rate_hz: int, subtype: str) -> None:
    stereo = scene.both(scene.agent())
    reference = scene.measure(stereo)
    converted = np.stack([resample(stereo[:, channel].copy(), 24_000, rate_hz) for channel in (0, 1)], axis=1)
    m = scene.measure(converted, rate_hz, subtype)
    assert m.genuine_s == pytest.approx(reference.genuine_s, abs=0.032)
    assert m.speech_in_window_s == pytest.approx(reference.speech_in_window_s, abs=0.064)
    one, other = (judge_case(scene.case, x, PAPER) for x in (reference, m))
    assert isinstance(one, Verdict)
    assert isinstance(other, Verdict)
    assert (one.passed, one.label) == (other.passed, other.label)


def _nan(scene: Scene) -> Pcm:
    stereo = scene.both(scene.agent())
    stereo[1000, 1] = np.nan
    return stereo


def _inf(scene: Scene) -> Pcm:
    stereo = scene.both(scene.agent())
    stereo[1000, 0] = np.inf
    return stereo


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_nan, "holds 1 NaN or infinite samples"),
        (_inf, "holds 1 NaN or infinite samples"),
        (lambda s: np.zeros((0, 2), np.float32), "the recording is empty"),
        (lambda s: s.both(s.agent())[:100], "lasts 0.004 s and its record says 22.000 s"),
        (lambda s: s.user[:, None], "has 1 channel"),
        (lambda s: np.stack([s.user] * 3, axis=1), "has 3 channel"),
        (lambda s: s.both(s.agent())[:, ::-1], "the channels are swapped"),
        (lambda s: np.stack([s.agent(), s.agent()], axis=1), "does not hold this case's user audio"),
        (lambda s: s.both(s.agent())[: 24_000 * 20], "lasts 20.000 s"),
    ],
    ids=["nan", "inf", "empty", "100 samples", "mono", "three", "swapped", "foreign", "cut"],
)
def test_bad_audio_is_listed_and_never_scored(scene: Scene, damage: Callable[[Scene], Pcm], reason: str) -> None:
    sound = scene.hear(damage(scene), subtype="FLOAT")
    assert isinstance(sound, BadAudio)
    assert reason in sound.reason
    result = judge_case(scene.case, measure(scene.case, scene.recording, sound), PAPER)
    assert isinstance(result, Unscored)
    assert result.reason is Reason.BAD_AUDIO


@pytest.mark.parametrize("content", [b"", b"RIFF", b"not audio at all"])
def test_a_file_that_is_no_audio_is_bad_audio(scene: Scene, content: bytes) -> None:
    path = scene.folder / "broken.wav"
    path.write_bytes(content)
    sound = hear(path, scene.case, scene.recording, scene.folder)
    assert isinstance(sound, BadAudio)
    assert "cannot be read" in sound.reason


def test_a_missing_file_is_bad_audio(scene: Scene) -> None:
    sound = hear(scene.folder / "absent.wav", scene.case, scene.recording, scene.folder)
    assert isinstance(sound, BadAudio)
    assert "does not exist" in sound.reason


def test_a_silent_agent_is_a_result(scene: Scene) -> None:
    m = scene.measure(scene.both(np.zeros_like(scene.user)))
    assert m.agent_spans == ()
    assert m.agent_peak_dbfs is None
    assert m.flags == ()


@pytest.mark.parametrize("lag_s", [0.0, 0.12])
@pytest.mark.parametrize("talks", [False, True])
def test_a_copy_of_the_user_on_the_agents_channel_is_reported(scene: Scene, lag_s: float, talks: bool) -> None:
    agent = scene.agent() if talks else np.zeros_like(scene.user)
    assert scene.measure(scene.both(agent)).flags == ()
    lag = round(lag_s * 24_000)
    leaked = agent.copy()
    leaked[lag:] += scene.user[: len(scene.user) - lag] * 10 ** (-30 / 20)
    m = scene.measure(scene.both(leaked))
    assert "leakage" in m.flags
    assert m.leakage_db == pytest.approx(-30, abs=2)


@pytest.mark.parametrize(("peak_dbfs", "warned"), [(-20, False), (-29, False), (-31, True), (-48, True)])
def test_a_quiet_agent_gets_a_warning(scene: Scene, peak_dbfs: float, warned: bool) -> None:
    agent = scene.agent()
    agent *= 10 ** (peak_dbfs / 20) / np.abs(agent).max()
    sound = scene.hear(scene.both(agent), subtype="FLOAT")
    assert isinstance(sound, Heard)
    assert ("quiet_agent" in sound.flags) == warned


def test_speech_to_the_end_of_the_file_is_censored(scene: Scene) -> None:
    agent = np.zeros_like(scene.user)
    said = render_turn(
        [Line("a", text="and so it goes on and on and on without an end")], scene.engine, "en-us+f4"
    ).samples
    track = np.tile(said, 20)
    agent[scene.w0 - 24_000 :] = track[: len(agent) - scene.w0 + 24_000]
    m = scene.measure(scene.both(agent))
    assert m.censored
    assert m.offset_s is None


def test_user_truth_is_construction_and_the_detector_agrees_with_it(scene: Scene) -> None:
    m = scene.measure(scene.both(np.zeros_like(scene.user)))
    assert len(m.user_spans) == len(m.user_vad_spans) == 3
    for built, found in zip(m.user_spans, m.user_vad_spans, strict=True):
        assert found.start_s == pytest.approx(built.start_s, abs=0.15)
        assert found.end_s == pytest.approx(built.end_s, abs=0.15)


def test_a_window_is_a_value(scene: Scene) -> None:
    segment: Any = next(part for part in scene.case.turn2.segments if part.name == "pause")
    assert isinstance(segment, TimedSegment)
    assert segment.span == scene.case.window
    assert isinstance(scene.case.window, Span)
    assert scene.case.window.duration_s == pytest.approx(2.5)
