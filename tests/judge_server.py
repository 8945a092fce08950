"""A loopback endpoint that judges as it is told, and counts."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dsbif.judge.reply import Fields, Status
from dsbif.judge.store import Judgement

GOOD: dict[str, Any] = {
    "formalize": "Short words.",
    "timeline": "A fall; a question.",
    "register_fit": 4,
    "register_rationale": "'Did he' is brisk.",
    "content_fit": 5,
    "content_rationale": "It asks.",
    "pas": 88,
    "l4_category": None,
    "summary": "A brisk nurse.",
}


def a_judgement(tid: str, pas: float | None = 80, label: str | None = None, **changes: Any) -> Judgement:
    """A judgement of ``pas``; None: refused."""
    fields = None
    if pas is not None:
        fields = Fields.model_validate({**GOOD, "pas": pas, "l4_category": label})
    values: dict[str, Any] = {
        "test_case_id": tid,
        "status": Status.OK if fields else Status.REFUSED,
        "judge": "tiny",
        "provider": "openai",
        "model": "m",
        "prompt_hash": "p",
        "transcript_hash": f"words of {tid}",
        "request_hash": "r",
        "parameters": {"temperature": 0.0},
        "fields": fields,
    }
    return Judgement(**{**values, **changes})


@dataclass(frozen=True)
class Act:
    """What the server does with one request."""

    status: int = 200
    text: str = json.dumps(GOOD)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    message: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str = "stop"
    hold: bool = False
    drop: bool = False
    drip: bool = False

    def payload(self) -> bytes:
        if self.body is not None:
            return self.body
        if self.status != 200:
            return json.dumps({"error": {"message": "no", **self.message}}).encode()
        message = {"role": "assistant", "content": self.text, **self.message}
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100}
        return json.dumps({"model": "served-1", "choices": [choice], "usage": usage}).encode()


class JudgeServer:
    """``script``: what to do with the n-th request (from 0) and its body; ``bodies`` and ``seen`` are what came."""

    def __init__(self, script: Callable[[int, dict[str, Any]], Act]) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.peak = 0
        self.held = threading.Semaphore(0)
        self.released = threading.Event()
        self.lock = threading.Lock()
        self._now = 0
        self.url = ""

    @property
    def calls(self) -> int:
        return len(self.bodies)

    @property
    def seen(self) -> Counter[str]:
        """How often each transcript came."""
        users = [body["messages"][-1]["content"] for body in self.bodies]
        return Counter(text.split(" agent>>>\n")[1].split("\n")[0] for text in users)

    def take(self, body: dict[str, Any], key: str | None) -> Act:
        with self.lock:
            self.bodies.append(body)
            self.keys.add(key)
            self._now += 1
            self.peak = max(self.peak, self._now)
            return self.script(len(self.bodies) - 1, body)

    def leave(self) -> None:
        with self.lock:
            self._now -= 1


@contextmanager
def judge_server(script: Callable[[int, dict[str, Any]], Act]) -> Iterator[JudgeServer]:
    told = JudgeServer(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            act = told.take(body, self.headers.get("Authorization"))
            try:
                if act.hold:
                    told.held.release()
                    told.released.wait()
            finally:
                told.leave()
            self._answer(act)

        def _answer(self, act: Act) -> None:
            data = act.payload()
            try:
                self.send_response(act.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data) + 1000 * (act.drop or act.drip)))
                for name, value in act.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data[: len(data) // 2] if act.drop else data)
                while act.drip and not told.released.wait(0.02):
                    self.wfile.write(b" ")
                    self.wfile.flush()
            except OSError:  # the client is gone
                pass

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield told
    finally:
        told.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
