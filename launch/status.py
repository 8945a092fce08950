"""How far a launch is, from any shell, also after the one that submitted it is gone.

``python -m launch.status [LAUNCH] [--once]``: a table of every combination, kept up to date until all is done or nobody
works on it any more; with ``--once``, or into a file, printed once. LAUNCH: a directory, a name, or ``latest``.
"""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from dsbif.errors import DsbifError
from launch.collect import alive_of
from launch.launchdir import Launch, LaunchDir, find_launch
from launch.progress import launch_progress, progress_table
from launch.words import only_word

_EVERY_S = 2.0
OK, USAGE = 0, 2


def show(here: LaunchDir, launch: Launch, console: Console, once: bool) -> None:
    """Print the table, or keep it up to date."""
    if once or not console.is_terminal:
        console.print(progress_table(here, launch, launch_progress(launch)))
        return
    alive = alive_of(here, launch)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            found = launch_progress(launch)
            live.update(progress_table(here, launch, found), refresh=True)
            if all(job.missing == 0 for job in found) or alive() is False:
                return
            time.sleep(_EVERY_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Show a launch."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK
    try:
        here = find_launch(only_word(words, "launch.status", ("--once",)))
        show(here, here.read(), Console(), "--once" in words)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return OK
    return OK


if __name__ == "__main__":
    sys.exit(main())
