"""An agent by the name of its class, made in this process or, by the same words, in a worker under another interpreter.

Imports next to nothing, since it also runs where little is installed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsbif.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Target:
    """What to make, as plain data.

    ``agent`` and ``settings_class`` are ``module:Class``. With a settings class the agent is called with
    ``(settings_class(**settings), rows)``; without one it is somebody's own and is called with ``**settings``, and
    with ``rows`` too where it takes that.
    """

    agent: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    settings_class: str | None = None
    rows: int = 1


def load(path: str) -> Any:
    """What ``package.module:Name``, or ``package.module.Name``, names.

    Raises:
        ConfigError: no such module, or nothing of that name in it.
    """
    module_name, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    if not module_name or not name:
        raise ConfigError(f"'{path}' names no class; wanted package.module:Class.")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"'{path}' cannot be imported: {error}. Install what it needs in the environment that runs it, or name "
            "another interpreter with model.python=…"
        ) from error
    if not hasattr(module, name):
        raise ConfigError(f"module {module_name} has no '{name}'; it was looked for in {module.__file__}.")
    return getattr(module, name)


def make(target: Target) -> Any:
    """The agent.

    Raises:
        ConfigError: it cannot be imported, or does not take its settings.
    """
    make_it = load(target.agent)
    if target.settings_class is not None:
        return make_it(load(target.settings_class)(**target.settings), target.rows)
    settings = dict(target.settings)
    try:
        signature = inspect.signature(make_it)
        if "rows" in signature.parameters:
            settings["rows"] = target.rows
        signature.bind(**settings)
    except TypeError as error:
        raise ConfigError(
            f"{target.agent} does not take its settings: {error}. It is called with the keys of conf/model that are "
            f"its own: {', '.join(settings) or 'none'}."
        ) from error
    return make_it(**settings)
