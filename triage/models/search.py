"""The text that a search for words reads."""

from __future__ import annotations

from django.db import models

from triage.models.incident import Incident


class SearchEntry(models.Model):
    """The words of one incident, split by ``triage.search.word_rules``; written in the transaction that stores its
    diagnosis.

    Triggers of the database update the indexes (migrations 0004, 0006 and 0012): on SQLite the FTS5 tables
    ``triage_search_words`` and ``triage_search_parts``, on PostgreSQL the column ``words`` (tsvector, weights A, B, C
    for the three fields) and trigrams. People who may see the incident may see its entry.
    """

    incident = models.OneToOneField(Incident, on_delete=models.CASCADE, primary_key=True, related_name="search_entry")
    #: headline, name and slug of the job
    about = models.TextField(blank=True)
    #: evidence lines and templates of root causes
    said = models.TextField(blank=True)
    #: ranks that are accused or named by lines of a root cause, and the signatures that matched
    places = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "search entries"

    def __str__(self) -> str:
        return self.about.strip()[:80]
