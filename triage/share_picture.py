"""An incident as a picture for chats and tickets: sentence, who, what to do, strip, address."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from diagnosis import taxonomy
from diagnosis.values import plain
from triage.selectors.strip import Strip
from triage.selectors.strip_axis import Tick

#: Pixels: a width that chats show whole, margins, the names of lanes, a line of the sentence, and
#: what stands below the strip.
WIDTH: Final = 1200
MARGIN: Final = 40
NAMES: Final = 200
LINE: Final = 44
BELOW: Final = 70
#: Lines of the sentence; characters of any other text.
MAX_LINES: Final = 4
MAX_CHARS: Final = 110
_GROUND, _TEXT, _MUTED = "#ffffff", "#161b22", "#565f6b"
_LINE, _SUNKEN, _ACCUSED = "#dfe3e8", "#eef0f3", "#fdeceb"
#: The colours of the strip on pages (`static/css/strip.css`), by kind of mark.
_COLOURS: Final = {
    "root": "#b3261e",
    "consequence": "#855400",
    "progress": "#1b6b38",
    "slow": "#1f5fa8",
    "restart": "#6b3fa8",
    "silent": "#6b3fa8",
    "waited_for": "#0e7490",
    "stacks": "#0e7490",
    "flows_ceased": "#a8326b",
}
_OTHER_COLOUR: Final = "#868f9c"
_FORMATS: Final = {
    "milli": "%H:%M:%S.%f",
    "second": "%Y-%m-%d %H:%M:%S",
    "minute": "%Y-%m-%d %H:%M",
}


@dataclass(frozen=True, slots=True)
class Card:
    """What the picture says. ``facts``: a name and a text each, such as “Who” and “node-7”."""

    number: int
    about: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    strip: Strip | None
    url: str


def card_of(
    incident: Any,
    strip: Strip | None,
    *,
    accused: list[str],
    advice: dict[str, Any],
    url: str,
) -> Card:
    """The card of an incident with its job selected; accused and advice as people left them."""
    nodes = f", {incident.node_count:,} nodes" if incident.node_count else ""
    more = f" and {len(accused) - 3} more" if len(accused) > 3 else ""
    who = ", ".join(accused[:3]) + more if accused else "nobody is accused"
    targets = ", ".join(str(name) for name in (advice.get("targets") or [])[:3])
    title = str(advice.get("action_title") or "")
    facts = [("Who", who), ("What", " › ".join(taxonomy.load().path(incident.standing_category)))]
    if title and advice.get("action") != "none":
        facts.append(("Do now", f"{title} {targets}".strip()))
    about = f"{incident.job.name}, attempt {incident.attempt.number}{nodes}"
    return Card(incident.pk, about, incident.headline, tuple(facts), strip, url)


def draw(card: Card) -> bytes:
    """The card as PNG, 1200 pixels wide, as high as sentence and strip need; about 50 ms of CPU."""
    from PIL import Image, ImageDraw  # noqa: PLC0415  # only this page needs the package

    lines = _wrap(card.sentence, 30)
    strip_height = card.strip.height + 30 if card.strip and card.strip.marks else 0
    height = MARGIN + LINE * (1 + len(lines)) + 30 * len(card.facts) + 24 + strip_height + BELOW
    picture = Image.new("RGB", (WIDTH, height), _GROUND)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, MARGIN - 8), _short(f"#{card.number}  {card.about}"), _MUTED, _font(20))
    y = MARGIN + 32
    for line in lines:
        pen.text((MARGIN, y), line, _TEXT, _font(30), stroke_width=0.4, stroke_fill=_TEXT)
        y += LINE
    for name, text in card.facts:
        pen.text((MARGIN, y), name, _MUTED, _font(20))
        pen.text((MARGIN + 100, y), _short(text), _TEXT, _font(20))
        y += 30
    if card.strip and card.strip.marks:
        _draw_strip(pen, card.strip, y + 16)
    pen.text((MARGIN, height - 44), _short(card.url), _MUTED, _font(18))
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


def _draw_strip(pen: Any, strip: Strip, top: int) -> None:
    left, right = MARGIN + NAMES, WIDTH - MARGIN - 20

    def at(x: str) -> float:
        return left + (right - left) * float(x) / 100

    for lane in strip.lanes:
        fill = _SUNKEN if lane.p is None else _ACCUSED
        pen.rectangle((left - 12, top + lane.y, right + 20, top + lane.y + lane.height), fill)
        middle = top + lane.y + lane.height // 2
        pen.text((MARGIN, middle), _short(lane.name, 20), _TEXT, _font(17), anchor="lm")
    for tick in strip.ticks:
        pen.line((at(tick.x), top, at(tick.x), top + strip.height), _LINE)
        anchor = "ra" if tick.is_last else "ma"
        place = (at(tick.x), top + strip.height + 4)
        pen.text(place, _time(tick), _MUTED, _font(15), anchor=anchor)
    for mark in strip.marks:
        colour, x, y = _COLOURS.get(mark.what, _OTHER_COLOUR), at(mark.x), top + mark.y
        if mark.until is not None:
            end = x + (right - left) * float(mark.width) / 100
            pen.rectangle((x, y - 3, max(end, x + 1), y + 3), colour)
        if mark.touches:
            pen.line((x, y, x, top + mark.bottom), colour)
        is_root = mark.what == "root"
        pen.ellipse((x - 12, y - 12, x + 12, y + 12), colour if is_root else _GROUND, colour, 2)
        pen.text((x, y), str(mark.number), _GROUND if is_root else _TEXT, _font(14), anchor="mm")
        if mark.side:
            is_right = mark.side == "right"
            place = (x + 17 if is_right else x - 17, top + mark.name_y - 4)
            anchor = "lm" if is_right else "rm"
            pen.text(place, _short(mark.label, 60), _TEXT, _font(15), anchor=anchor)


def _time(tick: Tick) -> str:
    moment = datetime.fromtimestamp(tick.t, UTC)
    text = moment.strftime(_FORMATS.get(tick.style, "%H:%M:%S"))
    return text[:-3] if tick.style == "milli" else text


def _short(text: str, most: int = MAX_CHARS) -> str:
    """One line of at most so many characters, none of which acts on the text."""
    shown = " ".join(plain.text(text).split())
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _wrap(text: str, size: int) -> list[str]:
    """The sentence in lines that fit the picture; what is too long ends with an ellipsis."""
    room, font = WIDTH - 2 * MARGIN, _font(size)
    lines = [""]
    for word in _short(text, 500).split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and font.getlength(longer) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    shown = lines[:MAX_LINES]
    if len(lines) > MAX_LINES:
        shown[-1] = f"{shown[-1]} …"
    return shown


@cache
def _font(size: int) -> Any:
    """Pillow's own font: the same picture on every machine."""
    from PIL import ImageFont  # noqa: PLC0415  # only this page needs the package

    return ImageFont.load_default(size)
