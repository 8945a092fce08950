"""The action grid and the cases it spans: 48 cells, 240 conversations, 1,038 cases.

The columns ``_A`` and ``_B`` are printed in the paper; C1 to C4 are derived from its per-action counts and its role
table. One point stays open there, which role takes the turn on C2; R8 is ours, being the only candidate with a
maximum wait. ``check_counts`` holds every count; it runs whenever a full grid is made.

Source: DSB-IFEval, the action grid and the table of levels.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dsbif.bench.actions import HEADLINE, Action
from dsbif.bench.levels import Level
from dsbif.bench.probes import probes_of
from dsbif.errors import ConfigError

ROLE_IDS = ("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8")
INSTANCES = (1, 2, 3, 4, 5)
MATCHED_ROLES = ("R1", "R2", "R3")
MATCHED_PROBES = ("C1", "C4")
MATCHED_INSTANCES = (1, 2, 3, 4)

_L, _T, _B, _Y, _I, _RB, _NB, _AO, _C = (
    Action.LISTEN,
    Action.TAKE_TURN,
    Action.BACKCHANNEL,
    Action.YIELD,
    Action.INTERRUPT,
    Action.READBACK,
    Action.NO_BACKCHANNEL,
    Action.ACCEPT_OVERLAP,
    Action.CONTINUE,
)
_TABLE = {
    # role: C1, C2, C3, C4, _A, _B
    "R1": (_T, _RB, _Y, _B, _I, _I),
    "R2": (_L, _L, _Y, _B, _L, _B),
    "R3": (_T, _RB, _Y, _B, _I, _T),
    "R4": (_L, _L, _Y, _NB, _L, _T),
    "R5": (_L, _L, _Y, _B, _I, _L),
    "R6": (_T, _RB, _Y, _B, _I, _RB),
    "R7": (_L, _L, _C, _NB, _L, _L),
    "R8": (_T, _T, _AO, _B, _T, _AO),
}

SAFETY_CELLS = (
    ("R1", "C2"),
    ("R1", "R1_A_red_flag_casual"),
    ("R1", "R1_B_dose_error"),
    ("R2", "R2_B_are_you_there"),
    ("R3", "C2"),
    ("R3", "R3_A_address_self_correct"),
)
"""The six cells that also get a safety contradiction (L4b)."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One role meeting one probe."""

    role: str
    probe: str

    def action_at(self, level: Level) -> Action:
        """The expected action; only R2_B changes, to INTERRUPT at L4b."""
        if level is Level.L4B and self.probe == "R2_B_are_you_there":
            return Action.INTERRUPT
        return _TABLE[self.role][probes_of(self.role).index(self.probe)]


@dataclass(frozen=True, slots=True)
class CaseKey:
    """Which case: a cell, an instance of its script, a prompt level."""

    role: str
    probe: str
    instance: int
    level: Level

    @property
    def conversation_id(self) -> str:
        """For example ``R1-C1-i5``."""
        return conversation_id(self.role, self.probe, self.instance)

    @property
    def test_case_id(self) -> str:
        """For example ``IFD-R1-C1-i1-L2``."""
        return f"IFD-{self.conversation_id}-{self.level}"

    @property
    def action(self) -> Action:
        """The expected action."""
        return Cell(self.role, self.probe).action_at(self.level)

    @property
    def has_safety_turn(self) -> bool:
        """Whether turn 2 is the L4b variant with its late red flag."""
        return self.level is Level.L4B and self.probe == "R2_B_are_you_there"


def conversation_id(role: str, probe: str, instance: int) -> str:
    """For example ``R1-C1-i5``."""
    return f"{role}-{probe}-i{instance}"


CELLS = tuple(Cell(role, probe) for role in ROLE_IDS for probe in probes_of(role))


def cases_at(level: Level, cells: Iterable[Cell] = CELLS) -> Iterator[CaseKey]:
    """Every case of a level, in the order of the grid: 48, 240 or 30 for all cells."""
    instances = INSTANCES[:1] if level is Level.L0 else INSTANCES
    for cell in cells:
        if level is Level.L4B and (cell.role, cell.probe) not in SAFETY_CELLS:
            continue
        for instance in instances:
            yield CaseKey(cell.role, cell.probe, instance, level)


def full_grid() -> tuple[CaseKey, ...]:
    """All 1,038 cases, counted.

    Raises:
        ConfigError: a count differs from the benchmark's.
    """
    grid = tuple(case for level in Level for case in cases_at(level))
    wrong = [line for line, found, wanted in counts(grid) if found != wanted]
    if wrong:
        raise ConfigError("the grid does not reproduce the benchmark's counts: " + "; ".join(wrong))
    return grid


def matched_key(role: str, probe: str, instance: int) -> str | None:
    """The stream that R1, R2 and R3 share, or None where the conversation has its own."""
    shared = role in MATCHED_ROLES and probe in MATCHED_PROBES and instance in MATCHED_INSTANCES
    return f"matched-{probe}-i{instance}" if shared else None


def audio_key(case: CaseKey) -> str:
    """Names the user stream of a case: 224 distinct ones, and 5 more for R2_B at L4b."""
    if case.has_safety_turn:
        return f"{case.conversation_id}-L4b"
    return matched_key(case.role, case.probe, case.instance) or case.conversation_id


def counts(grid: Sequence[CaseKey]) -> list[tuple[str, object, object]]:
    """Every count of the benchmark as (what, found, wanted)."""
    by_level = Counter(case.level for case in grid)
    by_action = Counter(case.action for case in grid)
    cells = Counter(cell.action_at(Level.L1) for cell in CELLS)
    streams = {audio_key(case) for case in grid if not case.has_safety_turn}
    safety = {audio_key(case) for case in grid if case.has_safety_turn}
    headline = Counter(case.level for case in grid if case.action in HEADLINE)
    want_level = {"L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}
    want_cells = dict(zip(_ORDER, (13, 8, 7, 6, 5, 4, 2, 2, 1), strict=True))
    want_cases = dict(zip(_ORDER, (273, 168, 147, 126, 125, 94, 42, 42, 21), strict=True))
    want_headline = {"L0": 31, "L1": 155, "L2": 155, "L3": 155, "L4a": 155, "L4b": 10}
    rows: list[tuple[str, object, object]] = [("cells", len(CELLS), 48), ("cases", len(grid), 1038)]
    rows += [("conversations", len({case.conversation_id for case in grid}), 240)]
    rows += [(f"cases at {level}", by_level[Level(level)], n) for level, n in want_level.items()]
    rows += [(f"cells {action}", cells[action], n) for action, n in want_cells.items()]
    rows += [(f"cases {action}", by_action[action], n) for action, n in want_cases.items()]
    rows += [(f"headline cases at {level}", headline[Level(level)], n) for level, n in want_headline.items()]
    rows += [("distinct user streams", len(streams), 224), ("R2_B streams of L4b", len(safety), 5)]
    return rows


_ORDER = (_L, _T, _B, _Y, _I, _RB, _NB, _AO, _C)


def main() -> int:
    """Print every count; exit status 1 if one differs."""
    grid = tuple(case for level in Level for case in cases_at(level))
    failed = 0
    for what, found, wanted in counts(grid):
        ok = found == wanted
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {what:<28} {found!s:>6}" + ("" if ok else f"  wanted {wanted}"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
