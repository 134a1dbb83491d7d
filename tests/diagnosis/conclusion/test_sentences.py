"""No sentence that somebody reads holds raw text: brackets of a log, paths, frames, codes, marks of a terminal. What is
shown beside another figure has the same value and unit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diagnosis.conclusion.model import Fault
from diagnosis.conclusion.sentences import sentence
from diagnosis.conclusion.sentences.sentence import contains_name
from diagnosis.evidence import Place
from tests.diagnosis.conclusion.conftest import SAMPLES, reported

#: the reference jobs that fail, of a size that can be diagnosed in a second
SMALL_BYTES = 60_000
_RAW = re.compile(
    r"[\[\]{}<>`]|\bexit ?code|(?:^|\s)/[\w.-]+/|::|0x[0-9a-f]{4}|\w=\w|[=^~-]{3,}|\\[nrt]|[\x00-\x1f\x7f-\x9f]"
    r"|File \"|Traceback|\([^()]*\("
)
#: where a line stands: a file of the evidence and a number
_PLACE = re.compile(r", first at \S+:\d+")


def sentences(found: dict[str, Any]) -> Iterator[str]:
    """The sentences of one report, without the evidence that it quotes as evidence."""
    conclusion = found["conclusion"]
    yield conclusion["sentence"]
    for row in (*found["suspects"], *conclusion["fault"]):
        yield from row["reasons"]
    yield from (conclusion["advice"] or {}).get("because") or ()
    yield from found["missing"]
    for text in (*found["observed"], *found["inferred"]):
        yield _PLACE.sub("", text)


def raw(found: dict[str, Any]) -> list[str]:
    """The sentences of one report that hold raw text."""
    return [text for text in sentences(found) if _RAW.search(text)]


@pytest.mark.parametrize("name", sorted(path.name.removesuffix(".tar.gz") for path in SAMPLES.glob("*.tar.gz")))
def test_no_sentence_on_a_sample_holds_raw_text(name: str, report_on: Callable[[str], dict[str, Any]]) -> None:
    """Before: codes and paths as the reason for a suspect, a frame within two pairs of brackets, whole lines with their
    process numbers as an observation.
    """
    assert raw(report_on(name)) == []


def test_a_slow_stretch_has_one_range_one_factor_and_one_cost(report_on: Callable[[str], dict[str, Any]]) -> None:
    """Before, the logs' own count of the steps stood beside that of the flows, and GPU-seconds beside GPU-hours."""
    found = report_on("delay_100ms_node")
    (slow,) = found["conclusion"]["slowdowns"]
    told = [found["conclusion"]["sentence"], *(row["text"] for row in found["conclusion"]["chain"])]
    told += [*found["observed"], *found["inferred"]]
    stretches = {match for text in told for match in re.findall(r"steps (\d+) to (\d+) took ([\d.]+) times", text)}
    assert stretches == {(str(slow["first"]), str(slow["last"]), f"{slow['factor']:.2f}")}
    assert f"which cost {slow['lost_gpu_s'] / 3600:.2f} GPU-hours" in found["conclusion"]["sentence"]


def test_no_sentence_on_a_reference_job_holds_raw_text(shared: Path, tmp_path: Path) -> None:
    jobs = sorted((shared / "data" / "practice" / "logs").glob("*/cases/*.zip"))
    told = {}
    for job in [path for path in jobs if path.stat().st_size < SMALL_BYTES]:
        told[job.stem] = raw(reported(tmp_path / job.stem, job))
    assert {name: texts for name, texts in told.items() if texts} == {}


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("gpu-1: has bad memory", True),
        ("Bad memory on gpu-1", True),
        ("Bad memory (gpu-1).", True),
        ("Bad memory on gpu-12, below rack-gpu-1_a", False),
        ("Bad memory on gpu-12 and gpu-1.", True),
    ],
)
def test_a_name_is_a_word_of_its_own_also_at_the_ends_of_a_sentence(text: str, is_named: bool) -> None:
    """Before, a sentence that began with the culprit named it again at its end."""
    assert contains_name(text, "gpu-1") is is_named


def test_all_who_are_most_probably_at_fault_are_named() -> None:
    first, second, third = (Fault(Place("node", name), p) for name, p in (("a", 0.85), ("b", 0.81), ("c", 0.2)))
    assert sentence._with_culprit("It was slow.", (first, second, third)).startswith("a and b are most probably")
    assert sentence._with_culprit("It was slow.", (first, third)).startswith("a is most probably")
    many = tuple(Fault(Place("node", name), 0.9) for name in "abcdef")
    assert sentence._with_culprit("It was slow.", many).startswith("a and b and c and d and others are most")
