"""PersonaPlex over its server: against a strict one on loopback that fails where NVIDIA's does."""

from dataclasses import fields
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
import yaml
from peers.moshi_server import Manners, Peer, personaplex_peer
from peers.talk import Talk, quiet, talk, tone
from peers.voice import ToneVoice

from dsbif.agents.personaplex_ws import PersonaplexWs, PersonaplexWsSettings
from dsbif.agents.systems import target_of
from dsbif.errors import AgentError, AgentLostError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import LiveAgent

USER = np.concatenate([tone(0.4), quiet(1.0), tone(0.4, 0.2), quiet(1.4)])


def config() -> dict[str, Any]:
    """The agent's keys, as composed for ``transport=ws``."""
    home = CONF_DIR / "model"
    files = (home / "personaplex.yaml", home / "transport" / "personaplex-ws.yaml")
    read = {key: value for path in files for key, value in yaml.safe_load(path.read_text()).items()}
    return {key: value for key, value in read.items() if key in {f.name for f in fields(PersonaplexWsSettings)}}


def settings(**changes: Any) -> PersonaplexWsSettings:
    return PersonaplexWsSettings(**config() | changes)


def enough(talk: Talk) -> bool:
    return len(talk.sound) >= len(USER) - 2 * 1920


def converse(prompt: str = "Be kind.", manners: Manners | None = None, **changes: Any) -> tuple[Talk, Peer]:
    with personaplex_peer(partial(ToneVoice, seconds=0.4), manners) as peer:
        got = talk(PersonaplexWs(settings(base_url=peer.url, **changes)), USER, enough, prompt)
    assert [session.faults for session in peer.sessions] == [[]]
    return got, peer


def test_the_first_sample_is_heard_and_answers_come_back_with_their_words() -> None:
    got, peer = converse()
    assert got.words == ["Answer", "1.", "Answer", "2."]
    assert 100 <= int(np.flatnonzero(np.abs(peer.sessions[0].sound) > 0.05)[0]) <= 250
    assert peer.sessions[0].closed


def test_voice_and_prompt_travel_in_the_address_and_a_seed_does_not() -> None:
    prompt = "You are a nurse, Äß „x“ & more=1.\nSecond line?"
    got, peer = converse(prompt, voice="NATM1.pt")
    query = parse_qs(urlsplit(peer.sessions[0].path).query, keep_blank_values=True)
    assert query == {"voice_prompt": ["NATM1.pt"], "text_prompt": [prompt]}
    assert got.note("prompt") == f"<system> {prompt} <system>"


def test_a_late_server_is_waited_for_and_hears_nothing_before() -> None:
    got, _ = converse(manners=Manners(late_s=0.7))
    assert got.words == ["Answer", "1.", "Answer", "2."]


def test_at_l0_the_prompt_is_empty_where_the_server_can_bear_it() -> None:
    got, peer = converse("", Manners(patched=True))
    assert peer.sessions[0].prompt == ""
    assert got.note("prompt") == ""


def test_nvidias_server_fails_at_l0_and_the_error_says_what_helps() -> None:
    with personaplex_peer(ToneVoice) as peer:
        message = r"closed the connection before the session was ready \(1006.*fails on an empty prompt.*empty_prompt"
        with pytest.raises(AgentError, match=message) as told:
            talk(PersonaplexWs(settings(base_url=peer.url)), USER, prompt="")
        assert not isinstance(told.value, AgentLostError)
        got = talk(PersonaplexWs(settings(base_url=peer.url, empty_prompt="<system> <system>")), USER, enough, "")
    assert peer.sessions[1].prompt == got.note("prompt") == "<system> <system>"


def test_a_voice_that_the_server_has_not_is_thought_of() -> None:
    with personaplex_peer(ToneVoice) as peer, pytest.raises(AgentError, match=r"Is NATX\.pt among the server's voices"):
        talk(PersonaplexWs(settings(base_url=peer.url, voice="NATX.pt")), USER)


def test_a_server_that_goes_away_is_lost() -> None:
    closed = r"PersonaPlex's server closed the connection during the session"
    with personaplex_peer(ToneVoice, Manners(goodbye=(None, ""))) as peer, pytest.raises(AgentLostError, match=closed):
        talk(PersonaplexWs(settings(base_url=peer.url)), USER, lambda talk: False)
    with pytest.raises(AgentLostError, match=r"PersonaPlex's server cannot be reached at ws://127\.0\.0\.1:\d+: "):
        talk(PersonaplexWs(settings(base_url=peer.url)), USER)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base_url": "http://x"}, "base_url is 'http://x'; wanted an address that begins with ws://, wss://"),
        ({"top_k": 5}, "top_k is 5; over transport=ws the server decides it: leave it null"),
        ({"voices": "here"}, "voices is here; over transport=ws"),
        ({"voice": ""}, "voice is ''; wanted the name of a file among the voices"),
        ({"seed": 1}, r"model\.seed"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        target_of("personaplex", "ws", config() | changes, 1)


def test_it_is_a_live_agent_with_a_prompt() -> None:
    agent = PersonaplexWs(settings())
    assert isinstance(agent, LiveAgent)
    assert (agent.facts.name, agent.facts.conditioning, agent.facts.transcript) == ("personaplex", "full", "native")
