"""An agent that never speaks: the floor of the benchmark, and a measure of what silence alone earns."""

from collections.abc import Sequence

from dsbif.session.agent import AgentFacts, Emission
from dsbif.session.pcm import FRAME_SAMPLES, Pcm


class Silent:
    """Hears everything and says nothing."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.facts = AgentFacts(name="silent", conditioning="none", transcript="native")

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Nothing to prepare."""

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """No emission for any row."""
        return [()] * self.rows

    def stop(self, row: int) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to give back."""
