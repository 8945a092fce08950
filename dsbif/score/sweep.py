"""How much a result depends on where the limits are put: the 180 configurations of the sweep.

Conventions
-----------
* A swept value holds for every role and every case: it replaces role overrides and what a case itself carries.
* Everything else stays as in the base configuration: the listen rule, the coverage, the count of backchannels.
* Stored measurements are judged again; neither the agent nor the detector is asked. A sweep over 1,038 cases takes
  seconds.

LISTEN and READBACK have no swept limit and BACKCHANNEL and INTERRUPT are not in the headline, so of the 180 only the 15
pairs of wait and yield latency can differ in the headline aggregate.

Source: DSB-IFEval, the threshold sweep: 3 x 5 x 3 x 4.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dsbif.bench.case import Case
from dsbif.score.measure import Measurement, Unscored
from dsbif.score.thresholds import Thresholds
from dsbif.score.verdict import Verdict, judge_case

MAX_WAITS_S = (1.5, 2.0, 2.5)
YIELD_LATENCIES_MS = (200.0, 400.0, 600.0, 1000.0, 1500.0)
INTERRUPT_LATENCIES_MS = (1000.0, 1500.0, 2000.0)
BC_CEILINGS_S = (0.6, 0.8, 1.0, 1.2)
_SWEPT = ("max_wait_s", "bc_ceiling_s", "interrupt_latency_ms", "yield_latency_ms", "max_latency_ms")


@dataclass(frozen=True, slots=True, order=True)
class SweepPoint:
    """One configuration of the sweep."""

    max_wait_s: float
    yield_latency_ms: float
    interrupt_latency_ms: float
    bc_ceiling_s: float

    @property
    def name(self) -> str:
        """The point in a line.

        >>> SweepPoint(1.5, 200.0, 1000.0, 0.6).name
        'wait 1.5 s, yield 200 ms, interrupt 1000 ms, backchannel 0.6 s'
        """
        return (
            f"wait {self.max_wait_s:g} s, yield {self.yield_latency_ms:g} ms, "
            f"interrupt {self.interrupt_latency_ms:g} ms, backchannel {self.bc_ceiling_s:g} s"
        )

    def thresholds(self, base: Thresholds) -> Thresholds:
        """The base configuration with this point's limits for every role."""
        return replace(
            base,
            name=self.name,
            max_wait_s={"default": self.max_wait_s},
            yield_latency_ms={"default": self.yield_latency_ms},
            interrupt_latency_ms={"default": self.interrupt_latency_ms},
            bc_ceiling_s={"default": self.bc_ceiling_s},
        )


POINTS = tuple(
    SweepPoint(*values) for values in product(MAX_WAITS_S, YIELD_LATENCIES_MS, INTERRUPT_LATENCIES_MS, BC_CEILINGS_S)
)
"""All 180, in a fixed order."""


def sweep(
    cases: Sequence[Case], measured: Mapping[str, Measurement | Unscored], base: Thresholds
) -> Iterator[tuple[SweepPoint, Mapping[str, Verdict | Unscored]]]:
    """Judge every case at every point; both mappings are by case id.

    Args:
        cases: in any order.
        measured: one measurement a case.
        base: where everything that is not swept comes from.

    Raises:
        KeyError: a case has no measurement.
    """
    bare = [
        replace(case, verifier_params={k: v for k, v in case.verifier_params.items() if k not in _SWEPT})
        for case in cases
    ]
    for point in POINTS:
        thresholds = point.thresholds(base)
        yield point, {case.test_case_id: judge_case(case, measured[case.test_case_id], thresholds) for case in bare}
