"""The groups of the roles, with the rights that Django's admin and the evidence layer check."""

from __future__ import annotations

from typing import Any

from django.apps import apps as installed
from django.contrib.auth.management import create_permissions, rename_permissions_after_model_rename
from django.contrib.auth.models import Group, Permission

from ingest.roles import ABILITIES


def roles_make(*, apps: Any = None, using: str = "default", **signal: Any) -> None:
    """Create missing groups. Called after each migrate, so that a flushed database has its roles again."""
    if signal.get("app_config") is not None:
        # before new permissions are made: Django's own call comes later and would find both names of a renamed model
        rename_permissions_after_model_rename(using=using, apps=apps or installed, **signal)
    for name, abilities in ABILITIES.items():
        group, _made = Group.objects.using(using).get_or_create(name=name)
        if not {"upload", "administer"} & abilities:
            continue
        for label in ("ingest", "triage") if "administer" in abilities else ("ingest",):
            create_permissions(installed.get_app_config(label), verbosity=0, using=using)
        permissions = Permission.objects.using(using).filter(content_type__app_label__in=("ingest", "triage"))
        if "administer" not in abilities:
            permissions = permissions.filter(codename="add_job", content_type__app_label="ingest")
        group.permissions.add(*permissions)
