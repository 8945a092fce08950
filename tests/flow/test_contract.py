"""One contract that every agent keeps, whatever is behind it: asked of each as a user configures it."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from builders import a_case, a_turn
from conftest import ASSETS, ESPEAK
from hydra import compose, initialize_config_dir
from peers.still_time import still_time
from peers.subjects import BLOCKING, SUBJECTS, Subject
from peers.voice import ToneVoice

from dsbif.audio.wav import Samples, read_wav, write_pcm16
from dsbif.bench.case import Case, UserTurn
from dsbif.config import RunConfig, from_omegaconf
from dsbif.files import CONF_DIR, sha256_of
from dsbif.record import RecordJob, agent_of, record_batch
from dsbif.rundir import RunDir
from dsbif.session.recording import Recording, read_recording
from dsbif.spans import Span

KEYS = ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
TURN_S, ANSWER_S = 0.64, 1.2
PACING = (
    "model.pacing.gap_s=1.6", "model.pacing.trailing_s=1.6", "model.pacing.onset_timeout_s=1.6",
    "++model.pacing.answer_timeout_s=0", "++model.pacing.final_timeout_s=0", "++model.pacing.flush_s=0",
)  # fmt: skip
"""Short; and where a model waits for its answers to be complete, the contract need not."""


@dataclass(frozen=True)
class Told:
    """A case's record and its two channels."""

    record: Recording
    user: Samples
    agent: Samples


Perform = Callable[..., dict[str, Told]]


@pytest.fixture(scope="module", params=list(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    before = {key: os.environ.get(key) for key in KEYS}
    in_time = nullcontext() if request.param in BLOCKING else still_time()
    with in_time, SUBJECTS[request.param](partial(ToneVoice, seconds=ANSWER_S)) as subject:
        os.environ.update(dict.fromkeys(KEYS, subject.key))
        yield subject
        if subject.wire is not None:
            assert [session.faults for session in subject.wire] == [[]] * len(subject.wire)
    for key, value in before.items():
        os.environ.pop(key) if value is None else os.environ.update({key: value})


@pytest.fixture
def perform(subject: Subject, tmp_path: Path) -> Perform:
    """Record cases of 0.64 s turns at the given prompts; ids are given in the order in which they run."""

    def do(
        *tids: str, prompt: str = "You are a nurse.", run: str = "run", silent: bool = False, words: Sequence[str] = ()
    ) -> dict[str, Told]:
        config = _config(*subject.words, *PACING, *words)
        turn = _a_turn(tmp_path, silent)
        cases = [_case(tid, turn, prompt) for tid in tids]
        job = RecordJob(config.model, ESPEAK, 0, tmp_path / run, tmp_path, ASSETS)
        record_batch(job, cases, lambda tid: None)
        return {tid: _told(RunDir(tmp_path / run), tid) for tid in tids}

    return do


def _a_turn(folder: Path, silent: bool) -> UserTurn:
    path = folder / ("silence.wav" if silent else "turn.wav")
    samples = round(TURN_S * 24_000)
    sound = np.zeros(samples) if silent else 0.3 * np.sin(np.arange(samples) / 24_000 * 2 * np.pi * 300)
    write_pcm16(path, sound.astype(np.float32), 24_000)
    plain = a_turn(samples, path.name)
    return UserTurn(plain.audio, sha256_of(path), samples, plain.segments)


def _case(tid: str, turn: UserTurn, prompt: str) -> Case:
    return a_case(test_case_id=tid, turn1=turn, turn2=turn, system_prompt=prompt, window=Span(TURN_S, TURN_S + 1.0))


def _told(run_dir: RunDir, tid: str) -> Told:
    samples, _ = read_wav(run_dir.wav(tid))
    return Told(read_recording(run_dir.rec(tid)), samples[:, 0], samples[:, 1])


def _said(told: Told) -> tuple[str, bytes]:
    """What was said, to the sample, and when."""
    return told.record.transcript.text, told.agent.tobytes()


def test_a_case_is_recorded_whole(perform: Perform) -> None:
    (told,) = perform("a").values()
    record = told.record
    assert (record.status, record.error) == ("ok", "")
    assert record.turn2_onset_samples is not None
    assert len(told.user) == len(told.agent) == record.samples
    assert record.samples >= record.turn2_onset_samples + round((TURN_S + 1.6) * 24_000)
    assert record.transcript.source in ("native", "none")
    assert not record.transcript.text or record.transcript.source == "native"


def test_the_same_case_twice_gives_the_same_and_order_does_not_matter(perform: Perform) -> None:
    first, second = perform("a", "b", run="one"), perform("b", "a", run="two")
    assert {tid: _said(told) for tid, told in first.items()} == {tid: _said(told) for tid, told in second.items()}
    assert [told.record.seed for told in first.values()] == [first["a"].record.seed, first["b"].record.seed]
    assert first["a"].record.seed == second["a"].record.seed != first["b"].record.seed


def test_every_sample_of_the_user_is_delivered(perform: Perform, subject: Subject) -> None:
    (told,) = perform("a").values()
    loud = np.flatnonzero(np.abs(told.user) > 0.01)
    onset_s = told.record.turn2_onset_s
    assert onset_s is not None
    assert loud[0] < 24
    assert loud[-1] / 24_000 == pytest.approx(onset_s + TURN_S, abs=0.01)
    if subject.wire is not None:
        heard = subject.wire[-1].samples
        assert 0 <= told.record.samples - heard <= subject.slack_samples + _tail(told)


def _tail(told: Told) -> int:
    """The agent's channel may run on after the user's side has been sent."""
    sent = told.record.turn2_onset_samples + round((TURN_S + 1.6) * 24_000)  # type: ignore[operator]
    return told.record.samples - int(sent)


def test_the_tail_is_drained(perform: Perform, subject: Subject) -> None:
    """What the agent sent before the session's end is in the recording to its last sample."""
    (told,) = perform("a", words=("model.pacing.trailing_s=2.6",)).values()
    ends = [placed.position_samples + placed.samples for placed in told.record.emissions]
    assert max(ends, default=0) <= told.record.samples == len(told.agent)
    if subject.wire is not None:
        assert np.count_nonzero(np.abs(told.agent) > 0.02) / 24_000 == pytest.approx(2 * ANSWER_S, abs=0.2)
        assert told.record.transcript.source == "none" or told.record.transcript.text.endswith("Answer 2.")


def test_the_empty_prompt_is_really_empty_on_the_wire(perform: Perform, subject: Subject) -> None:
    if subject.wire is None:
        perform("a", prompt="")
        return
    perform("a", prompt="You are a nurse, Äß „x“.")
    given = subject.wire[-1].prompt
    perform("a", prompt="", run="empty")
    empty = subject.wire[-1].prompt
    assert not empty
    assert given is None or "You are a nurse, Äß „x“." in given


def test_silence_is_heard_without_complaint(perform: Perform) -> None:
    (told,) = perform("a", silent=True).values()
    assert (told.record.status, told.record.error) == ("ok", "")


def test_secrets_are_in_no_file(perform: Perform, subject: Subject, tmp_path: Path) -> None:
    perform("a")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "a.rec.json" for path in files)
    assert not [path for path in files if subject.key.encode() in path.read_bytes()]


def test_it_can_be_closed_twice(subject: Subject, tmp_path: Path) -> None:
    config = _config(*subject.words)
    job = RecordJob(config.model, ESPEAK, 0, tmp_path, tmp_path, ASSETS)
    agent = agent_of(job)
    for _ in range(2):
        closing = agent.close()
        if inspect.isawaitable(closing):
            asyncio.run(_wait(closing))


async def _wait(closing: Awaitable[None]) -> None:
    await closing


def _config(*words: str) -> RunConfig:
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        return from_omegaconf(compose("config", overrides=list(words)))
