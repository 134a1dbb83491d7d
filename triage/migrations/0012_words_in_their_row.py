"""An index from which lists are read in order; PostgreSQL's words of an entry in the entry's own row, and how to find
by them.

PostgreSQL reads the words again for phrases, and for each incident that a list walks past. Out of line, as it puts
large values by itself, each costs a look-up of its own.
"""

from typing import Any

from django.db import migrations, models

_COLUMN = "ALTER TABLE triage_searchentry ALTER COLUMN words"
#: computed again, because only what is written anew is stored in the new place
_REWRITTEN = f"{_COLUMN} TYPE tsvector USING words || ''::tsvector, ALTER COLUMN words SET STORAGE {{storage}}"
_FOUND = """CREATE FUNCTION triage_search_found({parameters}) RETURNS SETOF bigint LANGUAGE sql STABLE ROWS 500
    SET enable_seqscan = off AS 'SELECT incident_id FROM triage_searchentry WHERE {condition}'"""
_POSTGRESQL = (
    _REWRITTEN.format(storage="MAIN"),
    # the planner's statistics of the column went with its former type
    "ANALYZE triage_searchentry (words)",
    # the index is read whatever the planner expects: it knows nothing of phrases
    _FOUND.format(parameters="asked tsquery", condition="words @@ asked"),
    _FOUND.format(
        parameters="asked_about text, asked_said text", condition="about LIKE asked_about OR said LIKE asked_said"
    ),
)
_POSTGRESQL_BACK = (
    "DROP FUNCTION triage_search_found(tsquery)",
    "DROP FUNCTION triage_search_found(text, text)",
    _REWRITTEN.format(storage="EXTENDED"),
    "ANALYZE triage_searchentry (words)",
)


def _run(schema_editor: Any, statements: tuple[str, ...]) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for statement in statements:
            schema_editor.execute(statement)


def in_the_row(apps: Any, schema_editor: Any) -> None:
    _run(schema_editor, _POSTGRESQL)


def out_of_line(apps: Any, schema_editor: Any) -> None:
    _run(schema_editor, _POSTGRESQL_BACK)


class Migration(migrations.Migration):
    dependencies = [("triage", "0011_tickets_of_nodes")]

    operations = [
        migrations.RunPython(in_the_row, out_of_line),
        migrations.RemoveIndex(model_name="incident", name="incident_opened"),
        migrations.AddIndex(
            model_name="incident",
            index=models.Index(
                fields=[
                    *("-opened_at", "-id", "is_withdrawn", "cluster", "state", "standing_category", "symptom", "team"),
                ],
                name="incident_opened",
            ),
        ),
    ]
