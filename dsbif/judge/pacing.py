"""When the next call may go out: the rate of requests, and what a server asks for. Time comes from outside."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

MAX_HONOURED_S = 600.0
"""A server that asks for more is not waited for; its case is left for another day."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock and sleep. ``sleep`` None: a sleep that ends when judging is broken off."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], object] | None = None


class Limiter:
    """Spaces requests evenly, for all threads together."""

    def __init__(self, requests_per_minute: float | None, clock: Callable[[], float]) -> None:
        self._interval_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._clock = clock
        self._next_s = -math.inf
        self._lock = threading.Lock()

    def reserve(self) -> float:
        """Take the next place; returns the seconds until it comes."""
        with self._lock:
            now_s = self._clock()
            start_s = max(now_s, self._next_s)
            self._next_s = start_s + self._interval_s
            return start_s - now_s

    def hold(self, seconds: float) -> None:
        """Give out no place before so many seconds have gone by."""
        with self._lock:
            self._next_s = max(self._next_s, self._clock() + seconds)


def retry_after_s(header: str | None, now_s: float) -> float | None:
    """Seconds that a ``Retry-After`` header asks for; None where there is none that makes sense.

    Args:
        header: seconds, or an HTTP date.
        now_s: wall clock, seconds since 1970.

    >>> retry_after_s("7", 0.0)
    7.0
    >>> retry_after_s("Thu, 01 Jan 1970 00:01:00 GMT", 50.0)
    10.0
    >>> retry_after_s("soon", 0.0) is None
    True
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - now_s
        except (ValueError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
