"""The ASCII form of a pattern finds in ASCII text what the pattern finds."""

from itertools import chain

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.columns import records
from diagnosis.kinds.logs.meaning.signatures.load import builtin
from diagnosis.kinds.logs.read import headers
from diagnosis.kinds.logs.read.times import TIME_STYLES
from diagnosis.kinds.logs.rows import templates
from diagnosis.kinds.logs.text import mask, patterns
from diagnosis.kinds.logs.text.patterns import ANY
from diagnosis.knowledge import words

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
    own = patterns.Haystack.of(table["text"])
    for pattern in _OURS:
        ways = {name: hay.replace_all(pl.col("text"), pattern, "<>") for name, hay in (("any", ANY), ("own", own))}
        both = table.select(**ways)
        assert both["any"].to_list() == both["own"].to_list(), pattern
    whole = (lambda hay: mask.mask(pl.col("text"), hay)), (lambda hay: templates.generalise(pl.col("text"), hay))
    for step in whole:
        assert table.select(step(ANY)).to_series().to_list() == table.select(step(own)).to_series().to_list()


#: what both forms of a rule read, beside its own examples
_ODD = ("", "\t", "a_b-c.d:e", "\x7f\x00\x1b", "0x1f GPU 3 [rank2]: Error", "_", "-")


_WORDS = ("stages", "outcome", "phrases", "frameworks", "schedulers", "watchdogs")


def test_both_forms_of_all_rules_and_words_find_the_same() -> None:
    different = []
    for rule in builtin():
        texts = [*rule.examples, *rule.counters, *(example[1:-1] for example in rule.examples), *_ODD]
        different += [pattern for pattern in (rule.pattern, rule.unless) if pattern and _differs(pattern, texts)]
    for word in chain.from_iterable(map(words.load, _WORDS)):
        texts = [text.lower() for text in (*word.example, *word.counter, *_ODD)]
        texts += [*word.example, *word.counter]
        different += [word.pattern] if _differs(word.pattern, texts) else []
    assert different == []


def _differs(pattern: str, texts: list[str]) -> bool:
    """Whether something else is found in those of the texts that are ASCII, together or each by itself."""
    read = [text for text in texts if text.isascii()]
    own = [is_found for text in read for is_found in _found(pattern, [text])]
    return not pl.Series(read).str.contains(pattern).to_list() == _found(pattern, read) == own


def _found(pattern: str, texts: list[str]) -> list[bool]:
    strings = pl.Series(texts)
    return patterns.Haystack.of(strings).contains(strings, pattern).to_list()


def test_text_beyond_ascii_keeps_the_pattern() -> None:
    assert patterns.Haystack.of(pl.Series(["a", "ü"])).form(r"\d") == r"\d"
    assert patterns.Haystack.of(pl.Series(["a", None, "b"])).form(r"\d") == "[0-9]"


def test_a_pattern_whose_literals_are_nowhere_is_not_compiled() -> None:
    texts = pl.Series(["a", None, "b"])
    hay = patterns.Haystack.of(texts)
    is_no_pattern = "missing("  # to compile it would fail
    assert hay.contains(texts, is_no_pattern).to_list() == [False, None, False]
    assert hay.replace(texts, is_no_pattern, "").to_list() == hay.replace_all(texts, is_no_pattern, "").to_list()
    assert texts.to_frame("t").select(hay.extract(pl.col("t"), is_no_pattern, 0)).to_series().to_list() == [None] * 3


def test_letters_that_match_others_without_their_case_are_found() -> None:
    texts = pl.Series(["a TEST", "a te\u017ft", "\u212aelvin", "a tent"])
    hay = patterns.Haystack.of(texts)
    assert hay.contains(texts, "(?i)test|KELVIN").to_list() == [True, True, True, False]


def test_many_strings_are_searched_and_not_looked_through_before() -> None:
    texts = pl.Series(["x" * patterns.MAX_LOOKED_THROUGH_BYTES, "a test 5"])
    hay = patterns.Haystack.of(texts)
    assert hay.text is None and hay.is_ascii
    assert hay.contains(texts, r"test \d").to_list() == [False, True]


def test_a_negation_within_a_class_is_refused() -> None:
    with pytest.raises(ValueError, match="in a class"):
        patterns.ascii_form(r"[a\W]")
