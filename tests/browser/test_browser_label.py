"""The labelling page in Chromium: with the keyboard alone, without JavaScript, and with hostile words in it."""

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labelled_run import HOSTILE, labelled_run

from dsbif.items import run_items
from dsbif.judge.label_desk import Desk, sample
from dsbif.judge.label_server import LabelServer
from dsbif.judge.store import Store, judgements_file
from dsbif.rundir import RunDir

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
if CHROMIUM is None and os.getuid() != 0:
    pytest.skip("no Chromium here: apt-get install chromium (as root `make test` does)", allow_module_level=True)


LOADED = """() => new Promise((done) => {
  const audio = document.querySelector("audio");
  if (audio.readyState >= 1) done(audio.duration);
  else audio.addEventListener("loadedmetadata", () => done(audio.duration));
})"""
WATCHED = """() => {
  const audio = document.querySelector("audio");
  window.playing = new Promise((done) => audio.addEventListener("play", (event) => done(event.type)));
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        # Its sandbox cannot be set up by root or in most containers; it only sees pages of ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[LabelServer, Desk, RunDir]]:
    run = labelled_run(tmp_path / "run", n=3, said=f"Yes. {HOSTILE}")
    with Store(judgements_file(run.path, "person-ann")) as store:
        desk = Desk("ann", sample(run_items(run), 3), store)
        server = LabelServer(desk, run.wav)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server, desk, run
        server.shutdown()
        thread.join()
        server.server_close()


def _page(chromium: Any, **options: Any) -> tuple[Any, list[str]]:
    """A page, and everything that goes wrong on it."""
    page = chromium.new_context(viewport={"width": 1280, "height": 860}, **options).new_page()
    page.set_default_timeout(60_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("request", lambda r: faults.append(r.url) if not r.url.startswith("http://127.0.0.1:") else None)
    return page, faults


def test_a_case_is_labelled_with_the_keyboard_alone(chromium: Any, served: tuple[LabelServer, Desk, RunDir]) -> None:
    server, desk, _ = served
    page, faults = _page(chromium)
    page.goto(server.url)
    assert page.evaluate(LOADED) == pytest.approx(1.0, abs=0.05)
    page.evaluate(WATCHED)
    page.keyboard.press("p")
    assert page.evaluate("() => window.playing") == "play"
    page.focus("input[name=register_fit]")
    page.keyboard.press("ArrowRight")  # chooses 1
    page.keyboard.press("Tab")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    page.keyboard.type("64")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/case/2")
    kept = desk.store.latest[desk.items[0].test_case_id].fields
    assert kept is not None
    assert (kept.register_fit, kept.content_fit, kept.pas, kept.l4_category) == (1, 4, 64, "persona-wins")
    assert page.locator("progress").get_attribute("value") == "1"
    assert faults == []


def test_it_works_without_javascript_to_the_end(chromium: Any, served: tuple[LabelServer, Desk, RunDir]) -> None:
    server, desk, _ = served
    page, faults = _page(chromium, java_script_enabled=False)
    page.goto(server.url)
    for number in (1, 2):
        page.locator(f"input[name=register_fit][value='{number}']").check(force=True)
        page.locator("input[name=content_fit][value='5']").check(force=True)
        page.locator("input[name=pas]").fill("90")
        page.locator("input[name=l4_category][value='hedged']").check(force=True)
        page.get_by_role("button", name="Keep and go on").click()
    page.get_by_role("button", name="I cannot say").click()
    assert page.get_by_role("heading").inner_text() == "All 3 are labelled"
    page.get_by_role("link", name="look through them").click()
    assert page.locator("input[name=register_fit][value='1']").is_checked()
    page.goto(server.url)
    page.get_by_role("button", name="End").click()
    assert page.get_by_role("heading").inner_text() == "Thank you"
    assert [str(judgement.status) for judgement in desk.store.latest.values()] == ["ok", "ok", "refused"]
    assert faults == []


def test_the_browser_itself_asks_for_what_is_missing(chromium: Any, served: tuple[LabelServer, Desk, RunDir]) -> None:
    server, desk, _ = served
    page, _ = _page(chromium)
    page.goto(server.url)
    page.locator("input[name=pas]").fill("300")
    page.get_by_role("button", name="Keep and go on").click()
    assert page.url.endswith("/case/1")
    assert page.locator("input:invalid").count() >= 3
    assert desk.done == 0


def test_hostile_words_stay_words(chromium: Any, served: tuple[LabelServer, Desk, RunDir]) -> None:
    server, _, _ = served
    page, faults = _page(chromium)
    page.goto(server.url)
    assert page.title() == "1 of 3 · er_triage_nurse"
    assert HOSTILE in page.locator(".agent p").inner_text()
    assert page.locator("blockquote").inner_text().endswith("say nothing <b>at all</b>.")
    assert page.locator("script").count() == 1
    assert faults == []


@pytest.mark.parametrize("width", [360, 800, 1280, 1920])
def test_nothing_is_cut_off_at_any_width(chromium: Any, served: tuple[LabelServer, Desk, RunDir], width: int) -> None:
    server, _, _ = served
    page, _ = _page(chromium)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(server.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("Keep and go on", "I cannot say"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
