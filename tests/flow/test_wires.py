"""The same brain over another wire: each system's quick subset against its peer, with the cascade behind it.

The verdicts must be the cascade's own, as recorded in lockstep, where the wire hears and speaks as it comes. Where its
protocol works piece by piece, or turn by turn, they must be those of a cascade that is late by as much
(``peers.behind``). Time stands still while anything happens, so that no machine is too slow for that.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from peers.moshi_server import moshi_peer, personaplex_peer
from peers.openai_realtime import openai_peer
from peers.still_time import still_time
from peers.voice import CascadeVoice, MakeVoice, cascade_settings, ears_of
from peers.websocket import websocket_peer

from dsbif.config import from_omegaconf
from dsbif.corridor import Outcome, run
from dsbif.files import CONF_DIR
from dsbif.score.rows import ResultRow
from dsbif.session.recording import Recording, read_recording

TOLERANCE_S = 0.16
"""A detector is certain to 50 ms, and two stand in each figure: the cascade's, which hears the user, and the scorer's,
which hears the cascade. A wire moves what they hear on their grids: by a frame of 20 ms, which goes out as it begins,
and by 40 ms that a resampler or an encoder holds back."""
PACING = (
    "model.pacing.gap_s=3", "model.pacing.trailing_s=14", "model.pacing.onset_timeout_s=8",
    "++model.pacing.answer_timeout_s=0", "++model.pacing.final_timeout_s=0", "++model.pacing.flush_s=0",
)  # fmt: skip
"""One for all; the tail is as long as the cascade takes to repeat an order (R6_B)."""
CASES = 12


@dataclass(frozen=True, slots=True)
class Wire:
    """A system's configuration, its peer and where that is told to it.

    ``behind``: the agent of ``peers.behind`` that is as coarse as the protocol, if it is.
    ``sessions``: how many the server takes. ``live``: on a clock; else the client waits for whole answers.
    """

    words: Sequence[str]
    peer: Callable[[MakeVoice], AbstractContextManager[Any]]
    address: str = "model.base_url"
    behind: Sequence[str] = ()
    sessions: int = CASES
    live: bool = True


WIRES = {
    "gpt_realtime": Wire(["model=gpt_realtime"], openai_peer),
    # It hears 16 kHz, as the two below: on the way there and back 80 ms are held back, and the detector hears less.
    "gemini_live": Wire(["model=gemini_live"], gemini_peer, behind=["Behind", "+model.piece_s=0.02"]),
    "websocket": Wire(["model=websocket"], websocket_peer, "model.url"),
    # Sound comes in answer to pieces of 160 ms, and no words at all: READBACK is unscored.
    "freeze_omni": Wire(
        ["model=freeze_omni"],
        partial(freeze_omni_peer, manners=freeze_omni.Manners(max_users=CASES, burst=True)),
        behind=["Behind", "+model.piece_s=0.16", "+model.asked_for=true", "+model.wordless=true"],
    ),
    # It decides once a second.
    "minicpmo": Wire(
        ["model=minicpmo", "transport=duplex"],
        partial(minicpmo_peer, manners=minicpmo.Manners(workers=CASES)),
        behind=["Behind", "+model.piece_s=1.0"],
    ),
    # A frame of sound for a frame of 80 ms, of which Opus holds back half; no prompt.
    "moshi": Wire(
        ["model=moshi", "transport=ws"],
        moshi_peer,
        behind=["Behind", "+model.hears_hz=24000", "+model.piece_s=0.08", "+model.promptless=true"],
        sessions=1,
    ),
    "personaplex": Wire(
        ["model=personaplex", "transport=ws"],
        personaplex_peer,
        behind=["Behind", "+model.hears_hz=24000", "+model.piece_s=0.08"],
        sessions=1,
    ),
    # A button is held; silence is what tells that an answer is over.
    "fun_audio_chat": Wire(
        ["model=fun_audio_chat", "transport=live", "model.settle_s=0.5"],
        fun_audio_chat_peer,
        behind=["HeardOutLive", "+model.settle_s=0.5"],
    ),
    "minicpmo in turns": Wire(["model=minicpmo"], minicpmo_peer, behind=["HeardOut"], live=False),
    "fun_audio_chat in turns": Wire(
        ["model=fun_audio_chat", "model.content_timeout_s=0.5"],
        fun_audio_chat_peer,
        behind=["HeardOut", "+model.opus=true"],
        live=False,
    ),
}


class Desk:
    """Runs the quick subset, and keeps what came of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: dict[tuple[str, ...], Outcome] = {}

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

    def own(self, behind: Sequence[str] = ()) -> Outcome:
        """What the cascade comes to by no wire: in lockstep as a user has it, or behind so much."""
        if tuple(behind) not in self._own:
            words = ["model=cascade"]
            if behind:
                kind, *keys = behind
                words = ["model=custom", f"model.target=peers.behind:{kind}", f"+model.lines={self.lines}", *keys]
                words += [] if kind == "HeardOut" else [f"model.rows={CASES}"]
            with still_time():
                self._own[tuple(behind)] = self.run(f"own-{len(self._own)}", *words)
        return self._own[tuple(behind)]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """With one recogniser for all: it knows what it has heard before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dsbif.agents.ears.Ears", lambda model_dir: ears_of(cascade_settings().asr))
        patch.setenv("OPENAI_API_KEY", openai_realtime.KEY)
        patch.setenv("GEMINI_API_KEY", gemini_live.KEY)
        desk = Desk(tmp_path_factory.mktemp("wires"))
        desk.own()
        yield desk


@pytest.mark.parametrize("name", WIRES)
def test_the_verdicts_are_the_cascades_own(name: str, desk: Desk) -> None:
    wire = WIRES[name]
    own = desk.own(wire.behind)
    with still_time() if wire.live else nullcontext(), wire.peer(partial(CascadeVoice, lines=desk.lines)) as peer:
        rows = [f"model.rows={wire.sessions}"] if wire.live else []
        found = desk.run(name, *wire.words, f"{wire.address}={peer.url}", *rows)
    assert [session.faults for session in peer.sessions] == [[]] * CASES
    assert {record.status for record in _records(found)} == {"ok"}
    # No barge-in reaches a system that answers in turns, and its recordings say so.
    assert [record.flags for record in _records(found)] == [record.flags for record in _records(own)]
    assert _unlike(own, found) == []


def test_what_is_compared_can_differ(desk: Desk) -> None:
    own, coarse = desk.own(), desk.own(WIRES["minicpmo"].behind)
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
