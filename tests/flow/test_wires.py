"""The same brain over another wire: each system's quick subset against its peer, with the cascade behind it.

The verdicts must be the cascade's own, as recorded in lockstep, where the wire hears and speaks as it comes. Where its
protocol works piece by piece they must be those of a cascade that is late by as much, without a clock
(``peers.behind``). Of turn-based systems they must be those of a cascade that is asked in turns.

Fun-Audio-Chat's live mode is left out: a button is held there, and how long an answer takes is the server's alone.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import ASSETS
from hydra import compose, initialize_config_dir
from peers import freeze_omni, gemini_live, minicpmo, openai_realtime
from peers.freeze_omni import freeze_omni_peer
from peers.fun_audio_chat import fun_audio_chat_peer
from peers.gemini_live import gemini_peer
from peers.minicpmo import minicpmo_peer
from peers.openai_realtime import openai_peer
from peers.voice import CascadeVoice, MakeVoice, cascade_settings, ears_of
from peers.websocket import websocket_peer

from dsbif.config import from_omegaconf
from dsbif.corridor import Outcome, run
from dsbif.files import CONF_DIR
from dsbif.score.rows import ResultRow
from dsbif.session.recording import Recording, read_recording

pytestmark = pytest.mark.alone

TOLERANCE_S = 0.16
"""A detector is certain to 50 ms, and two stand in each figure: the cascade's, which hears the user, and the scorer's,
which hears the cascade. A wire moves what they hear on their grids: by a frame of 20 ms, which goes out as it begins,
and by 40 ms that a resampler holds back."""
PACING = (
    "model.pacing.gap_s=3", "model.pacing.trailing_s=14", "model.pacing.onset_timeout_s=8",
    "++model.pacing.answer_timeout_s=0", "++model.pacing.final_timeout_s=0", "++model.pacing.flush_s=0",
)  # fmt: skip
"""One for all; the tail is as long as the cascade takes to repeat an order (R6_B)."""
CASES = 12
AT_ONCE = 4
"""A peer hears with a detector a session, in the client's own process: with all twelve, they hold one another up."""
LATE_MS = 60.0
"""Three frames. Where a frame went out later, the machine did not keep the clock, and what came of it says nothing."""
ATTEMPTS = 3


@dataclass(frozen=True)
class Wire:
    """A live system's configuration, its peer, and the grain of its protocol in words of ``peers.behind``."""

    words: Sequence[str]
    peer: Callable[[MakeVoice], AbstractContextManager[Any]]
    address: str = "model.base_url"
    grain: Sequence[str] = ()
    live: bool = True


WIRES = {
    "gpt_realtime": Wire(["model=gpt_realtime"], openai_peer),
    # It hears 16 kHz, as the two below: on the way there and back 80 ms are held back, and the detector hears less.
    "gemini_live": Wire(["model=gemini_live"], gemini_peer, grain=["+model.piece_s=0.02"]),
    "websocket": Wire(["model=websocket"], websocket_peer, "model.url"),
    # Sound comes in answer to pieces of 160 ms, and no words at all: READBACK is unscored.
    "freeze_omni": Wire(
        ["model=freeze_omni"],
        partial(freeze_omni_peer, manners=freeze_omni.Manners(max_users=AT_ONCE + 1, burst=True)),
        grain=["+model.piece_s=0.16", "+model.asked_for=true", "+model.wordless=true"],
    ),
    # It decides once a second.
    "minicpmo": Wire(
        ["model=minicpmo", "transport=duplex"],
        partial(minicpmo_peer, manners=minicpmo.Manners(workers=AT_ONCE)),
        grain=["+model.piece_s=1.0"],
    ),
    "minicpmo in turns": Wire(["model=minicpmo"], minicpmo_peer, live=False),
    # Its server tells no end of an answer: silence does.
    "fun_audio_chat in turns": Wire(
        ["model=fun_audio_chat", "model.content_timeout_s=0.5"], fun_audio_chat_peer, live=False
    ),
}


class Desk:
    """Runs the quick subset, and keeps what came of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._without_clock: dict[tuple[str, ...], Outcome] = {}

    @property
    def lines(self) -> Path:
        """Where the cascade keeps what it has spoken; the same for all, so that nobody synthesises on a wall clock."""
        return self._folder / "corpus" / "lines"

    def run(self, name: str, *words: str) -> Outcome:
        """Build, record and score under a name."""
        folders = (f"paths.assets={ASSETS}", f"paths.corpus={self._folder / 'corpus'}", f"run={self._folder / name}")
        # Marked as borderline is what the tolerance may turn over.
        margin = f"thresholds.borderline_ms={round(1000 * TOLERANCE_S)}"
        overrides = [*words, *PACING, *folders, margin, "voice=espeak", "tracker=none", "workers=1"]
        with initialize_config_dir(str(CONF_DIR.resolve()), version_base="1.3"):
            config = from_omegaconf(compose("config", overrides=overrides))
        return run(config)

    def without_clock(self, wire: Wire) -> Outcome:
        """What the cascade comes to without a clock, as the wire reaches it; by no grain, as a user has it."""
        words: tuple[str, ...] = ("model=cascade",)
        if not wire.live:
            words = ("model=custom", "model.target=peers.behind:HeardOut", f"+model.lines={self.lines}")
        elif wire.grain:
            behind = ("model=custom", "model.target=peers.behind:Behind", f"+model.lines={self.lines}", "model.rows=4")
            words = (*behind, *wire.grain)
        if words not in self._without_clock:
            self._without_clock[words] = self.run(f"own-{len(self._without_clock)}", *words)
        return self._without_clock[words]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """With one recogniser for the cascade and the peers: what it knows from lockstep costs no time on a wall clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsbif.agents.ears.Ears", lambda model_dir: ears_of(cascade_settings().asr))
        patch.setenv("OPENAI_API_KEY", openai_realtime.KEY)
        patch.setenv("GEMINI_API_KEY", gemini_live.KEY)
        desk = Desk(tmp_path_factory.mktemp("wires"))
        desk.without_clock(WIRES["websocket"])
        yield desk


@pytest.mark.parametrize("name", WIRES)
def test_the_verdicts_are_the_cascades_own(name: str, desk: Desk) -> None:
    wire = WIRES[name]
    own = desk.without_clock(wire)
    recognised = ears_of(cascade_settings().asr).recognised
    for attempt in range(ATTEMPTS):
        with wire.peer(partial(CascadeVoice, lines=desk.lines)) as peer:
            at_once = [f"model.rows={AT_ONCE}"] if wire.live else []
            found = desk.run(f"{name}-{attempt}", *wire.words, f"{wire.address}={peer.url}", *at_once)
        if _latest_ms(found) <= LATE_MS:
            break
    assert [session.faults for session in peer.sessions] == [[]] * CASES
    assert {record.status for record in _records(found)} == {"ok"}
    # No barge-in reaches a system that answers in turns, and its recordings say so.
    assert [record.flags for record in _records(found)] == [record.flags for record in _records(own)]
    assert ears_of(cascade_settings().asr).recognised == recognised, "the recogniser held up every session"
    assert _unlike(own, found) == []


def test_what_is_compared_can_differ(desk: Desk) -> None:
    own, coarse = desk.without_clock(WIRES["websocket"]), desk.without_clock(WIRES["minicpmo"])
    rows = _rows(own)
    assert len(rows) == CASES
    assert {row.passed for row in rows} == {True, False}
    assert not any(row.verdict is None or row.verdict.borderline for row in rows)
    assert _unlike(own, own) == []
    assert len(_unlike(own, coarse)) > CASES // 2


def _rows(outcome: Outcome) -> Sequence[ResultRow]:
    assert outcome.summary is not None
    return outcome.summary.rows


def _records(outcome: Outcome) -> list[Recording]:
    return [read_recording(outcome.run_dir.rec(row.test_case_id)) for row in _rows(outcome)]


def _latest_ms(outcome: Outcome) -> float:
    """How late a frame went out at most; 0 without a clock."""
    return max(record.lateness_ms.get("max", 0.0) for record in _records(outcome))


def _unlike(own: Outcome, found: Outcome) -> list[str]:
    """What differs by more than the tolerance, in words."""
    told = [_difference(mine, theirs) for mine, theirs in zip(_rows(own), _rows(found), strict=True)]
    print(*(line for line in told if line), sep="\n", file=sys.stderr)
    return [line for line in told if line]


def _difference(own: ResultRow, found: ResultRow) -> str:
    assert own.test_case_id == found.test_case_id
    if own.verdict is None or found.verdict is None:
        reasons = [row.unscored.reason if row.unscored else "scored" for row in (own, found)]
        return "" if reasons[0] == reasons[1] else f"{own.test_case_id}: {reasons[1]}, not {reasons[0]}"
    mine, theirs = own.verdict, found.verdict
    told = f"{own.test_case_id}: {theirs.why}; the cascade's own: {mine.why}"
    if mine.passed != theirs.passed and not mine.borderline:
        return told
    if mine.value is None or theirs.value is None:
        return "" if mine.value == theirs.value or mine.borderline else told
    return told if abs(mine.value - theirs.value) > (TOLERANCE_S if mine.unit == "s" else 0) else ""
