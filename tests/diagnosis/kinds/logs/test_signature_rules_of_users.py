"""Rules that users write: read, checked, tried, and unable to hang or break the engine."""

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import SignatureError
from diagnosis.kinds.logs.meaning.signatures.validate import dry_run, validate
from tests.patience import no_hang

RULE = """
[[signature]]
id = "acme.widget"
title = "The widget broke"
role = "root"
category = "hardware.host.lost"
pattern = 'widget \\d+ broke'
advice = "Replace the widget."
source = "Acme handbook"
example = "E: widget 4 broke"
counter = "I: widget 4 turned"
"""


def problems(text: str) -> list[str]:
    (rule,) = signatures.parse(text)
    return validate(rule)


def test_a_good_rule_has_no_problems_and_comes_before_the_built_in_ones() -> None:
    assert problems(RULE) == []
    rules = signatures.load_with([RULE])
    assert rules.match_texts(["RuntimeError: widget 4 broke"]) == ["acme.widget"]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("'widget \\d+ broke'", "'(widget'", "not a regular expression"),
        ("'widget \\d+ broke'", "'(?=widget)'", "not a regular expression"),
        ("'widget \\d+ broke'", "'(?ix) widget'", "flag x"),
        ("'widget \\d+ broke'", "'\\w+'", "piece of three letters"),
        ("'widget \\d+ broke'", f"'{'a' * 1501}'", "longer than"),
        ("widget 4 turned", "widget 9 broke", "matches its counter-example"),
        ("E: widget 4 broke", "E: gadget 4 broke", "does not match its example"),
        ("hardware.host.lost", "hardware.widget", "not in the taxonomy"),
        ("Acme handbook", "", "needs a source"),
        ("acme.widget", "Acme Widget!", "must be lower-case"),
        ('"I: widget 4 turned"', "[]", "needs a counter-example"),
        ('"E: widget 4 broke"', '"E:\\nwidget 4 broke"', "single lines"),
    ],
)
def test_a_bad_rule_gets_a_sentence(before: str, after: str, complaint: str) -> None:
    text = RULE.replace(before, after)
    assert text != RULE
    assert any(complaint in problem for problem in problems(text))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[signature", "not TOML"),
        (RULE.replace('title = "The widget broke"\n', ""), "'title' is missing"),
        (RULE.replace('"root"', '"villain"'), "villain"),
        (RULE + 'colour = "red"', "colour"),
        (RULE + 'codes = "none.csv"', "no code table"),
    ],
)
def test_a_file_that_cannot_be_read_names_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(SignatureError, match=complaint):
        signatures.parse(text)


def test_a_pattern_that_hangs_other_engines_takes_no_time_here() -> None:
    (rule,) = signatures.parse(RULE.replace("'widget \\d+ broke'", "'(?:a+)+(?:a+)+widget'"))
    frame = pl.DataFrame(
        {"masked": [1], "example": ["a" * 4000 + "widge widget!"]}, schema_overrides={"masked": pl.UInt64}
    )
    with no_hang():
        signatures.SignatureSet([rule]).match(frame)


def test_a_dry_run_lists_the_messages_that_the_rule_would_take_from_others() -> None:
    (rule,) = signatures.parse(RULE)
    stored = pl.DataFrame(
        {
            "masked": [1, 2, 3],
            "text": ["", "", ""],
            "example": ["ValueError: widget 1 broke", "widget 2 broke", "all is well"],
            "count": [5, 9, 100],
        },
        schema_overrides={"masked": pl.UInt64},
    )
    run = dry_run(rule, stored, signatures.load())
    assert (run.messages, run.lines) == (2, 14)
    assert run.samples == ("widget 2 broke", "ValueError: widget 1 broke")
    assert run.taken_from == (("code.exception", 1),)
