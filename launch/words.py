"""The words of the small commands: a launch and, for some, one flag."""

from collections.abc import Sequence

from dsbif.door import nearest
from dsbif.errors import ConfigError


def only_word(words: Sequence[str], command: str, flags: Sequence[str] = ()) -> str:
    """The launch that a command line names; ``latest`` where it names none.

    Raises:
        ConfigError: an unknown flag, or more than one launch.
    """
    names = [word for word in words if not word.startswith("-")]
    for word in words:
        if word.startswith("-") and word not in flags:
            raise ConfigError(f"'{word}' is no flag of python -m {command}.{nearest(word, [*flags, '--help'])}")
    if len(names) > 1:
        raise ConfigError(f"python -m {command} takes one launch; found {', '.join(names)}.")
    return names[0] if names else "latest"
