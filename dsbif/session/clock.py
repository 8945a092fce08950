"""Session time, injected. In lockstep nobody reads a clock: time is the number of samples that have gone by.

On a wall clock every frame has an absolute deadline, counted from the session's start. Sleeping one frame at a time
would drift by what each turn of the loop costs; a deadline that was missed is made up for by the frames after it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dsbif.session.pcm import SAMPLE_RATE_HZ


@dataclass(slots=True)
class LockstepClock:
    """Counts the samples of one session at 24 kHz.

    >>> clock = LockstepClock()
    >>> clock.advance(480)
    >>> clock.now_s
    0.02
    """

    now_samples: int = 0

    @property
    def now_s(self) -> float:
        """Session time in seconds."""
        return self.now_samples / SAMPLE_RATE_HZ

    def advance(self, samples: int) -> None:
        """Let ``samples`` go by."""
        self.now_samples += samples


class WallClock:
    """Paces one session to real time. Starts when it is made.

    Args:
        read: monotonic time in seconds; by default the running event loop's.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        read: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read or asyncio.get_running_loop().time
        self._sleep = sleep
        self._start = self._read()

    @property
    def now_samples(self) -> int:
        """Session time in samples."""
        return to_samples(self._read() - self._start)

    async def until(self, samples: int) -> float:
        """Wait for a session time; returns by how many seconds it was missed."""
        deadline = self._start + samples / SAMPLE_RATE_HZ
        while (left_s := deadline - self._read()) > 0:
            await self._sleep(left_s)
        return -left_s


def to_samples(time_s: float) -> int:
    """The sample at or before a session time; a hair below a sample counts as that sample.

    >>> to_samples(2.5)
    60000
    >>> to_samples(0.1 + 0.2)
    7200
    """
    return int(time_s * SAMPLE_RATE_HZ + 1e-6)
