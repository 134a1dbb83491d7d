"""A password that is made of the words of this site is guessed first: it must have enough besides them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

#: names of the product and of the roles, and what people put around them
WORDS = ("faultline", "triage", "incident", "cluster", "viewer", "engineer", "manager", "admin", "password", "training")
_MIN_OTHER_LETTERS = 6


class SiteWordsValidator:
    """Counts the letters that are left without words of the product and names of the site's host."""

    def validate(self, password: str, user: Any = None) -> None:
        host = urlsplit(settings.SITE_URL).hostname or ""
        words = [*WORDS, *(part for part in host.split(".") if len(part) > 3)]
        rest = password.lower()
        for word in words:
            rest = rest.replace(word, "")
        other_letters = sum(character.isalpha() for character in rest)
        if rest != password.lower() and other_letters < _MIN_OTHER_LETTERS:
            raise ValidationError(self.get_help_text(), code="password_of_site_words")

    def get_help_text(self) -> str:
        return "Words such as the name of this site or of a role are guessed first: choose other words."
