"""A headline beside columns that name the node and the cause already. Pure."""

from __future__ import annotations

from collections.abc import Sequence

#: sentences that only accuse: how they begin ("" is the name of an accused), and how they end
_LEADS = (
    ("", " is most probably at fault. "),
    ("", " are most probably at fault. "),
    ("Perhaps ", " is at fault. "),
    ("One of ", "). "),
)


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
    for begin, end in _LEADS:
        begins = (begin,) if begin else tuple(accused)
        lead, found, rest = text.partition(end)
        if found and lead.startswith(begins) and ". " not in lead:
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
