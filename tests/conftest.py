"""What tests share: a place for speech models that survives between runs, and one small corpus of espeak speech."""

from pathlib import Path

import pytest

from dsbif.build.voices import Engine, VoiceSettings, make_engine

REPOSITORY = Path(__file__).parent.parent
ASSETS = REPOSITORY / "data" / "assets"
ESPEAK = VoiceSettings("espeak", ("en-us+m1", "en-us+m2", "en-us+f1", "en-us+f4"))


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder that `make run` uses too."""
    return ASSETS


@pytest.fixture(scope="session")
def espeak() -> Engine:
    """The fast engine."""
    return make_engine(ESPEAK, ASSETS)
