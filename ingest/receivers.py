"""Receivers of signals, connected when Django is ready."""

from django.db.models.signals import post_delete

from ingest.models import Artifact
from ingest.services.column_files import column_files_delete

post_delete.connect(column_files_delete, sender=Artifact, dispatch_uid="ingest.column_files")
