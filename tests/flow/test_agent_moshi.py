"""Moshi through its own package, on tiny random weights: its output is noise, its plumbing is not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from command import dsbif, summary

from dsbif.agents.moshi import FRAME_SAMPLES, Moshi, MoshiSettings
from dsbif.agents.systems import target_of
from dsbif.errors import ConfigError
from dsbif.session.agent import AgentAudio, AgentText, Emission
from dsbif.session.pcm import Pcm
from dsbif.session.recording import read_recording

FRAMES = 12
GREEDY = {"temperature": 0.0, "temperature_text": 0.0}


def settings(**changes: Any) -> MoshiSettings:
    values = {"weights": "tiny", "temperature": 0.8, "temperature_text": 0.7, "top_k": 250, "top_k_text": 25,
              "dtype": "float32", "device": "cpu"}  # fmt: skip
    return MoshiSettings(**{**values, **changes})


def sound(seed: int) -> Pcm:
    return np.random.default_rng(seed).normal(0, 0.1, FRAMES * FRAME_SAMPLES).astype(np.float32)


def alone(agent: Moshi, row: int, user: Pcm, seed: int) -> tuple[str, Pcm]:
    """One case in one row, the others idle."""
    agent.start(row, "ignored", seed)
    told: list[Emission] = []
    for at in range(0, len(user), FRAME_SAMPLES):
        pcm = np.zeros((agent.rows, FRAME_SAMPLES), np.float32)
        pcm[row] = user[at : at + FRAME_SAMPLES]
        told += agent.step(pcm, [index == row for index in range(agent.rows)])[row]
    agent.stop(row)
    return joined(told)


def joined(told: Sequence[Emission]) -> tuple[str, Pcm]:
    text = "".join(one.text for one in told if isinstance(one, AgentText))
    return text, np.concatenate([np.zeros(0, np.float32), *(one.pcm for one in told if isinstance(one, AgentAudio))])


@pytest.fixture(scope="module")
def one() -> Moshi:
    return Moshi(settings(**GREEDY), 1)


def test_rows_that_start_at_any_frame_say_what_they_say_alone(one: Moshi) -> None:
    four = Moshi(settings(**GREEDY), 4)
    starts = (0, 3, 5, 1)
    told: list[list[Emission]] = [[], [], [], []]
    for frame in range(FRAMES + max(starts)):
        pcm = np.zeros((4, FRAME_SAMPLES), np.float32)
        active = [0 <= frame - start < FRAMES for start in starts]
        for row, start in enumerate(starts):
            if frame == start:
                four.start(row, "", row)
            if active[row]:
                pcm[row] = sound(row)[(frame - start) * FRAME_SAMPLES :][:FRAME_SAMPLES]
        for row, emitted in enumerate(four.step(pcm, active)):
            told[row] += emitted
    for row in range(4):
        text, pcm_of_row = joined(told[row])
        text_alone, pcm_alone = alone(one, 0, sound(row), row)
        assert text == text_alone
        assert len(pcm_of_row) == len(pcm_alone) > 0
        np.testing.assert_allclose(pcm_of_row, pcm_alone, atol=1e-4)
    four.close()
    four.close()


def test_a_case_leaves_nothing_to_the_next(one: Moshi) -> None:
    first = alone(one, 0, sound(1), 1)
    alone(one, 0, sound(2), 2)
    again = alone(one, 0, sound(1), 1)
    assert first[0] == again[0]
    assert np.array_equal(first[1], again[1])


def test_what_is_sampled_follows_the_cases_seed_and_not_its_row() -> None:
    agent = Moshi(settings(), 3)
    first = alone(agent, 0, sound(1), 7)
    moved = alone(agent, 2, sound(1), 7)
    other = alone(agent, 0, sound(1), 8)
    np.testing.assert_allclose(first[1], moved[1], atol=1e-4)
    assert not np.allclose(first[1], other[1], atol=1e-4)
    agent.close()


def test_silence_is_heard_without_complaint_and_no_prompt_is_claimed(one: Moshi) -> None:
    _, pcm = alone(one, 0, np.zeros(FRAMES * FRAME_SAMPLES, np.float32), 0)
    assert np.isfinite(pcm).all()
    assert (one.facts.conditioning, one.facts.transcript) == ("none", "native")
    assert one.facts.versions["weights"] == "tiny"


def test_a_run_goes_through_the_real_package(tmp_path: Any) -> None:
    words = ("model=moshi", "model.weights=tiny", "model.device=cpu", "role=R4", "probe=C1", "level=L0")
    done = dsbif(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "prompt NOT applied" in done.stdout
    assert summary(tmp_path, "moshi-L0-*")["n_scored"] == 1
    (path,) = tmp_path.glob("runs/moshi-L0-*/recordings/*.rec.json")
    record = read_recording(path)
    assert record.turn2_onset_samples is not None
    assert record.samples % FRAME_SAMPLES == 0
    assert record.versions["moshi"] == "0.2.13"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0; wanted 0 to 10"),
        ({"top_k": 0}, "top_k is 0; wanted 1 to 100000"),
        ({"dtype": "int4"}, "dtype is 'int4'; wanted float32, bfloat16 or float16"),
        ({"weights": ""}, "weights is empty"),
        ({"loud": 1}, "key 'model.loud'"),
    ],
)
def test_settings_that_cannot_be_meant(changes: dict[str, Any], message: str) -> None:
    values = {name: getattr(settings(), name) for name in MoshiSettings.__dataclass_fields__}
    with pytest.raises(ConfigError, match=message):
        target_of("moshi", "lockstep", {**values, **changes}, 1)


def test_weights_and_devices_that_are_not_there() -> None:
    with pytest.raises(ConfigError, match=r"model\.device=cuda: this PyTorch .* sees no GPU|cannot"):
        Moshi(settings(device="cuda"), 1)
    with pytest.raises(ConfigError, match=r"nowhere"):
        Moshi(settings(weights="./nowhere"), 1)
