"""Which segments, as they were spoken, miss their targets: ``python -m dsbif.build.spoken MANIFEST`` exits 1 on any.

``lint`` estimates durations from words; this reads them from a built run's ``manifest.jsonl``, where segment times are
known from construction. The rule is the same: more than half off its target is a rejection.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dsbif.bench.case import Case, UserTurn
from dsbif.bench.levels import Level
from dsbif.bench.manifest import read_manifest
from dsbif.bench.probes import PROBES, TURN1_TARGET_S, Speech
from dsbif.build.lint import Fault, misses_target
from dsbif.errors import CaseError


def check_audio(cases: Sequence[Case]) -> list[Fault]:
    """Every segment that misses its target; a turn that several cases share is checked once."""
    faults: dict[str, list[Fault]] = {}
    for case in cases:
        for turn in (case.turn1, case.turn2):
            if turn.audio not in faults:
                faults[turn.audio] = list(_faults(case, turn, _targets(case)))
    return [fault for found in faults.values() for fault in found]


def _targets(case: Case) -> Mapping[str, float]:
    layout = PROBES[case.probe].layout(safety=case.level is Level.L4B)
    return {"turn1": TURN1_TARGET_S, **{part.name: part.target_s for part in layout if isinstance(part, Speech)}}


def _faults(case: Case, turn: UserTurn, targets: Mapping[str, float]) -> Iterator[Fault]:
    for segment in turn.segments:
        spoken_s, target_s = segment.span.duration_s, targets.get(segment.name)
        if segment.kind == "speech" and target_s and misses_target(segment.name, spoken_s, target_s):
            detail = f"{segment.name} takes {spoken_s:.1f} s with voice {case.voice}; its target is {target_s:g} s"
            yield Fault(turn.audio, case.conversation_id, "spoken length", detail)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a manifest; 1 on any fault, 2 where it cannot be used."""
    named = sys.argv[1:] if arguments is None else arguments
    if len(named) != 1 or named[0].startswith("-"):
        print("usage: python -m dsbif.build.spoken MANIFEST", file=sys.stderr)
        return 2
    try:
        cases = read_manifest(Path(named[0]))
    except CaseError as error:
        print(f"dsbif: {error}", file=sys.stderr)
        return 2
    faults = check_audio(cases)
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"audio of {len(cases)} cases: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
