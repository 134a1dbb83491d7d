"""Prepares a start: migrates the database, collects static files, and creates demo people the first time."""

from __future__ import annotations

import hashlib
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Group
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from triage.environment import env_bool, env_str
from triage.serve.children import ServiceError
from triage.serve.newer import check_version
from triage.services.resealing import secrets_reseal

DEMO_PEOPLE = (("engineer", "engineer"), ("manager", "manager"))


class Command(BaseCommand):
    help = "Migrate, collect static files, create demo people (FAULTLINE_DEMO=0: none) and print their sign-in."
    # Checks import every view. The web server that starts next does that anyway, and fails with the same message.
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            check_version()
        except ServiceError as error:
            raise CommandError(str(error)) from error
        with ThreadPoolExecutor(1) as pool:  # compressing files holds no lock that migrating needs
            collecting = pool.submit(self._collect_static)
            try:
                call_command("migrate", interactive=False, verbosity=0)
            except OperationalError as error:
                raise CommandError(f"the database cannot be used: {str(error).strip().splitlines()[0]}") from error
            secrets_reseal()
            collecting.result()
        if env_bool("FAULTLINE_DEMO", True):
            self._demo_people()

    def _collect_static(self) -> None:
        """Collecting compresses megabytes; a stamp of names, sizes and times skips it if nothing changed. Whoever names
        a directory of their own has collected into it (``manage collectstatic``): an image, which is read-only.
        """
        if env_str("FAULTLINE_STATIC_DIR"):
            return
        stamp = Path(settings.STATIC_ROOT) / ".stamp"
        current = _fingerprint()
        if stamp.exists() and stamp.read_text() == current:
            return
        call_command("collectstatic", interactive=False, verbosity=0, clear=True)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(current)

    def _demo_people(self) -> None:
        """Created once, with random passwords in a file of the data directory that only its owner can read: name,
        password, and a digest of what the database holds of it, because verifying a password takes half a second.

        Does not touch people who were deleted or changed their password.
        """
        User = get_user_model()
        note = Path(settings.DATA_DIR) / "demo-sign-in.txt"
        if not note.exists():
            lines = []
            for name, role in DEMO_PEOPLE:
                if User.objects.filter(username=name).exists():
                    continue
                password = secrets.token_urlsafe(9)
                user = User.objects.create_user(username=name, password=password)
                user.groups.add(Group.objects.get_or_create(name=role)[0])
                lines.append(f"{name} {password} {_digest(user)}\n")
            with os.fdopen(os.open(note, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
                file.writelines(lines)
        for line in note.read_text().splitlines():
            name, password, *digest = line.split()
            person = User.objects.filter(username=name).first()
            if person is not None and ([_digest(person)] == digest or person.check_password(password)):
                self.stdout.write(f"  Sign in as {name} with password {password}")


def _digest(user: AbstractBaseUser) -> str:
    return hashlib.sha256(user.password.encode()).hexdigest()[:16]


def _fingerprint() -> str:
    """A hash of all static files that the finders find. O(files); reads no content."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            found = Path(storage.path(path)).stat()
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()
