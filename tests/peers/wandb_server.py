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
    """What the server got. ``files`` and ``history`` are as W&B keeps them: by run and name, by run and line.

    ``refuse_files``: so many file uploads are refused. ``hold_files``: they wait until ``released`` and are refused
    then; ``held`` is set by the first of them.
    """

    url: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    artifacts: set[str] = field(default_factory=set)
    history: dict[tuple[str, int], str] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)
    refuse_files: int = 0
    hold_files: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


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
            body, held = self._body(), arrived.hold_files
            if held:
                arrived.held.set()
                arrived.released.wait(120)
            if held or arrived.refuse_files:
                arrived.refuse_files -= not held
                self.close_connection = True
                self.send_error(403, "not now")
                return
            arrived.files[self.path.removeprefix("/storage/")] = body
            self._answer({})

        def do_POST(self) -> None:
            body = self._body()
            if self.path.endswith("/graphql"):
                self._answer({"data": self._graphql(json.loads(body))})
                return
            if self.path.endswith("/file_stream"):
                history = (json.loads(body).get("files") or {}).get("wandb-history.jsonl") or {"content": []}
                run = self.path.split("/")[-2]
                lines = enumerate(history["content"], history.get("offset", 0))
                arrived.history |= {(run, at): line for at, line in lines}
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
                artifact = {"id": "A", "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
                artifact["id"] = given["input"]["artifactCollectionName"]
                answer["createArtifact"] = {"artifact": artifact}
            for call in ("createArtifactManifest", "updateArtifactManifest"):
                if f"{call}(" in query:
                    file = {"id": "F", "uploadUrl": f"{arrived.url}/storage/manifest", "uploadHeaders": []}
                    answer[call] = {"artifactManifest": {"id": "M", "file": file}}
            if "createArtifactFiles(" in query:
                nodes = [self._artifact_file(one) for one in given["input"]["artifactFiles"]]
                answer["createArtifactFiles"] = {"files": {"edges": [{"node": node} for node in nodes]}}
            if "commitArtifact(" in query:
                arrived.artifacts.add(given["artifactID"])
                answer["commitArtifact"] = {"artifact": {"id": given["artifactID"], "digest": "x"}}
            if "createRunFiles" in query:
                files = [{"name": name, "uploadUrl": self._place(given["run"], name)} for name in given["files"]]
                answer["createRunFiles"] = {"runID": "B", "uploadHeaders": [], "files": files}
            return answer

        def _place(self, owner: str, name: str) -> str:
            return f"{arrived.url}/storage/{owner}/{name}"

        def _artifact_file(self, asked: dict[str, Any]) -> dict[str, Any]:
            return {
                "id": "N", "name": asked["name"], "displayName": asked["name"], "uploadHeaders": [],
                "uploadUrl": self._place(asked["artifactID"], asked["name"]), "storagePath": asked["name"],
                "uploadMultipartUrls": None, "artifact": {"id": asked["artifactID"]},
            }  # fmt: skip

    return Handler
