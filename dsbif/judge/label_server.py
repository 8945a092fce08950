"""The local page on which a person labels: loopback only, behind a path that nobody can guess.

Every path begins with a random token, so that no other page in the browser can read or post; a Host header other than
the loopback's own is refused as well (a name that is pointed at 127.0.0.1 would carry its own). The pages load nothing
from elsewhere, and their policy lets nothing else run.
"""

import re
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

from dsbif.errors import ConfigError, JudgeError
from dsbif.judge.label_desk import AnswerError, Desk
from dsbif.judge.label_page import case_page, finished_page, message_page

MAX_FORM_BYTES = 64 << 10
_BLOCK = 1 << 16
_RANGE = re.compile(r"^bytes=(\d{1,18})-(\d{0,18})$")
Audio = Callable[[str], Path]
"""Where the recording of a case lies; it may be missing."""


class LabelServer(ThreadingHTTPServer):
    """Serves one desk on a free port of 127.0.0.1 until the page or somebody else ends it."""

    daemon_threads = True

    def __init__(self, desk: Desk, audio: Audio, port: int = 0) -> None:
        """Bind.

        Raises:
            ConfigError: the port is taken.
        """
        self.desk, self.audio = desk, audio
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise ConfigError(
                f"port {port} cannot be used ({error.strerror}); leave --port out to have a free one."
            ) from error

    @property
    def url(self) -> str:
        """The only address that answers."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def end(self) -> None:
        """Stop serving, from any thread."""
        threading.Thread(target=self.shutdown, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    server_version = "dsbif"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args: object) -> None:
        """Nothing: the address holds the token."""

    def do_GET(self) -> None:
        """A page or a recording."""
        path = self._path()
        if path is None:
            return self._nothing()
        if path == "":
            return self._go_on(0)
        kind, _, number = path.partition("/")
        if kind in ("case", "audio") and (found := self._number(number)):
            return self._case(found) if kind == "case" else self._play(found)
        return self._nothing()

    def do_POST(self) -> None:
        """An answer, or the end."""
        path = self._path()
        form = self._form()
        if path is None or form is None:
            self.close_connection = True
            return self._nothing()
        if path == "end":
            self._send(
                message_page("Thank you", "The labels are kept. This page can be closed.", nonce := _nonce()), nonce
            )
            return self.server.end()
        kind, _, number = path.partition("/")
        found = self._number(number)
        if kind != "case" or not found:
            return self._nothing()
        return self._answer(found, form)

    def _answer(self, number: int, form: dict[str, str]) -> None:
        nonce = _nonce()
        desk = self.server.desk
        try:
            desk.answer(number, form)
        except AnswerError as error:
            page = case_page(desk, number, self._audio(number).is_file(), nonce, str(error), form)
            return self._send(page, nonce, HTTPStatus.UNPROCESSABLE_ENTITY)
        except JudgeError as error:
            told = message_page("Not kept", f"{error} Then go back and send it again.", nonce)
            return self._send(told, nonce, HTTPStatus.INSUFFICIENT_STORAGE)
        return self._go_on(number)

    def _case(self, number: int) -> None:
        nonce = _nonce()
        self._send(case_page(self.server.desk, number, self._audio(number).is_file(), nonce), nonce)

    def _go_on(self, after: int) -> None:
        """To the next open case; where there is none, to the last page."""
        number = self.server.desk.first_open(after)
        if number is None:
            nonce = _nonce()
            if self.command == "POST":
                return self._redirect("")
            return self._send(finished_page(self.server.desk, nonce), nonce)
        return self._redirect(f"case/{number}")

    def _redirect(self, to: str) -> None:
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/{self.server.token}/{to}")
        self.send_header("Content-Length", "0")
        self._guard(_nonce())
        self.end_headers()

    def _play(self, number: int) -> None:
        try:
            with self._audio(number).open("rb") as recording:
                self._stream(recording, recording.seek(0, SEEK_END))
        except FileNotFoundError:
            self._nothing()

    def _stream(self, recording: BinaryIO, size: int) -> None:
        """The recording, or the one range of it that was asked for, which is how a browser jumps."""
        asked = _RANGE.match(self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        stop = min(size, int(asked[2]) + 1) if asked and asked[2] else size
        if asked and start >= stop:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        self.send_header("Content-Type", "audio/wav")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(stop - start))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self._guard(_nonce())
        self.end_headers()
        recording.seek(start)
        while start < stop and (block := recording.read(min(_BLOCK, stop - start))):
            self.wfile.write(block)
            start += len(block)
        return None

    def _audio(self, number: int) -> Path:
        return self.server.audio(self.server.desk.items[number - 1].test_case_id)

    def _path(self) -> str | None:
        """What follows the token; None where the request is none of ours."""
        hosts = {f"{name}:{self.server.server_port}" for name in ("127.0.0.1", "localhost")}
        origin = self.headers.get("Origin")
        if self.headers.get("Host") not in hosts or (origin and origin.removeprefix("http://") not in hosts):
            return None
        token, _, rest = self.path.partition("?")[0].removeprefix("/").partition("/")
        return rest if secrets.compare_digest(token.encode(), self.server.token.encode()) else None

    def _number(self, text: str) -> int | None:
        if not re.fullmatch(r"[1-9][0-9]{0,6}", text) or int(text) > len(self.server.desk.items):
            return None
        return int(text)

    def _form(self) -> dict[str, str] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_FORM_BYTES:
            return None
        text = self.rfile.read(int(length)).decode("utf-8", "replace")
        try:
            return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=20))
        except ValueError:
            return None

    def _nothing(self) -> None:
        nonce = _nonce()
        told = message_page("Nothing here", "Use the address that the command printed.", nonce)
        self._send(told, nonce, HTTPStatus.NOT_FOUND)

    def _send(self, page: str, nonce: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = page.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self._guard(nonce)
        self.end_headers()
        self.wfile.write(data)

    def _guard(self, nonce: str) -> None:
        self.send_header(
            "Content-Security-Policy",
            f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; media-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        )
        self.send_header("Referrer-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")


def _nonce() -> str:
    return secrets.token_urlsafe(12)
