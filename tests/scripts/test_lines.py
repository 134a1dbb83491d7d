"""Lines of pages that are too long are named."""

from pathlib import Path

from scripts.lines import MAX_COLUMNS, broken_tags, long_lines


def test_a_line_longer_than_120_columns_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "templates" / "job").mkdir(parents=True)
    (tmp_path / "templates" / "job" / "files.html").write_text("<p>\n" + "–" * (MAX_COLUMNS + 1) + "\n</p>\n")
    (tmp_path / "templates" / "error.html").write_text("–" * MAX_COLUMNS)

    assert list(long_lines(tmp_path)) == ["templates/job/files.html:2: 121 columns, at most 120 are allowed"]


def test_the_pages_of_this_checkout_have_no_such_line() -> None:
    assert list(long_lines()) == []


def test_a_tag_over_two_lines_is_named_because_it_would_be_shown_as_text(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "job.html").write_text('{% url "jobs" %}\n{% include "rows.html"\n  with rows=jobs %}\n')
    assert list(broken_tags(tmp_path)) == ["templates/job.html:2: {% is not closed in its line"]
    assert list(broken_tags()) == []
