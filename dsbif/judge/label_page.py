"""The labelling pages as HTML. Everything that others wrote is escaped; nothing is loaded from anywhere else."""

import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

from dsbif.bench.case import UserTurn
from dsbif.bench.levels import EXPECTED_WINNER
from dsbif.judge.label_desk import Desk
from dsbif.judge.label_text import PAS, PAS_BANDS, RULE, SCALES, WINNER, WINNERS
from dsbif.judge.prompt import NO_SPEECH, RESOLUTIONS, JudgeItem, plain, turn2_text
from dsbif.judge.rules import content_rules
from dsbif.judge.store import Judgement

_ASSETS = Path(__file__).parent / "label_assets"


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _page(title: str, body: str, nonce: str) -> str:
    script = f'<script nonce="{nonce}">{_asset("page.js")}</script>'
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style nonce="{nonce}">{_asset("page.css")}</style></head><body>{body}{script}</body></html>'
    )


def case_page(desk: Desk, number: int, audio: bool, nonce: str, fault: str = "", form: Mapping[str, str] = {}) -> str:
    """One case with its form.

    Args:
        desk: where it lies.
        number: of the case, from 1.
        audio: whether its recording is there.
        nonce: of this page's style and script.
        fault: what was wrong with the answer that was just given.
        form: that answer, to be shown again.
    """
    item = desk.items[number - 1]
    values = dict(form) or _given(desk.answered(number))
    left = _role(item) + _conflict(item) + _conversation(item, number, audio)
    body = (
        f"{_header(desk, number)}<main><section>{left}</section>"
        f'<form method="post" action="{number}" autocomplete="off">{_form(item, values, fault)}</form></main>'
    )
    return _page(f"{number} of {len(desk.items)} · {plain(item.case.role_name)}", body, nonce)


def _given(judgement: Judgement | None) -> dict[str, str]:
    if judgement is None or judgement.fields is None:
        return {}
    found = judgement.fields
    return {
        "register_fit": f"{found.register_fit:g}",
        "content_fit": f"{found.content_fit:g}",
        "pas": f"{found.pas:g}",
        "l4_category": found.l4_category or "",
        "summary": found.summary,
    }


def _header(desk: Desk, number: int) -> str:
    total = len(desk.items)
    back = f'<a href="{number - 1}" rel="prev">‹ back</a>' if number > 1 else "<span></span>"
    ahead = f'<a href="{number + 1}" rel="next">skip ahead ›</a>' if number < total else "<span></span>"
    return (
        f'<header><nav>{back}<strong>{number} of {total}</strong>{ahead}</nav><label class="done">'
        f'<progress max="{total}" value="{desk.done}"></progress> {desk.done} labelled by {escape(desk.who)}</label>'
        f'<p class="rule">{escape(RULE)}</p></header>'
    )


def _role(item: JudgeItem) -> str:
    case = item.case
    rule = content_rules()[case.role]
    name = plain(case.role_name).replace("_", " ")
    return (
        f'<article class="role"><h1>{escape(name)} <small>{escape(case.role)}</small></h1>'
        f"<p>{escape(plain(item.persona))}</p>"
        f"<h2>Content rule</h2><p>{escape(rule)}</p></article>"
    )


def _conflict(item: JudgeItem) -> str:
    case = item.case
    if not case.level.is_conflict:
        return ""
    told = RESOLUTIONS[case.l4_expected or EXPECTED_WINNER[case.level]]
    return (
        '<article class="conflict"><h2>A line that contradicts the persona</h2>'
        f"<blockquote>{escape(plain(item.contradiction or ''))}</blockquote>"
        f"<p>{escape(told[0].upper() + told[1:])}</p></article>"
    )


def _conversation(item: JudgeItem, number: int, audio: bool) -> str:
    player = (
        f'<audio controls preload="metadata" src="../audio/{number}"></audio><p class="hint">the person on the left '
        "channel, the assistant on the right</p>"
        if audio
        else '<p class="hint">There is no recording to play.</p>'
    )
    words = plain(item.transcript.text) or NO_SPEECH
    return (
        f"<article><h2>Conversation</h2>{player}"
        f'<div class="said person"><h3>Person, turn 1</h3><p>{escape(plain(item.case.turn1.text))}</p></div>'
        f'<div class="said person"><h3>Person, turn 2</h3><p>{_turn2(item.case.turn2)}</p></div>'
        f'<div class="said agent"><h3>Assistant, over both turns</h3><p>{escape(words)}</p></div></article>'
    )


_PAUSE = re.compile(r"\[pause ([0-9.]+s)\]")
_NAME = re.compile(r"\[[^\[\]]*\] ?")


def _turn2(turn: UserTurn) -> str:
    """Turn 2 as judges see it, its pauses set off; square brackets hold nothing that was spoken."""
    parts = _PAUSE.split(turn2_text(turn))
    spoken = [escape(_NAME.sub("", part).strip()) for part in parts[::2]]
    pauses = [f'<span class="pause">pause {escape(part[:-1])} s</span>' for part in parts[1::2]]
    woven = [text for pair in zip(spoken, [*pauses, ""], strict=True) for text in pair]
    return " ".join(text for text in woven if text)


def _form(item: JudgeItem, values: Mapping[str, str], fault: str) -> str:
    parts = [f'<p class="fault" role="alert">{escape(fault)}</p>' if fault else ""]
    parts += [_scale(name, values.get(name, "")) for name in SCALES]
    parts.append(_pas(values.get("pas", "")))
    if item.case.level.is_conflict:
        parts.append(_winner(values.get("l4_category", "")))
    note = escape(values.get("summary", ""))
    parts.append(f'<label class="note">Note, if you like<textarea name="summary" rows="2">{note}</textarea></label>')
    parts.append(
        '<div class="send"><button type="submit">Keep and go on</button>'
        '<button type="submit" name="skip" value="1" class="quiet" formnovalidate>I cannot say</button></div>'
        '<p class="hint keys">Tab and arrows choose, Enter keeps, P plays and pauses</p>'
    )
    return "".join(parts)


def _scale(name: str, chosen: str) -> str:
    title, told, marks = SCALES[name]
    options = "".join(
        f'<label><input type="radio" name="{name}" value="{value}" required'
        f"{' checked' if chosen == str(value) else ''}><span>{value}</span></label>"
        for value in range(6)
    )
    ends = "".join(f"<span>{value} {escape(word)}</span>" for value, word in marks.items())
    return (
        f'<fieldset><legend>{escape(title)}</legend><p class="hint">{escape(told)}</p>'
        f'<div class="steps">{options}</div><div class="marks">{ends}</div></fieldset>'
    )


def _pas(chosen: str) -> str:
    title, told = PAS
    bands = "".join(f"<dt>{escape(band)}</dt><dd>{escape(word)}</dd>" for band, word in PAS_BANDS)
    return (
        f'<fieldset><legend>{escape(title)}</legend><p class="hint">{escape(told)}</p><div class="pas">'
        f'<input type="number" name="pas" min="0" max="100" step="1" required aria-label="PAS, 0 to 100" '
        f'value="{escape(chosen)}"><dl>{bands}</dl></div></fieldset>'
    )


def _winner(chosen: str) -> str:
    title, told = WINNER
    options = "".join(
        f'<label><input type="radio" name="l4_category" value="{value}" required'
        f"{' checked' if chosen == value else ''}><span><b>{escape(word)}</b> {escape(meaning)}</span></label>"
        for value, (word, meaning) in WINNERS.items()
    )
    return (
        f'<fieldset><legend>{escape(title)}</legend><p class="hint">{escape(told)}</p>'
        f'<div class="winners">{options}</div></fieldset>'
    )


def finished_page(desk: Desk, nonce: str) -> str:
    """All cases have an answer: look back, or end."""
    total = len(desk.items)
    body = (
        f'<main class="plain"><article><h1>All {total} are labelled</h1><p>They lie in {escape(desk.store.path.name)}.'
        ' You can still <a href="case/1">look through them</a> and change an answer.</p>'
        '<form method="post" action="end"><button type="submit">End</button></form></article></main>'
    )
    return _page("done", body, nonce)


def message_page(title: str, told: str, nonce: str) -> str:
    """A page that only says something."""
    body = f'<main class="plain"><article><h1>{escape(title)}</h1><p>{escape(told)}</p></article></main>'
    return _page(title, body, nonce)
