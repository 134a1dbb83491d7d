"""Texts that no reader knows, from several machines: what one of them states otherwise is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnosis.__main__ import main
from diagnosis.facts import fact_table
from diagnosis.files import alike_texts
from diagnosis.model import Kind, Parsed


def odd_values(texts: dict[str, str]) -> tuple[str, ...]:
    quiet = [Parsed(path, Kind.LOG, "", len(text)) for path, text in texts.items()]
    stated = alike_texts.stated_facts(quiet, lambda path, begin, size: texts[path].encode()[begin : begin + size])
    summary = fact_table.summarise(stated, None)
    return summary.examples if summary else ()


def of_nodes(usual: str, odd: str, name: str = "x.txt") -> dict[str, str]:
    return {f"cn1{n}/{name}": odd if n == 2 else usual for n in range(1, 5)}


@pytest.mark.parametrize(
    ("usual", "odd", "told"),
    [
        ("CPU(s):   224\n", "CPU(s):   112\n", "cn12 x.txt CPU(s): 112; most: 224"),
        ("ro iommu=pt quiet=1\n", "ro iommu=on quiet=1\n", "cn12 x.txt iommu: on; most: pt"),
        ("pytorch  2.5.1\n", "pytorch  2.3.1\n", "cn12 x.txt pytorch: 2.3.1; most: 2.5.1"),
        ('The governor "fast" decides\n', 'The governor "slow" decides\n', 'cn12 x.txt The governor decides: "slow"'),
        ("GPU 0\nGPU 1\n", "GPU 0\n", "cn12 x.txt number of lines: 1; most: 2"),
        ("OFED_LINUX-24.04-0.7:\n", "OFED_LINUX-5.8-2.0:\n", "cn12 x.txt OFED LINUX: OFED_LINUX-5.8-2.0:; most:"),
        (" 2   1000   2.31\n", " 2   1000   9.40\n", "cn12 x.txt 2 (3 of 3): 9.40; most: 2.31"),
    ],
)
def test_what_one_machine_states_otherwise_is_told(usual: str, odd: str, told: str) -> None:
    assert any(example.startswith(told) for example in odd_values(of_nodes(usual, odd)))


def test_equal_texts_and_texts_of_two_machines_tell_nothing() -> None:
    assert odd_values(of_nodes("CPU(s): 224\n", "CPU(s): 224\n")) == ()
    assert odd_values({"cn1/x.txt": "CPU(s): 224\n", "cn2/x.txt": "CPU(s): 112\n"}) == ()


def test_texts_of_different_tools_are_not_compared() -> None:
    assert odd_values({f"cn1{n}/tool-{'abc'[n]}.txt": f"CPU(s): {n // 2}\n" for n in range(3)}) == ()


def test_logs_of_machines_are_not_compared_line_by_line() -> None:
    line = "2026-03-01 08:00:0{} loader: {} shards found\n"
    usual, odd = ("".join(line.format(second, shards) for second in range(9)) for shards in (224, 112))
    assert odd_values(of_nodes(usual, odd, "train.log")) == ()


def test_a_long_text_is_read_to_a_limit() -> None:
    many = "".join(f"line{n}: {n}\n" for n in range(10 * alike_texts.MAX_LINES))
    texts = of_nodes(many, many)
    quiet = [Parsed(path, Kind.LOG, "", len(many)) for path in texts]
    stated = alike_texts.stated_facts(quiet, lambda path, begin, size: many.encode()[begin : begin + size])
    assert len(stated) == 4 * (alike_texts.MAX_LINES + 1)


def test_the_report_names_what_differs_and_says_that_the_text_was_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in of_nodes("Thread(s) per core:  2\n", "Thread(s) per core:  1\n", "lscpu.txt").items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert main([str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["headline"].startswith("Not enough evidence")
    assert "“cn12 lscpu.txt Thread(s) per core: 1; most: 2”" in report["headline"]
    assert {row["unread"].rpartition(". ")[2] for row in report["inputs"]} == {
        "Its lines were compared with those of other machines."
    }
    assert report["suspects"] == []
