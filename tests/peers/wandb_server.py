"""The few calls that one upload to Weights & Biases makes, on loopback: what arrived is kept, and it can fail."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Arrived:
    """What the server got. ``refuse_files``: so many file uploads are cut off before they are read."""

    url: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    headers: set[str] = field(default_factory=set)
    refuse_files: int = 0


@contextmanager
def wandb_server() -> Iterator[Arrived]:
    """Serve until the block is left."""
    arrived = Arrived()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(arrived))
    arrived.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield arrived
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(arrived: Arrived) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one small method a call
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_PUT(self) -> None:
            if arrived.refuse_files:
                arrived.refuse_files -= 1
                self.send_error(403, "not now")
                return
            name = self.path.removeprefix("/storage/")
            arrived.files[name] = self._body()
            self._answer({})

        def do_POST(self) -> None:
            body = self._body()
            if self.path.endswith("/graphql"):
                self._answer({"data": self._graphql(json.loads(body))})
                return
            if self.path.endswith("/file_stream"):
                files = json.loads(body).get("files") or {}
                arrived.history += files.get("wandb-history.jsonl", {}).get("content", [])
            self._answer({"exitcode": None, "limits": {}})

        def _body(self) -> bytes:
            arrived.headers |= {f"{key}: {value}" for key, value in self.headers.items()}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

        def _answer(self, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _graphql(self, asked: dict[str, Any]) -> dict[str, Any]:
            query, given = asked["query"], asked.get("variables") or {}
            answer: dict[str, Any] = {}
            if "viewer" in query:
                answer["viewer"] = {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}
            if "serverInfo" in query:
                answer["serverInfo"] = {"features": []}
            if "upsertBucket" in query:
                arrived.runs.append(given)
                project = {"id": "P", "name": given.get("project"), "entity": {"id": "E", "name": "me"}}
                bucket = {"id": "B", "name": given["name"], "config": "{}", "historyLineCount": 0, "project": project}
                answer["upsertBucket"] = {"bucket": bucket, "inserted": True}
            if "createArtifact(" in query:
                artifact = {"id": "A", "state": "COMMITTED", "artifactSequence": {"latestArtifact": {"id": "A"}}}
                answer["createArtifact"] = {"artifact": artifact}
            if "createRunFiles" in query:
                files = [{"name": name, "uploadUrl": f"{arrived.url}/storage/{name}"} for name in given["files"]]
                answer["createRunFiles"] = {"runID": "B", "uploadHeaders": [], "files": files}
            return answer

    return Handler
