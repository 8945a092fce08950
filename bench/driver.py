"""What the driver costs per 20 ms frame and row, with an agent that does nothing.

``python -m bench.driver`` runs two minutes of session time at 1, 8 and 32 rows and prints microseconds per frame of
one row, and how many times faster than real time a session goes.
"""

import time

import numpy as np

from dsbif.agents.silent import Silent
from dsbif.bench.actions import Action
from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.levels import Level
from dsbif.bench.windows import WindowMode
from dsbif.session.agent import OnsetWatch
from dsbif.session.lockstep import LockstepDriver
from dsbif.session.pcm import FRAME_SAMPLES, SAMPLE_RATE_HZ
from dsbif.session.running import Episode, Stage
from dsbif.session.user import Pacing
from dsbif.spans import Span

TURN_S = 55.0
PACING = Pacing(gap_s=5.0, trailing_s=5.0, onset_timeout_s=8.0)
ROWS = (1, 8, 32)
REPEATS = 5


def _no_watch(counts_from: int) -> OnsetWatch:
    raise AssertionError("a turn taken in order needs no onset")


def _episode(index: int) -> Episode:
    samples = int(TURN_S * SAMPLE_RATE_HZ)
    turn = UserTurn("x.wav", "0" * 64, samples, (TimedSegment("s1", "speech", "x", Span(0.0, TURN_S)),))
    case = Case(
        test_case_id=f"case-{index}",
        conversation_id=f"case-{index}",
        role="R1",
        role_name="bench",
        probe="C1",
        instance=1,
        level=Level.L0,
        expected_action=Action.LISTEN,
        l4_expected=None,
        system_prompt="",
        voice="none",
        turn1=turn,
        turn2=turn,
        barge_in_after_s=None,
        window=Span(0.0, 1.0),
        window_mode=WindowMode.CAUSAL,
    )
    audio = np.full(samples, 0.1, np.float32)
    return Episode(case, audio, audio)


def seconds_for(rows: int) -> tuple[float, int]:
    """Wall time and frames of one run with every row busy: the best of several."""
    best = float("inf")
    frames = int((2 * TURN_S + PACING.gap_s + PACING.trailing_s) * SAMPLE_RATE_HZ) // FRAME_SAMPLES
    for _ in range(REPEATS):
        episodes = [_episode(index) for index in range(rows)]
        driver = LockstepDriver(Silent(rows), Stage(PACING, _no_watch), lambda take: None)
        started = time.perf_counter()
        driver.run(episodes)
        best = min(best, time.perf_counter() - started)
    return best, frames


def main() -> None:
    print(f"{'rows':>4} {'µs per frame and row':>21} {'× real time per row':>20} {'against 1 row':>14}")
    alone = 0.0
    for rows in ROWS:
        wall_s, frames = seconds_for(rows)
        each_us = wall_s / frames / rows * 1e6
        alone = alone or each_us
        print(f"{rows:>4} {each_us:>21.1f} {frames * 0.02 / wall_s:>20.0f} {each_us / alone:>14.2f}")


if __name__ == "__main__":
    main()
