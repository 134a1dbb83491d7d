"""The ASCII form of a pattern finds in ASCII text what the pattern finds."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.read import headers, mask, patterns, records
from diagnosis.kinds.logs.read.times import TIME_STYLES

_OURS = (
    *(pattern for pattern, _ in mask.MASKS),
    *(style.normal for style in TIME_STYLES),
    *(pattern for _, pattern in headers._LEVELS),
    *(headers._HEADER, headers._AFTER_LABEL, headers._SYSLOG, headers._NOT_HOSTS, headers._DOMAIN, headers._BAR),
    *(headers._SECOND, records._OPENER, records._CLOSER, records._CONTINUES, mask._CODES_RAW),
)
_PIECES = (
    "[rank0]: ", "0-0-0 0:0:0,0 ", "[ERROR] ", "n0: ", "Error", "exit code 137", "errno[12", "Xid (PCI:0:0b:0): 79",
    "/a/b.c", " 0%|##| 0/0 [0:0<0]", "x=-0.0", "pod/a", "\t", "\x0b", "\n", "_A=", "ret 0x1f", "http://a.b", "0:0:0:0",
)  # fmt: skip
_LINES = st.lists(st.sampled_from(_PIECES) | st.text(st.characters(max_codepoint=127), max_size=6), max_size=8)


@settings(max_examples=8, deadline=None)  # of many lines: compiling the patterns is what takes its time
@given(st.lists(_LINES.map("".join), min_size=10, max_size=60))
def test_both_forms_of_our_patterns_replace_the_same(lines: list[str]) -> None:
    table = pl.DataFrame({"text": lines})
    for pattern in _OURS:
        ways = {
            name: pl.col("text").str.replace_all(form(pattern), "<>")
            for name, form in (("any", patterns.unchanged), ("ascii", patterns.ascii_form))
        }
        both = table.select(**ways)
        assert both["any"].to_list() == both["ascii"].to_list(), pattern


def test_text_beyond_ascii_keeps_the_pattern() -> None:
    assert patterns.form_for(pl.Series(["a", "ü"])) is patterns.unchanged
    assert patterns.form_for(pl.Series(["a", "b"])) is patterns.ascii_form


def test_a_negation_within_a_class_is_refused() -> None:
    with pytest.raises(ValueError, match="in a class"):
        patterns.ascii_form(r"[a\W]")
