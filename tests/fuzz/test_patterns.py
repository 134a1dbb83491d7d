"""No pattern needs more than a moment for any line: `python -m tests.fuzz patterns` attacks with longer ones."""

import re
from string import ascii_lowercase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.meaning import roster
from diagnosis.kinds.logs.pace import counter_words, counters, durations
from tests.fuzz import patterns as fuzz

#: Half of what is read back of a line (``raw_lines.read_lines``): a cubic search of it takes longer than the limit.
LINE_CHARS = 1_000


def test_no_pattern_takes_long_for_any_line() -> None:
    patterns = fuzz.compiled_patterns()
    slow = {place: text for place, one in patterns.items() if (text := fuzz.is_slow(one, LINE_CHARS, cpu_s=1.0))}
    assert slow == {}
    assert len(patterns) > 400  # they were found


def test_patterns_for_every_message_take_time_in_proportion_to_its_length() -> None:
    of_statements = [one for row in roster.statements().every for one in (row.pattern, row.rank_below) if one]
    of_steps = [one for one in vars(durations).values() if isinstance(one, re.Pattern)]
    of_counters = [one for _, one in counter_words._counters()]
    patterns = [*of_statements, *of_steps, *of_counters]
    assert [one.pattern for one in patterns if fuzz.is_slow(one, 20 * LINE_CHARS, cpu_s=0.5)] == []


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(\d+(,\d+)*,?)*x", r"[\w.]+[.\w]+[\w.]+[\w.]+;"])
def test_a_slow_pattern_is_noticed(pattern: str) -> None:
    assert fuzz.is_slow(re.compile(pattern), LINE_CHARS, cpu_s=0.2)


_BETWEEN = st.sampled_from(
    (",", ".", ", ", " ", "-", ":", "e", "E", "x", "{", "}", "=", "  ", "+", "/", "", "0", "(a+)+")
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_BETWEEN, min_size=3, max_size=80), st.sampled_from(("1", "12", "1,2", "1.5", "-1e5", "1,234.5")))
def test_the_numbers_of_no_line_take_long(between: list[str], number: str) -> None:
    line = number.join(between)
    for text in (line, number * 300, "1," * 1000, "1e" * 1000, "1-" * 1000, (line + "!") * 20):
        assert not fuzz.is_slow_in(counters._NUMBER, text[:LINE_CHARS], cpu_s=0.2)


def test_of_a_printed_list_of_thousands_few_numbers_are_looked_at() -> None:
    line = "ranks {" + ",".join(["7"] * 5_000) + "} of " + ascii_lowercase
    assert len(counters._numbers(line)) == counters.LIMITS.numbers
