"""The settings of the site, with the migrations of the next version."""

from triage.settings import *  # noqa: F403

MIGRATION_MODULES = {"ingest": "scripts.next_version.ingest", "triage": "scripts.next_version.triage"}
