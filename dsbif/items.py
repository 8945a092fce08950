"""What of a run is put to a judge, be it a model or a person: the same words for both.

A case whose prompt is not this project's own text (a release may carry prompts of its own) is judged by what its prompt
says: the first paragraphs are the persona, the last one is the line that contradicts it. Where a prompt holds no
persona (L0, L1), the role's own stands in.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from dsbif.bench.case import Case
from dsbif.bench.grid import CaseKey
from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest
from dsbif.bench.roles import ROLES_DIR, Role, load_roles
from dsbif.errors import CaseError, ConfigError
from dsbif.judge.prompt import JudgeItem
from dsbif.rundir import RunDir
from dsbif.score.measure import Measurement, read_measurement
from dsbif.session.foreign import read_any_recording
from dsbif.session.recording import TextPiece, Transcript

_WITH_PERSONA = (Level.L2, Level.L3, Level.L4A, Level.L4B)


def item_of(role: Role, case: Case, transcript: Transcript, agent_spoke: bool) -> JudgeItem:
    """One case as judges see it."""
    key = CaseKey(case.role, case.probe, case.instance, case.level)
    line = role.contradiction_for(key)
    ours = case.system_prompt == role.prompt_for(key)
    persona, theirs = (role.persona, line) if ours else _told(case, role.persona, line)
    return JudgeItem(
        case=case,
        persona=persona,
        contradiction=theirs,
        transcript=transcript,
        agent_spoke=agent_spoke,
        target=role.targets.get(case.probe) if case.level is Level.L4A and theirs == line else None,
    )


def _told(case: Case, persona: str, line: str | None) -> tuple[str, str | None]:
    """Persona and contradicting line of a prompt that is not ours."""
    prompt = case.system_prompt.strip()
    if case.level not in _WITH_PERSONA or not prompt:
        return persona, line
    if case.level is Level.L2:
        return prompt, None
    first, gap, last = prompt.rpartition("\n\n")
    if not gap:  # one paragraph: nobody can tell where the persona ends
        return persona, line
    return first.strip(), last.strip() if case.level.is_conflict else None


def open_run(path: Path) -> RunDir:
    """A run's directory, with the recordings that it was scored on.

    Raises:
        ConfigError: there is no run.
    """
    described = _described(path)
    elsewhere = described.get("data", {}).get("recordings")
    return RunDir(path, Path(elsewhere) if elsewhere else None)


def run_items(run: RunDir, recogniser: str | None = None) -> list[JudgeItem]:
    """Every measured case of a run, in the manifest's order.

    Args:
        run: a scored run.
        recogniser: whose ``transcripts.{recogniser}.jsonl`` stands for the agent's own words where scoring used a
            recogniser; None: the only one that is there, and none where the record itself holds a recogniser's words.

    Raises:
        CaseError: the run is not scored, or a file of it is broken.
        ConfigError: there is no run, or it was transcribed by several recognisers and none is named.
    """
    folder = _described(run.path).get("paths", {}).get("roles")
    roles = load_roles(Path(folder) if folder else ROLES_DIR)
    measured = dict(_measured(run))
    heard: Mapping[str, Transcript] | None = None
    items = []
    for case in read_manifest(run.manifest):
        if found := measured.get(case.test_case_id):
            said = read_any_recording(run.rec(case.test_case_id), case, found.duration_s).transcript
            if found.transcript_source == "asr" and (said.source != "asr" or recogniser):
                heard = _heard(run, recogniser) if heard is None else heard
                said = heard.get(case.test_case_id, said)
            items.append(item_of(roles[case.role], case, said, bool(found.agent_spans)))
    return items


def _described(path: Path) -> Mapping[str, Any]:
    config = RunDir(path).config
    try:
        described = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} is no run directory ({error}); name one, such as runs/NAME.") from error
    if not isinstance(described, dict):
        raise ConfigError(f"{config} holds no configuration; name a run directory, such as runs/NAME.")
    return described


def _measured(run: RunDir) -> Iterator[tuple[str, Measurement]]:
    for where, raw in _lines(run.measurements, "Score the run first (stage=score)."):
        if "measured" in raw:
            yield str(raw.get("test_case_id")), read_measurement(raw["measured"], where)


def _heard(run: RunDir, recogniser: str | None) -> dict[str, Transcript]:
    there = sorted(path.name.split(".")[1] for path in run.path.glob("transcripts.*.jsonl"))
    if recogniser is None and len(there) > 1:
        raise ConfigError(f"{run.path} was transcribed by {' and '.join(there)}; say whose words are meant.")
    if not there or (recogniser and recogniser not in there):
        raise ConfigError(f"{run.path} has no transcripts.{recogniser or '*'}.jsonl; score it again (stage=score).")
    path = run.path / f"transcripts.{recogniser or there[0]}.jsonl"
    rows = _lines(path, "Remove it to have the recordings transcribed again.")
    return {str(r.get("test_case_id")): Transcript("asr", (TextPiece(1, str(r.get("text") or "")),)) for _, r in rows}


def _lines(path: Path, advice: str) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path} cannot be read ({error}). {advice}") from error
    for number, line in enumerate(lines, 1):
        try:
            raw = json.loads(line)
        except ValueError as error:
            raise CaseError(f"{path}:{number}: {error}. {advice}") from error
        if not isinstance(raw, dict):
            raise CaseError(f"{path}:{number}: every line must be one JSON object. {advice}")
        yield f"{path}:{number}", raw
