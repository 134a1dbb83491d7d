"""Lines of pairs (logfmt): a text of several lines is read like the same text in a record of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.unwrap import logfmt, wrapped

HEAD = {"time": "2026-03-02T10:00:02Z", "level": "error", "host": "gpu-7", "rank": "3"}
TRACEBACK = "Traceback (most recent call last):\n  File \"/w/a.py\", line 10, in f\n    c['d']\nKeyError: 'd'\n"


def line_of(text: str) -> str:
    pairs = [f"{key}={value}" for key, value in HEAD.items()]
    return " ".join([*pairs, f"msg={json.dumps(text, ensure_ascii=False)}"])


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.just("\n"), max_size=60))
@example(TRACEBACK.replace("    ", ""))
@example("\n")
@example("a\\nb\n")
@settings(max_examples=60, deadline=None)
def test_a_text_of_several_lines_is_the_same_in_pairs_and_in_json(text: str) -> None:
    told = f"{TRACEBACK}{text}\n"
    pairs, record = line_of(told), json.dumps({**HEAD, "msg": told})
    assert wrapped.unwrap_all([pairs]) == wrapped.unwrap_all([record])


def test_a_line_whose_values_have_one_line_each_stays_as_it_is() -> None:
    lines = ['time=10:00:02 level=info msg="step 10 loss 2.3"', 'time=10:00:02 msg="cut in the mid']
    assert wrapped.is_wrapped("\n".join(lines) + "\n")
    assert wrapped.unwrap_all(lines) == lines


def test_a_line_that_states_its_machine_and_rank_stands_behind_them() -> None:
    [line] = wrapped.unwrap_all([line_of("step 10 loss 2.3")])
    assert line == f"2026-03-02T10:00:02Z [pod/gpu-7] [rank3]: [ERROR] {line_of('step 10 loss 2.3')}"


def test_the_traceback_of_another_field_follows_the_text() -> None:
    line = f"{line_of('training failed')} err={json.dumps(TRACEBACK)}"
    told = wrapped.unwrap_all([line])[0].split("\n")
    assert told[0].endswith("[ERROR] training failed")
    assert told[-1].endswith("KeyError: 'd'")
    assert len(told) == 5


def test_an_escape_that_json_does_not_know_is_no_obstacle() -> None:
    record = logfmt.record_of('level=error msg="Traceback:\\n\\x1b[0m\\"quoted\\"\\n"')
    assert record is not None
    assert record.lines == ["Traceback:", '\\x1b[0m"quoted"']


@pytest.mark.parametrize(
    "text", ["export A=1\nmsg\n", "a=1 b=2\n", 'print(f"msg={x}")\n', "2026-03-02 INFO msg=done\n", "\n"]
)
def test_other_texts_are_no_lines_of_pairs(text: str) -> None:
    assert not logfmt.is_logfmt(text.split("\n")[:1])


def test_the_machine_alone_is_enough_to_place_a_line() -> None:
    line = 'time=2026-03-02T10:00:02Z level=info host=gpu-7 worker=3 msg="step 10"'
    assert wrapped.unwrap_all([line]) == [f"2026-03-02T10:00:02Z [pod/gpu-7] [INFO] {line}"]
