"""Evidence beyond the quota of its job's team is refused before its bytes are stored."""

from __future__ import annotations

from ingest import selectors
from ingest.refusals import Refused


def quota_check(job_id: int, size_bytes: int = 0) -> None:
    """Raises :class:`Refused` (507) if the job's team may not hold so many bytes more. Senders that follow files keep
    them and try again.
    """
    quota = selectors.quota_of(job_id)
    if quota is None or (quota.held_bytes < quota.max_bytes and quota.held_bytes + size_bytes <= quota.max_bytes):
        return
    room = f"{quota.held_bytes:,} of the {quota.max_bytes:,} bytes of evidence that they may hold"
    more = f", and this would be {size_bytes:,} more" if quota.held_bytes < quota.max_bytes else ""
    sentence = f"The jobs of team {quota.team} hold {room}{more}. Delete old jobs, or ask an administrator for more."
    raise Refused(sentence, code="team_quota", status=507)
