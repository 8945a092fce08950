"""Every kind of agent against every action, as a table that people can read.

A difference is a change of the rules: look at each changed cell, raise ``RULES_VERSION``, and print the table anew:
``PYTHONPATH=tests python tests/golden/test_golden_verdicts.py > verdicts.new``.
"""

from pathlib import Path

from builders import PAPER, a_case, a_recording, heard

from dsbif.bench.actions import Action
from dsbif.score import RULES_VERSION
from dsbif.score.measure import measure
from dsbif.score.verdict import Verdict, judge_case
from dsbif.spans import Span

GOLDEN = Path(__file__).with_name("verdicts.txt")
BARGE_INS = (Action.YIELD, Action.CONTINUE, Action.ACCEPT_OVERLAP)
END_S = 40.0
AGENTS: dict[str, tuple[tuple[float, float], ...]] = {
    "never speaks": (),
    "speaks to the end of the file": ((-8.0, END_S),),
    "stops 1.00 s before w0": ((-3.0, -1.0),),
    "stops 0.02 s before w0": ((-3.0, -0.02),),
    "stops 0.40 s after w0": ((-3.0, 0.4),),
    "stops 0.59 s after w0": ((-3.0, 0.59),),
    "stops 0.61 s after w0": ((-3.0, 0.61),),
    "stops 2.00 s after w0": ((-3.0, 2.0),),
    "stops for 0.25 s at w0, goes on to 2.00": ((-3.0, 0.1), (0.35, 2.0)),
    "stops at 0.10, a word at 0.50 for 0.40 s": ((-3.0, 0.1), (0.5, 0.9)),
    "a word at 0.10 for 0.40 s": ((0.1, 0.5),),
    "a word at 0.50 for 0.98 s": ((0.5, 1.48),),
    "a word at 0.50 for 1.02 s": ((0.5, 1.52),),
    "two words, 0.25 s between": ((0.5, 0.8), (1.05, 1.3)),
    "two words, 1.00 s between": ((0.5, 0.8), (1.8, 2.1)),
    "begins at 1.45, 4 s": ((1.45, 5.45),),
    "begins at 1.55, 4 s": ((1.55, 5.55),),
    "begins at 1.98, 4 s": ((1.98, 5.98),),
    "begins at 2.02, 4 s": ((2.02, 6.02),),
    "begins at 2.52, 4 s": ((2.52, 6.52),),
    "begins at 3.02, 4 s": ((3.02, 7.02),),
    "begins at 0.50, to the end of the file": ((0.5, END_S),),
}


def _letter(action: Action, agent: tuple[tuple[float, float], ...]) -> str:
    window = Span(0.0, 3.0) if action in BARGE_INS else Span(3.0, 5.5)
    w0_s = 10.0 + window.start_s
    case = a_case(
        expected_action=action,
        role="R2",
        window=window,
        verifier_params={},
    )
    sound = heard(*((w0_s + start, min(w0_s + end, END_S)) for start, end in agent), duration_s=END_S)
    verdict = judge_case(case, measure(case, a_recording(case), sound), PAPER)
    assert isinstance(verdict, Verdict)
    return ("pass" if verdict.passed else "-") + ("~" if verdict.borderline else "")


def table() -> str:
    """The whole file."""
    pauses = [action for action in Action if action not in (*BARGE_INS, Action.READBACK)]
    actions = [*pauses, *BARGE_INS]
    head = f"{f'rules version {RULES_VERSION}':44}" + "".join(f"{action:>16}" for action in actions)
    lines = [
        f"{name:44}" + "".join(f"{_letter(action, agent):>16}" for action in actions) for name, agent in AGENTS.items()
    ]
    note = (
        "Times count from w0. The first five actions: a pause of 2.50 s, after which the user goes on.\n"
        "The last three: the first 3.00 s of a barge-in, in which the user speaks.\n"
        "Role R2, the paper's thresholds; ~ is borderline.\n"
    )
    return note + "\n" + "\n".join([head, *lines]) + "\n"


def test_verdicts_are_those_of_this_version_of_the_rules() -> None:
    assert table() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    print(table(), end="")
