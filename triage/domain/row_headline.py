"""A headline beside columns that name the node and the cause already. Pure."""

from __future__ import annotations

from collections.abc import Sequence

#: the words with which a headline that names the culprit first ends that sentence
_LEAD_ENDS = (" is most probably at fault. ", " is at fault. ", "). ")
_LEAD_BEGINS = ("Perhaps ", "One of ")


def beside_columns(headline: str, cause: str, accused: Sequence[str]) -> str:
    """What the ``headline`` says beyond its ``cause`` (the title of the category) and whom it
    accuses: a part of it.

    All of it if nothing else would be left, or if it tells of another cause: then a person
    corrected the category, and the headline is still the machine's.
    """
    told = _without_cause(_without_lead(headline, accused), cause, accused)
    rest = _without_names(told, accused).lstrip(" :;,.")
    return rest if any(letter.isalnum() for letter in rest) else headline


def _without_lead(text: str, accused: Sequence[str]) -> str:
    """The text after a first sentence that only accuses somebody."""
    if not text.startswith((*_LEAD_BEGINS, *accused)):
        return text
    for end in _LEAD_ENDS:
        lead, found, rest = text.partition(end)
        if found and ". " not in lead:
            return rest
    return text


def _without_cause(text: str, cause: str, accused: Sequence[str]) -> str:
    """The text after the cause, and after those on whose machines it was."""
    if not cause or not text.lower().startswith(cause.lower()):
        return text
    rest = text[len(cause) :]
    before = " on "
    for name in accused:
        if not rest.startswith(before + name):
            break
        rest = _without_rank(rest.removeprefix(before + name))
        before = ", "
    return _with_capital(rest.lstrip(" :;,."))


def _without_names(text: str, accused: Sequence[str]) -> str:
    """The text after the name of an accused and a colon."""
    named = next((name for name in accused if text.startswith(f"{name}: ")), None)
    return text if named is None else _with_capital(text.removeprefix(f"{named}: "))


def _without_rank(text: str) -> str:
    """The text after `` (rank 12)``, which belongs to the name before it."""
    rank, end, rest = text.partition(")")
    return rest if end and rank.startswith(" (rank ") else text


def _with_capital(text: str) -> str:
    return text[:1].upper() + text[1:]
