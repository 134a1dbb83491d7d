"""Templates: which messages are the same event."""

import random

import polars as pl

from diagnosis.kinds.logs.rows import templates
from diagnosis.kinds.logs.text import mask


def mined(*messages: str) -> dict[str, str]:
    """Message -> template, for raw messages without header."""
    frame = pl.DataFrame({"text": messages}).unique().with_columns(normal=mask.normalise(pl.col("text")))
    masked = frame.with_columns(masked=mask.mask(pl.col("normal")))
    template_of = templates.of_texts(masked["masked"].to_list())
    return {text: template_of[own] for text, own in masked.select("text", "masked").iter_rows()}


def test_many_words_in_one_place_are_a_parameter() -> None:
    users = ("alice", "bob", "carol", "dave", "erin")
    assert len(set(mined(*(f"session opened for user {user} by root" for user in users)).values())) == 1


def test_two_states_are_two_events() -> None:
    assert len(set(mined("link mlx5_0 is up", "link mlx5_0 is down").values())) == 2


def test_first_words_are_wording_and_stay_apart() -> None:
    daemons = ("klogd", "syslogd", "crond", "sshd", "rpcd", "nfsd")
    assert len(set(mined(*(f"{daemon} startup succeeded" for daemon in daemons)).values())) == len(daemons)


def test_lists_of_any_length_are_one_event() -> None:
    found = mined(*("missing ranks: " + ", ".join(map(str, range(count))) for count in range(1, 9)))
    assert len(set(found.values())) == 1


def test_a_unit_does_not_make_another_event() -> None:
    assert len(set(mined("read 12 MB in 3.5 s", "read 7.5 GB in 800 ms").values())) == 1


def test_different_errors_stay_apart_though_they_are_similar() -> None:
    found = mined(
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=12, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 48, pid=12, DBE (double bit error)",
        "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable plugged",
        "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged",
    )
    assert len(set(found.values())) == 4


def test_order_and_repetition_change_nothing() -> None:
    names = ("alpha", "beta", "gamma", "delta", "epsilon")
    messages = [f"worker {name} lost {count} heartbeats" for name in names for count in (1, 2)] + ["all workers ready"]
    first = mined(*messages)
    random.Random(3).shuffle(messages)
    assert mined(*messages) == first


def test_a_template_is_the_shortest_of_its_texts_and_then_the_first() -> None:
    users = ("alice", "carol", "bob", "dave", "eve")
    found = templates.of_texts([f"session opened for user {user} by root" for user in users])
    assert set(found.values()) == {"session opened for user bob by root"}


def test_no_messages_give_no_templates() -> None:
    assert templates.of_texts([]) == {}


def test_parameters_that_vary_together_are_one_event() -> None:
    nouns = ("shard", "cache", "lease", "quorum", "lane", "router", "broker")
    lines = [
        f"op=read volume={a} object={b} by {c}"
        for a, b, c in zip(nouns, nouns[::-1], nouns[2:] + nouns[:2], strict=True)
    ]
    assert len(set(mined(*lines).values())) == 1


def test_lists_of_words_of_any_length_are_one_event() -> None:
    nouns = ("shard", "cache", "lease", "quorum", "lane", "router", "broker")
    found = mined(*(f"missing keys [{', '.join(nouns[:count])}] in model" for count in range(2, 7)))
    assert len(set(found.values())) == 1


def test_quoted_text_is_one_word() -> None:
    reasons = ("no answer", "moved to rack seven", "disk", "asked by operator", "please ignore until Monday", "quota")
    found = mined(*(f'node drained, reason "{reason}" given' for reason in reasons))
    assert len(set(found.values())) == 1


def test_free_text_behind_a_colon_is_one_event() -> None:
    words = ("the", "disk", "was", "lost", "again", "by", "night", "please", "wait", "until", "it", "is", "back")
    found = mined(*(f"readiness probe failed: {' '.join(words[at : at + 2 + at % 4])}" for at in range(9)))
    assert len(set(found.values())) == 1


def test_answers_of_a_server_are_one_event_unless_the_server_failed() -> None:
    texts = [f'"GET <PATH> HTTP/<NUM>" status: {code} len: <NUM>' for code in (200, 204, 404, 503)]
    assert list(templates.of_texts(texts).values()) == [texts[0], texts[0], texts[0], texts[3]]


def test_a_name_with_an_argument_is_a_parameter_like_a_number() -> None:
    assert len(set(mined("synchronized to 10.1.2.3, stratum 3", "synchronized to LOCAL(0), stratum 10").values())) == 1


def test_switches_are_values() -> None:
    lines = [f"isVisible={a} hasFocus={b} in window" for a in ("true", "false") for b in ("true", "false")]
    assert len(set(mined(*lines).values())) == 1
