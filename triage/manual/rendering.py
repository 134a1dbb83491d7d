"""One document of Markdown as HTML that is safe to show, with its outline and its text by section. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

#: Marks of generated parts, which no reader needs.
_COMMENT = re.compile(r"<!--.*?-->", re.S)
_EMPTY_HEAD = re.compile(r"<thead>\s*<tr>\s*(?:<th></th>\s*)+</tr>\s*</thead>")
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")
_TAGS = {
    *("p", "br", "strong", "em", "code", "pre", "blockquote", "ul", "ol", "li", "a", "hr", "img", "div"),
    *("h1", "h2", "h3", "h4", "table", "thead", "tbody", "tr", "th", "td"),
}
_ATTRIBUTES = {
    "a": {"href"},
    "img": {"src", "alt", "loading", "width", "height"},
    "ol": {"start"},
    "pre": {"tabindex"},
    "div": {"class", "tabindex"},
    **{f"h{level}": {"id"} for level in range(1, 5)},
}
_LAST_LEVEL_OF_OUTLINE = 3


@dataclass(frozen=True)
class Heading:
    """A heading: its level (1 is the title), its anchor, its text."""

    level: int
    anchor: str
    title: str


@dataclass
class Section:
    """What stands below one heading. A passage is the text of a paragraph, an item, a row of a table, or a block."""

    heading: Heading
    passages: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """A document as pages show it."""

    name: str
    title: str
    html: SafeString
    sections: tuple[Section, ...]

    @property
    def outline(self) -> list[Heading]:
        """The headings below the title, down to the third level."""
        headings = [section.heading for section in self.sections]
        return [heading for heading in headings if 1 < heading.level <= _LAST_LEVEL_OF_OUTLINE]


@dataclass(frozen=True)
class Target:
    """Where a link leads on the site. ``title`` replaces the name of a file as the link's words. ``size`` is that of a
    picture, in pixels, so that its room is free before it has come."""

    address: str
    title: str = ""
    size: tuple[int, int] | None = None


Find = Callable[[str], Target | None]


def render(name: str, source: str, find: Find) -> Document:
    """A document from its Markdown; linear in its length.

    ``find`` returns where a link or picture leads on the site; None leaves the words without a link.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", source))
    sections = tuple(_sections(name, tokens))
    for token in tokens:
        if token.type == "inline":
            token.children = list(_with_addresses(token.children or [], find))
        elif token.type in {"fence", "code_block"}:
            token.content = token.content.rstrip("\n")
    html = _readable(parser.renderer.render(tokens, parser.options, {}))
    clean = nh3.clean(html, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes={"http", "https", "mailto"})
    return Document(name, sections[0].heading.title, mark_safe(clean), sections)  # noqa: S308  # cleaned


def anchor_of(title: str) -> str:
    """The anchor of a heading, as forges make it, so that a link works on both."""
    return _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")


def _sections(name: str, tokens: list[Token]) -> Iterator[Section]:
    """The sections in order; each heading's token gets its anchor."""
    section = Section(Heading(1, "", name))
    anchors: dict[str, int] = {}
    cells: list[str] | None = None
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            if section.passages or section.heading.anchor:
                yield section
            title = _plain(tokens[at + 1])
            anchor = _unused(anchor_of(title), anchors)
            token.attrSet("id", anchor)
            section = Section(Heading(int(token.tag[1]), anchor, title))
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close":
            section.passages.append(" · ".join(filter(None, cells or [])))
            cells = None
        elif token.type == "inline" and tokens[at - 1].type != "heading_open":
            (section.passages if cells is None else cells).append(_plain(token))
        elif token.type in {"fence", "code_block"}:
            section.passages.append(token.content)
    yield section


def _unused(anchor: str, anchors: dict[str, int]) -> str:
    """The anchor, with a number if an earlier heading has it."""
    count = anchors.get(anchor, 0)
    anchors[anchor] = count + 1
    return f"{anchor}-{count}" if count else anchor


def _plain(inline: Token) -> str:
    """The words of a line of text, without marks."""
    parts = (" " if child.type in {"softbreak", "hardbreak"} else child.content for child in inline.children or [])
    return "".join(parts)


def _with_addresses(tokens: list[Token], find: Find) -> Iterator[Token]:
    """Links and pictures with addresses of the site; a link that leads nowhere there becomes its words."""
    target: Target | None = None
    for token in tokens:
        if token.type == "link_open":
            target = find(str(token.attrs["href"]))
            token.attrs["href"] = target.address if target else ""
        elif token.type == "image":
            picture = find(str(token.attrs["src"]))
            token.attrs |= {"src": picture.address if picture else "", "loading": "lazy"}
            if picture and picture.size:
                token.attrs |= {"width": picture.size[0], "height": picture.size[1]}
        elif token.type == "text" and target and target.title and token.content.endswith(".md"):
            token.content = target.title
        if target or token.type not in {"link_open", "link_close"}:
            yield token
        if token.type == "link_close":
            target = None


def _readable(html: str) -> str:
    """Without empty headings of columns; tables and blocks that may be wider than the page scroll alone, also by
    keyboard.
    """
    html = _EMPTY_HEAD.sub("", html).replace("<th></th>", "<td></td>")
    html = html.replace("<pre>", '<pre tabindex="0">')
    html = html.replace("<table>", '<div class="table-wrap" tabindex="0"><table>')
    return html.replace("</table>", "</table></div>")
