"""Searches the sections of the documents for words: every word must stand in a section, its heading or its title."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from triage.manual.rendering import Document, Heading, Section

MAX_RESULTS = 40
_MAX_QUERY_CHARS = 200
_MAX_WORDS = 8
#: of text around the first hit, if its sentence is longer
_EXCERPT_CHARS = 280
_WORD = re.compile(r'"([^"]+)"|(\S+)')
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Hit:
    """A section with the words, and the sentence around the first of them."""

    document: Document
    heading: Heading
    excerpt: SafeString
    #: how well it fits: words in its heading and its document's title count more than those in its text
    score: int


def words_of(query: str) -> list[str]:
    """The words and "phrases" of a query, at most eight."""
    found = (quoted or word for quoted, word in _WORD.findall(query[:_MAX_QUERY_CHARS]))
    return [word.casefold().strip('"') for word in found if word.strip('"')][:_MAX_WORDS]


def search(documents: Iterable[Document], query: str) -> list[Hit]:
    """The best sections, best first; documents' order decides between equals. Linear in the text: about 10 ms."""
    words = words_of(query)
    if not words:
        return []
    hits = []
    for document in documents:
        for section in document.sections:
            hit = _hit(document, section, words)
            if hit:
                hits.append(hit)
    return sorted(hits, key=lambda hit: -hit.score)[:MAX_RESULTS]


def _hit(document: Document, section: Section, words: list[str]) -> Hit | None:
    title = document.title.casefold()
    heading = section.heading.title.casefold()
    passages = [passage.casefold() for passage in section.passages]
    score = 0
    for word in words:
        count = sum(passage.count(word) for passage in passages)
        is_in_heading, is_in_title = word in heading, word in title
        if not (count or is_in_heading or is_in_title):
            return None
        score += 20 * is_in_heading + 5 * is_in_title + min(count, 4)
    said = "\n".join([heading, *passages])
    if not any(word in said for word in words):
        return None  # its title alone: the document's first section is enough
    return Hit(document, section.heading, _excerpt(section.passages, words), score)


def _excerpt(passages: list[str], words: list[str]) -> SafeString:
    """The sentence with most of the words, which are marked."""
    sentences = itertools.chain.from_iterable(map(_SENTENCE_END.split, passages))
    best = max(sentences, key=lambda sentence: sum(word in sentence.casefold() for word in words), default="")
    return marked(_around(best.strip(), words), words)


def _around(sentence: str, words: list[str]) -> str:
    """The sentence; of a long one the part around the first word."""
    if len(sentence) <= _EXCERPT_CHARS:
        return sentence
    folded = sentence.casefold()
    places = [place for word in words if (place := folded.find(word)) >= 0]
    begin = max(min(places, default=0) - _EXCERPT_CHARS // 3, 0)
    part = sentence[begin : begin + _EXCERPT_CHARS]
    before = "…" if begin else ""
    after = "…" if begin + _EXCERPT_CHARS < len(sentence) else ""
    return f"{before}{part}{after}"


def marked(text: str, words: list[str]) -> SafeString:
    """The text with the words marked, upper and lower case alike."""
    if not words:
        return format_html("{}", text)
    longest_first = sorted(words, key=len, reverse=True)
    parts = re.split(f"({'|'.join(map(re.escape, longest_first))})", text, flags=re.IGNORECASE)
    pieces = ((format_html("<mark>{}</mark>", part) if at % 2 else part,) for at, part in enumerate(parts) if part)
    return format_html_join("", "{}", pieces)
