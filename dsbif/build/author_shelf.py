"""The folder that written conversations go to: script files that ``load_scripts`` reads, and a log of every call."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from dsbif.bench.grid import ROLE_IDS, matched_key
from dsbif.bench.probes import probes_of
from dsbif.build.author_prompt import Wanted
from dsbif.build.lint import check_corpus
from dsbif.build.script import Line, Script, load_corpus, scan_scripts
from dsbif.files import write_text

LOG_FILE = "author.log.jsonl"
_LENDER = "R1"
"""Whose file the shared conversations are written in."""


class Shelf:
    """What is written already, in memory and on disk. Safe for several threads, not for several processes."""

    def __init__(self, folder: Path) -> None:
        """Read what the folder holds.

        Raises:
            CaseError: a script file in it is broken.
        """
        self._folder = folder
        self._lock = threading.Lock()
        self._entries: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
        self._scripts: dict[str, Script] = {f"benchmark {cid}": script for cid, script in load_corpus().items()}
        files = {role: folder / f"{role}.yaml" for role in ROLE_IDS if (folder / f"{role}.yaml").exists()}
        for role, path in files.items():
            scripts, faults = scan_scripts(path, files)
            if faults:
                raise faults[0]
            self._scripts |= {script.conversation_id: script for script in scripts}
            entries = yaml.safe_load(path.read_text(encoding="utf-8"))["conversations"]
            self._entries[role] = {(entry["probe"], entry["instance"]): entry for entry in entries}

    def has(self, wanted: Wanted) -> bool:
        """Whether a conversation is written already."""
        return wanted.conversation_id in self._scripts

    def path(self, role: str) -> Path:
        """A role's script file."""
        return self._folder / f"{role}.yaml"

    def taken(self, wanted: Wanted) -> list[str]:
        """The first turns of the cell's other conversations, the benchmark's among them."""
        with self._lock:
            same = (one for one in self._scripts.values() if (one.role, one.probe) == (wanted.role, wanted.probe))
            return sorted({script.turn1 for script in same})

    def clashes(self, script: Script) -> tuple[str, ...]:
        """The runs of words that a conversation shares with any other, here or in the benchmark."""
        with self._lock:
            return self._clashes(script)

    def add(self, script: Script) -> tuple[str, ...]:
        """Put a conversation on the shelf and its file on disk, or say why not: one like it came in meanwhile.

        Raises:
            OSError: the folder cannot be written.
        """
        with self._lock:
            faults = self._clashes(script)
            if not faults:
                self._put(script, _entry(script))
            return faults

    def borrow(self, wanted: Wanted) -> tuple[str, ...]:
        """Write that a shared conversation is R1's, or say that R1's is missing."""
        lender = replace(wanted, role=_LENDER)
        with self._lock:
            if lender.conversation_id not in self._scripts:
                return (f"shares its audio with {lender.conversation_id}, which is not written: write that one first",)
            entry = {"probe": wanted.probe, "instance": wanted.instance, "same_as": _LENDER}
            self._put(replace(self._scripts[lender.conversation_id], role=wanted.role), entry)
            return ()

    def log(self, line: Mapping[str, Any]) -> None:
        """Append one line to the log."""
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / LOG_FILE).open("a", encoding="utf-8") as log:
                log.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _clashes(self, script: Script) -> tuple[str, ...]:
        # As instance 0 it is nobody's namesake: a copy of the benchmark's own conversation of this id is found too.
        guest = replace(script, instance=0)
        found = check_corpus({**self._scripts, "guest": guest}, ())
        return tuple(f"{f.rule}: {f.detail}" for f in found if f.rule == "distinct" and f.where == script.where)

    def _put(self, script: Script, entry: dict[str, Any]) -> None:
        entries = {**self._entries.get(script.role, {}), (script.probe, script.instance): entry}
        order = probes_of(script.role)
        ordered = dict(sorted(entries.items(), key=lambda item: (item[0][1], order.index(item[0][0]))))
        write_text(self.path(script.role), script_yaml(script.role, list(ordered.values())))
        self._entries[script.role] = ordered
        self._scripts[script.conversation_id] = replace(script, where=str(self.path(script.role)))


def is_borrowed(wanted: Wanted) -> bool:
    """Whether a conversation is R1's, word for word, and so is not written by itself."""
    return wanted.role != _LENDER and matched_key(wanted.role, wanted.probe, wanted.instance) is not None


def script_yaml(role: str, entries: Sequence[Mapping[str, Any]]) -> str:
    """A script file's text, in the form of the benchmark's own files."""
    lines = [f"role: {role}", "conversations:"]
    for entry in entries:
        lines += _entry_lines(entry)
    return "\n".join(lines) + "\n"


def _entry_lines(entry: Mapping[str, Any]) -> Iterator[str]:
    if "same_as" in entry:
        yield f"  - {{probe: {entry['probe']}, instance: {entry['instance']}, same_as: {entry['same_as']}}}"
        return
    yield f"  - probe: {entry['probe']}"
    yield f"    instance: {entry['instance']}"
    yield f"    turn1: {_quoted(entry['turn1'])}"
    for turn in ("turn2", "safety_turn2"):
        if entry.get(turn):
            yield f"    {turn}:"
            for item in entry[turn]:
                yield f"      - say: {_quoted(item['say'])}" if "say" in item else f"      - pause: {item['pause']}"
    if entry.get("readback"):
        yield f"    readback: [{', '.join(_quoted(target) for target in entry['readback'])}]"


def _quoted(text: str) -> str:
    """A JSON string is a double-quoted YAML one."""
    return json.dumps(text, ensure_ascii=False)


def _entry(script: Script) -> dict[str, Any]:
    entry: dict[str, Any] = {"probe": script.probe, "instance": script.instance, "turn1": script.turn1}
    entry |= {"turn2": _items(script.turn2), "safety_turn2": _items(script.safety_turn2)}
    return entry | {"readback": list(script.readback)}


def _items(lines: Sequence[Line]) -> list[dict[str, Any]]:
    return [{"say": line.text} if line.text else {"pause": line.pause_s} for line in lines]
