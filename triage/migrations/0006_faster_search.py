"""Positions of trigrams, so that a search inside words reads the index alone, and times beside what the list counts.

The index of trigrams takes six times the space (330 bytes instead of 50 a finding) and answers ten times as fast.
"""

from typing import Any

from django.db import migrations, models

_TABLE = """CREATE VIRTUAL TABLE triage_search_parts USING fts5(about, said, content='triage_searchentry',
       content_rowid='incident_id', tokenize='trigram', detail={detail}, columnsize=0)"""


def _make_again(schema_editor: Any, detail: str) -> None:
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TABLE triage_search_parts")
        schema_editor.execute(_TABLE.format(detail=detail))
        schema_editor.execute("INSERT INTO triage_search_parts(triage_search_parts) VALUES ('rebuild')")


def with_positions(apps: Any, schema_editor: Any) -> None:
    _make_again(schema_editor, "full")


def without_positions(apps: Any, schema_editor: Any) -> None:
    _make_again(schema_editor, "none")


class Migration(migrations.Migration):
    dependencies = [("triage", "0005_condition")]

    operations = [
        migrations.RunPython(with_positions, without_positions),
        migrations.RemoveIndex(model_name="incident", name="incident_facets"),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(
                fields=["is_withdrawn", "cluster", "state", "standing_category", "symptom", "team", "opened_at"],
                name="incident_facets",
            ),
        ),
    ]
