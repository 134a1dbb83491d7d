"""docs/keys.md lists the keys that the pages register."""

from scripts import keys


def test_every_key_is_documented() -> None:
    assert keys.DOCUMENT.read_text() == keys.document(), (
        "run `.venv/bin/python -m scripts.keys` and commit docs/keys.md"
    )


def test_no_key_is_registered_twice_in_a_group() -> None:
    pairs = [(group, key) for group, key, _ in keys.registrations()]
    assert len(pairs) == len(set(pairs)) > 10
