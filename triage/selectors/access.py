"""Which clusters a person may see; everything else follows from a row's cluster."""

from __future__ import annotations

from typing import Any

from ingest.selectors import clusters_visible_to


def visible_cluster_ids(user: Any) -> list[int]:
    """Ids of the clusters that the user may see. At most one query per user object, then remembered on it."""
    ids: list[int] | None = getattr(user, "_visible_cluster_ids", None)
    if ids is None:
        ids = user._visible_cluster_ids = list(clusters_visible_to(user).order_by().values_list("pk", flat=True))
    return ids
