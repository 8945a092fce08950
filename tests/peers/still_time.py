"""Time that stands still while anything happens: event loops whose clock moves on only when all of them wait.

A client and its peer talk over real sockets, each on a loop in a thread of its own, and no machine is too slow for
them: what takes the processor takes no time, so that a session comes out the same, to the sample, however loaded the
machine is. It also takes no longer than the work in it.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

_GLANCE_S = 0.0002
"""What was written to a socket of loopback is there by now, on the other side."""

T = TypeVar("T")


@contextmanager
def still_time() -> Iterator[None]:
    """Every event loop that is made before the block is left shares one still clock."""
    time = _StillTime()
    with patch("asyncio.events.new_event_loop", lambda: _Loop(time)):
        yield


class _StillTime:
    """What the loops know of one another.

    A loop that waits has looked for news, and found none, since any of them last did something: ``_did`` counts when
    they began and ended to. When this is so of all, nothing is under way, and the next timer is due.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._lock = threading.Lock()
        self._did = 0
        self._loops: set[object] = set()
        self._waiting: dict[object, tuple[int, float | None]] = {}
        self._jobs = 0

    def joined(self, loop: object) -> None:
        with self._lock:
            self._loops.add(loop)

    def left(self, loop: object) -> None:
        with self._lock:
            self._loops.discard(loop)
            self._waiting.pop(loop, None)

    def began_job(self) -> None:
        """A thread works for a loop, which waits for it though it looks idle."""
        with self._lock:
            self._jobs += 1

    def ended_job(self) -> None:
        with self._lock:
            self._jobs -= 1

    def did(self, loop: object) -> int:
        """The loop begins or ends to do something; it is told how much has been done."""
        with self._lock:
            self._did += 1
            self._waiting.pop(loop, None)
            return self._did

    def seen(self) -> int:
        with self._lock:
            return self._did

    def found_nothing(self, loop: object, seen: int, deadline_s: float | None) -> bool:
        """The loop has looked since so much was done; whether its deadline has come."""
        with self._lock:
            self._waiting[loop] = (seen, deadline_s)
            if not self._jobs and all(self._waiting.get(one, (-1,))[0] == self._did for one in self._loops):
                deadlines = [due_s for _, due_s in self._waiting.values() if due_s is not None]
                self.now_s = max(self.now_s, min(deadlines, default=self.now_s))
            return deadline_s is not None and deadline_s <= self.now_s


class _Selector(selectors.SelectSelector):
    """Waits for sockets in real time, and for deadlines in still time."""

    def __init__(self, time: _StillTime) -> None:
        super().__init__()
        self._time = time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        deadline_s = None if timeout is None else self._time.now_s + timeout
        seen = self._time.did(self)
        while True:
            events = super().select(_GLANCE_S)
            if events or self._time.found_nothing(self, seen, deadline_s):
                self._time.did(self)
                return events
            seen = self._time.seen()

    def close(self) -> None:
        self._time.left(self)
        super().close()


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, time: _StillTime) -> None:
        self._still = time
        selector = _Selector(time)
        time.joined(selector)
        super().__init__(selector)

    def time(self) -> float:
        return self._still.now_s

    def run_in_executor(  # type: ignore[override]  # typeshed's TypeVarTuple has no name here
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        self._still.began_job()
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self._still.ended_job())
        return future
