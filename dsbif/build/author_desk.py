"""One conversation, from order to shelf: up to four attempts, each checked by code and then read a second time."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dsbif.bench.roles import Role
from dsbif.build.author_endpoint import Endpoint, NoAnswerError, Reply
from dsbif.build.author_prompt import Messages, Wanted, correcting_messages, critic_messages, writing_messages
from dsbif.build.author_reply import read_judgement, read_reply
from dsbif.build.author_shelf import Shelf, is_borrowed
from dsbif.build.script import Script
from dsbif.errors import ConfigError
from dsbif.files import stable_hash

ATTEMPTS = 4
_ON_FALLBACK = range(2, ATTEMPTS)
_CRITIC_TEMPERATURE = 0.0
_BACK_OFF_S = 2.0

Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one conversation: accepted at an attempt (0: without a call), or its last faults."""

    wanted: Wanted
    attempts: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Attempt:
    wanted: Wanted
    number: int
    model: str

    @property
    def temperature(self) -> float:
        """Warmer each time."""
        return round(0.7 + 0.1 * self.number, 1)


class Desk:
    """Writes conversations; safe for several threads."""

    def __init__(
        self, endpoint: Endpoint, shelf: Shelf, roles: Mapping[str, Role], models: tuple[str, str], sleep: Sleep
    ) -> None:
        """Set up.

        Args:
            endpoint: who writes, and who reads a second time.
            shelf: where accepted conversations go.
            roles: by id.
            models: for the first two attempts, and for the last two.
            sleep: waits that many seconds.
        """
        self._endpoint, self._shelf, self._roles, self._models, self._sleep = endpoint, shelf, roles, models, sleep
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Begin no further attempt, in any thread."""
        self._stopped.set()

    def write(self, wanted: Wanted) -> Outcome:
        """Write one conversation, within four attempts.

        Raises:
            ConfigError: the endpoint cannot be used at all; the desk is stopped.
            OSError: the folder cannot be written.
        """
        if is_borrowed(wanted):
            return Outcome(wanted, 0, self._shelf.borrow(wanted))
        order = writing_messages(wanted, self._roles[wanted.role], self._shelf.taken(wanted))
        messages, faults = order, tuple[str, ...]()
        for number in range(ATTEMPTS):
            if self._stopped.is_set():
                return Outcome(wanted, number, (*faults, "the run was stopped"))
            attempt = _Attempt(wanted, number, self._models[number in _ON_FALLBACK])
            try:
                reply, faults = self._attempt(attempt, messages)
            except NoAnswerError as error:
                faults = (str(error),)
                if number + 1 < ATTEMPTS:
                    self._sleep(_BACK_OFF_S * (number + 1))
                continue
            if not faults:
                return Outcome(wanted, number + 1, ())
            messages = correcting_messages(order, reply, faults)
        return Outcome(wanted, ATTEMPTS, faults)

    def _attempt(self, attempt: _Attempt, messages: Messages) -> tuple[str, tuple[str, ...]]:
        """One draft: the raw reply and its faults; without any it is on the shelf."""
        reply = self._ask("write", attempt, attempt.temperature, messages)
        script, faults = read_reply(attempt.wanted, reply.text)
        if script:
            faults = self._shelf.clashes(script)
        self._log("write", attempt, attempt.temperature, messages, reply, faults)
        if script and not faults:
            faults = self._second_reading(attempt, script) or self._shelf.add(script)
        return reply.text, faults

    def _second_reading(self, attempt: _Attempt, script: Script) -> tuple[str, ...]:
        messages = critic_messages(attempt.wanted, self._roles[attempt.wanted.role], script)
        reply = self._ask("critic", attempt, _CRITIC_TEMPERATURE, messages)
        faults = read_judgement(reply.text)
        self._log("critic", attempt, _CRITIC_TEMPERATURE, messages, reply, faults)
        return faults

    def _ask(self, call: str, attempt: _Attempt, temperature: float, messages: Messages) -> Reply:
        try:
            return self._endpoint.ask(attempt.model, temperature, messages)
        except NoAnswerError as error:
            self._log(call, attempt, temperature, messages, None, (str(error),))
            raise
        except ConfigError:
            # Before another thread asks in vain.
            self.stop()
            raise

    def _log(
        self,
        call: str,
        attempt: _Attempt,
        temperature: float,
        messages: Messages,
        reply: Reply | None,
        faults: Sequence[str],
    ) -> None:
        self._shelf.log(
            {
                "conversation": attempt.wanted.conversation_id,
                "attempt": attempt.number + 1,
                "call": call,
                "model": attempt.model,
                "temperature": temperature,
                "prompt_sha256": stable_hash(list(messages)),
                "reply": reply and reply.text,
                "faults": list(faults),
                "tokens_in": reply and reply.tokens_in,
                "tokens_out": reply and reply.tokens_out,
            }
        )
