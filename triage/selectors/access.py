"""Which clusters a person may see; everything else follows from a row's cluster."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from ingest.models import Cluster


def visible_cluster_ids(user: Any) -> list[int]:
    """Ids of the clusters that the user may see. One query per user object, then remembered on it.

    A superuser sees all; others see those of their teams and those that no team claims.
    """
    ids: list[int] | None = getattr(user, "_visible_cluster_ids", None)
    if ids is None:
        clusters = Cluster.objects.order_by()
        if not user.is_superuser:
            clusters = clusters.filter(Q(teams=None) | Q(teams__members=user)).distinct()
        ids = user._visible_cluster_ids = list(clusters.values_list("pk", flat=True))
    return ids
