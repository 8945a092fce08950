"""The loop, driven by scripted agents and a watch that hears any non-zero sample."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from builders import EnergyWatch, a_case

from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.errors import AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Interrupted
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.pcm import Pcm
from dsbif.session.running import Episode, Stage, Take, case_seed
from dsbif.session.user import Pacing
from dsbif.spans import Span

PACING = Pacing(gap_s=0.5, trailing_s=0.5, onset_timeout_s=1.0)


class Scripted:
    """Echoes ``0.5`` from its row's sample ``speak_at`` on for ``length`` samples; keeps what it heard."""

    def __init__(self, rows: int = 1, frame_samples: int = 480, speak_at: int = 10**9, length: int = 0) -> None:
        self.facts = AgentFacts("scripted", "full", "native", {"scripted": "1"})
        self.rows, self.frame_samples = rows, frame_samples
        self.speak_at, self.length = speak_at, length
        self.log: list[tuple[str, Any]] = []
        self.heard: dict[int, int] = {}

    def start(self, row: int, prompt: str, seed: int) -> None:
        self.log.append(("start", row))
        self.heard[row] = 0

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        return [self.one(row, pcm[row]) if on else [] for row, on in enumerate(active)]

    def one(self, row: int, frame: Pcm) -> list[Emission]:
        self.heard[row] += len(frame)
        begun = self.speak_at <= self.heard[row] < self.speak_at + self.length
        return [AgentAudio(np.full(len(frame), 0.5, np.float32))] if begun else []

    def stop(self, row: int) -> None:
        self.log.append(("stop", row))

    def close(self) -> None:
        self.log.append(("close", None))


def _turn(samples: int) -> UserTurn:
    span = Span(0.0, samples / 24_000)
    return UserTurn("audio/x.wav", "0" * 64, samples, (TimedSegment("s1", "speech", "Hello.", span),))


def _episode(tid: str = "a", turn1: int = 9600, turn2: int = 9600, barge_in_after_s: float | None = None) -> Episode:
    case: Case = a_case(
        test_case_id=tid, turn1=_turn(turn1), turn2=_turn(turn2), barge_in_after_s=barge_in_after_s, window=Span(0, 0.3)
    )
    return Episode(case, np.full(turn1, 0.1, np.float32), np.full(turn2, 0.2, np.float32))


def _run(agent: Any, episodes: list[Episode]) -> list[Take]:
    takes: list[Take] = []
    LockstepDriver(agent, Stage(PACING, EnergyWatch, seed=7), takes.append).run(episodes)
    return takes


def test_audio_emitted_on_hearing_a_frame_arrives_at_its_end() -> None:
    (take,) = _run(Scripted(speak_at=4800, length=960), [_episode()])
    assert np.flatnonzero(take.stereo[:, 1])[[0, -1]].tolist() == [4800, 4800 + 960 - 1]
    assert take.recording.emissions[0].arrival_samples == 4800


def test_the_record_knows_when_turn_two_began_and_where_its_window_is() -> None:
    (take,) = _run(Scripted(), [_episode()])
    assert take.recording.turn2_onset_samples == 9600 + 12_000
    assert take.recording.turn2_by == "take-turn"
    assert take.recording.window == Span(0.9, 1.2)
    assert take.recording.samples == len(take.stereo) == 9600 + 12_000 + 9600 + 12_000


def test_a_barge_in_is_counted_from_the_onset_that_the_watch_found() -> None:
    (take,) = _run(Scripted(speak_at=14_400, length=48_000), [_episode(barge_in_after_s=0.5)])
    assert take.recording.agent_onset_samples == 14_400
    assert take.recording.turn2_onset_samples == 14_400 + 12_000
    assert take.recording.turn2_by == "barge-in"
    assert take.recording.detector == {"name": "energy", "delay_s": 0.02}
    assert np.flatnonzero(take.stereo[:, 0] > 0.15)[0] == 26_400


def test_an_agent_that_already_speaks_when_turn_one_ends_has_its_onset_there() -> None:
    (take,) = _run(Scripted(speak_at=480, length=48_000), [_episode(barge_in_after_s=0.5)])
    assert take.recording.agent_onset_samples == 9600


def test_a_silent_agent_gets_the_barge_in_after_the_timeout() -> None:
    (take,) = _run(Scripted(), [_episode(barge_in_after_s=0.5)])
    assert take.recording.turn2_by == "onset-timeout"
    assert take.recording.flags == ("onset-timeout",)
    assert take.recording.turn2_onset_samples == 9600 + 24_000


def test_speech_after_the_last_frame_is_kept_to_its_end() -> None:
    class Burst(Scripted):
        def one(self, row: int, frame: Pcm) -> list[Emission]:
            super().one(row, frame)
            return [AgentAudio(np.full(480_000, 0.5, np.float32))] if self.heard[row] == 4800 else []

    (take,) = _run(Burst(), [_episode()])
    assert np.count_nonzero(take.stereo[:, 1]) == 480_000
    assert take.recording.samples == 4800 + 480_000


def test_texts_and_interruptions_are_kept_with_their_times() -> None:
    class Talker(Scripted):
        def one(self, row: int, frame: Pcm) -> list[Emission]:
            super().one(row, frame)
            said = {480: AgentText("Yes, "), 960: AgentText("I see."), 1440: Interrupted("cancelled")}
            return [said[self.heard[row]]] if self.heard[row] in said else []

    (take,) = _run(Talker(), [_episode()])
    assert take.recording.transcript.text == "Yes, I see."
    assert [piece.time_samples for piece in take.recording.transcript.pieces] == [480, 960]
    assert take.recording.interruptions[0].kind == "cancelled"


def test_rows_take_the_next_case_as_soon_as_one_ends() -> None:
    agent = Scripted(rows=2)
    episodes = [_episode("long", turn2=96_000), *(_episode(f"short{n}") for n in range(3))]
    takes = _run(agent, episodes)
    assert [take.recording.test_case_id for take in takes] == ["short0", "short1", "long", "short2"]
    assert [entry for entry in agent.log if entry[0] == "start"][:3] == [("start", 0), ("start", 1), ("start", 1)]


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("frame", [480, 1920])
def test_takes_do_not_depend_on_rows_or_neighbours(rows: int, frame: int) -> None:
    episodes = [_episode(f"c{n}", turn1=4800 * (n + 1), barge_in_after_s=0.4 if n % 2 else None) for n in range(4)]
    alone = {t.recording.test_case_id: t for t in _run(Scripted(1, frame, 14_400, 24_000), episodes)}
    together = {t.recording.test_case_id: t for t in _run(Scripted(rows, frame, 14_400, 24_000), episodes)}
    assert alone.keys() == together.keys()
    for tid, take in alone.items():
        assert take.recording == together[tid].recording
        assert np.array_equal(take.stereo, together[tid].stereo)


def test_the_seed_of_a_case_depends_on_its_id_and_the_runs_seed() -> None:
    one, other = _episode("a").case, _episode("b").case
    assert case_seed(one, 0) == case_seed(one, 0) != case_seed(other, 0)
    assert case_seed(one, 0) != case_seed(one, 1)


class _Failing(Scripted):
    def __init__(self, rows: int, error: Exception, guilty_turn: int = 0) -> None:
        super().__init__(rows)
        self.error, self.guilty = error, guilty_turn
        self.first: dict[int, float] = {}

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        for row, on in enumerate(active):
            if on and pcm[row].max() > 0.85:
                raise self.error
        return super().step(pcm, active)


def _loud(tid: str) -> Episode:
    episode = _episode(tid)
    return Episode(episode.case, episode.turn1, np.full(len(episode.turn2), 0.9, np.float32))


def test_an_agents_fault_fails_its_own_case_and_no_other() -> None:
    takes = _run(_Failing(3, RuntimeError("out of tokens")), [_episode("a"), _loud("b"), _episode("c"), _episode("d")])
    by_id = {take.recording.test_case_id: take.recording for take in takes}
    assert {tid: rec.status for tid, rec in by_id.items()} == {"a": "ok", "b": "agent_error", "c": "ok", "d": "ok"}
    assert by_id["b"].error == "RuntimeError: out of tokens"


def test_a_fault_that_names_its_row_costs_nobody_a_second_run() -> None:
    error = AgentError("row 1 lost its socket")
    error.row = 1  # type: ignore[attr-defined]
    agent = _Failing(3, error)
    takes = _run(agent, [_episode("a"), _loud("b"), _episode("c")])
    assert {take.recording.test_case_id: take.recording.status for take in takes} == {
        "a": "ok", "b": "agent_error", "c": "ok",
    }  # fmt: skip
    assert len([entry for entry in agent.log if entry[0] == "start"]) == 3


def test_a_failure_to_start_is_recorded() -> None:
    class NeverStarts(Scripted):
        def start(self, row: int, prompt: str, seed: int) -> None:
            raise AgentError("no such voice")

    (first, second) = _run(NeverStarts(), [_episode("a"), _episode("b")])
    assert first.recording.status == second.recording.status == "agent_error"
    assert first.recording.error == "no such voice"
    assert first.recording.window is not None


def test_a_failure_to_stop_is_that_cases_own() -> None:
    class NeverStops(Scripted):
        def stop(self, row: int) -> None:
            raise RuntimeError("stuck")

    (take,) = _run(NeverStops(), [_episode("a")])
    assert take.recording.error == "RuntimeError: stuck"


def test_frames_that_do_not_fit_the_session_are_refused() -> None:
    with pytest.raises(AgentError, match="frames of 500 samples; the session needs a multiple of 480"):
        LockstepDriver(Scripted(frame_samples=500), Stage(PACING, EnergyWatch), lambda take: None)


class Fragile(Scripted):
    """Goes away as often as told, on the third frame it hears."""

    def __init__(self, losses: int, rows: int = 1) -> None:
        super().__init__(rows)
        self.losses = losses

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        emissions = super().step(pcm, active)
        if self.losses and max(self.heard.values()) == 3 * 480:
            self.losses -= 1
            raise AgentLostError("the worker was killed")
        return emissions


def test_a_case_whose_agent_went_away_is_tried_once_more() -> None:
    (take,) = _run(Fragile(losses=1), [_episode()])
    assert (take.recording.status, take.recording.flags) == ("ok", ("retried",))


def test_a_case_whose_agent_goes_away_twice_is_recorded_and_the_others_run() -> None:
    # Both cases lose the agent once; the first loses it again when it is tried alone.
    first, second = _run(Fragile(losses=3), [_episode("a"), _episode("b")])
    assert [first.recording.test_case_id, first.recording.status] == ["a", "agent_error"]
    assert first.recording.error == "the worker was killed"
    assert [second.recording.test_case_id, second.recording.status] == ["b", "ok"]


def test_a_lost_agent_loses_no_row_of_its_batch() -> None:
    takes = _run(Fragile(losses=1, rows=3), [_episode(tid) for tid in "abc"])
    assert sorted(take.recording.test_case_id for take in takes) == list("abc")
    assert {take.recording.status for take in takes} == {"ok"}


def test_rows_that_can_only_start_together_start_together() -> None:
    agent = Scripted(rows=2)
    agent.equal_start = True  # type: ignore[attr-defined]
    takes = _run(agent, [_episode("a"), _episode("b", turn2=4800), _episode("c"), _episode("d")])
    assert len(takes) == 4
    events = [event for event in agent.log if event[0] in ("start", "stop")]
    assert events == [
        ("start", 0), ("start", 1), ("stop", 1), ("stop", 0), ("start", 0), ("start", 1), ("stop", 0), ("stop", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pcm", "message"),
    [
        (np.array([0.1, np.nan], np.float32), "the agent emitted NaN or infinite samples as audio"),
        (np.zeros((2, 480), np.float32), r"the agent emitted an array of shape \(2, 480\) as audio"),
    ],
)
def test_audio_that_is_none_is_its_cases_outcome(pcm: Pcm, message: str) -> None:
    class Broken(Scripted):
        def one(self, row: int, frame: Pcm) -> list[Emission]:
            return [AgentAudio(pcm)] if row == 1 else []

    takes = _run(Broken(rows=2), [_episode("a"), _episode("b")])
    outcomes = {take.recording.test_case_id: take.recording for take in takes}
    assert (outcomes["a"].status, outcomes["b"].status) == ("ok", "agent_error")
    with pytest.raises(AgentError, match=message):
        raise AgentError(outcomes["b"].error)
