"""What precedes a start: static files are collected when they changed, demo people are made once and left alone."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError

from triage.management.commands import prepare

pytestmark = pytest.mark.django_db


@pytest.fixture
def called(settings, tmp_path, monkeypatch):
    """The commands that were called, of which collecting alone is done; everything lies below ``tmp_path``."""
    settings.DATA_DIR = tmp_path / "var"
    settings.STATIC_ROOT = tmp_path / "var" / "static"
    settings.STATICFILES_DIRS = [tmp_path / "source"]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    (tmp_path / "source").mkdir()
    (tmp_path / "var").mkdir()
    (tmp_path / "source" / "a.css").write_text("a {}")
    names = []

    def call(name, *rest, **options):
        names.append(name)
        if name != "migrate":
            call_command(name, *rest, **options)

    monkeypatch.setattr(prepare, "call_command", call)
    return names


def prepared() -> dict[str, str]:
    """Names and passwords that a start prints."""
    out = io.StringIO()
    call_command("prepare", stdout=out)
    words = [line.split() for line in out.getvalue().splitlines()]
    return {line[3]: line[-1] for line in words}


def test_demo_people_are_made_once_with_passwords_for_their_owners_eyes(called, settings, client):
    first = prepared()
    assert sorted(first) == ["engineer", "manager"]
    assert first["engineer"] != first["manager"]
    note = Path(settings.DATA_DIR) / "demo-sign-in.txt"
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert client.login(username="engineer", password=first["engineer"])
    assert [g.name for g in get_user_model().objects.get(username="engineer").groups.all()] == ["engineer"]
    assert prepared() == first
    assert get_user_model().objects.count() == 2


def test_a_start_verifies_no_unchanged_password(called, monkeypatch):
    first = prepared()
    monkeypatch.setattr(get_user_model(), "check_password", lambda *_: pytest.fail("this takes half a second"))
    assert prepared() == first


def test_static_files_that_cannot_be_collected_stop_the_start(called, settings):
    Path(settings.STATIC_ROOT).write_text("a file where a directory belongs")
    with pytest.raises(OSError, match="static"):
        prepared()


def test_whoever_changed_a_password_or_was_deleted_is_left_alone(called):
    prepared()
    engineer = get_user_model().objects.get(username="engineer")
    engineer.set_password("another one")
    engineer.save()
    get_user_model().objects.get(username="manager").delete()
    assert prepared() == {}
    assert [user.username for user in get_user_model().objects.all()] == ["engineer"]


def test_a_person_with_a_demo_name_keeps_their_password(called):
    get_user_model().objects.create_user(username="engineer", password="right horse")
    assert sorted(prepared()) == ["manager"]
    assert get_user_model().objects.get(username="engineer").check_password("right horse")


def test_for_real_use_there_are_no_demo_people(called, monkeypatch):
    monkeypatch.setenv("FAULTLINE_DEMO", "0")
    assert prepared() == {}
    assert not get_user_model().objects.exists()


def test_static_files_are_collected_again_only_when_one_changed(called, settings, tmp_path):
    prepared()
    prepared()
    assert sorted(called) == ["collectstatic", "migrate", "migrate"], "both at once"
    (tmp_path / "source" / "a.css").write_text("a { color: red }")
    prepared()
    assert sorted(called[3:]) == ["collectstatic", "migrate"]
    assert "red" in (Path(settings.STATIC_ROOT) / "a.css").read_text()


def test_a_database_that_cannot_be_used_is_reported_in_one_line(called, monkeypatch):
    def fail(*_, **__):
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(prepare, "call_command", fail)
    with pytest.raises(CommandError, match=r"^the database cannot be used: connection refused$"):
        prepared()


def test_static_files_of_an_image_are_not_collected_again(called, monkeypatch):
    monkeypatch.setenv("FAULTLINE_STATIC_DIR", "/opt/static")
    prepared()
    assert called == ["migrate"]


def test_what_no_page_uses_is_not_collected():
    patterns = apps.get_app_config("staticfiles").ignore_patterns
    names = {name for finder in get_finders() for name, _ in finder.list(patterns)}
    assert "css/base.css" in names
    assert not [name for name in names if "/redoc/" in name or name.startswith("rest_framework/")]
