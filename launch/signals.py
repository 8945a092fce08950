"""How a task is told to stop: USR2 before its time limit, TERM when it is preempted or cancelled, INT by a person.

The handler raises in the main thread. What is raised is no ``Exception``, so that nothing which catches an agent's
failure catches it; a file that was being written is then not there, since files are written whole or not at all.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """The task was told to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def by_time_or_preemption(self) -> bool:
        """Whether the task would be wanted again."""
        return self.number in (signal.SIGUSR2, signal.SIGTERM)

    @property
    def exit_status(self) -> int:
        """128 and the signal's number, as a shell counts: 130 for INT, 143 for TERM."""
        return 128 + self.number


@contextmanager
def stopping() -> Iterator[None]:
    """Raise ``Stopped`` on the first of the signals; further ones are let go by while the task tidies up."""
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if not told:
            told.append(number)
            raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
