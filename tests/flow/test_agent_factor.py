"""F-Actor through the driver on stand-ins: rows, order, seeds, lengths; and what is said where a part is missing."""

import sys
from pathlib import Path

import numpy as np
import pytest
from builders import EnergyWatch, a_case, a_turn
from command import dsbif
from peers.factor import SETTINGS, TinyModel, ToneCodec, parts, settings

from dsbif.agents.factor import Factor
from dsbif.agents.factor_load import load_parts
from dsbif.agents.systems import target_of
from dsbif.errors import ConfigError
from dsbif.session.agent import AgentAudio, AgentText, Emission, LockstepAgent, Note
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.pcm import Pcm
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.user import Pacing

FRAME = 1920
PACING = Pacing(gap_s=0.4, trailing_s=0.8, onset_timeout_s=1.0)


def _episode(tid: str, prompt: str = "You are a nurse.", loudness: float = 0.1) -> Episode:
    case = a_case(test_case_id=tid, system_prompt=prompt, turn1=a_turn(9600), turn2=a_turn(12_000))
    rng = np.random.default_rng(len(tid))
    turns = [(rng.standard_normal(samples) * loudness).astype(np.float32) for samples in (9600, 12_000)]
    return Episode(case, *turns)


def _takes(agent: Factor, *episodes: Episode) -> dict[str, Take]:
    takes: list[Take] = []
    LockstepDriver(agent, Stage(PACING, EnergyWatch, seed=7), takes.append).run(episodes)
    return {take.recording.test_case_id: take for take in takes}


def _same(one: Take, other: Take) -> bool:
    return one.recording == other.recording and bool(np.array_equal(one.stereo, other.stereo))


def test_it_is_a_lockstep_agent() -> None:
    agent = Factor(settings(), 2, parts())
    assert isinstance(agent, LockstepAgent)
    assert (agent.frame_samples, agent.rows) == (FRAME, 2)
    assert (agent.facts.conditioning, agent.facts.transcript) == ("full", "native")
    agent.close()
    agent.close()


def test_a_case_is_the_same_again_in_any_order_and_beside_any_other() -> None:
    episodes = [_episode("a"), _episode("bb"), _episode("ccc", prompt="You are a tutor.")]
    agent = Factor(settings(), 1, parts())
    first, again = _takes(agent, *episodes), _takes(agent, *reversed(episodes))
    beside = _takes(Factor(settings(), 3, parts()), *episodes)
    for tid in ("a", "bb", "ccc"):
        assert first[tid].recording.status == "ok"
        assert _same(first[tid], again[tid])
        assert _same(first[tid], beside[tid])
    assert not np.array_equal(first["a"].stereo[:, 1], first["bb"].stereo[:, 1])
    assert any(piece.text for piece in first["a"].recording.transcript.pieces)


@pytest.mark.parametrize("lookahead", [0, 1, 2, 4])
def test_its_speech_has_no_gap_and_comes_as_late_as_the_lookahead_says(lookahead: int) -> None:
    take = _takes(Factor(settings(lookahead_frames=lookahead), 1, parts()), _episode("a"))["a"]
    (placed,) = take.recording.emissions
    assert placed.position_samples == placed.arrival_samples == (1 + lookahead) * FRAME
    frames = 27  # 9600 + 0.4 s + 12,000 + 0.8 s are 50,400 samples: 26.25 frames
    assert placed.samples == (frames - lookahead) * FRAME


def test_the_model_reads_the_user_two_frames_late() -> None:
    made = parts()
    agent = Factor(settings(), 1, made)
    agent.start(0, "", 0)
    tone = (np.sin(2 * np.pi * 400 * np.arange(FRAME) / 24_000) * 2**0.5).astype(np.float32)
    for number in range(1, 13):
        agent.step((tone * 0.02 * number)[None], [True])
    model = made.model
    assert isinstance(model, TinyModel)
    user = [audio[4] for audio, _ in model.read]
    assert user[:2] == [4032, 4032]
    assert user[2:] == pytest.approx([80 * number for number in range(1, 10)], abs=15)


def _all(agent: Factor, frames: int, pcm: Pcm | None = None, prompt: str = "") -> list[list[Emission]]:
    agent.start(0, prompt, 3)
    frame = np.zeros((1, FRAME), np.float32) if pcm is None else pcm
    return [list(agent.step(frame, [True])[0]) for _ in range(frames)]


def test_the_prompt_as_rendered_is_noted_and_empty_at_l0() -> None:
    made = parts()
    for prompt, narrative in (("You are a nurse.", "- You are a nurse.\n"), ("", "- \n")):
        (note,) = [item for item in _all(Factor(settings(), 1, made), 1, prompt=prompt)[0] if isinstance(item, Note)]
        assert note.name == "prompt"
        assert f"Narrative:\n{narrative}\n" in note.text
        model = made.model
        assert isinstance(model, TinyModel)
        assert model.prompts[-1] == [0, *map(ord, note.text)]


def test_silence_is_answered_and_ends_are_never_reached() -> None:
    heard = _all(Factor(settings(), 1, parts(push_end=True)), 60)
    speech = [item.pcm for frame in heard for item in frame if isinstance(item, AgentAudio)]
    assert [len(pcm) for pcm in speech] == [FRAME] * 58
    assert np.isfinite(np.concatenate(speech)).all()
    assert not [item for frame in heard for item in frame if isinstance(item, AgentText)]


def test_it_falls_silent_after_the_most_frames_and_says_so_once() -> None:
    heard = _all(Factor(settings(max_frames=10), 1, parts()), 20)
    assert [any(isinstance(item, AgentAudio) for item in frame) for frame in heard] == [2 <= n < 10 for n in range(20)]
    notes = [item for frame in heard for item in frame if isinstance(item, Note)]
    assert notes[1:] == [Note("max_frames", "fell silent after 10 frames")]


class _Deaf(ToneCodec):
    def encode(self, pcm: Pcm) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
        if np.abs(pcm).max() > 0.9:
            raise RuntimeError("too loud")
        return super().encode(pcm)


def test_a_row_that_fails_takes_no_other_along() -> None:
    made = parts()
    agent = Factor(settings(), 2, type(made)(made.model, _Deaf(), made.tokenizer, {}))
    takes = _takes(agent, _episode("a"), _episode("loud", loudness=2.0))
    assert takes["a"].recording.status == "ok"
    assert takes["loud"].recording.error == "F-Actor failed: too loud"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("model.top_p=3",), "top_p is 3.0; wanted 0.01 to 1"),
        (("model.max_frames=two",), "key 'model.max_frames': Input should be a valid integer"),
        (("+model.top_kk=3",), "key 'model.top_kk'"),
        (("transport=ws",), "transport=ws: factor has no such way; it has: lockstep"),
    ],
)
def test_a_wrong_setting_is_named(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = dsbif(tmp_path, "role=R4", "model=factor", *words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_its_target_is_checked_where_nothing_of_it_is_installed() -> None:
    target = target_of("factor", "lockstep", SETTINGS, rows=2)
    assert (target.agent, target.rows) == ("dsbif.agents.factor:Factor", 2)


@pytest.mark.parametrize("absent", ["nemo", "transformers"])
def test_a_missing_package_is_told_the_command(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ConfigError, match=r'pip install "dsbif\[factor\]", or name an interpreter .* model\.python'):
        load_parts(settings())
