"""Attacks every hand-written pattern: `python -m tests.fuzz patterns [--chars 50000] [--cpu-s 1]`.

Each pattern that the engine, the site or the client compiles, or gives to a function of ``re`` as text, is searched for
in strings that are made from the pattern itself: a way into each of its repetitions, the repeated part again and again,
and an end that does not match. A pattern that can match one text in many ways needs hours for such a string; a limit of
CPU time ends the search. Prints the slow ones; fails if there is any.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import random
import re
import re._constants as codes  # type: ignore[import-not-found]  # the only way to see into a pattern
import re._parser as parser  # type: ignore[import-not-found]
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import django

ROOT = Path(__file__).resolve().parents[2]
#: Each package, below the folder from which it is imported.
PACKAGES = (ROOT / "diagnosis", ROOT / "ingest", ROOT / "triage", ROOT / "client" / "faultline")
_FUNCTIONS = ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")
#: Ends that few patterns accept.
_ENDS = ("\0", "! ", "")
_ANY = "a0 ._-:,/=["


class TooSlow(Exception):
    """A search used up its CPU time."""


def compiled_patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern of a module or of its tables, and every literal one of a call, by its place."""
    found: dict[str, re.Pattern[Any]] = {}
    for package in PACKAGES:
        for file in sorted(package.rglob("*.py")):
            source = file.read_text(encoding="utf-8")
            if not re.search(r"^import re$|words\.regex", source, re.MULTILINE) or file.name == "__main__.py":
                continue
            name = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            tables = vars(importlib.import_module(name)).items()
            of_tables = ((table, pattern) for table, value in tables for pattern in _patterns_in(value, 3))
            for place, pattern in (*of_tables, *_literals(source)):
                found.setdefault(f"{name}:{place} {pattern.pattern!r:.60}", pattern)
    found.update(_words())
    seen: set[tuple[Any, int]] = set()
    return {
        place: pattern
        for place, pattern in found.items()
        if (key := (pattern.pattern, pattern.flags)) not in seen and not seen.add(key)  # type: ignore[func-returns-value]
    }


def _patterns_in(value: object, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | set | frozenset | dict):
        for part in (*value, *(value.values() if isinstance(value, dict) else ())):
            yield from _patterns_in(part, depth - 1)
    elif depth and not isinstance(value, type):
        for name in _names_of_fields(value):
            yield from _patterns_in(getattr(value, name, None), depth - 1)


def _names_of_fields(value: object) -> Iterable[str]:
    """The names of the fields of a record; none of any other value."""
    return getattr(value, "__struct_fields__", None) or getattr(value, "__dataclass_fields__", ())


def _literals(source: str) -> Iterator[tuple[int, re.Pattern[Any]]]:
    for node in ast.walk(ast.parse(source)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not is_call or node.func.attr not in _FUNCTIONS or ast.unparse(node.func.value) != "re" or not node.args:
            continue
        if isinstance(node.args[0], ast.Constant):
            yield node.lineno, re.compile(node.args[0].value)


def _words() -> dict[str, re.Pattern[str]]:
    """The patterns of the knowledge files, which both engines of patterns read."""
    from diagnosis.kinds.checks import check_table
    from diagnosis.kinds.logs.meaning import roster
    from diagnosis.knowledge import words

    found = {}
    for file in sorted((ROOT / "diagnosis" / "knowledge").glob("*.toml")):
        if "[[word]]" in file.read_text(encoding="utf-8"):
            for word in words.load(file.stem):
                with contextlib.suppress(re.error):  # what only the linear-time engine knows
                    found[f"{file.name} {word.id} {word.pattern!r:.60}"] = re.compile(word.pattern)
    for statement in roster.statements().every:
        for pattern in _patterns_in((statement.pattern, statement.rank_below), 1):
            found[f"rosters.toml {statement.id} {pattern.pattern!r:.60}"] = pattern
    for check in check_table.load():
        for pattern in _patterns_in((check.sign, check.outcomes), 4):
            found[f"checks.toml {check.id} {pattern.pattern!r:.60}"] = pattern
    return found


def attacks(pattern: re.Pattern[Any], chars: int, tries: int = 1) -> Iterator[str]:
    """Strings of about so many characters: one for each way into each repetition, with each end."""
    source = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    tree = parser.parse(source, pattern.flags & ~re.UNICODE)
    dice = random.Random(source)
    for before, body in _repetitions(tree, ()):
        for _ in range(tries):
            head = "".join(_sample(item, dice) for item in before)
            pump = _sample_all(body, dice) + (_sample_all(body, dice) if dice.random() < 0.5 else "")
            if pump:
                for end in _ENDS:
                    yield (head if len(head) < chars else "") + pump * (chars // len(pump)) + end


def _repetitions(tree: Any, before: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each repetition that has no small limit: what comes before it, and what is repeated."""
    for place, item in enumerate(tree):
        kind, value = item
        here = (*before, *list(tree)[:place])
        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if value[1] > 8:
                yield here, value[2]
            yield from _repetitions(value[2], here)
        elif kind is codes.SUBPATTERN:
            yield from _repetitions(value[3], here)
        elif kind is codes.ATOMIC_GROUP:
            yield from _repetitions(value, here)
        elif kind is codes.BRANCH:
            for branch in value[1]:
                yield from _repetitions(branch, here)
        elif kind in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repetitions(value[1], here)


def _sample_all(tree: Any, dice: random.Random) -> str:
    return "".join(_sample(item, dice) for item in tree)


def _sample(item: Any, dice: random.Random) -> str:
    """A short text that a part of a pattern matches."""
    kind, value = item
    if kind is codes.LITERAL:
        return chr(value)
    if kind in (codes.ANY, codes.NOT_LITERAL):
        return dice.choice(_ANY)
    if kind is codes.IN:
        return _one_of(value, dice)
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        times = max(value[0], min(value[1], dice.choice((0, 1, 1, 2))))
        return "".join(_sample_all(value[2], dice) for _ in range(min(times, 40)))
    if kind is codes.SUBPATTERN:
        return _sample_all(value[3], dice)
    if kind is codes.ATOMIC_GROUP:
        return _sample_all(value, dice)
    if kind is codes.BRANCH:
        return _sample_all(dice.choice(value[1]), dice)
    return ""


_OF_CATEGORY = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_WORD: "a0_",
    codes.CATEGORY_SPACE: " \t",
    codes.CATEGORY_NOT_DIGIT: "a.",
    codes.CATEGORY_NOT_WORD: ".-",
    codes.CATEGORY_NOT_SPACE: "a0.",
}


def _one_of(choices: Any, dice: random.Random) -> str:
    """A character of a class."""
    if choices[0][0] is codes.NEGATE:
        allowed = re.compile("[^" + "".join(re.escape(c) for c in map(chr, range(128)) if _holds(choices[1:], c)) + "]")
        fitting = [char for char in _ANY + "\"'(){}<>|" if allowed.match(char)]
        return dice.choice(fitting or ["é"])
    kind, value = dice.choice(choices)
    if kind is codes.LITERAL:
        return chr(value)
    if kind is codes.RANGE:
        return chr(dice.choice(value))
    return dice.choice(_OF_CATEGORY.get(value, "a"))


def _holds(choices: Any, char: str) -> bool:
    for kind, value in choices:
        if kind is codes.LITERAL and chr(value) == char:
            return True
        if kind is codes.RANGE and value[0] <= ord(char) <= value[1]:
            return True
        if kind is codes.CATEGORY and char in _OF_CATEGORY.get(value, ""):
            return True
    return False


def is_slow(pattern: re.Pattern[Any], chars: int, cpu_s: float) -> str:
    """The beginning of an attack in which the search took longer than so many seconds of CPU; empty for none."""
    return next((text[:80] for text in attacks(pattern, chars) if is_slow_in(pattern, text, cpu_s)), "")


def is_slow_in(pattern: re.Pattern[Any], text: str, cpu_s: float) -> bool:
    """Whether a search in this text takes longer than so many seconds of CPU; it ends then."""

    def over(*_: object) -> None:
        raise TooSlow

    given: Any = text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text
    former = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        pattern.search(given)
    except TooSlow:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
    return False


def main() -> None:
    """Attacks all patterns and prints the slow ones; fails if there is one."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chars", type=int, default=50_000)
    options.add_argument("--cpu-s", type=float, default=1.0)
    chosen = options.parse_args()
    django.setup()
    sys.path.append(str(ROOT / "client"))
    patterns = compiled_patterns()
    found = ((place, is_slow(pattern, chosen.chars, chosen.cpu_s)) for place, pattern in patterns.items())
    slow = {place: text for place, text in found if text}
    for place, text in slow.items():
        print(f"{place}\n  {text!r}")
    print(f"{len(patterns):,} patterns, {len(slow):,} slow, {time.process_time():.0f} CPU s")
    sys.exit(bool(slow))
