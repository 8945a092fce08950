"""What a model sent, made into a script or into a list of what is wrong with it."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dsbif.build.author_prompt import Wanted
from dsbif.build.lint import check_script
from dsbif.build.script import Script, load_scripts
from dsbif.door import explain
from dsbif.errors import CaseError

_WRITTEN = ("turn1", "turn2", "safety_turn2", "readback")


class _Judgement(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)
    realised: bool
    reasons: list[str] | str | None = None


def read_reply(wanted: Wanted, reply: str) -> tuple[Script | None, tuple[str, ...]]:
    """The script in a reply and its faults; the script is None where there are any.

    The reply goes through the same reading and the same gates as a script file.
    """
    try:
        found = _one_object(reply)
        if odd := [key for key in found if key not in _WRITTEN]:
            return None, (f"the JSON object has the unknown key '{odd[0]}'; wanted: {', '.join(_WRITTEN)}",)
        script = _parsed(wanted, found)
    except (ValueError, CaseError) as fault:
        return None, (str(fault),)
    faults = tuple(f"{fault.rule}: {fault.detail}" for fault in check_script(script)) + tuple(_repeated(script))
    return (None if faults else script), faults


def read_judgement(reply: str) -> tuple[str, ...]:
    """The faults that a second reading found; none where it says that the premise is realised."""
    try:
        judgement = _Judgement.model_validate(_one_object(reply))
    except ValidationError as error:
        return (f"the second reading gave no usable answer ({explain(error)}), so send the conversation once more",)
    except ValueError as error:
        return (f"the second reading gave no usable answer ({error}), so send the conversation once more",)
    if judgement.realised:
        return ()
    told = [judgement.reasons] if isinstance(judgement.reasons, str) else judgement.reasons or []
    reasons = [" ".join(reason.split()) for reason in told if reason.strip()]
    return tuple(f"premise not realised: {reason}" for reason in reasons or ["no reason was given"])


def _one_object(reply: str) -> dict[str, Any]:
    r"""The JSON object in a reply, whatever stands around it.

    >>> _one_object('Here it is:\n```json\n{"turn1": "Well."}\n```')
    {'turn1': 'Well.'}

    Raises:
        ValueError: there is none.
    """
    start, end = reply.find("{"), reply.rfind("}")
    try:
        found = json.loads(reply[start : end + 1] if 0 <= start < end else reply)
        # A lone surrogate is JSON and no text.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not one JSON object ({error})") from error
    if not isinstance(found, dict):
        raise ValueError("the reply is not one JSON object")
    return found


def _parsed(wanted: Wanted, found: Mapping[str, Any]) -> Script:
    """Read as a script file of one conversation; JSON is YAML."""
    entry = {
        "probe": wanted.probe,
        "instance": wanted.instance,
        **{k: v for k, v in found.items() if v not in ([], None)},
    }
    with tempfile.TemporaryDirectory(prefix="dsbif-author-") as folder:
        path = Path(folder) / f"{wanted.role}.yaml"
        path.write_text(json.dumps({"role": wanted.role, "conversations": [entry]}, ensure_ascii=False), "utf-8")
        try:
            (script,) = load_scripts(path)
        except CaseError as error:
            raise CaseError(str(error).replace(f"{path}:1: ", "").replace(str(path), "of the reply")) from error
    readback = tuple(" ".join(target.split()) for target in script.readback)
    return replace(script, readback=readback, where="reply")


def _repeated(script: Script) -> Iterator[str]:
    """The variant repeats turn 2, so that only what is appended differs."""
    kept = script.safety_turn2[: len(script.turn2)]
    if kept and [(line.text, line.pause_s) for line in kept] != [(line.text, line.pause_s) for line in script.turn2]:
        yield "safety_turn2: it does not begin with turn 2, word for word"
