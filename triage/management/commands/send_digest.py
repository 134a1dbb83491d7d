"""Sends the weekly digest to every manager: ``manage.py send_digest``, from cron on Monday mornings."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from triage.services.digest import digest_email, digest_recipients, digest_send


class Command(BaseCommand):
    help = "Send the weekly digest to managers and admins with an e-mail address."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the e-mails, send nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        if options["dry_run"]:
            for user in digest_recipients():
                email = digest_email(user=user, now=now)
                self.stdout.write(f"To: {user.email}\nSubject: {email.subject}\n\n{email.body}")
            return
        self.stdout.write(f"Sent {digest_send(now=now)} digests.")
