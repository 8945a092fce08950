"""Which agent a configuration means: two written-out tables, read in one place.

Reference agents speak with the run's own synthesiser and are made here. Systems under test (``systems``) and agents of
one's own (``agent: custom``, ``target: package.module:Class``) can also be made under another interpreter
(``model.python``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from dsbif.agents.mouth import Mouth
from dsbif.agents.systems import SYSTEMS, target_of
from dsbif.agents.target import Target, make
from dsbif.agents.worker import Patience, start_worker
from dsbif.build.voices import Engine
from dsbif.door import explain, nearest
from dsbif.errors import ConfigError
from dsbif.session.agent import LiveAgent, LockstepAgent, TurnAgent
from dsbif.session.drive import Agent


@dataclass(frozen=True, slots=True)
class Workshop:
    """What reference agents work with. ``engine`` makes the run's synthesiser on first use."""

    engine: Callable[[], Engine]
    engine_name: str
    assets: Path
    lines: Path
    logs: Path

    def mouth(self, speaker: Mapping[str, str]) -> Mouth:
        """A mouth with the voice that ``speaker`` names for the run's engine.

        Raises:
            ConfigError: no voice is named for it, or the engine has no such voice.
        """
        voice = speaker.get(self.engine_name)
        engine = self.engine()
        if voice is None or voice not in engine.voices:
            raise ConfigError(
                f"model.speaker names voice {voice!r} for engine '{self.engine_name}'; "
                f"that engine speaks with: {', '.join(engine.voices)}."
            )
        return Mouth(engine, voice, self.lines)


_NOT_THE_AGENTS = {"transport", "python", "target", "start_timeout_s", "step_timeout_s"}
"""Keys of ``conf/model`` that say how an agent is made, and are not its own."""
_Schema = TypeVar("_Schema", bound=BaseModel)


class _SpeakerOnly(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    speaker: dict[str, str]


class _Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _silent(rows: int, settings: Mapping[str, Any], workshop: Workshop) -> LockstepAgent:
    from dsbif.agents.silent import Silent

    _checked(_Nothing, settings)
    return Silent(rows)


def _babble(rows: int, settings: Mapping[str, Any], workshop: Workshop) -> LockstepAgent:
    from dsbif.agents.babble import Babble

    return Babble(rows, workshop.mouth(_checked(_SpeakerOnly, settings).speaker))


def _oracle(rows: int, settings: Mapping[str, Any], workshop: Workshop) -> LockstepAgent:
    from dsbif.agents.oracle import Oracle

    return Oracle(rows, workshop.mouth(_checked(_SpeakerOnly, settings).speaker))


def _cascade(rows: int, settings: Mapping[str, Any], workshop: Workshop) -> LockstepAgent:
    from dsbif.agents.brain import make_brain
    from dsbif.agents.cascade import Cascade, CascadeSettings
    from dsbif.agents.ears import Ears
    from dsbif.build.assets import locate

    checked = _checked(CascadeSettings, settings)
    ears = Ears(locate(checked.asr, workshop.assets))
    return Cascade(rows, checked, ears, make_brain(checked.llm), workshop.mouth(checked.speaker))


AGENTS: Mapping[str, Callable[[int, Mapping[str, Any], Workshop], LockstepAgent]] = {
    "silent": _silent,
    "babble": _babble,
    "oracle": _oracle,
    "cascade": _cascade,
}


def needed_assets(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """What an agent will ask for, so that it can be fetched once and not by every worker."""
    return (str(settings["asr"]),) if "asr" in settings else ()


def make_agent(kind: str, rows: int, settings: Mapping[str, Any], workshop: Workshop) -> Agent:
    """The agent of a model configuration.

    Raises:
        ConfigError: an unknown kind, a setting it does not have, or a missing package or asset.
    """
    if kind in AGENTS:
        return AGENTS[kind](rows, settings, workshop)
    own = {key: value for key, value in settings.items() if key not in _NOT_THE_AGENTS}
    if kind in SYSTEMS:
        target = target_of(kind, str(settings.get("transport")), own, rows)
    elif kind == "custom":
        target = Target(_target_name(settings), own, None, rows)
    else:
        raise ConfigError(f"model.agent is '{kind}'.{nearest(kind, [*AGENTS, *SYSTEMS, 'custom'])}")
    if settings.get("python") is not None:
        return start_worker(str(settings["python"]), target, workshop.logs, _patience(settings))
    agent = make(target)
    if not isinstance(agent, LockstepAgent | TurnAgent | LiveAgent):
        raise ConfigError(
            f"{target.agent} is no agent: it has neither start, step and stop (lockstep) nor reply (turn) nor open "
            "(live), or lacks facts or close. See docs/own-agent.md."
        )
    return agent


def _patience(settings: Mapping[str, Any]) -> Patience:
    given = {}
    for key, field in (("start_timeout_s", "start_s"), ("step_timeout_s", "step_s")):
        value = settings.get(key)
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise ConfigError(f"model.{key} is {value!r}; wanted seconds above 0.")
        given[field] = float(value)
    return Patience(**given)


def _target_name(settings: Mapping[str, Any]) -> str:
    target = settings.get("target")
    if not isinstance(target, str) or not target:
        raise ConfigError("model=custom needs model.target=package.module:Class, the class of your agent.")
    return target


def _checked(schema: type[_Schema], settings: Mapping[str, Any]) -> _Schema:
    try:
        return schema.model_validate(dict(settings))
    except ValidationError as error:
        raise ConfigError(f"the configuration cannot be used: {explain(error, under='model')}.") from error
