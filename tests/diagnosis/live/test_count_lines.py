"""Counts of running jobs, from their lines."""

import pytest

from diagnosis.live.reading.count_lines import CountLine, CountLines


@pytest.mark.parametrize(
    ("text", "is_last"),
    [
        ("iteration 1,000/1,000 loss 2.1", True),
        ("iteration 900/ 900 loss 2.1", True),
        ("iteration 899/900 loss 2.1", False),
        ("Epoch 2 [900/900] loss 2.1", False),  # the end of an epoch
    ],
)
def test_a_count_is_the_last_one_if_it_is_its_own_total(text: str, is_last: bool) -> None:
    counts = CountLines([])
    counts.add(CountLine(0, None, 1, text))
    ((row,),) = counts.counters().values()
    assert row.is_last is is_last
