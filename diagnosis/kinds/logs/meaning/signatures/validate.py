"""Check rules before they are used, and try them on stored messages."""

from __future__ import annotations

import re

import msgspec
import polars as pl

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning.signatures.match import SignatureSet
from diagnosis.kinds.logs.meaning.signatures.model import Signature
from diagnosis.kinds.logs.text.literals import ways

MAX_PATTERN = 1500
_VERBOSE = re.compile(r"\(\?[a-wyzA-Z]*x")
_ID = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*\Z")


def validate(rule: Signature) -> list[str]:
    """The errors of ``rule``, one sentence each; empty if it may be used."""
    problems = [*_texts(rule), *_patterns(rule)]
    if rule.category not in taxonomy.load():
        problems.append(f"The category {rule.category!r} is not in the taxonomy.")
    if rule.blames not in ("", *taxonomy.BLAMES):
        problems.append(f"The rule blames {rule.blames!r}; it must be one of {', '.join(taxonomy.BLAMES)}.")
    if problems:
        return problems
    only = SignatureSet([rule])
    for text, hit in zip(rule.examples, only.match_texts(rule.examples), strict=True):
        if hit is None:
            problems.append(f"The pattern does not match its example {text!r}.")
    for text, hit in zip(rule.counters, only.match_texts(rule.counters), strict=True):
        if hit is not None:
            problems.append(f"The pattern matches its counter-example {text!r}.")
    return problems


def _texts(rule: Signature) -> list[str]:
    problems = []
    if not _ID.match(rule.id):
        problems.append(f"The id {rule.id!r} must be lower-case words joined by dots, hyphens or underscores.")
    texts = {"title": rule.title, "advice": rule.advice, "source": rule.source}
    problems.extend(f"The rule needs a {name}." for name, text in texts.items() if not text.strip())
    if not rule.examples:
        problems.append("The rule needs an example line that it matches.")
    if not rule.counters:
        problems.append("The rule needs a counter-example: a similar line that it must not match.")
    if any("\n" in line for line in (*rule.examples, *rule.counters)):
        problems.append("Examples must be single lines, since rules see one line at a time.")
    return problems


def _patterns(rule: Signature) -> list[str]:
    problems = []
    patterns = {"pattern": rule.pattern, "unless": rule.unless, "subject": rule.subject}
    for name, pattern in patterns.items():
        if len(pattern) > MAX_PATTERN:
            problems.append(f"The {name} is longer than {MAX_PATTERN} characters.")
            continue
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.PolarsError as error:
            reason = " ".join(str(error).split())
            problems.append(f"The {name} is not a regular expression of the linear-time dialect: {reason}")
    if _VERBOSE.search(rule.pattern):
        problems.append(
            "The pattern uses the flag x, which hides its literal text; write it without blanks and comments."
        )
    if not problems and not all(ways(rule.pattern)):
        problems.append(
            "The pattern needs a piece of three letters or more that each match contains: it would match anything."
        )
    if not problems and rule.codes and "(?P<code>" not in rule.pattern:
        problems.append("A rule with a code table needs the group (?P<code>…) in its pattern.")
    return problems


class DryRun(msgspec.Struct, frozen=True):
    """The effect of a rule on stored messages: number of messages and lines, and the rules that lose them."""

    messages: int
    lines: int
    samples: tuple[str, ...]
    taken_from: tuple[tuple[str, int], ...]


def dry_run(rule: Signature, uniques: pl.DataFrame, current: SignatureSet, *, samples: int = 20) -> DryRun:
    """Try ``rule`` on the unique messages of stored jobs, as the first rule of ``current``.

    Args:
        uniques: ``masked``, ``text``, ``example`` and ``count``.
        samples: how many matched messages to return, the most frequent first.
    """
    hits = SignatureSet([rule]).match(uniques).select("masked")
    rows = uniques.join(hits, on="masked", how="semi").sort("count", "masked", descending=[True, False])
    before = current.match(rows).group_by("signature").len().sort("len", "signature", descending=[True, False])
    return DryRun(
        messages=rows.height,
        lines=int(rows["count"].sum()),
        samples=tuple(rows["example"].head(samples)),
        taken_from=tuple(before.iter_rows()),
    )
