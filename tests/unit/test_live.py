"""Live sessions on a clock that the tests turn."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from builders import EnergyWatch, a_case, a_turn

from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission, Interrupted, Note, TurnDone
from dsbif.session.clock import WallClock
from dsbif.session.live import LiveDriver, Patience, percentiles_ms
from dsbif.session.pcm import Pcm
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.user import Pacing
from dsbif.spans import Span

SECOND = 24_000
PACING = Pacing(gap_s=0.5, trailing_s=0.5, onset_timeout_s=1.0)


class Time:
    """Monotonic time that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def read(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += max(seconds, 1e-9)
        for _ in range(5):  # let readers run
            await asyncio.sleep(0)

    def clock(self) -> WallClock:
        return WallClock(self.read, self.sleep)


Script = Callable[["Session"], list[Emission]]


class Session:
    """Keeps what it was sent; answers by script after every frame."""

    def __init__(self, agent: "Agent", number: int) -> None:
        self.agent, self.number = agent, number
        self.sent: list[Pcm] = []
        self.closed = 0
        self.finished: list[int] = []
        self._out: asyncio.Queue[Emission | Exception | None] = asyncio.Queue()

    @property
    def heard(self) -> int:
        return sum(len(pcm) for pcm in self.sent)

    async def send(self, pcm: Pcm) -> None:
        self.sent.append(pcm.copy())
        for item in self.agent.script(self):
            self._out.put_nowait(item)

    def fail(self, error: Exception | None) -> None:
        self._out.put_nowait(error)

    async def emissions(self) -> AsyncIterator[Emission]:
        while (item := await self._out.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item

    async def close(self) -> None:
        self.closed += 1


class EndPointedSession(Session):
    async def user_finished(self) -> None:
        self.finished.append(self.heard)


class Agent:
    def __init__(self, script: Script = lambda session: [], kind: type[Session] = Session, busy: int = 0) -> None:
        self.facts = AgentFacts("live-test", "full", "native")
        self.script, self.kind, self.busy = script, kind, busy
        self.sessions: list[Session] = []
        self.prompts: list[str] = []
        self.closed = 0

    async def open(self, prompt: str, seed: int) -> Session:
        if self.busy:
            self.busy -= 1
            raise AgentBusyError("too many users", retry_after_s=7.0)
        self.prompts.append(prompt)
        self.sessions.append(self.kind(self, len(self.sessions)))
        return self.sessions[-1]

    async def close(self) -> None:
        self.closed += 1


def an_episode(tid: str = "a", barge_in_after_s: float | None = None) -> Episode:
    """0.4 s, then 0.4 s: a session of 1.8 s with the pacing above."""
    case = a_case(
        test_case_id=tid, turn1=a_turn(9600), turn2=a_turn(9600), barge_in_after_s=barge_in_after_s, window=Span(0, 0.3)
    )
    return Episode(case, np.full(9600, 0.1, np.float32), np.full(9600, 0.2, np.float32))


def run(
    agent: Agent, *episodes: Episode, time: Time | None = None, pacing: Pacing = PACING, **options: Any
) -> list[Take]:
    time = time or Time()
    takes: list[Take] = []
    stage = Stage(pacing, EnergyWatch, seed=7, on_interrupt=options.pop("on_interrupt", "keep"))
    driver = LiveDriver(agent, stage, takes.append, 1, Patience(), time.clock, time.sleep)
    driver.run(episodes or (an_episode(),))
    return takes


def once(at_frame: int, *emissions: Emission) -> Script:
    return lambda session: list(emissions) if len(session.sent) == at_frame else []


def audio(seconds: float, level: float = 0.5) -> AgentAudio:
    return AgentAudio(np.full(round(seconds * SECOND), level, np.float32))


def test_every_sample_of_the_user_is_sent_and_taped_and_a_silent_agent_is_a_result() -> None:
    agent = Agent()
    (take,) = run(agent)
    assert take.recording.status == "ok"
    assert take.recording.samples == round(1.8 * SECOND)
    sent = np.concatenate(agent.sessions[0].sent)
    assert np.array_equal(sent, take.stereo[:, 0])
    assert not take.stereo[:, 1].any()
    assert (agent.sessions[0].closed, agent.closed) == (1, 1)
    assert (
        take.recording.lateness_ms == {"p50": 0.0, "p99": 0.0, "max": 0.0} or take.recording.lateness_ms["max"] < 1e-3
    )


def test_a_burst_plays_at_real_time_and_its_tail_is_kept() -> None:
    """T3: 20 s of speech that arrive at once 0.2 s into the session."""
    (take,) = run(Agent(once(10, audio(20.0))))
    (placed,) = take.recording.emissions
    assert placed.samples == 20 * SECOND
    # Frame 10 goes out at 0.18 s; the answer is read before frame 11 does.
    assert 0.18 * SECOND <= placed.position_samples <= 0.2 * SECOND
    assert take.recording.samples >= placed.position_samples + 20 * SECOND
    assert np.count_nonzero(take.stereo[:, 1]) == 20 * SECOND


def test_a_stalled_loop_catches_up_and_adds_no_time() -> None:
    """T4: one frame takes 2 s to send; the frames after it go out late until the deadlines are met again."""
    time = Time()

    def stall(session: Session) -> list[Emission]:
        if len(session.sent) == 20:
            time.now_s += 2.0
        return []

    pacing = Pacing(gap_s=3.0, trailing_s=0.5, onset_timeout_s=1.0)
    began = time.now_s
    (take,) = run(Agent(stall), time=time, pacing=pacing)
    assert take.recording.samples == round(4.3 * SECOND)
    assert time.now_s - began == pytest.approx(4.3, abs=0.02)
    assert take.recording.lateness_ms["max"] == pytest.approx(1980, abs=1)


def test_long_sessions_do_not_drift() -> None:
    """T5: 45 s in 20 ms frames, each of which costs a millisecond."""
    time = Time()

    def cost(session: Session) -> list[Emission]:
        time.now_s += 0.001
        return []

    began = time.now_s
    (take,) = run(Agent(cost), time=time, pacing=Pacing(gap_s=0.5, trailing_s=43.7, onset_timeout_s=1.0))
    assert take.recording.samples == 45 * SECOND
    assert time.now_s - began == pytest.approx(45.0, abs=0.02)


def test_text_notes_and_interruptions_are_kept_with_their_time() -> None:
    said = (AgentText("Hello"), Note("prompt", "<s> x"), audio(1.0), Interrupted("cancelled"))
    (take,) = run(Agent(once(10, *said)))
    record = take.recording
    assert record.transcript.text == "Hello"
    assert [(note.name, note.text) for note in record.notes] == [("prompt", "<s> x")]
    (stop,) = record.interruptions
    assert (stop.kind, stop.dropped_samples) == ("cancelled", 0)
    assert np.count_nonzero(take.stereo[:, 1]) == SECOND


def test_an_interruption_may_forget_what_was_queued() -> None:
    def script(session: Session) -> list[Emission]:
        return [audio(1.0)] if len(session.sent) == 10 else [Interrupted("stop")] if len(session.sent) == 20 else []

    (kept,) = run(Agent(script))
    (cut,) = run(Agent(script), on_interrupt="truncate")
    assert np.count_nonzero(kept.stereo[:, 1]) == SECOND
    played = np.count_nonzero(cut.stereo[:, 1])
    assert played == pytest.approx(0.2 * SECOND, abs=480)
    assert cut.recording.interruptions[0].dropped_samples == SECOND - played
    assert cut.recording.emissions[0].samples == played


def test_a_barge_in_follows_the_agents_onset() -> None:
    # Turn 1 ends at 0.4 s; the agent answers on frame 30 (sent at 0.58 s); the user barges in 0.3 s later.
    (take,) = run(Agent(once(30, audio(1.0))), an_episode(barge_in_after_s=0.3))
    record = take.recording
    assert record.turn2_by == "barge-in"
    assert record.agent_onset_samples is not None
    assert record.turn2_onset_samples == record.agent_onset_samples + round(0.3 * SECOND)


def test_turn_two_waits_for_the_answer_to_be_complete() -> None:
    pacing = Pacing(0.6, 0.5, 8.0, answer_timeout_s=5.0, final_timeout_s=8.0, flush_s=1.5)

    def script(session: Session) -> list[Emission]:
        return [TurnDone()] if len(session.sent) in (50, 130) else []

    (take,) = run(Agent(script), pacing=pacing)
    # Done on frame 50: 1.0 s have been sent. Turn 2 from 1.6 to 2.0; tail to 2.5; done at 2.6; flush to 4.1.
    assert take.recording.turn2_onset_samples == round(1.6 * SECOND)
    assert take.recording.turn2_by == "take-turn"
    assert take.recording.samples == round(4.1 * SECOND)


def test_an_agent_that_reports_nothing_is_not_waited_for_for_ever() -> None:
    pacing = Pacing(0.6, 0.5, 8.0, answer_timeout_s=5.0, final_timeout_s=8.0, flush_s=1.5)
    (take,) = run(Agent(), pacing=pacing)
    # 0.4 + 5 + 0.6 = 6.0; + 0.4 + 0.5 = 6.9; + 8 + 1.5 = 16.4.
    assert take.recording.turn2_onset_samples == 6 * SECOND
    assert take.recording.samples == round(16.4 * SECOND)


def test_an_end_pointed_agent_is_told_of_both_ends() -> None:
    agent = Agent(kind=EndPointedSession)
    run(agent)
    assert agent.sessions[0].finished == [9600, 9600 + 12_000 + 9600]


def test_a_failed_session_is_tried_again_afresh_and_then_recorded() -> None:
    def script(session: Session) -> list[Emission]:
        if len(session.sent) == 20 and session.number in (0, 2, 3):
            session.fail(AgentLostError("the socket broke"))
        return []

    agent = Agent(script)
    first, second = run(agent, an_episode("a"), an_episode("b"))
    assert (first.recording.status, first.recording.flags) == ("ok", ("retried",))
    assert (second.recording.status, second.recording.error) == ("agent_error", "the socket broke")
    assert second.recording.samples == pytest.approx(0.4 * SECOND, abs=960)
    assert [session.closed for session in agent.sessions] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AgentError("no such voice"), "no such voice"),
        (KeyError("delta"), "KeyError: 'delta'"),
        (None, r"live-test ended the session after 0\.\d+ s, before the user's side was over"),
    ],
)
def test_whatever_a_session_raises_is_the_cases_outcome(error: Exception | None, message: str) -> None:
    def script(session: Session) -> list[Emission]:
        if len(session.sent) == 20:
            session.fail(error)
        return []

    (take,) = run(Agent(script))
    assert take.recording.status == "agent_error"
    with pytest.raises(AgentError, match=message):
        raise AgentError(take.recording.error)


def test_an_agent_that_takes_no_audio_is_given_up() -> None:
    class Deaf(Session):
        async def send(self, pcm: Pcm) -> None:
            await asyncio.Event().wait()

    takes: list[Take] = []
    patience = Patience(send_s=0.01)
    LiveDriver(Agent(kind=Deaf), Stage(PACING, EnergyWatch), takes.append, 1, patience).run([an_episode()])
    assert takes[0].recording.error == "live-test took no audio for 0.01 s."


def test_an_agent_that_is_never_ready_is_given_up() -> None:
    class Late(Agent):
        async def open(self, prompt: str, seed: int) -> Session:
            await asyncio.Event().wait()
            raise AssertionError

    takes: list[Take] = []
    LiveDriver(Late(), Stage(PACING, EnergyWatch), takes.append, 1, Patience(open_s=0.01)).run([an_episode()])
    assert takes[0].recording.error == "live-test was not ready within 0.01 s of connecting."
    assert takes[0].recording.samples == 0


def test_a_busy_agent_is_asked_again_after_the_time_it_names() -> None:
    time, agent = Time(), Agent(busy=2)
    began = time.now_s
    (take,) = run(agent, time=time)
    assert take.recording.status == "ok"
    assert take.recording.flags == ()
    assert time.now_s - began == pytest.approx(2 * 7.0 + 1.8, abs=0.01)


def test_an_agent_that_stays_busy_is_an_error_and_not_a_hang() -> None:
    (take,) = run(Agent(busy=10**6))
    assert (take.recording.status, take.recording.error) == ("agent_error", "too many users")


def test_several_sessions_run_at_once() -> None:
    """Four sessions, all of which must be open before any goes on."""
    gate: list[int] = []

    class Meeting(Agent):
        async def open(self, prompt: str, seed: int) -> Session:
            gate.append(1)
            while len(gate) < 4:
                await asyncio.sleep(0)
            return await super().open(prompt, seed)

    takes: list[Take] = []
    episodes = [an_episode(tid) for tid in "abcd"]
    LiveDriver(Meeting(), Stage(PACING, EnergyWatch), takes.append, 4).run(episodes)
    assert sorted(take.recording.test_case_id for take in takes) == list("abcd")
    assert {take.recording.samples for take in takes} == {round(1.8 * SECOND)}


def test_a_stop_from_outside_goes_through_as_itself() -> None:
    class Stop(BaseException):
        pass

    def script(session: Session) -> list[Emission]:
        raise Stop

    with pytest.raises(Stop):
        run(Agent(script))


def test_percentiles_are_of_milliseconds() -> None:
    assert percentiles_ms([]) == {}
    assert percentiles_ms([0.0, 0.001, 0.002]) == pytest.approx({"p50": 1.0, "p99": 1.98, "max": 2.0})
