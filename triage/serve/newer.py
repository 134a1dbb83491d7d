"""Whether a newer version of Faultline has migrated the database: then this version must not start on it.

Needs Django's settings and a connection, but none of its apps, because each part asks before it starts.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from django.conf import settings
from django.db import DatabaseError, connection

from triage.serve.children import ServiceError

TODO = "Install that version here, or restore the backup that was made before the upgrade."
_APPS = ("ingest", "triage")


def unknown_migration() -> str:
    """A migration that this version does not know, such as ``triage.0042_name``; empty if there is none."""
    with connection.cursor() as cursor:
        if "django_migrations" not in connection.introspection.table_names(cursor):
            return ""
        cursor.execute("SELECT app, name FROM django_migrations WHERE app IN (%s, %s) ORDER BY app, name", _APPS)
        applied = cursor.fetchall()
    known = {app: _names(app) for app in _APPS}
    return next((f"{app}.{name}" for app, name in applied if name not in known[app]), "")


def newer_sentence(migration: str) -> str:
    return f"a newer version of Faultline has migrated this database ({migration})"


def check_version() -> None:
    """Raises ServiceError if a newer version has migrated the database. Others wait for one that does not answer."""
    try:
        migration = unknown_migration()
    except DatabaseError:
        return
    if migration:
        sentence = newer_sentence(migration)
        raise ServiceError(f"{sentence[0].upper()}{sentence[1:]}. {TODO}")


def _names(app: str) -> set[str]:
    package = import_module(settings.MIGRATION_MODULES.get(app) or f"{app}.migrations")
    return {module.name for module in iter_modules(package.__path__)}
