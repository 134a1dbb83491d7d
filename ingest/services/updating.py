"""Sets columns of many rows, each to values of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import Model


def update_each(model: type[Model], names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Set the fields ``names`` of rows: each is a primary key and the values. Call it inside of a transaction, which
    then locks the rows in the order of their keys (``ingest.locks``).

    One statement, compiled once. Django's ``update`` compiles one for each row, and its ``bulk_update`` one with a
    condition for each row and field: for 16 rows 2.5 and 7 ms of processor time, this 0.3.
    """
    there = {field.name: field for field in model._meta.concrete_fields}
    fields, key = [there[name] for name in names], there[model._meta.pk.name]
    values = [
        [field.get_db_prep_save(value, connection) for field, value in zip([*fields, key], [*values, pk], strict=True)]
        for pk, *values in sorted(rows, key=itemgetter(0))
    ]
    if not values:
        return
    quoted = connection.ops.quote_name
    assignments = ", ".join(f"{quoted(str(field.column))} = %s" for field in fields)
    condition = f"{quoted(str(key.column))} = %s"
    with connection.cursor() as cursor:
        table = quoted(model._meta.db_table)
        cursor.executemany(f"UPDATE {table} SET {assignments} WHERE {condition}", values)  # noqa: S608
