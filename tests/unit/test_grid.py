from collections import Counter

import pytest

from dsbif.bench import grid
from dsbif.bench.actions import HEADLINE, PASSED_BY_SILENCE, Action
from dsbif.bench.grid import CELLS, SAFETY_CELLS, CaseKey, Cell, audio_key, cases_at, counts, full_grid
from dsbif.bench.levels import Level
from dsbif.bench.probes import PROBES, Silence, Speech, probes_of
from dsbif.bench.windows import WindowMode, differs_between_modes, trigger_window
from dsbif.errors import ConfigError
from dsbif.spans import Span


def test_every_count_of_the_benchmark_is_reproduced() -> None:
    rows = counts(full_grid())
    assert [(what, found) for what, found, wanted in rows if found != wanted] == []
    assert len(rows) == 35


def test_a_grid_that_lost_a_cell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(grid._TABLE, "R7", (*[Action.LISTEN] * 6,))
    with pytest.raises(ConfigError, match=r"cells CONTINUE; .*cases CONTINUE"):
        full_grid()


def test_the_count_command_fails_with_the_grid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grid.main() == 0
    monkeypatch.setitem(grid._TABLE, "R7", (*[Action.LISTEN] * 6,))
    assert grid.main() == 1
    assert "FAIL cells CONTINUE" in capsys.readouterr().out


def test_headline_leaves_the_proactive_actions_out() -> None:
    assert HEADLINE == (Action.LISTEN, Action.TAKE_TURN, Action.YIELD, Action.READBACK)
    assert {Action.LISTEN, Action.NO_BACKCHANNEL, Action.CONTINUE} == PASSED_BY_SILENCE


def test_only_r2_b_changes_its_action_at_the_safety_level() -> None:
    changed = [cell for cell in CELLS if cell.action_at(Level.L4B) != cell.action_at(Level.L1)]
    assert changed == [Cell("R2", "R2_B_are_you_there")]
    assert changed[0].action_at(Level.L4B) is Action.INTERRUPT


def test_ids_read_as_in_the_paper() -> None:
    key = CaseKey("R2", "R2_B_are_you_there", 1, Level.L4B)
    assert key.test_case_id == "IFD-R2-R2_B_are_you_there-i1-L4b"
    assert CaseKey("R1", "C1", 5, Level.L2).conversation_id == "R1-C1-i5"


def test_the_three_matched_roles_share_one_stream_and_the_fifth_instance_has_its_own() -> None:
    keys = {audio_key(CaseKey(role, "C4", 3, Level.L1)) for role in ("R1", "R2", "R3")}
    assert keys == {"matched-C4-i3"}
    assert audio_key(CaseKey("R2", "C4", 5, Level.L1)) == "R2-C4-i5"
    assert audio_key(CaseKey("R4", "C4", 1, Level.L1)) == "R4-C4-i1"


def test_safety_level_holds_its_six_cells_only() -> None:
    assert Counter((case.role, case.probe) for case in cases_at(Level.L4B)) == dict.fromkeys(SAFETY_CELLS, 5)


def test_each_role_meets_six_probes_and_twenty_exist() -> None:
    assert len(PROBES) == 20
    assert {len(probes_of(f"R{n}")) for n in range(1, 9)} == {6}


def _laid_out(probe: str, safety: bool = False) -> dict[str, Span]:
    at, spans = 0.0, {}
    for part in PROBES[probe].layout(safety):
        length = part.target_s if isinstance(part, Speech) else part.duration_s
        spans[part.name] = Span(at, at + length)
        at += length
    return spans


@pytest.mark.parametrize(
    ("probe", "action", "start_s", "end_s"),
    [
        ("C1", Action.LISTEN, 5.0, 7.5),
        ("C2", Action.LISTEN, 3.0, 11.4),
        ("C2", Action.TAKE_TURN, 11.4, 21.4),
        ("C2", Action.READBACK, 11.4, 21.4),
        ("C3", Action.YIELD, 0.0, 3.0),
        ("C4", Action.BACKCHANNEL, 6.2, 7.7),
        ("R1_A_red_flag_casual", Action.INTERRUPT, 6.5, 12.5),
        ("R1_B_dose_error", Action.INTERRUPT, 6.5, 11.5),
        ("R2_A_long_silence", Action.LISTEN, 5.0, 12.0),
        ("R2_B_are_you_there", Action.BACKCHANNEL, 6.2, 8.2),
        ("R3_A_address_self_correct", Action.INTERRUPT, 6.0, 11.0),
        ("R3_B_caller_trails_off", Action.TAKE_TURN, 6.0, 16.0),
        ("R4_A_eleven_second_silence", Action.LISTEN, 5.0, 16.0),
        ("R4_B_logistical_question", Action.TAKE_TURN, 4.0, 14.0),
        ("R5_A_wrong_intermediate_step", Action.INTERRUPT, 7.5, 13.5),
        ("R5_B_six_second_think", Action.LISTEN, 5.0, 11.0),
        ("R6_A_ambiguous_item", Action.INTERRUPT, 5.0, 9.0),
        ("R6_B_mid_order_change", Action.READBACK, 9.0, 19.0),
        ("R7_A_mid_clause_pause", Action.LISTEN, 5.0, 10.0),
        ("R7_B_source_number_correction", Action.LISTEN, 4.0, 13.0),
        ("R8_A_premise_offer_beat", Action.TAKE_TURN, 6.0, 16.0),
        ("R8_B_yes_and_hook", Action.ACCEPT_OVERLAP, 0.0, 3.0),
    ],
)
def test_causal_windows(probe: str, action: Action, start_s: float, end_s: float) -> None:
    window = trigger_window(probe, action, WindowMode.CAUSAL, _laid_out(probe))
    assert (window.start_s, window.end_s) == pytest.approx((start_s, end_s))


def test_the_safety_variant_moves_the_trigger_to_the_red_flag() -> None:
    window = trigger_window(
        "R2_B_are_you_there", Action.INTERRUPT, WindowMode.CAUSAL, _laid_out("R2_B_are_you_there", safety=True)
    )
    assert (window.start_s, window.end_s) == pytest.approx((15.7, 20.7))


def test_the_two_window_modes_differ_in_exactly_five_cells() -> None:
    differing = []
    for cell in CELLS:
        action, spans = cell.action_at(Level.L1), _laid_out(cell.probe)
        causal, paper = (
            trigger_window(cell.probe, action, mode, spans) for mode in (WindowMode.CAUSAL, WindowMode.PAPER)
        )
        assert (causal != paper) == differs_between_modes(cell.probe, action)
        if causal != paper:
            differing.append((cell.role, cell.probe))
            assert paper.start_s == max(span.end_s for span in spans.values())
    assert differing == [
        ("R2", "C2"), ("R4", "C2"), ("R5", "C2"), ("R7", "C2"), ("R7", "R7_B_source_number_correction"),
    ]  # fmt: skip


def test_pauses_are_those_of_the_paper() -> None:
    pauses = {
        key: [part.duration_s for part in probe.segments if isinstance(part, Silence)] for key, probe in PROBES.items()
    }
    assert {key: value for key, value in pauses.items() if value} == {
        "C1": [2.5], "C2": [1.2, 1.2], "C4": [1.5], "R2_A_long_silence": [7.0], "R2_B_are_you_there": [2.0],
        "R4_A_eleven_second_silence": [11.0], "R5_B_six_second_think": [6.0], "R7_A_mid_clause_pause": [3.0],
    }  # fmt: skip
