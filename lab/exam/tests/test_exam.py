"""The exam that others can take: its evidence, its marks and its simple tools."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.exam.baselines import first_keyword, last_traceback
from lab.exam.papers import VERSION, Answer, Paper, PaperError, Truth, read_paper, truths, unpack
from lab.exam.scoring import judge, score

HUNG = Truth(archive="", what="", conditions=("hung",), categories=("user.", "data."), culprits=("n7", "rank 3"))
HEALTHY = Truth(archive="", what="", conditions=("healthy", "running"), nobody=True)


def test_each_job_has_evidence(tmp_path: Path) -> None:
    missing = [name for name, path in unpack(tmp_path) if not path.exists()]
    assert missing == []


def test_each_job_has_something_that_is_scored() -> None:
    empty = Answer()
    assert [name for name, truth in truths().items() if not judge(empty, truth)] == []


def test_the_culprit_must_come_first() -> None:
    assert judge(Answer(suspects=("n7", "n1")), HUNG)["culprit"]
    assert not judge(Answer(suspects=("n1", "n7")), HUNG)["culprit"]
    assert not judge(Answer(), HUNG)["culprit"]


def test_a_healthy_job_accuses_nobody_and_raises_nothing() -> None:
    marks = judge(Answer(condition="degraded", suspects=("n1",)), HEALTHY)
    assert marks == {"condition": False, "quiet": False, "nobody": False}


def test_unknown_is_quiet_but_not_right() -> None:
    marks = judge(Answer(), HEALTHY)
    assert (marks["condition"], marks["quiet"]) == (False, True)


@pytest.mark.parametrize(("confidence", "is_counted"), [(None, False), (0.89, False), (0.9, True)])
def test_only_sure_answers_count_as_sure(confidence: float | None, is_counted: bool) -> None:
    marks = judge(Answer(category="user.code", confidence=confidence), HUNG)
    assert ("sure" in marks) is is_counted


def test_a_neighbour_of_the_first_line_is_as_good_but_not_another_file() -> None:
    truth = Truth(archive="", what="", first_lines=(("a/err.log", 9),))
    told = [("job/a/err.log", 10), ("a/err.log", 11), ("b/err.log", 9)]
    assert [judge(Answer(first_line=line), truth)["first_line"] for line in told] == [True, False, False]


def test_a_job_without_an_answer_counts_as_wrong() -> None:
    found = score(Paper(exam=VERSION, tool="silent", answers={}), {"job": HUNG})
    assert found.shown("whole") == "0 of 1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"exam": 0, "tool": "x", "answers": {}}', "version 0"),
        ('{"exam": 1, "tool": "x", "answers": {"no-such-job": {}}}', "no-such-job"),
        ('{"exam": 1, "tool": "x", "answers": {"a": {"condition": "ill"}}}', "ill"),
        ("{", "truncated"),
    ],
)
def test_a_file_that_is_no_paper_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "paper.json"
    path.write_text(text)
    with pytest.raises(PaperError, match=reason):
        read_paper(path)


def test_a_paper_is_read_as_it_was_written(tmp_path: Path) -> None:
    paper = Paper(exam=VERSION, tool="x", answers={next(iter(truths())): Answer(suspects=("n1",))})
    path = tmp_path / "paper.json"
    path.write_bytes(msgspec.json.encode(paper))
    assert read_paper(path) == paper


def test_the_simple_tools_answer_with_file_line_and_node(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "n7" / "train.log"
    log.parent.mkdir(parents=True)
    log.write_text("start\nretry after error\nTraceback (most recent call last):\n  File 'a.py'\nKeyError: 'x'\n")
    keyword, traceback = first_keyword(tmp_path), last_traceback(tmp_path)
    assert (keyword.first_line, keyword.suspects) == (("logs/n7/train.log", 2), ("n7",))
    assert (traceback.first_line, traceback.sentence) == (("logs/n7/train.log", 5), "KeyError: 'x'")
