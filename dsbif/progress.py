"""Progress of long steps with an estimate of what remains, on a terminal and in a log file alike."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Report = Callable[[int, int, str], None]
"""Called with (done, total, what was just finished)."""

_LOG_EVERY_S = 10.0


@contextmanager
def progress(title: str, console: Console | None = None) -> Iterator[Report]:
    """Yield a report function; a bar on a terminal, else a line every ten seconds."""
    console = console or Console(stderr=True)
    if console.is_terminal:
        with _bar(title, console) as report:
            yield report
    else:
        yield _log(title)


@contextmanager
def _bar(title: str, console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[label]}", style="dim"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, label="")

        def report(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, label=label)

        yield report


def _log(title: str) -> Report:
    started = last = time.monotonic()

    def report(done: int, total: int, label: str) -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < _LOG_EVERY_S:
            return
        last = now
        left = (now - started) / done * (total - done) if done else 0.0
        rest = f", about {left:.0f} s left" if done and done < total else ""
        print(f"{title}: {done} of {total} after {now - started:.0f} s{rest}", file=sys.stderr, flush=True)

    return report
