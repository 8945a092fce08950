from typing import Any

import pytest
import yaml

from dsbif.errors import ConfigError
from dsbif.run import CONF_DIR
from dsbif.score.thresholds import Thresholds


def _raw(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load((CONF_DIR / "thresholds" / "paper.yaml").read_text()), **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_wiat_s": {"default": 1}}, r"there is no threshold 'max_wiat_s'\. Did you mean 'max_wait_s'\?"),
        ({"max_wait_s": {"default": -1}}, r"key 'thresholds.max_wait_s.default': .*greater than or equal to 0"),
        ({"max_wait_s": {"default": float("nan")}}, r"key 'thresholds.max_wait_s.default': .*finite"),
        ({"coverage": {"default": "most"}}, r"key 'thresholds.coverage.default'"),
        ({"coverage": {"R1": 0.5}}, r"thresholds.coverage has no 'default'"),
        ({"yield_latency_ms": {"default": 600, "R44": 1}}, r"names 'R44', which is no role\. Did you mean 'R4'"),
        ({"listen_rule": "sometimes"}, r"key 'thresholds.listen_rule'"),
    ],
)
def test_a_threshold_that_cannot_be_meant_is_an_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Thresholds.from_mapping(_raw(**changes))


def test_a_missing_threshold_is_an_error() -> None:
    raw = _raw()
    del raw["overlap_s"]
    with pytest.raises(ConfigError, match=r"key 'thresholds.overlap_s': Field required"):
        Thresholds.from_mapping(raw)
