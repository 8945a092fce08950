"""Hydra's and OmegaConf's errors as one paragraph that names the nearest valid word."""

import re
import sys
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from dsbif.door import nearest


def explain(error: Exception, conf_dir: Path) -> str:
    """What is wrong with the command line, and what was probably meant.

    Args:
        error: what Hydra or OmegaConf raised.
        conf_dir: the folder of configuration groups.
    """
    text = str(error)
    if match := re.search(r"Could not find '([\w-]+)/([^']+)'", text):
        return _unknown_option(match[1], match[2], conf_dir)
    if match := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(match[1], conf_dir)
    if match := re.search(r"Key '([^']+)' is not in struct\s+full_key: (\S+)", text):
        return _unknown_key(match[2], conf_dir)
    return " ".join(text.split()) + " See python -m dsbif.run --help."


def _unknown_option(group: str, option: str, conf_dir: Path) -> str:
    folder = conf_dir / group
    if not folder.is_dir():
        groups = [path.name for path in conf_dir.iterdir() if path.is_dir()]
        return f"there is no configuration group '{group}'.{nearest(group, groups)}"
    options = [path.stem for path in folder.glob("*.yaml")]
    return f"{group}={option}: there is no such {group}.{nearest(option, options)} They lie in conf/{group}."


def _unknown_key(key: str, conf_dir: Path) -> str:
    GlobalHydra.instance().clear()
    chosen = [word for word in sys.argv[1:] if re.fullmatch(r"[a-z/]+=\w+", word) and _is_option(word, conf_dir)]
    with initialize_config_dir(str(conf_dir.resolve()), version_base="1.3"):
        config = compose("config", overrides=chosen, return_hydra_config=key.startswith("hydra."))
    parent, parts = config, key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(parent, DictConfig) or part not in parent:
            names = [str(name) for name in parent] if isinstance(parent, DictConfig) else []
            where = ".".join(parts[:depth])
            inside = f" in '{where}'" if where else ""
            return f"the configuration has no key '{part}'{inside} (from {key}=…).{nearest(part, names)}"
        parent = OmegaConf.select(config, ".".join(parts[: depth + 1]))
    return f"the key {key} cannot be set like this."


def _is_option(word: str, conf_dir: Path) -> bool:
    group, option = word.split("=")
    return (conf_dir / group / f"{option}.yaml").is_file()
