"""What tests of launches start from: small launches on disk, and the commands as a user types them."""

import os
import subprocess
import sys
from pathlib import Path

from conftest import ASSETS
from hydra import compose, initialize_config_dir

from dsbif.config import from_omegaconf
from dsbif.files import CONF_DIR
from launch.launchdir import Launch, LaunchDir
from launch.plan import Combination, begin

TESTS = Path(__file__).parent
SLOW = ("model=custom", "model.target=peers.slow:Slow", "model.name=slow")
"""An agent that does as files in a folder say, which is given to it as ``+model.gates``."""


def combination(folder: Path, *words: str) -> Combination:
    """A run of espeak's voices under ``folder``."""
    base = (
        "voice=espeak", "tracker=none", "workers=1", f"paths.assets={ASSETS}", f"paths.runs={folder / 'runs'}",
        f"paths.corpus={folder / 'corpus'}",
    )  # fmt: skip
    with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
        return Combination(words, from_omegaconf(compose("config", overrides=[*base, *words])))


def a_launch(
    folder: Path, *words: str, levels: tuple[str, ...] = ("L2",), shards: int | str = 2, workers: int = 2, **limits: int
) -> tuple[LaunchDir, Launch]:
    """A local launch, written down and not started."""
    combinations = [combination(folder, *words, f"level={level}") for level in levels]
    return begin("local", combinations, shards, {"workers": workers}, **limits)


def command(module: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command run to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=environment(), timeout=300,
    )  # fmt: skip


def environment() -> dict[str, str]:
    """The tests' own agents can be imported by the commands' processes too."""
    return {**os.environ, "PYTHONPATH": str(TESTS), "COLUMNS": "140"}
