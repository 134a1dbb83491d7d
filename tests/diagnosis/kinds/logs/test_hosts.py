"""What a cluster calls its machines does not keep two jobs' messages apart."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import hosts
from diagnosis.kinds.logs.meaning.hosts import hide_hosts


@pytest.mark.parametrize(
    ("nodes", "text", "hidden"),
    [
        (["gpu-0412"], "lost gpu-<NUM>: no answer", "lost <HOST>: no answer"),
        (["gpu-1", "gpu-2-rack-3"], "gpu-<NUM>-rack-<NUM> left gpu-<NUM>", "<HOST> left <HOST>"),
        (["12", "ab"], "<NUM> of ab", "<NUM> of ab"),
        ([], "gpu-<NUM>", "gpu-<NUM>"),
    ],
    ids=["one", "a name within a longer one", "a number or too short a word", "none known"],
)
def test_names_of_machines_become_one_word_longest_first(nodes: list[str], text: str, hidden: str) -> None:
    assert hide_hosts(pl.Series([text]), nodes).to_list() == [hidden]


def test_rules_see_no_machine_names() -> None:
    lines = pl.Series(["mlu590-254: plugin failed", "Nodes gpu-node-7 not responding", "rank12 died near gpu-node-8"])
    said = hosts.anonymise_hosts(lines, ["mlu590-254", "mlu590-31", "gpu-node-7", "rank12", "a", "1234"])
    assert said.to_list() == ["n0: plugin failed", "Nodes n0 not responding", "rank12 died near gpu-node-8"]


def test_names_of_many_schemes_are_all_hidden() -> None:
    names = [f"{a}{b}{a}7y" for a in "abcdefghij" for b in "klmnopqrst"]
    lines = pl.Series([f"{name} failed" for name in names])
    assert set(hosts.anonymise_hosts(lines, names)) == {"n0 failed"}


def test_names_of_any_length_and_characters_end_no_diagnosis() -> None:
    names = ["1a" * 20_000, "n7(", "n7[", "n\n7x", "٣gpu", "n7\\"] + [f"{'a1' * 30}{letter}" for letter in "bcdefgh"]
    lines = pl.Series(["n7( failed", "plain"])
    assert hosts.anonymise_hosts(lines, names).to_list() == lines.to_list()


class _NotWalked(dict[str, str]):
    """Names may be looked up, not searched one after the other."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all names were walked")


def test_machines_that_a_line_names_are_looked_up_however_many_there_are() -> None:
    known = _NotWalked({"n7": "n7", "fd00::7": "n8", "10.0.0.9": "n9"})
    line = "08:00:05 n7.rack2: lost [fd00::7]: and 10.0.0.9, ab:cd"
    assert hosts.names_in(line, known) == {"n7", "n8", "n9"}
    assert hosts.names_in("8" * 2_000 + ": lost", known) == set()
