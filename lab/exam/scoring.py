"""Scores a paper: each figure is right answers of the jobs that have one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lab.exam.papers import ALARMS, Answer, Paper, Truth

#: An answer that is said with at least this confidence counts as a sure one.
SURE: Final = 0.9
#: The line beside the labelled one is as good: a message has several lines.
_LINE_SLACK: Final = 1
#: The figures, in the order of printing.
ROWS: Final = {
    "condition": "condition right",
    "quiet": "no alarm where nothing failed",
    "category": "category right",
    "culprit": "the culprit is the first suspect",
    "nobody": "nobody suspected where nobody is at fault",
    "first_line": "the line that began it",
    "words": "the sentence says what decides",
    "sure": f"right where the tool is sure (≥ {SURE})",
    "whole": "everything right",
}


@dataclass(frozen=True)
class Score:
    """Of each figure of :data:`ROWS`, the jobs that have it and whether the answer is right."""

    tool: str
    rows: Mapping[str, Mapping[str, bool]] = field(default_factory=lambda: defaultdict(dict))

    def shown(self, row: str) -> str:
        """A figure as text: ``31 of 42``."""
        marks = self.rows[row].values()
        return f"{sum(marks)} of {len(marks)}" if marks else "–"

    def wrong(self, row: str) -> list[str]:
        """The jobs whose answer to a figure is wrong."""
        return [name for name, is_right in self.rows[row].items() if not is_right]


def score(paper: Paper, truths: Mapping[str, Truth]) -> Score:
    """Judge each job; one without an answer counts as ``unknown``."""
    rows: dict[str, dict[str, bool]] = defaultdict(dict)
    for name, truth in truths.items():
        answer = paper.answers.get(name, Answer())
        marks = judge(answer, truth)
        for row, is_right in marks.items():
            rows[row][name] = is_right
        rows["whole"][name] = all(is_right for row, is_right in marks.items() if row != "sure")
    return Score(paper.tool, rows)


def judge(answer: Answer, truth: Truth) -> dict[str, bool]:
    """The marks of one job, by figure; a figure that the truth does not have is absent."""
    marks: dict[str, bool] = {}
    if truth.conditions:
        marks["condition"] = answer.condition in truth.conditions
        if "healthy" in truth.conditions:
            marks["quiet"] = answer.condition in truth.conditions or answer.condition not in ALARMS
    if truth.categories:
        marks["category"] = answer.category.startswith(truth.categories)
        if answer.confidence is not None and answer.confidence >= SURE:
            marks["sure"] = marks["category"]
    if truth.culprits:
        marks["culprit"] = answer.suspects[:1] != () and answer.suspects[0] in truth.culprits
    if truth.nobody:
        marks["nobody"] = not answer.suspects
    if truth.first_lines:
        marks["first_line"] = _is_first_line(answer.first_line, truth.first_lines)
    if truth.words:
        marks["words"] = all(re.search(pattern, answer.sentence) for pattern in truth.words)
    return marks


def _is_first_line(told: tuple[str, int] | None, accepted: tuple[tuple[str, int], ...]) -> bool:
    if told is None:
        return False
    file, number = told
    for path, line in accepted:
        is_same_file = not path or file.endswith(path)
        if is_same_file and abs(line - number) <= _LINE_SLACK:
            return True
    return False
