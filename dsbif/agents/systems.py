"""The systems under test: which class lives behind ``model.agent`` and ``model.transport``, in a written-out table.

An adapter's module imports next to nothing, its packages where they are used. Its settings are a frozen dataclass of
plain values, flat, whose ``__post_init__`` raises ``ValueError`` for what is out of range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from dsbif.agents.target import Target, load
from dsbif.door import explain, nearest
from dsbif.errors import ConfigError


@dataclass(frozen=True, slots=True)
class System:
    """An adapter's class, called with ``(settings, rows)``, and the dataclass of its settings."""

    agent: str
    settings: str


SYSTEMS: Mapping[str, Mapping[str, System]] = {
    "gemini_live": {
        "live": System("dsbif.agents.gemini_live:GeminiLive", "dsbif.agents.gemini_live:GeminiLiveSettings")
    },
    "factor": {"lockstep": System("dsbif.agents.factor:Factor", "dsbif.agents.factor:FactorSettings")},
    "freeze_omni": {
        "live": System("dsbif.agents.freeze_omni:FreezeOmni", "dsbif.agents.freeze_omni:FreezeOmniSettings")
    },
    "fun_audio_chat": {
        "turn": System("dsbif.agents.fun_audio_chat:FunAudioChat", "dsbif.agents.fun_audio_chat:FunAudioChatSettings"),
        "live": System(
            "dsbif.agents.fun_audio_chat_live:FunAudioChatLive", "dsbif.agents.fun_audio_chat:FunAudioChatSettings"
        ),
    },
    "minicpmo": {
        "turn": System("dsbif.agents.minicpmo:Minicpmo", "dsbif.agents.minicpmo:MinicpmoSettings"),
        "duplex": System(
            "dsbif.agents.minicpmo_duplex:MinicpmoDuplex", "dsbif.agents.minicpmo_duplex:MinicpmoDuplexSettings"
        ),
    },
    "moshi": {
        "lockstep": System("dsbif.agents.moshi:Moshi", "dsbif.agents.moshi:MoshiSettings"),
        "ws": System("dsbif.agents.moshi_ws:MoshiWs", "dsbif.agents.moshi_ws:MoshiWsSettings"),
    },
    "openai_realtime": {
        "live": System(
            "dsbif.agents.openai_realtime:OpenaiRealtime", "dsbif.agents.openai_realtime:OpenaiRealtimeSettings"
        )
    },
    "personaplex": {
        "lockstep": System("dsbif.agents.personaplex:Personaplex", "dsbif.agents.personaplex:PersonaplexSettings"),
        "ws": System("dsbif.agents.personaplex_ws:PersonaplexWs", "dsbif.agents.personaplex_ws:PersonaplexWsSettings"),
    },
    "websocket": {"live": System("dsbif.agents.websocket:Websocket", "dsbif.agents.websocket:WebsocketSettings")},
}
"""By ``model.agent``, then by ``model.transport``."""


def target_of(kind: str, transport: str, settings: Mapping[str, Any], rows: int) -> Target:
    """The target of a system under test, its settings checked.

    Raises:
        ConfigError: an unknown transport, or a setting that the system does not have or that is out of range.
    """
    ways = SYSTEMS[kind]
    if transport not in ways:
        raise ConfigError(f"model.transport is '{transport}'; {kind} has no such way.{nearest(transport, ways)}")
    system = ways[transport]
    schema = with_config(ConfigDict(extra="forbid"))(load(system.settings))
    try:
        TypeAdapter(schema).validate_python(dict(settings))
    except ValidationError as error:
        raise ConfigError(f"the configuration cannot be used: {explain(error, under='model')}.") from error
    return Target(system.agent, dict(settings), system.settings, rows)
