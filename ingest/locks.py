"""Locks of rows, and the one order in which transactions take them.

A transaction that changes rows of several tables takes their locks in this order, so that no two ever wait for each
other:

1. ``Job``
2. ``Run``, then ``Upload`` or ``Watch``, then ``Artifact``
3. ``Incident``
4. ``Route``
5. ``Reference``, ``Delivery``

Several rows of one table are locked, and inserted where a unique column may refuse them, in the order of that column
or of their keys. A row of another table (a cluster, a node, a team) is never locked.

PostgreSQL locks by itself: a foreign key that is written locks the row that it names, at the end of the transaction,
against deletion and changes of the key. ``no_key`` locks rows that keep their key, which such a lock does not wait for:
a diagnosis that writes messages for a route never waits for the worker that records what became of the earlier ones.
"""

from __future__ import annotations

from django.db.models import Manager, Model, QuerySet


def lock_rows[M: Model](rows: Manager[M] | QuerySet[M]) -> QuerySet[M]:
    """The same rows with current values, locked until the transaction ends, in the order of their keys.

    Rows that ``select_related`` adds are not locked. SQLite has no locks of rows: a transaction there is alone from its
    begin on.
    """
    return rows.select_for_update(of=("self",), no_key=True).order_by("pk")
