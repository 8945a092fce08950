"""Session time, injected. In lockstep nobody reads a clock: time is the number of samples that have gone by."""

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


def to_samples(time_s: float) -> int:
    """The sample at or before a session time; a hair below a sample counts as that sample.

    >>> to_samples(2.5)
    60000
    >>> to_samples(0.1 + 0.2)
    7200
    """
    return int(time_s * SAMPLE_RATE_HZ + 1e-6)
