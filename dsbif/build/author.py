"""New conversations, written by a model behind any OpenAI-compatible endpoint.

``python -m dsbif.build.author role=R5 probe=R5_A_wrong_intermediate_step instances=1,2 out=my_scripts model=NAME
base_url=http://127.0.0.1:8000/v1`` writes ``my_scripts/R5.yaml``. What is there already is not written again. Exits 0
if all that was wanted is there, 1 if some is not, 2 where the command or the endpoint cannot be used.
"""

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dsbif.bench.grid import INSTANCES, ROLE_IDS
from dsbif.bench.probes import PROBES, probes_of
from dsbif.bench.roles import load_roles
from dsbif.build.author_desk import Desk, Outcome, Sleep
from dsbif.build.author_endpoint import Endpoint
from dsbif.build.author_prompt import Wanted
from dsbif.build.author_shelf import LOG_FILE, Shelf, is_borrowed
from dsbif.door import nearest
from dsbif.errors import ConfigError, DsbifError

_DEFAULTS = {
    "role": "",
    "probe": "all",
    "instances": "all",
    "out": "",
    "model": "",
    "base_url": "",
    "fallback_model": "",
    "api_key_env": "OPENAI_API_KEY",
    "workers": "4",
}
_REQUIRED = ("role", "out", "model", "base_url")
_MAX_WORKERS = 64
_USAGE = (
    "usage: python -m dsbif.build.author role=R1,R2|all [probe=C1,C2|all] [instances=1,2|all] out=FOLDER model=NAME "
    "base_url=URL [fallback_model=NAME] [api_key_env=OPENAI_API_KEY] [workers=4]"
)


@dataclass(frozen=True, slots=True)
class AuthorSettings:
    """What is to be written, by whom, and where to. ``models``: for the first two attempts, and for the last two."""

    wanted: tuple[Wanted, ...]
    out: Path
    models: tuple[str, str]
    base_url: str
    api_key_env: str
    workers: int


def parse(arguments: Sequence[str]) -> AuthorSettings:
    """Settings from ``KEY=VALUE`` words.

    Raises:
        ConfigError: an unknown, missing or repeated key, or a value that cannot be used.
    """
    given = _pairs(arguments)
    values = {**_DEFAULTS, **given}
    if missing := [key for key in _REQUIRED if not values[key]]:
        raise ConfigError(f"{', '.join(f'{key}=' for key in missing)} must be given. {_USAGE}")
    roles = _listed("role", values["role"], ROLE_IDS)
    probes = _listed("probe", values["probe"], tuple(dict.fromkeys(p for role in roles for p in probes_of(role))))
    instances = _listed("instances", values["instances"], tuple(str(n) for n in INSTANCES))
    order = tuple(PROBES)
    return AuthorSettings(
        wanted=tuple(
            Wanted(role, probe, int(instance))
            for role in sorted(roles)
            for instance in sorted(instances)
            for probe in sorted(probes, key=order.index)
            if probe in probes_of(role)
        ),
        out=Path(values["out"]),
        models=(values["model"], values["fallback_model"] or values["model"]),
        base_url=_url(values["base_url"]),
        api_key_env=_key_name(values["api_key_env"], "api_key_env" in given),
        workers=_workers(values["workers"]),
    )


def _pairs(arguments: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"'{word}' is not KEY=VALUE. {_USAGE}")
        if key not in _DEFAULTS:
            raise ConfigError(f"there is no key '{key}'.{nearest(key, _DEFAULTS)}")
        if key in given:
            raise ConfigError(f"'{key}=' is given twice; give it once.")
        given[key] = value.strip()
    return given


def _listed(key: str, value: str, valid: tuple[str, ...]) -> tuple[str, ...]:
    """A comma list of valid words, each once; ``all`` is every one."""
    if value == "all":
        return valid
    chosen = dict.fromkeys(word.strip() for word in value.split(","))
    for word in chosen:
        if word not in valid:
            raise ConfigError(f"{key}={value}: there is no {key.removesuffix('s')} '{word}'.{nearest(word, valid)}")
    return tuple(chosen)


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
        secret = "@" in parts.netloc or bool(parts.query)
    except ValueError:
        sound, secret = False, False
    if secret:
        raise ConfigError("base_url holds a user or a query; a key goes into the variable that api_key_env names.")
    if not sound:
        raise ConfigError(f"base_url={value} is no address; wanted: one like http://127.0.0.1:8000/v1.")
    return value


def _key_name(name: str, is_given: bool) -> str:
    if is_given and not os.environ.get(name):
        raise ConfigError(f"api_key_env={name}: this variable is not set; set it, or leave the key out.")
    return name


def _workers(value: str) -> int:
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= _MAX_WORKERS):
        raise ConfigError(f"workers={value}: wanted a number from 1 to {_MAX_WORKERS}.")
    return int(value)


def write_all(settings: AuthorSettings, sleep: Sleep = time.sleep) -> list[Outcome]:
    """Write what is wanted and not there; one outcome for each of those, in the order of ``settings.wanted``.

    Raises:
        CaseError: a script file in the folder is broken.
        ConfigError: the endpoint cannot be used. What was accepted before stays.
        OSError: the folder cannot be written.
    """
    shelf = Shelf(settings.out)
    todo = [wanted for wanted in settings.wanted if not shelf.has(wanted)]
    endpoint = Endpoint(settings.base_url, os.environ.get(settings.api_key_env, ""))
    desk = Desk(endpoint, shelf, load_roles(), settings.models, sleep)
    outcomes: dict[Wanted, Outcome] = {}
    with ThreadPoolExecutor(settings.workers) as pool:
        # Borrowed ones last: what they borrow may be written in this very run.
        for batch in ([w for w in todo if not is_borrowed(w)], [w for w in todo if is_borrowed(w)]):
            futures = [pool.submit(desk.write, wanted) for wanted in batch]
            try:
                for future in as_completed(futures):
                    outcomes[future.result().wanted] = future.result()
                    _tell(future.result())
            except BaseException:
                desk.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [outcomes[wanted] for wanted in todo]


def _tell(outcome: Outcome) -> None:
    how = (
        "not accepted"
        if outcome.faults
        else f"accepted at attempt {outcome.attempts}"
        if outcome.attempts
        else "shared"
    )
    print(f"{outcome.wanted.conversation_id}: {how}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None, sleep: Sleep = time.sleep) -> int:
    """Write conversations; 1 if some were not accepted, 2 where the command cannot be used."""
    words = sys.argv[1:] if arguments is None else arguments
    if any(word in ("-h", "--help") for word in words):
        print(_USAGE)
        return 0
    try:
        settings = parse(words)
        outcomes = write_all(settings, sleep)
    except DsbifError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dsbif: stopped; what was accepted is kept, and the same command goes on from there.", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"dsbif: the folder out={settings.out} cannot be used: {error}.", file=sys.stderr)
        return 2
    return _summary(settings, outcomes)


def _summary(settings: AuthorSettings, outcomes: Sequence[Outcome]) -> int:
    failed = [outcome for outcome in outcomes if outcome.faults]
    for outcome in failed:
        print(f"{outcome.wanted.conversation_id}: {'; '.join(outcome.faults)}", file=sys.stderr)
    there = len(settings.wanted) - len(outcomes)
    print(
        f"{len(outcomes) - len(failed)} written, {there} there already, {len(failed)} not accepted: {settings.out}, "
        f"every call in {settings.out / LOG_FILE}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
