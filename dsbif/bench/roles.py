"""The eight roles: who the agent is told to be, in our own words.

Each ``roles/R?.yaml`` holds a persona (implies the rule), a directive (states the role's whole rule set) and the lines
that contradict the persona. ``python -m dsbif.bench.gates`` checks them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from dsbif.bench.grid import ROLE_IDS, CaseKey
from dsbif.bench.levels import Level, compose_prompt
from dsbif.door import explain
from dsbif.errors import ConfigError

ROLES_DIR = Path(__file__).parent / "roles"
VARIANTS = 5
LINE_START = "Additionally: "


class _Contradiction(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    target: str
    variants: tuple[str, ...]


class _RoleFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    id: str
    key: str
    name: str
    persona: str
    directive: str
    contradictions: dict[str, _Contradiction]
    safety_contradictions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Role:
    """A role's texts. ``contradictions`` maps a probe to its five L4a lines, ``safety`` a probe to its L4b line."""

    id: str
    key: str
    name: str
    persona: str
    directive: str
    targets: Mapping[str, str]
    contradictions: Mapping[str, tuple[str, ...]]
    safety: Mapping[str, str]

    def contradiction_for(self, case: CaseKey) -> str | None:
        """The contradicting line of a conflict case: at L4a one of five, by a stable hash of its conversation."""
        if case.level is Level.L4B:
            return self.safety[case.probe]
        if case.level is Level.L4A:
            variants = self.contradictions[case.probe]
            return variants[stable_pick(case.conversation_id, len(variants))]
        return None

    def prompt_for(self, case: CaseKey) -> str:
        """The system prompt of a case; the empty string at L0."""
        return compose_prompt(case.level, self.persona, self.directive, self.contradiction_for(case))


def stable_pick(key: str, n: int) -> int:
    """An index below ``n`` that depends on ``key`` alone, in every process and on every machine."""
    return int(hashlib.sha1(key.encode()).hexdigest(), 16) % n


def load_role(path: Path) -> Role:
    """Read one role file.

    Raises:
        ConfigError: the file is missing, is no YAML or has a wrong or missing key.
    """
    try:
        raw = _RoleFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        fault = explain(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise ConfigError(f"role file {path} cannot be used: {fault}. Compare it with {ROLES_DIR}.") from error
    return Role(
        id=raw.id,
        key=raw.key,
        name=raw.name,
        persona=" ".join(raw.persona.split()),
        directive=" ".join(raw.directive.split()),
        targets={probe: entry.target for probe, entry in raw.contradictions.items()},
        contradictions={probe: entry.variants for probe, entry in raw.contradictions.items()},
        safety=raw.safety_contradictions,
    )


@cache
def load_roles(folder: Path = ROLES_DIR) -> Mapping[str, Role]:
    """All eight roles by id, from a folder of role files."""
    return {role_id: load_role(folder / f"{role_id}.yaml") for role_id in ROLE_IDS}
