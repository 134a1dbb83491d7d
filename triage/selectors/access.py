"""Which clusters a person may see; everything else follows from a row's cluster."""

from __future__ import annotations

from typing import Any

from ingest.selectors import clusters_visible_to


def visible_clusters(user: Any) -> dict[int, str]:
    """Slugs by id of the clusters that the user may see. One query per user object, which then caches them.

    An administrator sees all; others see those of their teams and those without a team.
    """
    slugs: dict[int, str] | None = getattr(user, "_visible_clusters", None)
    if slugs is None:
        slugs = user._visible_clusters = dict(clusters_visible_to(user).order_by().values_list("pk", "slug"))
    return slugs


def visible_cluster_ids(user: Any) -> list[int]:
    """Their ids."""
    return list(visible_clusters(user))
