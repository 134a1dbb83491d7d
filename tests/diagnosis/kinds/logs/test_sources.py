"""Names of machines in paths of output files."""

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from diagnosis.kinds.logs.columns.sources import Sources, settle_labels, without_job_name


def test_the_job_before_several_machines_is_no_part_of_their_names() -> None:
    def names(*paths: str) -> list[str | None]:
        return [sources[0].node for sources in without_job_name([Sources(path).all for path in paths], lambda _: False)]

    assert names("out/heron.3050574.tdc7-091.fabric.log", "out/heron.3050574.tdc7-092.fabric.log") == [
        "tdc7-091.fabric",
        "tdc7-092.fabric",
    ]
    assert names("rack-101-a7.log", "rack-101-a8.log") == ["rack-101-a7", "rack-101-a8"]
    assert names("heron.3050574.tdc7-091.log") == ["heron.3050574.tdc7-091"]
    assert names("heron.3050574.tdc7-091.log", "gpu-7/train.log")[1] == "gpu-7"


def test_a_name_that_lines_state_keeps_the_job_in_it() -> None:
    paths = ["loki/heron-3050574-w-0.log", "loki/heron-3050574-w-1.log"]
    of_paths = [Sources(path).all for path in paths]
    stated = replace(of_paths[0][0], node="heron-3050574-w-0", how="line", confidence=0.9)
    named = without_job_name([(*of_paths[0], stated), of_paths[1]], lambda _: False)
    assert [sources[0].node for sources in named] == ["heron-3050574-w-0", "heron-3050574-w-1"]


@pytest.mark.parametrize(
    ("line", "name"), [("pod=heron-3050574-w-0 rank=0", "heron-3050574-w-0"), ("to logs/heron-3050574-w-0.log", "w-0")]
)
def test_a_name_that_any_line_states_keeps_the_job_in_it_and_a_path_states_none(line: str, name: str) -> None:
    of_paths = [Sources(f"loki/heron-3050574-w-{number}.log").all for number in (0, 1)]
    named = without_job_name(of_paths, lambda pattern: re.search(pattern, line) is not None)
    assert named[0][0].node == name


@pytest.mark.parametrize(
    ("numbers", "lines", "has_tasks"),
    [
        (range(40), [1] * 40, False),
        (range(0, 4000, 100), [1] * 39 + [2], False),
        (range(40), [3] * 40, True),
        ([*range(20, 40), *range(20)], [1] * 40, True),
        (range(8), [1] * 8, True),
    ],
)
def test_numbers_that_begin_one_line_each_and_grow_count_lines_and_name_no_tasks(
    numbers: Sequence[int], lines: list[int], has_tasks: bool
) -> None:
    found = Sources("train.log")
    for number in numbers:
        found.index("", "", "", "", str(number))
    settled = settle_labels(found.all, [5, *lines])
    assert [source.rank for source in settled[1:]] == [number if has_tasks else None for number in numbers]


def test_ranks_that_lines_name_are_never_taken_for_counts_of_lines() -> None:
    found = Sources("train.log")
    for rank in range(40):
        found.index("", str(rank), "", "")
    assert [source.rank for source in settle_labels(found.all, [0, *[1] * 40])[1:]] == list(range(40))
