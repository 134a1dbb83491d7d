"""The work of a diagnosis grows with lines, different messages and files, by a few steps each.

Counted are calls and turns of loops of Python, the same on every machine (``steps_of``). The limits are a third above
what was measured on 29 November 2026: lower them with the work, and raise them for no step that could ask once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from diagnosis import pipeline
from diagnosis.files import gathering
from diagnosis.processing import jit
from tests.patience import steps_of

#: A file and a message of its own may take so many steps more. A fifth of all steps went when lines of one form were
#: searched once; other lines are read of more files, so that the share of a file grew.
MOST_A_FILE, MOST_A_MESSAGE = 2_400, 88
NODES = 8


def word_of(number: int) -> str:
    """A word for each number, without a digit."""
    return "".join(chr(ord("g") + int(digit)) for digit in f"{number:06d}")


def lines_of(rank: int, count: int) -> Iterator[str]:
    """Lines of a rank as training programs write them: durations, now and then progress or a message of its own."""
    for number in range(count):
        at = f"2026-03-01 08:{number // 60 % 60:02d}:{number % 60:02d},{number % 1000:03d}"
        if number % 10 == 0:
            yield f"{at} INFO iteration {number // 10}/90000 loss 2.{number} took 4.{number % 97} s"
        elif number % 150 == 1:
            yield f"{at} WARNING shard {word_of(number)} was read again"
        else:
            batch = f"micro batch {number % 32} of 32"
            yield f"{at} INFO rank {rank} {batch} forward 0.{number:04d} s backward 2.{number} s"


def work(evidence: Path) -> int:
    """Steps to read and diagnose a job whose words were all learned before."""
    done: list[str] = []

    def diagnose() -> None:
        found = gathering.gather([evidence], evidence.parent / f"{evidence.name}-{len(done)}")
        done.append(pipeline.diagnose(found.parsed, read=found.read).headline)

    jit.load()  # compiling a loop takes a million steps, whenever enough was read before
    diagnose()
    return steps_of(diagnose)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@cache
def of_job(folder: Path, lines: int, files: int = 1) -> int:
    """The work of a job of eight nodes with so many lines and files each."""
    place = folder / f"job-{lines}-{files}"
    for node in range(NODES):
        (place / f"gpu-{node:04d}").mkdir(parents=True)
        for number in range(files):
            rank = 8 * node + number
            text = "\n".join([*lines_of(rank, lines // files), ""])
            (place / f"gpu-{node:04d}" / f"rank{rank}.log").write_text(text)
    return work(place)


@cache
def of_messages(folder: Path, count: int) -> int:
    """The work of a log whose lines are all different."""
    log = folder / f"messages-{count}.log"
    times = [f"2026-03-01 08:{number // 60:02d}:{number % 60:02d}" for number in range(count)]
    rows = [f"{at} {word_of(number)} of x{word_of(number)} took 7 ms\n" for number, at in enumerate(times)]
    log.write_text("".join(rows))
    return work(log)


@pytest.mark.parametrize(("few", "many", "most"), [(500, 1_000, 206), (1_000, 2_000, 69)])
def test_the_more_lines_the_fewer_steps_each(folder: Path, few: int, many: int, most: int) -> None:
    more = of_job(folder, many) - of_job(folder, few)
    assert more <= most * NODES * (many - few)


def test_the_same_lines_in_more_files_take_few_steps_a_file(folder: Path) -> None:
    more = of_job(folder, 1_000, files=8) - of_job(folder, 1_000)
    assert more <= MOST_A_FILE * NODES * 7


@pytest.mark.parametrize("count", [500, 1_000])
def test_more_different_messages_take_the_same_few_steps_each(folder: Path, count: int) -> None:
    assert of_messages(folder, 2 * count) - of_messages(folder, count) <= MOST_A_MESSAGE * count
