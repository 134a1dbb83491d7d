"""The index behind the search for words: FTS5 on SQLite, tsvector and trigrams on PostgreSQL, filled from what is stored.

Triggers keep the indexes true to the table, whoever writes it. A later migration that changes the table itself has to
make them again on SQLite, where Django replaces a table that it alters.
"""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

_SQLITE = (
    # FTS5 cuts where a character is neither letter, digit nor of the private-use area:
    # at the spaces of triage.search.word_rules
    """CREATE VIRTUAL TABLE triage_search_words USING fts5(about, said, places, content='triage_searchentry',
       content_rowid='incident_id', tokenize="unicode61 remove_diacritics 0 categories 'L* N* Co'")""",
    """CREATE VIRTUAL TABLE triage_search_parts USING fts5(about, said, content='triage_searchentry',
       content_rowid='incident_id', tokenize='trigram', detail=none, columnsize=0)""",
    """CREATE TRIGGER triage_search_insert AFTER INSERT ON triage_searchentry BEGIN
       INSERT INTO triage_search_words(rowid, about, said, places)
         VALUES (new.incident_id, new.about, new.said, new.places);
       INSERT INTO triage_search_parts(rowid, about, said) VALUES (new.incident_id, new.about, new.said);
       END""",
    """CREATE TRIGGER triage_search_delete AFTER DELETE ON triage_searchentry BEGIN
       INSERT INTO triage_search_words(triage_search_words, rowid, about, said, places)
         VALUES ('delete', old.incident_id, old.about, old.said, old.places);
       INSERT INTO triage_search_parts(triage_search_parts, rowid, about, said)
         VALUES ('delete', old.incident_id, old.about, old.said);
       END""",
    """CREATE TRIGGER triage_search_update AFTER UPDATE ON triage_searchentry BEGIN
       INSERT INTO triage_search_words(triage_search_words, rowid, about, said, places)
         VALUES ('delete', old.incident_id, old.about, old.said, old.places);
       INSERT INTO triage_search_parts(triage_search_parts, rowid, about, said)
         VALUES ('delete', old.incident_id, old.about, old.said);
       INSERT INTO triage_search_words(rowid, about, said, places)
         VALUES (new.incident_id, new.about, new.said, new.places);
       INSERT INTO triage_search_parts(rowid, about, said) VALUES (new.incident_id, new.about, new.said);
       END""",
)
_SQLITE_BACK = (
    "DROP TRIGGER triage_search_insert",
    "DROP TRIGGER triage_search_delete",
    "DROP TRIGGER triage_search_update",
    "DROP TABLE triage_search_words",
    "DROP TABLE triage_search_parts",
)
_POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "ALTER TABLE triage_searchentry ADD COLUMN words tsvector NOT NULL DEFAULT ''",
    # words are letters and digits alone, so that none needs quoting; PostgreSQL's own parser would cut them otherwise
    """CREATE FUNCTION triage_search_vector(line text, weight text) RETURNS tsvector LANGUAGE sql IMMUTABLE AS $$
       SELECT coalesce(string_agg('''' || word || ''':' || least(place, 16383) || weight, ' '), '')::tsvector
       FROM unnest(string_to_array(btrim(line), ' ')) WITH ORDINALITY AS parts(word, place) WHERE word <> ''
       $$""",
    """CREATE FUNCTION triage_search_keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       NEW.words := triage_search_vector(NEW.about, 'A') || triage_search_vector(NEW.said, 'B')
         || triage_search_vector(NEW.places, 'C');
       RETURN NEW;
       END $$""",
    """CREATE TRIGGER triage_search_kept BEFORE INSERT OR UPDATE ON triage_searchentry
       FOR EACH ROW EXECUTE FUNCTION triage_search_keep()""",
    "CREATE INDEX triage_search_words ON triage_searchentry USING gin (words)",
    "CREATE INDEX triage_search_about ON triage_searchentry USING gin (about gin_trgm_ops)",
    "CREATE INDEX triage_search_said ON triage_searchentry USING gin (said gin_trgm_ops)",
)
_POSTGRESQL_BACK = (
    "DROP TRIGGER triage_search_kept ON triage_searchentry",
    "DROP FUNCTION triage_search_keep",
    "DROP FUNCTION triage_search_vector",
)


def _run(schema_editor: Any, statements: dict[str, tuple[str, ...]]) -> None:
    for statement in statements[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def make(apps: Any, schema_editor: Any) -> None:
    _run(schema_editor, {"sqlite": _SQLITE, "postgresql": _POSTGRESQL})


def take_away(apps: Any, schema_editor: Any) -> None:
    _run(schema_editor, {"sqlite": _SQLITE_BACK, "postgresql": _POSTGRESQL_BACK})


def fill(apps: Any, schema_editor: Any) -> None:
    from triage.services.indexing import search_entries_build

    incidents, findings, entries = (apps.get_model("triage", name) for name in ("Incident", "Finding", "SearchEntry"))
    for _ in search_entries_build(incidents, findings, entries, lambda numbers: {}):
        pass


class Migration(migrations.Migration):
    dependencies = (("triage", "0003_suspect_word_and_imported"),)

    operations = (
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                (
                    "incident",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_entry",
                        serialize=False,
                        to="triage.incident",
                    ),
                ),
                ("about", models.TextField(blank=True)),
                ("said", models.TextField(blank=True)),
                ("places", models.TextField(blank=True)),
            ],
            options={"verbose_name_plural": "search entries"},
        ),
        migrations.RunPython(make, take_away),
        migrations.RemoveField(model_name="incident", name="search_text"),
        migrations.RunPython(fill, migrations.RunPython.noop),
    )
