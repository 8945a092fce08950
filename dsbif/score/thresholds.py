"""What passes, as numbers: the paper's defaults, per-role overrides, and what a case itself carries.

Order of precedence: the case's own ``verifier_params`` (official data), then the role's override, then the default.
Of ``verifier_params`` count the names of the limits here and ``max_latency_ms`` (INTERRUPT's or YIELD's and CONTINUE's,
by the case's action). Others are a release's own business.

Source: DSB-IFEval, the threshold table; ``conf/thresholds/*.yaml``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dsbif.bench.actions import Action
from dsbif.bench.case import Case
from dsbif.bench.grid import ROLE_IDS
from dsbif.door import explain, nearest
from dsbif.errors import CaseError, ConfigError


class ListenRule(StrEnum):
    """What silence means: no speech *in* the window, or none that *begins* in it. The paper words it both ways."""

    IN_WINDOW = "in_window"
    ONSET_ONLY = "onset_only"


_Limit = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_ByRole = dict[str, _Limit]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Door(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    listen_rule: ListenRule
    max_wait_s: _ByRole
    bc_ceiling_s: _ByRole
    bc_window_max: _ByRole
    interrupt_latency_ms: _ByRole
    yield_latency_ms: _ByRole
    coverage: dict[str, _Share]
    overlap_s: _ByRole
    borderline_ms: _Limit


@dataclass(frozen=True, slots=True)
class CaseThresholds:
    """The limits of one case, in seconds; ``coverage`` is a share, ``bc_window_max`` a count."""

    listen_rule: ListenRule
    max_wait_s: float
    bc_ceiling_s: float
    bc_window_max: float
    interrupt_latency_s: float
    yield_latency_s: float
    coverage: float
    overlap_s: float
    borderline_s: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits by role; every mapping has the key ``default``."""

    name: str
    listen_rule: ListenRule
    max_wait_s: Mapping[str, float]
    bc_ceiling_s: Mapping[str, float]
    bc_window_max: Mapping[str, float]
    interrupt_latency_ms: Mapping[str, float]
    yield_latency_ms: Mapping[str, float]
    coverage: Mapping[str, float]
    overlap_s: Mapping[str, float]
    borderline_ms: float

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> "Thresholds":
        """Check a configuration's ``thresholds``.

        Raises:
            ConfigError: an unknown key or role (with the nearest valid one), a missing default, a limit that is no
                finite number from 0 up.
        """
        for key in raw:
            if key not in _Door.model_fields:
                raise ConfigError(f"there is no threshold '{key}'.{nearest(str(key), _Door.model_fields)}")
        try:
            door = _Door.model_validate(dict(raw))
        except ValidationError as error:
            raise ConfigError(f"the configuration cannot be used: {explain(error, under='thresholds')}.") from error
        values = {name: getattr(door, name) for name in _Door.model_fields}
        for name, by_role in values.items():
            if isinstance(by_role, dict):
                _check_roles(name, by_role)
        return cls(**values)

    def for_case(self, case: Case) -> CaseThresholds:
        """The limits that hold for a case.

        Raises:
            CaseError: the case carries a limit that is no finite number from 0 up, or a coverage above 1.
        """
        own = _own_limits(case)
        latency_ms = own.get("max_latency_ms")
        interrupts = case.expected_action is Action.INTERRUPT

        def limit(name: str, by_role: Mapping[str, float]) -> float:
            return own.get(name, by_role.get(case.role, by_role["default"]))

        interrupt_ms = limit("interrupt_latency_ms", self.interrupt_latency_ms)
        yield_ms = limit("yield_latency_ms", self.yield_latency_ms)
        return CaseThresholds(
            listen_rule=self.listen_rule,
            max_wait_s=limit("max_wait_s", self.max_wait_s),
            bc_ceiling_s=limit("bc_ceiling_s", self.bc_ceiling_s),
            bc_window_max=limit("bc_window_max", self.bc_window_max),
            interrupt_latency_s=(latency_ms if interrupts and latency_ms is not None else interrupt_ms) / 1000,
            yield_latency_s=(latency_ms if not interrupts and latency_ms is not None else yield_ms) / 1000,
            coverage=limit("coverage", self.coverage),
            overlap_s=limit("overlap_s", self.overlap_s),
            borderline_s=self.borderline_ms / 1000,
        )


_CASE_KEYS = (
    "max_latency_ms",
    *(key for key in _Door.model_fields if key not in ("name", "listen_rule", "borderline_ms")),
)


def _own_limits(case: Case) -> Mapping[str, float]:
    own = {key: case.verifier_params[key] for key in _CASE_KEYS if key in case.verifier_params}
    for key, value in own.items():
        most = 1.0 if key == "coverage" else math.inf
        if not (math.isfinite(value) and 0 <= value <= most):
            wanted = "a share from 0 to 1" if key == "coverage" else "a finite number from 0 up"
            raise CaseError(
                f"{case.test_case_id}: verifier parameter {key} is {value}; wanted {wanted}. Correct the manifest."
            )
    return own


def _check_roles(name: str, by_role: Mapping[str, float]) -> None:
    if "default" not in by_role:
        raise ConfigError(f"thresholds.{name} has no 'default'.")
    for role in by_role:
        if role not in (*ROLE_IDS, "default"):
            raise ConfigError(f"thresholds.{name} names '{role}', which is no role.{nearest(role, ROLE_IDS)}")
