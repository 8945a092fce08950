"""What a step costs when the agent lives in a process of its own, against the same agent in this one.

``python -m bench.worker`` steps an agent that does next to nothing, with 20 ms and with 80 ms frames (a codec's) at 1,
8 and 32 rows, and prints microseconds a step; the difference is the two pipes, the frames and the change of process.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dsbif.agents.target import Target, make
from dsbif.agents.worker import start_worker
from dsbif.session.agent import AgentAudio, AgentFacts, Emission, LockstepAgent
from dsbif.session.pcm import Pcm

ROWS = (1, 8, 32)
FRAMES_SAMPLES = (480, 1920)
STEPS, REPEATS = 500, 5


class Echo:
    """Says what it hears: as much comes back as goes out."""

    def __init__(self, rows: int, frame_samples: int) -> None:
        self.rows, self.frame_samples = rows, frame_samples
        self.facts = AgentFacts("echo", "none", "none")

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Nothing to begin."""

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        return [[AgentAudio(pcm[row])] for row in range(self.rows)]

    def stop(self, row: int) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to give back."""


def step_us(agent: LockstepAgent) -> float:
    """Microseconds a step of all rows: the best of several hundreds."""
    pcm = np.full((agent.rows, agent.frame_samples), 0.1, np.float32)
    active = [True] * agent.rows
    for row in range(agent.rows):
        agent.start(row, "", 0)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(STEPS):
            agent.step(pcm, active)
        best = min(best, time.perf_counter() - started)
    return best / STEPS * 1e6


def main() -> None:
    print(f"{'rows':>4} {'frame':>6} {'here µs':>8} {'worker µs':>10} {'ratio':>6} {'share of real time':>20}")
    with tempfile.TemporaryDirectory() as logs:
        for samples in FRAMES_SAMPLES:
            for rows in ROWS:
                target = Target("bench.worker:Echo", {"frame_samples": samples}, None, rows)
                there = start_worker(sys.executable, target, Path(logs))
                assert isinstance(there, LockstepAgent)
                here_us, there_us = step_us(make(target)), step_us(there)
                there.close()
                share = there_us / rows / (samples / 24_000 * 1e6)
                print(
                    f"{rows:>4} {samples / 24:>4.0f}ms {here_us:>8.1f} {there_us:>10.1f} "
                    f"{there_us / here_us:>6.1f} {share:>20.2%}"
                )


if __name__ == "__main__":
    main()
