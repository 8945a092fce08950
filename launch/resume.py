"""Start again what a launch lacks: missing cases, and those whose agent failed.

``python -m launch.resume [LAUNCH] [--no-wait]``: cuts what is missing into new shards, runs them where the launch ran
(this machine or Slurm), waits and tells what came of it; with ``--no-wait`` it returns once they are started.
"""

import sys
from collections.abc import Sequence

from rich.console import Console

from dsbif.errors import ConfigError, DsbifError
from launch.collect import alive_of, collect, forget_tasks
from launch.launchdir import Launch, LaunchDir, find_launch
from launch.plan import cut, with_shards
from launch.words import only_word

OK, USAGE, INTERRUPTED = 0, 2, 130


def resume(here: LaunchDir) -> tuple[Launch, list[int]]:
    """Add shards of what is missing to a launch; returns it and the new shards' numbers.

    Raises:
        ConfigError: its tasks are still waiting or running.
    """
    launch = here.read()
    living = alive_of(here, launch)()
    if living:
        raise ConfigError(
            f"tasks of {here.path.name} still wait or run; see python -m launch.status {here.path.name}, or stop them "
            f"with python -m launch.cancel {here.path.name} first."
        )
    if living is False:
        forget_tasks(here, launch)
    fresh = cut(launch.jobs, launch.settings.get("shards", "auto"), first=len(launch.shards))
    launch = with_shards(launch, fresh)
    here.write(launch)
    return launch, [shard.index for shard in fresh]


def start(here: LaunchDir, launch: Launch, shards: Sequence[int], wait: bool) -> None:
    """Run shards where the launch runs; on this machine either here or in a process of their own."""
    if not shards:
        return
    if launch.kind == "slurm":
        from launch.slurm import submit

        submit(here.path, shards)
    elif wait:
        from launch.local import run_local

        run_local(here, launch, shards, int(launch.settings.get("workers", 1)))
    else:
        from launch.local import start_detached

        start_detached(here)


def main(arguments: Sequence[str] | None = None) -> int:
    """Resume a launch."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(__doc__)
        return OK
    console = Console()
    try:
        here = find_launch(only_word(words, "launch.resume", ("--no-wait",)))
        launch, fresh = resume(here)
        cases = sum(len(launch.shards[index].test_case_ids) for index in fresh)
        console.print(f"{here.path.name}: {cases} cases in {len(fresh)} new shards", highlight=False)
        start(here, launch, fresh, "--no-wait" not in words)
        return OK if "--no-wait" in words else collect(here, launch, console)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\ndsbif: stopped. What is recorded is kept; the same command goes on from here.", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
