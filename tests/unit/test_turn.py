"""Turn agents: the whole input, then one reply."""

import numpy as np
import pytest
from builders import EnergyWatch, a_case, a_turn

from dsbif.errors import AgentBusyError, AgentError, AgentLostError
from dsbif.session.agent import AgentFacts, Note, Reply
from dsbif.session.pcm import Pcm
from dsbif.session.running import BUSY_WAITS_S, Episode, Stage, Take
from dsbif.session.turn import TurnDriver
from dsbif.session.user import Pacing
from dsbif.spans import Span

SECOND = 24_000


class Agent:
    """Answers with ``seconds`` of sound; raises the errors it was given first."""

    def __init__(self, seconds: float = 2.0, *errors: Exception) -> None:
        self.facts = AgentFacts("turn-test", "full", "native")
        self.reply_pcm = np.full(round(seconds * SECOND), 0.5, np.float32)
        self.errors = list(errors)
        self.asked: list[tuple[str, Pcm, int]] = []

    def reply(self, prompt: str, user: Pcm, seed: int) -> Reply:
        self.asked.append((prompt, user, seed))
        if self.errors:
            raise self.errors.pop(0)
        return Reply(self.reply_pcm, "Fine.", 1.2345, [Note("prompt", "P")])

    def close(self) -> None:
        pass


def run(
    agent: Agent, tids: str = "a", barge_in_after_s: float | None = None, slept: list[float] | None = None
) -> list[Take]:
    """0.4 s of turn 1, 3 s of silence, 0.4 s of turn 2, 1 s of trailing silence; ``slept`` gets every wait."""
    takes: list[Take] = []
    stage = Stage(Pacing(gap_s=3.0, trailing_s=1.0, onset_timeout_s=8.0), EnergyWatch, seed=7)
    cases = [
        a_case(test_case_id=tid, turn1=a_turn(9600), turn2=a_turn(9600), barge_in_after_s=barge_in_after_s,
               window=Span(0.4, 10.4))
        for tid in tids
    ]  # fmt: skip
    one, two = np.full(9600, 0.1, np.float32), np.full(9600, 0.2, np.float32)
    waits: list[float] = [] if slept is None else slept
    TurnDriver(agent, stage, takes.append, waits.append).run(Episode(case, one, two) for case in cases)
    return takes


def test_the_reply_begins_where_the_users_turn_ends_and_is_not_cut_off() -> None:
    agent = Agent(2.0)
    (take,) = run(agent)
    record = take.recording
    assert record.status == "ok"
    assert record.turn2_onset_samples == round(3.4 * SECOND)
    (placed,) = record.emissions
    assert (placed.position_samples, placed.samples) == (round(3.8 * SECOND), 2 * SECOND)
    # The trailing second follows the reply too.
    assert record.samples == round(6.8 * SECOND)
    assert not take.stereo[: round(3.8 * SECOND), 1].any()
    assert not take.stereo[round(5.8 * SECOND) :, 1].any()


def test_it_hears_the_whole_user_side_and_nothing_else() -> None:
    agent = Agent()
    (take,) = run(agent)
    prompt, user, seed = agent.asked[0]
    assert len(user) == round(4.8 * SECOND)
    assert np.array_equal(user, take.stereo[: len(user), 0])
    assert (prompt, seed) == (a_case().system_prompt, take.recording.seed)


def test_words_notes_and_thinking_time_are_in_the_record() -> None:
    record = run(Agent())[0].recording
    assert record.transcript.text == "Fine."
    assert {note.name: note.text for note in record.notes} == {"compute_s": "1.234", "prompt": "P"}


def test_silence_is_a_reply() -> None:
    (take,) = run(Agent(0.0))
    assert (take.recording.status, take.recording.samples) == ("ok", round(4.8 * SECOND))


def test_a_barge_in_comes_when_the_onset_times_out() -> None:
    record = run(Agent(), barge_in_after_s=0.5)[0].recording
    assert (record.turn2_by, record.flags) == ("onset-timeout", ("onset-timeout",))
    assert record.turn2_onset_samples == round(8.4 * SECOND)


def test_a_refusal_is_the_cases_outcome_and_the_next_case_runs() -> None:
    agent = Agent(1.0, AgentError("no audio in the request"))
    bad, good = run(agent, "ab")
    assert (bad.recording.status, bad.recording.error) == ("agent_error", "no audio in the request")
    assert bad.recording.samples == round(4.8 * SECOND)
    assert good.recording.status == "ok"
    assert len(agent.asked) == 2


@pytest.mark.parametrize(("losses", "status", "flags"), [(1, "ok", ("retried",)), (2, "agent_error", ("retried",))])
def test_a_lost_agent_is_asked_once_more(losses: int, status: str, flags: tuple[str, ...]) -> None:
    agent = Agent(1.0, *[AgentLostError("the process was killed")] * losses)
    (take,) = run(agent)
    assert (take.recording.status, take.recording.flags) == (status, flags)
    assert take.recording.error == ("the process was killed" if losses == 2 else "")
    assert len(agent.asked) == 2


def test_a_busy_agent_is_asked_again_and_the_case_is_none_the_worse() -> None:
    slept: list[float] = []
    agent = Agent(2.0, AgentBusyError("full"), AgentBusyError("full", 0.5))
    (take,) = run(agent, slept=slept)
    assert (take.recording.status, take.recording.flags) == ("ok", ())
    assert slept == [BUSY_WAITS_S[0], 0.5]


def test_an_agent_that_stays_busy_is_an_error_and_not_a_hang() -> None:
    slept: list[float] = []
    (take,) = run(Agent(2.0, *[AgentBusyError("no session free")] * 100), slept=slept)
    assert (take.recording.status, take.recording.error) == ("agent_error", "no session free")
    assert slept == list(BUSY_WAITS_S)
