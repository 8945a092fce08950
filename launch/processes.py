"""Whether a process that wrote its number down is still the same process."""

import json
from pathlib import Path

from dsbif.errors import ConfigError


def start_of(pid: int) -> str:
    """When a process started, in the kernel's own count; empty where there is none, or no ``/proc`` to ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def read_process(path: Path) -> tuple[int, str] | None:
    """The process id and start time in a file; None where it is not there."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return int(found["pid"]), str(found["start"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not say which process runs the launch ({error}); remove it.") from error


def is_running(path: Path) -> bool:
    """Whether the process that a file names still runs, and is no later one with the same number."""
    found = read_process(path)
    return found is not None and bool(found[1]) and start_of(found[0]) == found[1]
