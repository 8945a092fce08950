"""Judging all 1,038 cases against a loopback server that answers at once: wall time and memory of the judging process.

``python -m bench.judge`` prints both beside their limits, then goes on from the finished file, which calls nothing.
The server is a process of its own. Transcripts and user turns are as long as those of a real run.
"""

import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from dsbif.bench.case import Case, TimedSegment, UserTurn
from dsbif.bench.grid import CaseKey, full_grid
from dsbif.bench.levels import EXPECTED_WINNER
from dsbif.bench.roles import load_roles
from dsbif.bench.windows import WindowMode
from dsbif.judge.calls import judge_cases
from dsbif.judge.prompt import JudgeItem
from dsbif.judge.reply import Status
from dsbif.judge.settings import JudgeSettings
from dsbif.judge.store import judgements_file, read_judgements
from dsbif.progress import progress
from dsbif.session.recording import TextPiece, Transcript
from dsbif.spans import Span

LIMIT_S = 60.0
LIMIT_MIB = 500.0
WORDS = "and then he said that it had been like this since the morning and nobody knew what to do about it "
SAID = tuple(TextPiece(24_000 * second, WORDS) for second in range(8))


class Handler(BaseHTTPRequestHandler):
    """Answers with a good judgement at once."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits 40 ms for the client's acknowledgement

    def do_POST(self) -> None:
        """One chat completion."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        conflict = '"l4_category": null' not in body["messages"][1]["content"]
        texts = ("formalize", "timeline", "register_rationale", "content_rationale", "summary")
        fields = {"register_fit": 4, "content_fit": 4, "pas": 80, "l4_category": "hedged" if conflict else None}
        text = json.dumps({**dict.fromkeys(texts, WORDS * 3), **fields})
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1200, "completion_tokens": 400}
        data = json.dumps({"model": "instant", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Nothing."""


def serve(port: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()


def an_item(key: CaseKey) -> JudgeItem:
    role = load_roles()[key.role]
    turn = UserTurn("x.wav", "0" * 64, 24_000, (TimedSegment("s1", "speech", WORDS * 2, Span(0.0, 1.0)),))
    case = Case(
        test_case_id=key.test_case_id,
        conversation_id=key.conversation_id,
        role=key.role,
        role_name=role.name,
        probe=key.probe,
        instance=key.instance,
        level=key.level,
        expected_action=key.action,
        l4_expected=EXPECTED_WINNER.get(key.level),
        system_prompt=role.prompt_for(key),
        voice="none",
        turn1=turn,
        turn2=turn,
        barge_in_after_s=None,
        window=Span(0.0, 1.0),
        window_mode=WindowMode.CAUSAL,
    )
    said = Transcript("native", SAID)
    return JudgeItem(case, role.persona, role.contradiction_for(key), said, True, role.targets.get(key.probe))


def judge_all(port: int, out: Path) -> tuple[int, float]:
    """Cases that ended ok, and wall time."""
    settings = JudgeSettings(name="bench", provider="compatible", model="x", base_url=f"http://127.0.0.1:{port}/v1")
    items = [an_item(key) for key in full_grid()]
    started = time.perf_counter()
    with progress("judging") as report:
        judged = judge_cases(items, settings, out, report)
    return sum(one.status is Status.OK for one in judged), time.perf_counter() - started


def main() -> int:
    os.environ.setdefault("OPENAI_API_KEY", "none")
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory(prefix="dsbif-bench-") as folder:
        port = here.recv()
        ok, wall_s = judge_all(port, Path(folder))
        again, again_s = judge_all(port, Path(folder))
        calls = read_judgements(judgements_file(Path(folder), "bench"))[1].calls
    server.terminate()
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"judged {ok} cases in {wall_s:.1f} s (limit {LIMIT_S:.0f}), {1000 * wall_s / ok:.1f} ms a case")
    print(f"peak memory {mib:.0f} MiB (limit {LIMIT_MIB:.0f})")
    print(f"going on from the finished file: {again} cases in {again_s:.1f} s, {calls} calls in all")
    return int(wall_s > LIMIT_S or mib > LIMIT_MIB or (ok, again, calls) != (1038, 1038, 1038))


if __name__ == "__main__":
    sys.exit(main())
