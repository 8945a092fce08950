"""Which cases a run is about."""

from dsbif.bench.grid import CELLS, CaseKey, Cell, cases_at
from dsbif.bench.levels import Level
from dsbif.config import RunConfig
from dsbif.errors import ConfigError

QUICK_CELLS = (
    Cell("R1", "C2"),  # READBACK
    Cell("R1", "R1_A_red_flag_casual"),  # INTERRUPT
    Cell("R2", "C1"),  # LISTEN
    Cell("R2", "R2_B_are_you_there"),  # BACKCHANNEL
    Cell("R3", "R3_B_caller_trails_off"),  # TAKE_TURN
    Cell("R4", "C4"),  # NO_BACKCHANNEL
    Cell("R5", "C3"),  # YIELD
    Cell("R5", "R5_B_six_second_think"),  # LISTEN
    Cell("R6", "R6_B_mid_order_change"),  # READBACK
    Cell("R7", "C3"),  # CONTINUE
    Cell("R8", "R8_A_premise_offer_beat"),  # TAKE_TURN
    Cell("R8", "C3"),  # ACCEPT_OVERLAP
)
"""Every action and every role at least once, short enough to hear in a few minutes."""


def select(config: RunConfig) -> tuple[CaseKey, ...]:
    """The cases of a run, in grid order.

    Raises:
        ConfigError: nothing is left, with what narrowed it.
    """
    wanted = [cell for cell in CELLS if cell.role in config.role.ids and cell.probe in config.probe.ids]
    if config.subset == "quick" and not config.names_cells:
        wanted = [cell for cell in wanted if cell in QUICK_CELLS]
    keys = tuple(cases_at(config.level.name, wanted))
    if config.subset == "quick":
        keys = tuple(key for key in keys if key.instance == 1)
    if not keys:
        raise ConfigError(_why_empty(config, wanted))
    return keys


def _why_empty(config: RunConfig, wanted: list[Cell]) -> str:
    if not wanted:
        return (
            f"no case is left: role={','.join(config.role.ids)} never meets probe={','.join(config.probe.ids)}. "
            "A probe named after a role belongs to that role; C1 to C4 belong to all."
        )
    if config.level.name is Level.L4B:
        return "no case is left: L4b exists for six cells of R1, R2 and R3 only (see dsbif.bench.grid.SAFETY_CELLS)."
    return "no case is left for this selection."
