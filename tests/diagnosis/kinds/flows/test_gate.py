"""Most artifacts are logs: they are excluded as flow records without reading their words one by one."""

from __future__ import annotations

import pytest

from diagnosis.kinds.flows.read.readers import delimited
from diagnosis.kinds.flows.read.readers.column_names import ALIASES


@pytest.mark.parametrize("name", [name for key in ("src", "dst") for name in ALIASES[key]])
def test_every_name_of_an_address_opens_the_way_to_the_header(name: str) -> None:
    spelled = f'#comment\n"x";"{name.upper()[:1]}{name[1:]}";"y"\n1;2;3\n'.encode()
    assert delimited._may_name_addresses(spelled)


def test_a_training_log_is_recognised_without_reading_its_words() -> None:
    log = b"2026-03-01 08:00:00 [rank3]: iteration 7 loss 2.5 data loader saw 17 samples, dismissed 2\n" * 20
    assert not delimited._may_name_addresses(log)
