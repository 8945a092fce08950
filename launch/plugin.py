"""The launchers as Hydra sees them: ``hydra/launcher=local`` and ``hydra/launcher=slurm``.

A multirun becomes one launch: every combination's missing cases are cut into shards, the shards run elsewhere, and when
they have ended each combination is scored here, so that a multirun ends in the same tables wherever it ran.
"""

import sys
from importlib import import_module
from types import ModuleType

from hydra.core.plugins import Plugins

from launch.launchers import LocalLauncher, SlurmLauncher

_SHELF = "hydra_plugins"
"""Hydra takes launchers from packages under this name alone; ours stand there for this process, not on disk."""


def register() -> None:
    """Make ``hydra_plugins.dsbif.SlurmLauncher`` and ``…LocalLauncher`` known to Hydra; twice is as good as once."""
    plugins = Plugins.instance()  # looks through the real hydra_plugins, where there is one
    try:
        shelf = import_module(_SHELF)
    except ModuleNotFoundError:
        shelf = sys.modules.setdefault(_SHELF, ModuleType(_SHELF))
    ours = sys.modules.setdefault(f"{_SHELF}.dsbif", ModuleType(f"{_SHELF}.dsbif"))
    shelf.dsbif = ours  # type: ignore[attr-defined]
    for launcher in (LocalLauncher, SlurmLauncher):
        launcher.__module__ = ours.__name__  # Hydra looks a launcher up by where it says it is
        setattr(ours, launcher.__name__, launcher)
        plugins.register(launcher)
