"""What was found out about a text is kept for the next job that holds it.

A job is diagnosed again with each file that arrives, and the jobs of one site repeat each other's lines. To prepare a
search for patterns takes a millisecond each, which is most of the work for a job of few different messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

#: Number of texts of a job up to which answers are looked up one by one; more are searched at once.
MAX_SINGLE_LOOKUPS: Final = 4096
#: Number of texts whose answers are kept, and of characters of the longest such text: at most 16 MB.
MAX_KEPT: Final = 8192
MAX_TEXT_CHARS: Final = 500


class RememberedAnswers[T]:
    """Answers about texts that depend on nothing but the text. Threads may share it."""

    def __init__(self, answer: Callable[[pl.Series], list[T]]) -> None:
        """``answer`` gives the answers for texts (null among them), one each, in order."""
        self._answer = answer
        self._known: dict[str | None, T] = {}

    def of(self, texts: pl.Series) -> list[T]:
        """The answer for each text. O(texts), and the work of ``answer`` for those that are not known."""
        if len(texts) > MAX_SINGLE_LOOKUPS:
            return self._answer(texts)
        lines: list[str | None] = texts.to_list()
        known = self._known
        new = [line for line in dict.fromkeys(lines) if line not in known]
        fresh = dict(zip(new, self._answer(pl.Series(new, dtype=pl.String)), strict=True)) if new else {}
        answers = [fresh[line] if line in fresh else known[line] for line in lines]
        short = {line: answer for line, answer in fresh.items() if len(line or "") <= MAX_TEXT_CHARS}
        if len(known) + len(short) > MAX_KEPT:
            self._known = short  # another one, because other threads may read the former
        else:
            known.update(short)
        return answers
