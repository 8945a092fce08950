"""An agent that is shown the case and does what is expected of it: the upper bound, and the scorer's own test.

It knows the script (which action, when the window opens, what was dictated) and hears the user. It knows nothing of
how it will be scored: no detector, no span, no threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dsbif.agents.mouth import Mouth
from dsbif.agents.playback import Playback, Utterance
from dsbif.bench.actions import Action
from dsbif.bench.case import Case
from dsbif.errors import AgentError
from dsbif.session.agent import AgentFacts, Emission
from dsbif.session.clock import to_samples
from dsbif.session.pcm import FRAME_SAMPLES, Pcm
from dsbif.session.user import Pacing

ANSWER = "I am with you, so let us look at that together now."
OBJECTION = "Let me stop you there, I need to check that with you."
ACKNOWLEDGEMENT = "Right."
EXPLANATION = (
    "here is how I would go about it and I will take it slowly so that each part has room to settle before we move on "
    "to the one that follows because every part leans on the part before it and there is really no hurry for either "
    "of us to reach the end of this today"
)

REACTION_S = {Action.TAKE_TURN: 0.35, Action.INTERRUPT: 0.45, Action.BACKCHANNEL: 0.4, Action.READBACK: 0.4}
"""How long after the window opens it begins: within what people do, and within every role's limit."""
TALKED_OVER_S = {Action.YIELD: 0.2, Action.ACCEPT_OVERLAP: 1.5, Action.CONTINUE: None}
"""How long it goes on once it hears the user; None: to the end of what it was saying."""
ANSWER_GAP_S = 0.6


@dataclass(slots=True)
class _Session:
    """One row: what is planned and how far it is."""

    playback: Playback
    turn1_samples: int
    stop_after: int | None
    heard: int = 0
    stop_at: int | None = None


class Oracle:
    """Does the expected action at a good moment, with synthesised speech."""

    frame_samples = FRAME_SAMPLES

    def __init__(self, rows: int, mouth: Mouth) -> None:
        self.rows = rows
        self.facts = AgentFacts(name="oracle", conditioning="full", transcript="native")
        self._mouth = mouth
        self._next: dict[int, _Session] = {}
        self._sessions: dict[int, _Session] = {}

    def reveal(self, row: int, case: Case, turn1_samples: int, pacing: Pacing) -> None:
        """Plan the row's next case."""
        action = case.expected_action
        stop_after = TALKED_OVER_S.get(action)
        session = _Session(Playback(), turn1_samples, None if stop_after is None else to_samples(stop_after))
        if case.barge_in_after_s is not None:
            said = Utterance.word_by_word(EXPLANATION, self._mouth.monologue(EXPLANATION))
            session.playback.schedule(turn1_samples + to_samples(ANSWER_GAP_S), said)
        elif action in REACTION_S:
            opens = turn1_samples + to_samples(pacing.gap_s) + to_samples(case.window.start_s)
            session.playback.schedule(opens + to_samples(REACTION_S[action]), self._utterance(case))
        self._next[row] = session

    def _utterance(self, case: Case) -> Utterance:
        lines = {
            Action.TAKE_TURN: (ANSWER,),
            Action.INTERRUPT: (OBJECTION,),
            Action.BACKCHANNEL: (ACKNOWLEDGEMENT,),
            Action.READBACK: case.readback,
        }[case.expected_action]
        spoken = (Utterance.word_by_word(line, self._mouth.say(line)) for line in lines)
        return Utterance([piece for utterance in spoken for piece in utterance.pieces])

    def start(self, row: int, prompt: str, seed: int) -> None:
        """Begin the revealed case.

        Raises:
            AgentError: no case was revealed for the row.
        """
        if row not in self._next:
            raise AgentError("the oracle was started without being shown its case; use it through the driver.")
        self._sessions[row] = self._next.pop(row)

    def step(self, pcm: Pcm, active: Sequence[bool]) -> Sequence[Sequence[Emission]]:
        """Play what is planned; notice being talked over."""
        return [self._hear(self._sessions[row], pcm[row]) if on else () for row, on in enumerate(active)]

    @staticmethod
    def _hear(session: _Session, frame: Pcm) -> list[Emission]:
        talked_over = session.heard >= session.turn1_samples and bool(np.any(frame))
        session.heard += len(frame)
        if talked_over and session.stop_at is None and session.stop_after is not None and session.playback.busy:
            session.stop_at = session.heard + session.stop_after
        if session.stop_at is not None and session.heard >= session.stop_at:
            session.playback.stop()
        return session.playback.pull(session.heard, len(frame))

    def stop(self, row: int) -> None:
        """Forget the row's case."""
        self._sessions.pop(row, None)

    def close(self) -> None:
        """Nothing to give back."""
