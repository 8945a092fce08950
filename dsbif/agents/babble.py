"""An agent that talks from the first frame to the last, whatever it hears."""

from collections.abc import Sequence

import numpy as np

from dsbif.agents.mouth import Mouth
from dsbif.session.agent import AgentAudio, AgentFacts, AgentText, Emission
from dsbif.session.pcm import FRAME_SAMPLES, Pcm

SPEECH = (
    "now the thing about rivers is that they never really stop moving even when the surface looks like glass and so "
    "the people who live along the banks learn to read every little change in the colour and the sound of the water"
)


class Babble:
    """Repeats one breathless sentence without a gap."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, rows: int, mouth: Mouth) -> None:
        self.rows = rows
        self.facts = AgentFacts(name="babble", conditioning="none", transcript="native")
        self._speech = mouth.monologue(SPEECH)
        self._said = [0] * rows

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Begin at the sentence's first word."""
        self._said[row] = 0

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """The next 20 ms of the sentence for every active row."""
        return [self._talk(row, pcm.shape[1]) if on else () for row, on in enumerate(active)]

    def _talk(self, row: int, samples: int) -> list[Emission]:
        begin = self._said[row]
        self._said[row] = begin + samples
        again = begin // len(self._speech) < (begin + samples) // len(self._speech)
        spoken = self._speech[np.arange(begin, begin + samples) % len(self._speech)]
        return [AgentAudio(spoken), AgentText(SPEECH)] if again else [AgentAudio(spoken)]

    def stop(self, row: int) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to give back."""
