"""All rows of the database as one compressed file of JSON lines, the same for SQLite and PostgreSQL.

A backup of one database can be restored into the other, and into a later version of Faultline: rows are loaded into the
tables as they were at the backup, then the migrations follow.

Lines: ``{"table": "ingest.job", "fields": ["id", …]}``, then one list of values for each row, then ``{"rows": 17}``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from django.apps import apps as installed
from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model

_BATCH_ROWS = 1000
type Key = tuple[str, str]


class UnusableBackup(Exception):
    """The backup cannot be restored here; the text says why and what to do."""


def rows_write(path: Path, registry: Any = installed) -> dict[str, int]:
    """Write all rows of one moment; returns the number of rows by table. Writers of the site do not wait.

    ``registry`` has the models of the tables as they are.

    O(rows) in time, one batch in memory.
    """
    counts = {}
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file, zstandard.ZstdCompressor(level=6).stream_writer(file) as out, _snapshot():
        for model in _tables(registry.get_models(include_auto_created=True)):
            names = [field.attname for field in model._meta.concrete_fields]
            out.write(encode({"table": model._meta.label_lower, "fields": names}) + b"\n")
            count = 0
            rows = model._base_manager.order_by("pk").values_list(*names)
            for row in rows.iterator(chunk_size=_BATCH_ROWS):
                out.write(encode(row) + b"\n")
                count += 1
            out.write(encode({"rows": count}) + b"\n")
            counts[model._meta.label_lower] = count
    return counts


@contextlib.contextmanager
def _snapshot() -> Iterator[None]:
    """A transaction that sees the rows of one moment and blocks no writer."""
    if connection.in_atomic_block:  # a test
        yield
    elif connection.vendor == "sqlite":
        with connection.cursor() as cursor:  # Django's own transactions take the lock of writers
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield


def migrations_applied() -> list[Key]:
    return sorted(MigrationExecutor(connection).loader.applied_migrations)


def is_complete() -> bool:
    """Whether the tables are those of this version."""
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


def rows_read(path: Path, migrations: list[Key]) -> dict[str, int]:
    """Replace all rows of this database by those of a backup; returns their number by table.

    ``migrations`` are those that the backup's database had. All rows come in one transaction: after an error the
    database has no rows.

    Raises:
        Unusable: a newer version or another set of apps made the backup, or the file is incomplete.
    """
    executor = _executor(set(migrations))
    unknown = [key for key in migrations if key not in executor.loader.disk_migrations]
    if unknown:
        app, name = unknown[0]
        raise UnusableBackup(
            f"The backup has the migration {app}.{name}, which this installation does not know: install the version "
            "that made the backup, with the same extras and sign-in settings."
        )
    _delete_all_rows()
    targets = leaves(executor, set(migrations))
    executor.migrate(targets)
    executor = _executor(set(migrations))  # it has read what is applied now
    state = executor.loader.project_state(targets)
    models = {model._meta.label_lower: model for model in _tables(state.apps.get_models(include_auto_created=True))}
    with transaction.atomic():
        for model in models.values():  # what migrating has made
            model._base_manager.all().delete()
        counts = _load(path, models)
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), list(models.values())):
                cursor.execute(statement)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    ContentType.objects.clear_cache()
    return counts


def leaves(executor: MigrationExecutor, known: set[Key]) -> list[Any]:
    """The last ones of these migrations in each app; for an app without any, its state before the first."""
    graph = executor.loader.graph
    known &= graph.nodes.keys()
    later = {key: {node.key for node in _children(graph, key) if node.key[0] == key[0]} & known for key in known}
    none = {key[0] for key in graph.leaf_nodes()} - {key[0] for key in known}
    return sorted(key for key in known if not later[key]) + [(app, None) for app in sorted(none)]


def _children(graph: Any, key: Key) -> set[Any]:
    children: set[Any] = graph.node_map[key].children
    return children


def _executor(applied: set[Key]) -> MigrationExecutor:
    """Knows the single steps that a squashed migration replaces if a database has applied some of these alone."""
    executor = MigrationExecutor(connection)
    loader = executor.loader
    if any(key not in applied and applied & set(one.replaces) for key, one in loader.replacements.items()):
        loader.replace_migrations = False  # type: ignore[attr-defined]  # stubs lack it
        loader.build_graph()
    return executor


def _delete_all_rows() -> None:
    """Remove all rows, before tables are migrated to the backup's version, also backwards."""
    executor = MigrationExecutor(connection)
    if not executor.loader.applied_migrations:
        return
    state = executor.loader.project_state(leaves(executor, set(executor.loader.applied_migrations)))
    with transaction.atomic():
        for model in _tables(state.apps.get_models(include_auto_created=True)):
            model._base_manager.all()._raw_delete(using=connection.alias)


def _tables(models: Any) -> list[type[Model]]:
    return [model for model in models if model._meta.managed and not model._meta.proxy]


def _load(path: Path, models: dict[str, type[Model]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        lines = _lines(stream)
        for line in lines:
            head = decode(line)
            model = models[head["table"]]
            counts[head["table"]] = _load_table(model, head["fields"], lines, decode)
    return counts


def _load_table(model: type[Model], names: list[str], lines: Iterator[bytes], decode: Any) -> int:
    """Insert rows with one prepared statement, without making a model of each."""
    fields = {field.attname: field for field in model._meta.concrete_fields}
    for field in fields.values():
        field.auto_now = field.auto_now_add = False  # type: ignore[attr-defined]  # a restore keeps times
    chosen = [fields[name] for name in names]
    quoted = connection.ops.quote_name
    columns = ", ".join(quoted(str(field.column)) for field in chosen)
    places = ", ".join(["%s"] * len(chosen))
    insert = f"INSERT INTO {quoted(model._meta.db_table)} ({columns}) VALUES ({places})"  # noqa: S608  # our own names

    def stored(field: Any, value: Any) -> Any:
        return field.get_db_prep_save(None if value is None else field.to_python(value), connection)

    count = 0
    batch: list[list[Any]] = []
    with connection.cursor() as cursor:
        for line in lines:
            row = decode(line)
            if isinstance(row, dict) or len(batch) == _BATCH_ROWS:
                if batch:
                    cursor.executemany(insert, batch)
                count += len(batch)
                batch.clear()
            if isinstance(row, dict):
                if row["rows"] != count:
                    label = model._meta.label_lower
                    raise UnusableBackup(f"{label} should have {row['rows']} rows, the backup has {count}.")
                return count
            batch.append([stored(field, value) for field, value in zip(chosen, row, strict=True)])
    raise UnusableBackup(f"The backup ends within {model._meta.label_lower}: the file is incomplete.")


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    try:
        while block := stream.read(1 << 20):
            *whole, rest = (rest + block).split(b"\n")
            yield from whole
    except zstandard.ZstdError as error:
        raise UnusableBackup(f"The backup's file of rows is damaged: {error}") from error
    if rest:
        raise UnusableBackup("The backup's file of rows is incomplete.")
