"""PersonaPlex in lockstep, on stand-ins with the fork's interface: what it reads, and what crosses no case."""

import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import EnergyWatch, a_case, a_turn
from peers.personaplex import SILENCE, SINE, VOICE_FRAMES, LMGen, encode, make, texts

from dsbif.agents.personaplex import FRAME_SAMPLES, Personaplex, PersonaplexSettings
from dsbif.agents.personaplex_load import load_parts
from dsbif.agents.systems import target_of
from dsbif.errors import AgentError, ConfigError
from dsbif.session.agent import AgentAudio, AgentText, Emission, LockstepAgent, Note
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.pcm import Pcm
from dsbif.session.running import Episode, Stage, Take
from dsbif.session.user import Pacing

FRAMES = 12
PAD = 3
VOICE, QUIET = [PAD] * VOICE_FRAMES, [PAD] * 6
NURSE = encode("<system> You are a nurse. <system>")


def settings(**changes: Any) -> dict[str, Any]:
    values = {"weights": "tiny", "voice": "NATF0.pt", "voices": None, "temperature": 0.8, "temperature_text": 0.7,
              "top_k": 250, "top_k_text": 25, "dtype": "float32", "device": "cpu"}  # fmt: skip
    return {**values, **changes}


def sound(seed: int) -> Pcm:
    return np.random.default_rng(seed).normal(0, 0.1, (FRAMES, FRAME_SAMPLES)).astype(np.float32)


def together(agent: Personaplex, *cases: tuple[str, int, int]) -> list[list[Emission]]:
    """Prompt, seed and the user's sound for each row, from the first on."""
    for row, (prompt, seed, _) in enumerate(cases):
        agent.start(row, prompt, seed)
    told: list[list[Emission]] = [[] for _ in cases]
    for frame in range(FRAMES):
        pcm = np.zeros((agent.rows, FRAME_SAMPLES), np.float32)
        for row, (_, _, user) in enumerate(cases):
            pcm[row] = sound(user)[frame]
        emissions = agent.step(pcm, [row < len(cases) for row in range(agent.rows)])
        for row in range(len(cases)):
            told[row] += emissions[row]
        assert all(not emissions[row] for row in range(len(cases), agent.rows))
    for row in range(len(cases)):
        agent.stop(row)
    return told


def heard(told: list[Emission]) -> Pcm:
    return np.concatenate([one.pcm for one in told if isinstance(one, AgentAudio)])


def words(told: list[Emission]) -> list[str]:
    return [one.text for one in told if isinstance(one, AgentText)]


def gen(agent: Personaplex) -> LMGen:
    return agent._lm_gen  # type: ignore[no-any-return]


def test_voice_silence_prompt_and_silence_are_read_before_the_first_frame() -> None:
    agent = make(1)
    (told,) = together(agent, ("You are a nurse.", 1, 1))
    assert texts(gen(agent)) == [*VOICE, *QUIET, *NURSE, *QUIET, *[None] * FRAMES]
    before = gen(agent).read[:-FRAMES]
    assert all(user == [list(SINE)] for _, _, user in before)
    assert all(codes == [list(SILENCE)] for _, codes, _ in before[VOICE_FRAMES:])
    assert all(codes != [list(SILENCE)] for _, codes, _ in before[:VOICE_FRAMES])
    assert told[0] == Note("prompt", "<system> You are a nurse. <system>")
    assert len(heard(told)) == FRAMES * FRAME_SAMPLES
    assert words(told)
    assert all(re.fullmatch(r"(yes|no|four|<unk>|<s>|</s>)?(teen)*", word) for word in words(told))


def test_at_l0_not_a_token_is_read() -> None:
    agent = make(1)
    (told,) = together(agent, ("", 1, 1))
    assert texts(gen(agent)) == [*VOICE, *QUIET, *QUIET, *[None] * FRAMES]
    assert told[0] == Note("prompt", "")


def test_a_saved_voice_is_read_as_it_was_saved() -> None:
    agent = make(2)
    lm_gen = gen(agent)
    lm_gen.voice_prompt_audio = None
    lm_gen.voice_prompt_embeddings = torch.ones(4, 1, 1, 8)
    lm_gen.voice_prompt_cache = torch.full((1, 17, 4), 9)
    together(agent, ("Be kind.", 1, 1), ("Be kind.", 1, 1))
    assert [read[:2] for read in lm_gen.read[:4]] == [("voice", (2, 1, 8))] * 4
    assert (lm_gen._streaming_state.cache == 9).all()


def test_a_case_leaves_nothing_to_the_next_and_draws_from_its_own_seed() -> None:
    agent = make(1)
    cases = (("Be kind.", 1), ("", 1), ("Be kind.", 1), ("Be kind.", 2))
    first, other, again, seeded = (together(agent, (prompt, seed, 1))[0] for prompt, seed in cases)
    assert np.array_equal(heard(first), heard(again))
    assert not np.array_equal(heard(first), heard(other))
    assert not np.array_equal(heard(first), heard(seeded))


def test_rows_that_start_together_say_what_they_say_alone() -> None:
    cases = [("Be kind.", 1, 1), ("Be calm.", 2, 2), ("Be good.", 3, 3)]
    alone = [together(make(1), case)[0] for case in cases]
    for one, row in zip(alone, together(make(4), *cases), strict=True):
        np.testing.assert_allclose(heard(row), heard(one), atol=1e-5)
        assert [e for e in row if isinstance(e, Note)] == [e for e in one if isinstance(e, Note)]


def test_a_shorter_prompt_waits_for_the_longest_and_the_record_says_so() -> None:
    agent = make(2)
    short, long = together(agent, ("", 1, 1), ("You are a nurse.", 1, 1))
    assert texts(gen(agent), 0) == [*VOICE, *QUIET, *[PAD] * len(NURSE), *QUIET, *[None] * FRAMES]
    assert texts(gen(agent), 1) == [*VOICE, *QUIET, *NURSE, *QUIET, *[None] * FRAMES]
    notes = [one for one in short if isinstance(one, Note)]
    assert notes == [Note("prompt", ""), Note("prompt_waits", "6 frames, for a longer prompt in the batch")]
    assert [one.name for one in long if isinstance(one, Note)] == ["prompt"]


def test_no_row_can_start_while_another_runs() -> None:
    agent = make(2)
    frame = np.zeros((2, FRAME_SAMPLES), np.float32)
    agent.start(0, "Be kind.", 1)
    agent.step(frame, [True, False])
    agent.start(1, "Be kind.", 1)
    with pytest.raises(AgentError, match=r"PersonaPlex's rows start together; rows \[0\] were running already"):
        agent.step(frame, [True, True])


def test_the_driver_starts_its_rows_in_batches() -> None:
    agent = make(2)
    assert isinstance(agent, LockstepAgent)
    takes: list[Take] = []
    pacing = Pacing(gap_s=0.4, trailing_s=0.8, onset_timeout_s=1.0)
    episodes = [
        Episode(
            a_case(test_case_id=tid, system_prompt="Be kind.", turn1=a_turn(9600), turn2=a_turn(9600 * size)),
            np.full(9600, 0.1, np.float32),
            np.full(9600 * size, 0.1, np.float32),
        )
        for tid, size in (("a", 1), ("b", 2), ("c", 1))
    ]
    LockstepDriver(agent, Stage(pacing, EnergyWatch), takes.append).run(episodes)
    assert sorted((take.recording.test_case_id, take.recording.status) for take in takes) == [
        ("a", "ok"), ("b", "ok"), ("c", "ok"),
    ]  # fmt: skip
    agent.close()
    agent.close()


def test_facts() -> None:
    facts = make(3).facts
    assert (facts.name, facts.conditioning, facts.transcript) == ("personaplex", "full", "native")
    assert (facts.versions["voice"], facts.versions["rows"]) == ("NATF0.pt", "3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0; wanted 0 to 10"),
        ({"dtype": "int4"}, "dtype is 'int4'"),
        ({"weights": ""}, "weights is empty"),
        ({"voice": "../x.pt"}, r"voice is '\.\./x\.pt'; wanted the name of a file among the voices"),
        ({"loud": 1}, "key 'model.loud'"),
    ],
)
def test_settings_that_cannot_be_meant(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("personaplex", "lockstep", settings(**changes), 1)


def test_kyutais_package_is_not_enough() -> None:
    with pytest.raises(ConfigError, match=r"needs NVIDIA's fork .*which is what this environment has.*model\.python="):
        load_parts(PersonaplexSettings(**settings()))


@pytest.fixture
def checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with every file of the checkpoint, none of which holds anything, and an archive of one voice."""
    from moshi.models import loaders

    monkeypatch.setattr("moshi.models.lm.SILENCE_TOKENS", np.array(SILENCE), raising=False)
    home = tmp_path / "checkpoint"
    home.mkdir()
    for name in (loaders.MOSHI_NAME, loaders.MIMI_NAME, loaders.TEXT_TOKENIZER_NAME):
        (home / name).write_bytes(b"nothing")
    voice = tmp_path / "NATF0.pt"
    voice.write_bytes(b"voice")
    with tarfile.open(home / "voices.tgz", "w:gz") as archive:
        archive.add(voice, "voices/NATF0.pt")
    return home


def test_a_checkpoint_that_lacks_something_says_what(checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be loaded: "):
        load_parts(PersonaplexSettings(**settings(weights=str(checkpoint))))
    assert (checkpoint / "voices" / "NATF0.pt").read_bytes() == b"voice"
    with pytest.raises(ConfigError, match=r"model\.voice names NATX\.pt, which is not in .*voices; there: NATF0\.pt\."):
        load_parts(PersonaplexSettings(**settings(weights=str(checkpoint), voice="NATX.pt")))
    with pytest.raises(ConfigError, match=r"which is not in .*empty; there: no voice"):
        load_parts(PersonaplexSettings(**settings(weights=str(checkpoint), voices=str(checkpoint / "empty"))))
    (checkpoint / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"is no PersonaPlex checkpoint: model\.safetensors is missing"):
        load_parts(PersonaplexSettings(**settings(weights=str(checkpoint))))
    with pytest.raises(ConfigError, match=r"model\.weights names \./nowhere, which is no folder"):
        load_parts(PersonaplexSettings(**settings(weights="./nowhere")))


def test_voices_are_saved_embeddings_or_recordings(tmp_path: Path) -> None:
    from dsbif.agents.personaplex_load import give_voice

    saved = {"embeddings": torch.ones(2, 1, 1, 8), "cache": torch.zeros(1, 17, 4, dtype=torch.long)}
    torch.save(saved, tmp_path / "NATF0.pt")
    lm_gen: Any = LMGen(None)  # type: ignore[arg-type]
    give_voice(lm_gen, tmp_path / "NATF0.pt", "cpu")
    assert torch.equal(lm_gen.voice_prompt_embeddings, saved["embeddings"])
    assert torch.equal(lm_gen.voice_prompt_cache, saved["cache"])
    loaded: list[str] = []
    lm_gen.load_voice_prompt = loaded.append
    give_voice(lm_gen, tmp_path / "me.wav", "cpu")
    assert loaded == [str(tmp_path / "me.wav")]
