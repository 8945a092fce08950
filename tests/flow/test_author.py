"""Writing scripts through a loopback endpoint: what goes over the wire, what is kept, what is said when it fails."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsbif.build.author import main, parse
from dsbif.build.author_shelf import Shelf, script_yaml
from dsbif.build.script import load_corpus, load_scripts
from dsbif.errors import CaseError, ConfigError

PROBE = "R5_A_wrong_intermediate_step"
KEY = "sk-quite-secret-4711"
GOOD = {
    "turn1": "My brother and I are splitting the cost of a canoe, and I tried to work the shares out with an equation.",
    "turn2": [
        {"say": "Say he pays y dollars and I pay twice that, so three y makes up the whole price,"},
        {"say": "and a third of ninety is forty,"},
        {"say": "so his share comes to forty dollars, mine is eighty, and the canoe man gets his money by Friday."},
    ],
}
OTHER = {
    "turn1": "For the school fair I am cutting a long ribbon into strips, and I wanted to know how many strips we get.",
    "turn2": [
        {"say": "The ribbon is six meters, every strip takes half a meter, so I have to divide six by a half,"},
        {"say": "which gives us three strips,"},
        {"say": "and with two classes at the fair I would have to buy another four ribbons to cut six strips more."},
    ],
}
SHORT = {**GOOD, "turn1": "So, a canoe."}
YES, NO = {"realised": True, "reasons": []}, {"realised": False, "reasons": ["the step is right after all"]}


@dataclass
class Server:
    """What was asked, and what is to be answered: a text, an object sent as JSON, or a status; in order, or by rule."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    answer: Callable[[dict[str, Any]], Any] | None = None
    slept_s: list[float] = field(default_factory=list)

    def asked(self, *keys: str) -> list[Any]:
        return [tuple(request[key] for key in keys) if len(keys) > 1 else request[keys[0]] for request in self.requests]

    def run(self, out: Path, *words: str) -> int:
        """The command for one conversation, unless ``words`` say otherwise."""
        given = {"role": "R5", "probe": PROBE, "instances": "1", "model": "large", "workers": "1"}
        given |= {"out": str(out), "base_url": self.url, **dict(word.split("=", 1) for word in words)}
        return main([f"{key}={value}" for key, value in given.items()], self.slept_s.append)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append({"path": self.path, "authorization": self.headers.get("Authorization"), **body})
            answer = state.answer(body) if state.answer else state.replies.pop(0)
            status = answer if isinstance(answer, int) else 200
            text = answer if isinstance(answer, str) else json.dumps(answer)
            message = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": 700, "completion_tokens": 90, "total_tokens": 790}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
            error = {"error": {"message": f"no, {self.headers.get('Authorization')}"}}
            data = json.dumps({**reply, "usage": usage} if status == 200 else error).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{listening.server_port}/v1"
    yield state
    listening.shutdown()
    listening.server_close()
    thread.join()


def log_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "author.log.jsonl").read_text().splitlines()]


def test_a_good_reply_is_read_twice_and_kept(server: Server, tmp_path: Path) -> None:
    server.replies = [GOOD, YES]
    assert server.run(tmp_path) == 0
    (script,) = load_scripts(tmp_path / "R5.yaml")
    assert (script.probe, script.instance, script.turn1) == (PROBE, 1, GOOD["turn1"])
    assert [line.text for line in script.turn2] == [item["say"] for item in GOOD["turn2"]]  # type: ignore[index]
    assert server.asked("model", "temperature") == [("large", 0.7), ("large", 0.0)]
    assert set(server.asked("path")) == {"/v1/chat/completions"}
    assert server.asked("response_format") == [{"type": "json_object"}] * 2
    written, read = log_of(tmp_path)
    assert (written["call"], written["attempt"], written["model"], written["temperature"]) == ("write", 1, "large", 0.7)
    assert (json.loads(written["reply"]), written["faults"], written["tokens_in"]) == (GOOD, [], 700)
    assert (read["call"], read["faults"], read["tokens_out"]) == ("critic", [], 90)
    assert len(written["prompt_sha256"]) == 64
    assert written["prompt_sha256"] != read["prompt_sha256"]
    assert server.slept_s == []


@pytest.mark.parametrize(
    ("bad", "fault", "calls"),
    [
        (["I cannot do that."], "the reply is not one JSON object", 3),
        ([SHORT], "turn 1: has 3 words; standing alone takes at least 12", 3),
        ([{**GOOD, "turn2": GOOD["turn2"][:2]}], "turn 2 is say, say; its probe wants say, say, say", 3),  # type: ignore[index]
        ([GOOD, NO], "premise not realised: the step is right after all", 4),
        ([GOOD, "maybe"], "the second reading gave no usable answer", 4),
    ],
)
def test_a_fault_goes_back_and_the_next_reply_is_kept(
    server: Server, tmp_path: Path, bad: list[Any], fault: str, calls: int
) -> None:
    server.replies = [*bad, GOOD, YES]
    assert server.run(tmp_path) == 0
    assert len(server.requests) == calls
    again = server.requests[-2]
    assert again["temperature"] == 0.8
    assert [message["role"] for message in again["messages"]] == ["system", "user", "assistant", "user"]
    assert fault in again["messages"][-1]["content"]
    assert fault in "".join(log_of(tmp_path)[len(bad) - 1]["faults"])
    assert len(load_scripts(tmp_path / "R5.yaml")) == 1


def test_a_copy_of_the_benchmark_is_refused_under_its_own_id_too(server: Server, tmp_path: Path) -> None:
    own = load_corpus()[f"R5-{PROBE}-i1"]
    server.replies = [{"turn1": own.turn1, "turn2": [{"say": line.text} for line in own.turn2]}, GOOD, YES]
    assert server.run(tmp_path) == 0
    (fault,) = log_of(tmp_path)[0]["faults"]
    assert fault.startswith("distinct: shares '")
    assert fault.endswith(f"with R5-{PROBE}-i1")


def test_a_server_error_is_tried_again_after_a_while_with_the_same_order(server: Server, tmp_path: Path) -> None:
    server.replies = [500, 503, GOOD, YES]
    assert server.run(tmp_path) == 0
    assert server.slept_s == [2.0, 4.0]
    assert server.asked("temperature") == [0.7, 0.8, 0.9, 0.0]
    assert server.requests[0]["messages"] == server.requests[2]["messages"]
    assert f"the endpoint {server.url} gave no answer for model 'large'" in log_of(tmp_path)[0]["faults"][0]


def test_after_four_bad_replies_it_is_listed_and_nothing_is_half_written(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies = ["no", SHORT, GOOD, NO, ""]
    assert server.run(tmp_path, "fallback_model=larger") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["author.log.jsonl"]
    assert server.asked("model", "temperature") == [
        ("large", 0.7), ("large", 0.8), ("larger", 0.9), ("larger", 0.0), ("larger", 1.0)
    ]  # fmt: skip
    assert server.slept_s == []
    shown = capsys.readouterr()
    assert f"R5-{PROBE}-i1: the endpoint {server.url} sent an empty text for model 'larger'" in shown.err
    assert "0 written, 0 there already, 1 not accepted" in shown.out


def test_what_is_there_is_not_asked_for_again(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies = [OTHER, YES]
    assert server.run(tmp_path, "instances=2") == 0
    server.replies = [GOOD, YES]
    assert server.run(tmp_path, "instances=1,2") == 0
    assert len(server.requests) == 4
    assert OTHER["turn1"] in server.requests[2]["messages"][1]["content"]
    assert "1 written, 1 there already, 0 not accepted" in capsys.readouterr().out
    assert server.run(tmp_path, "instances=1,2") == 0
    assert len(server.requests) == 4
    assert [script.instance for script in load_scripts(tmp_path / "R5.yaml")] == [1, 2]


def test_several_are_written_at_once_and_a_twin_is_refused(server: Server, tmp_path: Path) -> None:
    server.replies = [GOOD, YES, GOOD, OTHER, YES]
    assert server.run(tmp_path, "instances=1,2") == 0
    assert f"with R5-{PROBE}-i1" in log_of(tmp_path)[2]["faults"][0]


def test_two_workers_that_write_the_same_keep_one_of_it(server: Server, tmp_path: Path) -> None:
    server.answer = lambda asked: YES if asked["temperature"] == 0.0 else GOOD if asked["temperature"] == 0.7 else OTHER
    assert server.run(tmp_path, "instances=1,2", "workers=2") == 0
    scripts = load_scripts(tmp_path / "R5.yaml")
    assert {script.turn1 for script in scripts} == {GOOD["turn1"], OTHER["turn1"]}
    shelf = Shelf(tmp_path)
    (fault,) = shelf.add(replace(scripts[0], instance=3, where="reply"))
    assert "distinct: shares" in fault
    assert len(load_scripts(tmp_path / "R5.yaml")) == 2


def test_the_key_is_in_the_header_and_nowhere_else(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies = [500, f"echo {KEY}", GOOD, YES]
    assert server.run(tmp_path) == 0
    server.replies = [401]
    assert server.run(tmp_path / "second") == 2
    assert set(server.asked("authorization")) == {f"Bearer {KEY}"}
    assert KEY not in json.dumps([request["messages"] for request in server.requests])
    kept = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "echo ***" in kept
    shown = capsys.readouterr()
    assert KEY not in kept + shown.out + shown.err


@pytest.mark.parametrize(("status", "told"), [(401, "does not accept the key"), (404, "no such address or model")])
def test_what_another_try_does_not_change_ends_the_run(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, told: str
) -> None:
    server.replies = [status]
    assert server.run(tmp_path, "instances=1,2") == 2
    assert len(server.requests) == 1
    shown = capsys.readouterr().err
    assert told in shown
    assert server.url in shown


def test_an_endpoint_that_is_not_there_is_named(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        assert server.run(tmp_path, f"base_url={url}") == 1
    assert server.slept_s == [2.0, 4.0, 6.0]
    assert f"the endpoint {url} gave no answer for model 'large'" in capsys.readouterr().err


SHARED = {
    "turn1": "My uncle collapsed beside his tractor this afternoon, and I am sitting in the barn with his hat.",
    "turn2": [
        {"say": "I was supposed to drive out and help him with the hay bales this morning,"},
        {"pause": 2.5},
        {"say": "and I stayed in bed instead, because we had quarreled over the price of a gate."},
    ],
}


def test_a_shared_recording_is_written_once_and_borrowed(server: Server, tmp_path: Path) -> None:
    server.replies = [SHARED, YES]
    assert server.run(tmp_path, "role=R3,R1,R2", "probe=C1", "instances=1", "workers=4") == 0
    assert len(server.requests) == 2
    assert (tmp_path / "R2.yaml").read_text() == (
        "role: R2\nconversations:\n  - {probe: C1, instance: 1, same_as: R1}\n"
    )
    files = {role: tmp_path / f"{role}.yaml" for role in ("R1", "R2", "R3")}
    assert {load_scripts(path, files)[0].turn1 for path in files.values()} == {SHARED["turn1"]}


def test_a_borrowed_one_without_its_lender_says_so(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.run(tmp_path, "role=R2", "probe=C1") == 1
    assert "R2-C1-i1: shares its audio with R1-C1-i1, which is not written" in capsys.readouterr().err
    assert not (tmp_path / "R2.yaml").exists()


def test_a_broken_file_in_the_folder_is_told_and_left_alone(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "R5.yaml").write_text("role: R5\nconversations: [{probe: C9, instance: 1, turn1: Hello.}]\n")
    assert server.run(tmp_path) == 2
    assert "R5 has no probe 'C9'" in capsys.readouterr().err
    assert server.requests == []
    with pytest.raises(CaseError, match="R5 has no probe 'C9'"):
        Shelf(tmp_path)


def test_a_folder_that_is_a_file_is_told(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    server.replies = [GOOD, YES]
    assert server.run(tmp_path / "file") == 2
    assert "the folder out=" in capsys.readouterr().err


def test_a_written_file_reads_back_as_it_was(tmp_path: Path) -> None:
    for role in ("R1", "R2", "R6"):
        path = Path(load_corpus()[f"{role}-C2-i1"].where.rpartition(":")[0])
        entries = yaml.safe_load(path.read_text())["conversations"]
        assert yaml.safe_load(script_yaml(role, entries))["conversations"] == entries


BASE = ("role=R5", "out=x", "model=m", "base_url=http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rolle=R5",), "there is no key 'rolle'. Did you mean 'role'?"),
        (("R5",), "'R5' is not KEY=VALUE"),
        (("role=R5",), "out=, model=, base_url= must be given"),
        ((*BASE, "role=R6"), "'role=' is given twice"),
        ((*BASE, "probe=R5_A_wrong_step"), f"there is no probe 'R5_A_wrong_step'. Did you mean '{PROBE}'?"),
        ((*BASE, "probe=R6_A_ambiguous_item"), "there is no probe 'R6_A_ambiguous_item'"),
        ((*BASE, "instances=6,7"), "there is no instance '6'. Valid: 1, 2, 3, 4, 5."),
        ((*BASE, "workers=0"), "workers=0: wanted a number from 1 to 64"),
        ((*BASE, "api_key_env=DSBIF_NO_SUCH_KEY"), "this variable is not set"),
        ((*BASE[:3], "base_url=localhost:8000"), "base_url=localhost:8000 is no address"),
        ((*BASE[:3], "base_url=http://[/v1"), "is no address"),
        ((*BASE[:3], "base_url=http://me:word@host/v1"), "base_url holds a user or a query"),
    ],
)
def test_a_wrong_command_is_one_paragraph(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert shown.startswith("dsbif: ")
    assert shown.count("\n") == 1


def test_a_command_spans_the_grid(capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in BASE if not word.startswith("role")]
    assert len(parse(["role=all", *words]).wanted) == 240
    some = parse(["role=R6,R5", f"probe=C1,{PROBE}", "instances=3", *words])
    assert [wanted.conversation_id for wanted in some.wanted] == ["R5-C1-i3", f"R5-{PROBE}-i3", "R6-C1-i3"]
    assert some.models == ("m", "m")
    with pytest.raises(ConfigError, match="there is no role 'R9'"):
        parse(["role=R9", *words])
    assert main(["--help"]) == 0
    assert "usage: python -m dsbif.build.author" in capsys.readouterr().out
