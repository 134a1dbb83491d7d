"""Templates: which messages are the same event."""

import random

import polars as pl

from diagnosis.logs import mask, templates


def mined(*messages: str) -> dict[str, int]:
    """Message -> template id, for raw messages without header."""
    frame = pl.DataFrame({"text": messages}).unique()
    normal = frame.select("text", normal=mask.normalise(pl.col("text")))
    masked = normal.select("text", masked_text=mask.mask(pl.col("normal")))
    ids = [mask.identity(text) for text in masked["masked_text"]]
    table = pl.DataFrame(
        {"masked": ids, "text": masked["masked_text"]}, schema={"masked": pl.UInt64, "text": pl.String}
    )
    found = templates.mine([table])
    template = dict(zip(found["masked"], found["template"], strict=True))
    return {text: template[number] for text, number in zip(masked["text"], ids, strict=True)}


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


def test_different_errors_stay_apart_though_they_are_alike() -> None:
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


def test_an_id_is_the_hash_of_a_masked_text_of_its_group() -> None:
    frame = pl.DataFrame(
        {"masked": [mask.identity("a <NUM>")], "text": ["a <NUM>"]}, schema={"masked": pl.UInt64, "text": pl.String}
    )
    assert templates.mine([frame]).rows() == [(mask.identity("a <NUM>"), mask.identity("a <NUM>"), "a <NUM>")]


def test_no_tables_give_no_templates() -> None:
    assert templates.mine([]).is_empty()
