"""A judge named on a command line as for a run: ``judge=openai judge.model=…``, without Hydra."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from dsbif.door import explain, nearest
from dsbif.errors import ConfigError
from dsbif.files import CONF_DIR
from dsbif.judge.settings import JudgeSettings

_MISSING = "???"


def settings_from(words: Sequence[str]) -> JudgeSettings:
    """The settings of ``conf/judge/NAME.yaml`` with what the words change.

    Args:
        words: ``judge=NAME`` and any ``judge.KEY=VALUE``, values as YAML writes them.

    Raises:
        ConfigError: no judge or none of that name, an unknown key, or a value that cannot be used.
    """
    given = dict(_split(word) for word in words)
    values = _group(str(given.pop("judge", "none")))
    for key, value in given.items():
        name = key.removeprefix("judge.")
        if name not in JudgeSettings.model_fields:
            raise ConfigError(f"there is no key '{name}' in 'judge' (from {key}=…).{nearest(name, values)}")
        values[name] = _value(key, value)
    if absent := sorted(key for key, value in values.items() if value == _MISSING):
        raise ConfigError(f"{', '.join(f'judge.{key}=…' for key in absent)} must be given.")
    try:
        return JudgeSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"the judge cannot be used: {explain(error, 'judge')}.") from error


def _split(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or (key != "judge" and not key.startswith("judge.")):
        raise ConfigError(f"'{word}' is no setting of a judge; wanted judge=NAME or judge.KEY=VALUE.")
    return key, value


def _group(name: str) -> dict[str, Any]:
    folder = CONF_DIR / "judge"
    names = [path.stem for path in folder.glob("*.yaml")]
    if name not in names:
        raise ConfigError(f"judge={name}: there is no such judge.{nearest(name, names)} They lie in conf/judge.")
    found: Mapping[str, Any] = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    return dict(found)


def _value(key: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: the value cannot be read ({' '.join(str(error).split())}).") from error
