"""Stop every task of a launch. What is recorded is kept, and ``python -m launch.resume`` goes on from there.

``python -m launch.cancel [LAUNCH]``: LAUNCH is a directory, a name, or ``latest``.
"""

import sys
from collections.abc import Sequence

from dsbif.errors import DsbifError
from launch.launchdir import LaunchDir, find_launch
from launch.words import only_word

OK, USAGE = 0, 2


def cancel(here: LaunchDir) -> str:
    """Stop a launch's tasks; says what was stopped.

    Raises:
        ConfigError: the scheduler refuses or gives no answer.
    """
    if here.read().kind == "slurm":
        from launch.slurm import cancel as cancel_on_slurm

        arrays = cancel_on_slurm(here.path.name)
        return f"cancelled: {', '.join(arrays)}" if arrays else "nothing of it was waiting or running"
    from launch.local import cancel as cancel_here

    return "stopped its tasks" if cancel_here(here) else "nothing of it was running on this machine"


def main(arguments: Sequence[str] | None = None) -> int:
    """Cancel a launch."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK
    try:
        here = find_launch(only_word(words, "launch.cancel"))
        print(f"{here.path.name}: {cancel(here)}")
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    return OK


if __name__ == "__main__":
    sys.exit(main())
