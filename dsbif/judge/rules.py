"""The content rule of each role: one sentence of our own, fixed across levels and probes."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

import yaml

from dsbif.bench.grid import ROLE_IDS
from dsbif.errors import ConfigError

RULES_FILE = Path(__file__).parent / "content_rules.yaml"


@cache
def content_rules(path: Path = RULES_FILE) -> Mapping[str, str]:
    """The rules by role id.

    Raises:
        ConfigError: the file is missing, is no YAML, or does not hold exactly one sentence for each of the eight roles.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the content rules {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(raw, dict) or sorted(map(str, raw)) != sorted(ROLE_IDS):
        raise ConfigError(f"the content rules {path} must hold one sentence for each of {', '.join(ROLE_IDS)}.")
    rules = {role: " ".join(str(raw[role]).split()) for role in ROLE_IDS}
    for role, rule in rules.items():
        if not rule.endswith(".") or rule.count(".") != 1:
            raise ConfigError(f"the content rules {path}: {role} must be one sentence that ends in a full stop.")
    return MappingProxyType(rules)
