"""The reference voice agent with its real detector; recogniser and responder are stood in for where words matter."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ASSETS
from numpy.typing import NDArray

from dsbif.agents.brain import ChatEndpoint, LlmSettings, Message, Repeater, make_brain
from dsbif.agents.cascade import Cascade, CascadeSettings
from dsbif.agents.ears import Ears
from dsbif.agents.factory import Workshop, make_agent
from dsbif.agents.mouth import Mouth, without_gaps
from dsbif.build.assets import locate
from dsbif.build.voices import Engine
from dsbif.errors import AgentError, ConfigError
from dsbif.files import CONF_DIR
from dsbif.session.agent import AgentAudio, AgentText, Emission, Interrupted

Pcm = NDArray[np.float32]


def settings(**changes: Any) -> dict[str, Any]:
    raw = yaml.safe_load((CONF_DIR / "model" / "cascade.yaml").read_text())
    for shared in ("name", "agent", "rows", "conditioning", "pacing"):
        raw.pop(shared)
    return {**raw, **changes}


class Deaf:
    """Stands in for the recogniser: keeps what it was given."""

    def __init__(self, words: str = "my back hurts") -> None:
        self.words, self.heard = words, []  # type: ignore[var-annotated]

    def transcribe(self, pcm: Pcm) -> str:
        self.heard.append(pcm)
        return self.words


class Scripted:
    """Stands in for the responder: keeps the dialogue."""

    conditioned = True

    def __init__(self) -> None:
        self.seen: list[list[Message]] = []

    def answer(self, dialogue: Sequence[Message]) -> str:
        self.seen.append(list(dialogue))
        return "I hear you, tell me more about the pain."


@pytest.fixture
def mouth(espeak: Engine, tmp_path: Path) -> Mouth:
    return Mouth(espeak, "en-us+f4", tmp_path)


def _cascade(mouth: Mouth, ears: Any, brain: Any, rows: int = 1) -> Cascade:
    return Cascade(rows, CascadeSettings.model_validate(settings()), ears, brain, mouth)


def _live(agent: Cascade, user: Pcm, row: int = 0) -> list[tuple[int, Emission]]:
    """Play the user to the agent; every emission with the sample at which it came."""
    out = []
    for start in range(0, len(user) - 479, 480):
        frame = np.zeros((agent.rows, 480), np.float32)
        frame[row] = user[start : start + 480]
        out += [(start + 480, item) for item in agent.step(frame, [n == row for n in range(agent.rows)])[row]]
    return out


def _silence(duration_s: float) -> Pcm:
    return np.zeros(int(duration_s * 24_000), np.float32)


def _audio(log: list[tuple[int, Emission]]) -> list[int]:
    return [at for at, item in log if isinstance(item, AgentAudio)]


def test_it_answers_after_the_silence_and_its_latency(mouth: Mouth) -> None:
    ears, brain = Deaf(), Scripted()
    agent = _cascade(mouth, ears, brain)
    agent.start(0, "You are a nurse.", 0)
    user = np.concatenate([_silence(0.5), mouth.say("My back hurts a lot today."), _silence(5.0)])
    end_s = (len(user) - 5 * 24_000) / 24_000
    log = _live(agent, user)
    first_s = _audio(log)[0] / 24_000
    assert first_s == pytest.approx(end_s + 0.8 + 0.4, abs=0.2)
    assert [(m.role, m.text) for m in brain.seen[0]] == [("system", "You are a nurse."), ("user", "my back hurts")]
    assert " ".join(item.text for _, item in log if isinstance(item, AgentText)) == brain.answer([])
    assert len(ears.heard[0]) / 24_000 == pytest.approx(end_s - 0.5 + 0.3, abs=0.2)


def test_an_empty_prompt_is_no_message_at_all(mouth: Mouth) -> None:
    brain = Scripted()
    agent = _cascade(mouth, Deaf(), brain)
    agent.start(0, "", 0)
    _live(agent, np.concatenate([mouth.say("My back hurts a lot today."), _silence(2.0)]))
    assert [m.role for m in brain.seen[0]] == ["user"]


def test_it_stops_when_the_user_talks_over_it_and_forgets_the_rest(mouth: Mouth) -> None:
    agent = _cascade(mouth, Deaf(), Scripted())
    agent.start(0, "", 0)
    over = mouth.say("No, stop, I said my neck.")
    user = np.concatenate([mouth.say("My back hurts a lot today."), _silence(1.9), over, _silence(0.1)])
    log = _live(agent, user)
    cut = next(at for at, item in log if isinstance(item, Interrupted))
    began = len(user) - len(over) - 2400
    assert 0.05 < (cut - began) / 24_000 < 0.4
    assert max(_audio(log)) <= cut
    said = [item.text for _, item in log if isinstance(item, AgentText)]
    assert 0 < len(said) < len(Scripted().answer([]).split())


def test_a_pause_shorter_than_its_silence_is_part_of_the_turn(mouth: Mouth) -> None:
    ears = Deaf()
    agent = _cascade(mouth, ears, Scripted())
    agent.start(0, "", 0)
    word = mouth.say("Two tablets of aspirin.")
    _live(agent, np.concatenate([word, _silence(0.6), word, _silence(2.0)]))
    assert len(ears.heard) == 1
    assert len(ears.heard[0]) / 24_000 == pytest.approx(2 * len(word) / 24_000 + 0.6, abs=0.25)


def test_nothing_of_a_case_is_left_in_the_next(mouth: Mouth) -> None:
    brain = Scripted()
    agent = _cascade(mouth, Deaf(), brain, rows=2)
    user = np.concatenate([mouth.say("My back hurts a lot today."), _silence(3.0)])
    agent.start(0, "first", 0)
    first = _live(agent, user)
    agent.stop(0)
    agent.start(0, "first", 0)
    again = _live(agent, user)
    agent.start(1, "first", 0)
    beside = _live(agent, user, row=1)
    assert [len(dialogue) for dialogue in brain.seen] == [2, 2, 2]
    assert [at for at, _ in first] == [at for at, _ in again] == [at for at, _ in beside]
    agent.stop(0)
    agent.stop(0)
    agent.close()
    agent.close()


def test_silence_is_answered_with_silence(mouth: Mouth) -> None:
    agent = _cascade(mouth, Deaf(), Scripted())
    agent.start(0, "", 0)
    assert _live(agent, _silence(3.0)) == []


def test_the_real_recogniser_hears_a_sentence_and_always_the_same(mouth: Mouth, assets: Path) -> None:
    ears = Ears(locate("whisper-tiny-en", assets))
    one = ears.transcribe(mouth.say("My father fell down the stairs this morning."))
    assert "fell down the stairs" in one.lower()
    assert ears.transcribe(mouth.say("My father fell down the stairs this morning.")) == one


def test_the_rule_repeats_what_it_heard_and_says_when_it_heard_nothing() -> None:
    assert Repeater().answer([Message("user", " Two large fries. ")]) == "You said, Two large fries. Is that right?"
    assert Repeater().answer([Message("user", " ")]) == "Sorry, I did not catch that."
    assert not Repeater.conditioned


def test_lines_are_kept_and_gaps_can_be_closed(mouth: Mouth, tmp_path: Path) -> None:
    first = mouth.say("One, two, three.")
    files = list(tmp_path.rglob("*.wav"))
    assert len(files) == 1
    assert np.array_equal(mouth.say("One, two, three."), first)
    gapped = np.concatenate([first, _silence(0.5), first])
    assert len(without_gaps(gapped, 0.08)) <= len(gapped) - 24_000 * 0.4


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[dict[str, Any]], list[int]]]:
    """An OpenAI-compatible chat endpoint on loopback: keeps requests, answers with the next status."""
    requests: list[dict[str, Any]] = []
    statuses: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append({"path": self.path, "authorization": self.headers.get("Authorization"), **body})
            status = statuses.pop(0) if statuses else 200
            message = {"role": "assistant", "content": " I hear\nyou. "}
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}  # noqa: E501  # fmt: skip
            data = json.dumps(reply if status == 200 else {"error": {"message": "no"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", requests, statuses
    server.shutdown()
    thread.join()
    server.server_close()


def _llm(base_url: str | None, **changes: Any) -> LlmSettings:
    return LlmSettings.model_validate({**settings()["llm"], "base_url": base_url, "model": "tiny", **changes})


def test_an_endpoint_gets_the_prompt_and_the_dialogue(
    endpoint: tuple[str, list[dict[str, Any]], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, requests, _ = endpoint
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    brain = make_brain(_llm(url))
    assert isinstance(brain, ChatEndpoint)
    assert brain.answer([Message("system", "You are a nurse."), Message("user", "It hurts.")]) == "I hear you."
    assert requests[0]["messages"] == [
        {"role": "system", "content": "You are a nurse."},
        {"role": "user", "content": "It hurts."},
    ]
    assert (requests[0]["model"], requests[0]["temperature"], requests[0]["max_tokens"]) == ("tiny", 0.0, 120)
    assert requests[0]["authorization"] == "Bearer sk-test"


def test_an_endpoint_that_refuses_is_the_agents_error_without_the_key(
    endpoint: tuple[str, list[dict[str, Any]], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, statuses = endpoint
    statuses += [400]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with pytest.raises(AgentError, match=r"gave no answer \(BadRequestError\); check that it runs") as caught:
        make_brain(_llm(url)).answer([Message("user", "x")])
    assert "sk-secret" not in str(caught.value)


def test_an_endpoint_without_a_model_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"model.llm.base_url is set and model.llm.model is not"):
        make_brain(_llm("http://127.0.0.1:9/v1", model=None))


@pytest.mark.parametrize(
    ("kind", "own", "message"),
    [
        ("robot", {}, r"model.agent is 'robot'\. Valid: babble, cascade, custom, .*silent"),
        ("silent", {"loud": 1}, r"key 'model.loud': Extra inputs are not permitted"),
        ("oracle", {"speaker": {"espeak": "nobody"}}, r"model.speaker names voice 'nobody' for engine 'espeak'"),
        ("babble", {"speaker": {}}, r"model.speaker names voice None for engine 'espeak'; that engine speaks with"),
        ("cascade", {"speaker": {}}, r"key 'model.turn_detection': Field required"),
        ("cascade", settings(reply_latency_s=-1), r"key 'model.reply_latency_s'"),
        ("cascade", settings(asr="whisper-huge"), r"there is no asset 'whisper-huge'"),
    ],
)
def test_an_agent_that_cannot_be_made_says_why(
    kind: str, own: dict[str, Any], message: str, espeak: Engine, tmp_path: Path
) -> None:
    workshop = Workshop(lambda: espeak, "espeak", ASSETS, tmp_path, tmp_path)
    with pytest.raises(ConfigError, match=message):
        make_agent(kind, 1, own, workshop)
