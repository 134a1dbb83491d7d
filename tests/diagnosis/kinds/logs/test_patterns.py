"""The ASCII form of a pattern finds in ASCII text what the pattern finds."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.meaning.signatures.load import builtin
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


#: what both forms of a rule read, beside its own examples
_ODD = ("", "\t", "a_b-c.d:e", "\x7f\x00\x1b", "0x1f GPU 3 [rank2]: Error", "_", "-")


def test_both_forms_of_all_rules_and_words_find_the_same() -> None:
    different = []
    for rule in builtin():
        texts = [*rule.examples, *rule.counters, *(example[1:-1] for example in rule.examples), *_ODD]
        different += [pattern for pattern in (rule.pattern, rule.unless) if pattern and _differs(pattern, texts)]
    for word in (*words.load("stages"), *words.load("outcome")):
        texts = [text.lower() for text in (*word.example, *word.counter, *_ODD)]
        different += [word.pattern] if _differs(word.pattern, texts) else []
    assert different == []


def _differs(pattern: str, texts: list[str]) -> bool:
    """Whether the ASCII form finds something else in those of the texts that are ASCII."""
    texts_read = pl.Series([text for text in texts if text.isascii()])
    return bool((texts_read.str.contains(pattern) != texts_read.str.contains(patterns.ascii_form(pattern))).any())


def test_text_beyond_ascii_keeps_the_pattern() -> None:
    assert patterns.form_for(pl.Series(["a", "ü"])) is patterns.unchanged
    assert patterns.form_for(pl.Series(["a", "b"])) is patterns.ascii_form


def test_a_negation_within_a_class_is_refused() -> None:
    with pytest.raises(ValueError, match="in a class"):
        patterns.ascii_form(r"[a\W]")
