"""What was told of jobs."""

from __future__ import annotations

from ingest.models import Upload
from ingest.services import resuming


def told() -> list[str]:
    """The lines of all growing files, by attempt."""
    return [
        line
        for upload in Upload.objects.order_by("attempt__number")
        for line in resuming.part_path_of(upload).read_text().splitlines()
    ]
