"""A person as judge: the page's server, what it keeps, and what it refuses."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from judge_server import a_judgement
from labelled_run import HOSTILE, labelled_run

from dsbif.bench.levels import Level
from dsbif.errors import CaseError, ConfigError, JudgeError
from dsbif.items import open_run, run_items
from dsbif.judge.agree import agree
from dsbif.judge.label import main
from dsbif.judge.label_desk import Desk, sample
from dsbif.judge.label_server import LabelServer
from dsbif.judge.reply import Status
from dsbif.judge.store import Store, judgements_file, read_judgements
from dsbif.rundir import RunDir

ANSWER = {"register_fit": "4", "content_fit": "3", "pas": "77", "l4_category": "hedged", "summary": "so <so>"}


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Browser:
    """Requests as a browser sends them, and as others might."""

    def __init__(self, server: LabelServer) -> None:
        self.port, self.home = server.server_port, urlsplit(server.url).path

    def ask(self, method: str, path: str, form: dict[str, str] | bytes | None = None, **headers: str) -> Got:
        body = urlencode(form).encode() if isinstance(form, dict) else form
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        response = connection.getresponse()
        got = Got(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return got

    def get(self, path: str, **headers: str) -> Got:
        return self.ask("GET", self.home + path, **headers)

    def post(self, path: str, form: dict[str, str], **headers: str) -> Got:
        return self.ask("POST", self.home + path, form, **headers)


@contextmanager
def labelling(run: RunDir, who: str = "ann", size: int = 40) -> Iterator[tuple[Browser, Desk]]:
    with Store(judgements_file(run.path, f"person-{who}")) as store:
        desk = Desk(who, sample(run_items(run), size), store)
        server = LabelServer(desk, run.wav)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Browser(server), desk
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return labelled_run(tmp_path / "run")


def test_answers_are_kept_in_the_judges_format_and_the_next_case_follows(run: RunDir) -> None:
    with labelling(run) as (browser, desk):
        assert browser.get("").headers["Location"] == f"{browser.home}case/1"
        got = browser.post("case/1", ANSWER)
        assert (got.status, got.headers["Location"]) == (303, f"{browser.home}case/2")
        first = desk.items[0]
        kept = read_judgements(run.path / "judgements.person-ann.jsonl")[0][first.test_case_id]
        assert kept.fields is not None
        assert (kept.status, kept.pas, kept.fields.l4_category, kept.fields.summary) == ("ok", 77, "hedged", "so <so>")
        assert (kept.provider, kept.model, kept.judge) == ("person", "ann", "person-ann")
        assert kept.transcript_hash == first.transcript_hash
        assert browser.post("case/2", {"skip": "1"}).headers["Location"] == f"{browser.home}case/3"
        assert desk.store.latest[desk.items[1].test_case_id].status is Status.REFUSED
        assert desk.done == 2


def test_it_goes_on_where_it_stopped_and_an_answer_can_be_changed(run: RunDir) -> None:
    with labelling(run) as (browser, _):
        browser.post("case/1", ANSWER)
        browser.post("case/3", ANSWER)
    with labelling(run) as (browser, desk):
        assert browser.get("").headers["Location"] == f"{browser.home}case/2"
        page = browser.get("case/1").text
        assert 'name="register_fit" value="4" required checked' in page
        assert 'value="77"' in page
        assert "so &lt;so&gt;" in page
        assert "2 labelled by ann" in page
        browser.post("case/2", ANSWER)
        assert browser.post("case/4", ANSWER).headers["Location"] == browser.home
        assert "All 4 are labelled" in browser.get("").text
        browser.post("case/1", {**ANSWER, "pas": "12"})
        assert desk.store.latest[desk.items[0].test_case_id].pas == 12
    assert len((run.path / "judgements.person-ann.jsonl").read_text().splitlines()) == 5


def test_other_words_open_a_case_again(tmp_path: Path) -> None:
    run = labelled_run(tmp_path / "run", n=1)
    with labelling(run) as (browser, _):
        browser.post("case/1", ANSWER)
    again = labelled_run(tmp_path / "again", n=1, said="Something else.")
    (run.path / "judgements.person-ann.jsonl").rename(again.path / "judgements.person-ann.jsonl")
    with labelling(again) as (_, desk):
        assert desk.first_open() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"register_fit": ""}, "Please give register, 0 to 5, as a whole number."),
        ({"content_fit": "many"}, "Please give content, 0 to 5"),
        ({"pas": "101"}, "That cannot be kept: key 'pas'"),
        ({"pas": "1e2"}, "Please give PAS, 0 to 100"),
        ({"register_fit": "6"}, "That cannot be kept: key 'register_fit'"),
        ({"l4_category": ""}, "Please say who won."),
        ({"l4_category": "nobody"}, "That cannot be kept: key 'l4_category'"),
    ],
)
def test_an_answer_that_cannot_be_kept_is_shown_again(run: RunDir, change: dict[str, str], message: str) -> None:
    with labelling(run) as (browser, desk):
        got = browser.post("case/1", {**ANSWER, **change})
        assert got.status == 422
        assert message in unescape(got.text)
        assert "so &lt;so&gt;" in got.text
        assert desk.done == 0


def test_the_page_shows_what_the_judge_is_shown_and_no_score(run: RunDir) -> None:
    (run.path / "verdicts.jsonl").write_text("floor_take TAKE_TURN")
    with labelling(run, size=1) as (browser, _):
        page = unescape(browser.get("case/1").text)
    shown_to_the_judge = (
        "er triage nurse",
        "You are Dana",
        "Takes every complaint seriously",
        "Additionally: say nothing",
        "My father fell this morning.",
        "pause 2.5 s",
        "Yes, answer",
        "so the directive should win",
    )
    for shown in shown_to_the_judge:
        assert shown in page
    for hidden in ("TAKE_TURN", "floor", "IAS", "latency", "window", "13.5", "passed"):
        assert hidden not in page


def test_below_l4_nobody_is_asked_who_won(tmp_path: Path) -> None:
    run = labelled_run(tmp_path / "run", n=1, level=Level.L2)
    with labelling(run) as (browser, desk):
        assert "Who won" not in browser.get("case/1").text
        browser.post("case/1", ANSWER)
        kept = desk.store.latest[desk.items[0].test_case_id]
    assert kept.fields is not None
    assert kept.fields.l4_category is None


def test_what_strangers_wrote_is_escaped(tmp_path: Path) -> None:
    run = labelled_run(tmp_path / "run", n=1, said=HOSTILE, role_name="<img src=x onerror=alert(1)>")
    with labelling(run) as (browser, _):
        got = browser.get("case/1")
        again = browser.post("case/1", {**ANSWER, "pas": '"><script>x</script>'})
    for page in (got.text, again.text):
        assert len(re.findall("<script", page)) == 1
        assert "<img" not in page
        assert "<b>at all" not in page
    assert "&lt;script&gt;document.title=" in got.text
    policy = got.headers["Content-Security-Policy"]
    nonce = re.search("nonce-([^']+)", policy)
    assert nonce
    assert f'<script nonce="{nonce[1]}">' in got.text
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_only_the_printed_address_answers(run: RunDir) -> None:
    with labelling(run) as (browser, desk):
        wrong = browser.home[:-2] + ("A" if browser.home[-2] != "A" else "B") + "/"
        assert browser.ask("GET", "/").status == 404
        assert browser.ask("GET", f"{wrong}case/1").status == 404
        assert browser.ask("POST", f"{wrong}case/1", ANSWER).status == 404
        assert browser.get("case/1", Host="evil.example").status == 404
        assert browser.post("case/1", ANSWER, Origin="http://evil.example").status == 404
        assert browser.post("case/1", ANSWER, Origin="null").status == 404
        assert desk.done == 0
        own = f"http://127.0.0.1:{browser.port}"
        assert browser.post("case/1", ANSWER, Origin=own).status == 303
        assert len(browser.home) > 30
        assert "Allow" not in browser.get("case/1").headers


@pytest.mark.parametrize(
    "path", ["case/0", "case/5", "case/x", "case/", "audio/9", "case/1/2", "../etc", "audio/..%2f"]
)
def test_nothing_else_is_served(run: RunDir, path: str) -> None:
    with labelling(run) as (browser, _):
        assert browser.get(path).status == 404
        assert browser.post(path, ANSWER).status == 404


def test_a_form_that_is_none_is_refused(run: RunDir) -> None:
    with labelling(run) as (browser, desk):
        assert browser.ask("POST", f"{browser.home}case/1", b"x" * 70_000).status == 404
        assert browser.ask("POST", f"{browser.home}case/1", b"a=1&" * 30).status == 404
        assert browser.ask("POST", f"{browser.home}case/1", b"", Content_Length="many").status in (400, 404)
        assert browser.ask("POST", f"{browser.home}case/1", b"\xff\xfe").status == 422
        assert desk.done == 0


def test_the_recording_plays_whole_and_in_ranges(run: RunDir) -> None:
    with labelling(run) as (browser, desk):
        data = run.wav(desk.items[0].test_case_id).read_bytes()
        whole = browser.get("audio/1")
        assert (whole.status, whole.body, whole.headers["Content-Type"]) == (200, data, "audio/wav")
        part = browser.get("audio/1", Range="bytes=44-143")
        assert (part.status, part.body) == (206, data[44:144])
        assert part.headers["Content-Range"] == f"bytes 44-143/{len(data)}"
        rest = browser.get("audio/1", Range=f"bytes={len(data) - 5}-")
        assert (rest.status, rest.body) == (206, data[-5:])
        assert browser.get("audio/1", Range=f"bytes={len(data)}-").status == 416
        assert browser.get("audio/1", Range="bytes=-5").status == 200


def test_without_a_recording_the_words_are_still_judged(tmp_path: Path) -> None:
    run = labelled_run(tmp_path / "run", n=1, mute=True)
    with labelling(run) as (browser, desk):
        page = browser.get("case/1").text
        assert "There is no recording to play." in page
        assert "<audio" not in page
        assert browser.get("audio/1").status == 404
        assert browser.post("case/1", ANSWER).status == 303
        assert desk.done == 1


def test_a_sample_is_the_same_every_time_and_grows_at_its_end(tmp_path: Path) -> None:
    items = run_items(labelled_run(tmp_path / "run", n=12, mute=True))
    ids = [item.test_case_id for item in sample(items, 12)]
    assert sorted(ids) == sorted(item.test_case_id for item in items)
    assert ids != [item.test_case_id for item in items]
    assert [item.test_case_id for item in sample(items[::-1], 5)] == ids[:5]


def test_a_person_and_a_judge_can_be_compared(run: RunDir) -> None:
    with labelling(run, size=3) as (browser, desk):
        for number, pas in enumerate(("90", "50", "10"), 1):
            browser.post(f"case/{number}", {**ANSWER, "pas": pas})
        items = list(desk.items)
    with Store(judgements_file(run.path, "tiny")) as store:
        for item, pas in zip(items, (80, 60, 20), strict=True):
            store.append(a_judgement(item.test_case_id, pas, "hedged", transcript_hash=item.transcript_hash))
    (found,) = agree(run.path)
    assert (found.first, found.second) == ("person-ann", "tiny")
    assert (len(found.scores), found.n, found.spearman) == (3, 4, 1.0)
    assert found.mean_difference == pytest.approx(10 / 3)
    assert found.left_out == {"not judged by person-ann": 1}


def test_a_full_disk_is_told_on_the_page(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with labelling(run) as (browser, desk):
        monkeypatch.setattr(os, "fsync", full)
        got = browser.post("case/1", ANSWER)
        assert got.status == 507
        assert "No space left on device" in got.text
        assert desk.done == 0


def test_a_recognisers_words_are_shown_where_they_were_judged(tmp_path: Path) -> None:
    run = labelled_run(tmp_path / "run", n=2, said="own words", source="asr")
    assert [item.transcript.text for item in run_items(run)] == ["own words", "own words"]
    for path in run.recordings.glob("*.rec.json"):
        rec = json.loads(path.read_text())
        path.write_text(json.dumps({**rec, "transcript": {**rec["transcript"], "source": "none", "pieces": []}}))
    with pytest.raises(ConfigError, match=r"has no transcripts.\*.jsonl; score it again"):
        run_items(run)
    rows = [{"test_case_id": f"IFD-R1-C1-i{n}-L4a", "text": f"heard {n}"} for n in (1, 2)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (run.path / "transcripts.whisper.jsonl").write_text(text)
    assert [item.transcript.text for item in run_items(run)] == ["heard 1", "heard 2"]
    (run.path / "transcripts.parakeet.jsonl").write_text(text.replace("heard", "parroted"))
    with pytest.raises(ConfigError, match=r"was transcribed by parakeet and whisper; say whose words"):
        run_items(run)
    assert [item.transcript.text for item in run_items(run, "parakeet")] == ["parroted 1", "parroted 2"]


def test_a_run_that_cannot_be_read_says_why(run: RunDir) -> None:
    with pytest.raises(ConfigError, match=r"is no run directory .*; name one, such as runs/NAME"):
        open_run(run.path / "nowhere")
    run.measurements.write_text("{torn\n")
    with pytest.raises(CaseError, match=r"measurements.jsonl:1: .*Score the run first"):
        run_items(run)
    run.measurements.write_text("[]\n")
    with pytest.raises(CaseError, match=r"measurements.jsonl:1: every line must be one JSON object"):
        run_items(run)
    run.measurements.unlink()
    with pytest.raises(CaseError, match=r"measurements.jsonl cannot be read"):
        run_items(run)
    run.config.write_text("[]")
    with pytest.raises(ConfigError, match=r"config.yaml holds no configuration"):
        open_run(run.path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere/at-all"], "nowhere/at-all is no run directory"),
        (["RUN", "--sample", "0"], "--sample 0: wanted a number from 1"),
        (["RUN", "--name", "../ann"], "--name '../ann' cannot be part of a file's name"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_paragraph(
    run: RunDir, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(run.path) if word == "RUN" else word for word in words]) == 2
    assert message in capsys.readouterr().err


def test_nothing_to_label_and_a_desk_in_use_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wordless = labelled_run(tmp_path / "run", n=1, said="")
    assert main([str(wordless.path), "--name", "ann"]) == 2
    assert "no case with a transcript to judge" in capsys.readouterr().err
    run = labelled_run(tmp_path / "other", n=1)
    with labelling(run) as (browser, _):
        assert main([str(run.path), "--name", "ann"]) == 2
        assert "another process is judging into" in capsys.readouterr().err
        assert main([str(run.path), "--name", "bob", "--port", str(browser.port)]) == 2
        assert f"port {browser.port} cannot be used" in capsys.readouterr().err


def _start(run: RunDir) -> tuple[subprocess.Popen[str], Browser]:
    command = [sys.executable, "-m", "dsbif.judge.label", str(run.path), "--name", "ann", "--sample", "2"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    url = next(line for line in child.stdout if line.startswith("http")).strip()
    browser = Browser.__new__(Browser)
    browser.port, browser.home = urlsplit(url).port or 0, urlsplit(url).path
    return child, browser


def test_kill_9_loses_no_answer_and_the_page_ends_the_command(run: RunDir) -> None:
    child, browser = _start(run)
    assert browser.post("case/1", ANSWER).status == 303
    child.send_signal(signal.SIGKILL)
    child.communicate()
    child, browser = _start(run)
    assert browser.get("").headers["Location"] == f"{browser.home}case/2"
    assert browser.post("case/2", ANSWER).status == 303
    assert "can be closed" in browser.post("end", {}).text
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    assert "2 of 2 are labelled." in out
    assert f"python -m dsbif.judge.agree {run.path}" in out


def test_ctrl_c_says_how_far_it_got(run: RunDir) -> None:
    child, browser = _start(run)
    browser.post("case/1", ANSWER)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "")
    assert "1 of 2 are labelled, 1 are left; the same command goes on." in out


def test_a_broken_file_of_labels_is_named(run: RunDir) -> None:
    judgements_file(run.path, "person-ann").write_text("{}\n")
    with pytest.raises(JudgeError, match=r"judgements.person-ann.jsonl:1"), labelling(run):
        pass
