"""``{% term "ettr" %}``: a word of the glossary with its meaning as a tooltip and a link to the glossary."""

from __future__ import annotations

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from triage.glossary import terms

register = template.Library()


@register.simple_tag
def term(name: str, text: str = "") -> SafeString:
    """The term, or ``text`` if the page words it otherwise. Raises ``KeyError`` for an unknown term."""
    found = terms()[name]
    return format_html(
        '<a class="term" href="{}#{}" title="{}">{}</a>', reverse("glossary"), name, found.meaning, text or found.title
    )
