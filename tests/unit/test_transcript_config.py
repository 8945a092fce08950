"""The choice of a transcript: every option composes, and only one that changes verdicts changes a run's name."""

from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from dsbif.config import RunConfig, from_omegaconf, recording_identity, run_hash
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR, stable_hash


def _composed(*overrides: str) -> RunConfig:
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        return from_omegaconf(compose("config", overrides=list(overrides)))


def _hash(*overrides: str) -> str:
    return run_hash(_composed(*overrides), {"a": "1"}, {"rules": "1"})


@pytest.mark.parametrize(
    ("option", "recogniser", "model"),
    [
        ("native", None, None),
        ("whisper", "whisper", "whisper-tiny-en"),
        ("auto", "whisper", "whisper-tiny-en"),
        ("parakeet", "parakeet", "nvidia/parakeet-tdt-0.6b-v2"),
    ],
)
def test_every_option_composes(option: str, recogniser: str | None, model: str | None) -> None:
    found = _composed(f"transcript={option}").transcript
    assert (found.name, found.recogniser, found.model) == (option, recogniser, model)
    assert found.prefer_native is (option == "auto")


def test_the_agents_own_words_leave_a_runs_name_as_it_was() -> None:
    config = _composed()
    assert config.transcript.name == "native"
    before: dict[str, Any] = {
        **recording_identity(config), "thresholds": config.thresholds, "windows": config.windows,
        "cases": {"a": "1"}, "versions": {"rules": "1"},
    }  # fmt: skip
    assert _hash() == stable_hash(before)[:8]


def test_another_recogniser_is_another_run_and_another_device_is_not() -> None:
    options = ("native", "whisper", "auto", "parakeet")
    assert len({_hash(f"transcript={option}") for option in options}) == len(options)
    moved = _hash("transcript=parakeet", "transcript.device=cpu", "transcript.batch=1", "transcript.python=/x/python")
    assert moved == _hash("transcript=parakeet")
    assert _hash("transcript=parakeet", "transcript.model=x.nemo") != moved
    assert recording_identity(_composed("transcript=whisper")) == recording_identity(_composed())


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("transcript.device=tpu", "transcript.device"),
        ("transcript.batch=0", "transcript.batch"),
        ("transcript.recogniser=ears", "transcript.recogniser"),
    ],
)
def test_a_wrong_value_is_named(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _composed("transcript=parakeet", override)
