"""What is wrong with what somebody typed, in one sentence."""

from dataclasses import field
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from dsbif.door import explain


@dataclass(frozen=True)
class Section:
    low: float
    high: float
    rest: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low is {self.low} and high {self.high}; wanted low to be less")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"low": [1], "high": 2}, "key 'model.low': Input should be a valid number; found '[1]'"),
        ({"low": 1}, "key 'model.high': Field required"),
        ({"low": 1, "high": 2, "rest": "abc"}, "key 'model.rest': Input should be a valid list; found 'abc'"),
        ({"low": "x", "high": None}, "found 'x' (and 1 more)"),
        ({"low": 3, "high": 2}, "key 'model': Value error, low is 3.0 and high 2.0; wanted low to be less"),
    ],
)  # fmt: skip
def test_a_fault_is_told_with_its_key_and_what_was_found(data: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(Section).validate_python(data)
    words = explain(error.value, under="model")
    assert words.endswith(told)
    assert "rest" not in words or "rest" in data  # of a whole section, the section is no news
