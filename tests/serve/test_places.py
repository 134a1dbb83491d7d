from pathlib import Path

import pytest

from triage import places


def test_a_checkout_keeps_its_data_and_a_wheel_uses_the_users_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAULTLINE_DATA_DIR", raising=False)
    assert places.data_dir() == places.ROOT / "var"
    monkeypatch.setattr(places, "IS_CHECKOUT", False)
    monkeypatch.setattr(places.sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")
    assert places.data_dir() == Path("/srv/data/faultline")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert places.data_dir() == Path("/home/ada/.local/share/faultline")
    monkeypatch.setenv("FAULTLINE_DATA_DIR", "/elsewhere")
    assert places.data_dir() == Path("/elsewhere")
