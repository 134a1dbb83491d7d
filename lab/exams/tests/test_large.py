"""The large job is the same for the same arguments, with every number of files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lab.exams.large import write


def lines_of(folder: Path) -> Counter[str]:
    return Counter(line for path in folder.rglob("*.log") for line in path.read_text().splitlines())


def test_the_same_lines_are_cut_into_one_file_a_node_or_eight(tmp_path: Path) -> None:
    one, eight = tmp_path / "one", tmp_path / "eight"
    assert write(one, 3, 400) == write(eight, 3, 400, files_a_node=8)
    assert len(list(one.rglob("*.log"))) == 3
    assert len(list(eight.rglob("*.log"))) == 24
    assert lines_of(one) == lines_of(eight)


def test_one_node_reports_its_port_and_the_others_time_out(tmp_path: Path) -> None:
    write(tmp_path, 6, 300)
    texts = {path.stem: path.read_text() for path in tmp_path.rglob("*.log")}
    assert [node for node, text in texts.items() if "Link down" in text] == ["gpu-0002"]
    assert sum("Watchdog caught" in text for text in texts.values()) == 5
    assert not [text for text in texts.values() if "@" in text.replace("user@host", "")]


def test_a_drawn_job_is_the_same_for_its_name_and_differs_from_others(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "again", "other")]
    for folder, draw in zip(folders, ("a", "a", "b"), strict=True):
        write(folder, 2, 300, draw=draw)
    one, again, other = map(lines_of, folders)
    assert one == again
    assert one != other
    assert "Link down" in "".join(one)
