"""What a cluster calls its machines does not keep two jobs' messages apart."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.logs.hosts import hide


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
    assert hide(pl.Series([text]), nodes).to_list() == [hidden]
