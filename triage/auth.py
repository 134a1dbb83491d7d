"""Signing in: Django's own, with the person's roles and visible clusters read by one query."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db.models import CharField, OuterRef, Q, StringAgg, Subquery, Value
from django.db.models.functions import Cast

from ingest.models import Cluster
from ingest.roles import ABILITIES


class Backend(ModelBackend):
    """Every page asks for roles and clusters; asking with the user saves two queries on each."""

    def get_user(self, user_id: Any) -> Any:
        comma = Value(",")
        open_to = Cluster.objects.filter(Q(teams=None) | Q(teams__members=OuterRef("pk"))).order_by()
        ids = open_to.values(one=Value(1)).annotate(ids=StringAgg(Cast("pk", CharField()), comma)).values("ids")
        user: Any = (
            get_user_model()
            .objects.annotate(seen_clusters=Subquery(ids), group_names=StringAgg("groups__name", comma))
            .filter(pk=user_id)
            .first()
        )
        if user is None or not self.user_can_authenticate(user):
            return None
        names = frozenset((user.group_names or "").split(",")) & ABILITIES.keys()
        user._role_names = names | {"admin"} if user.is_superuser else names
        if "admin" not in user._role_names:
            user._visible_cluster_ids = sorted({int(part) for part in (user.seen_clusters or "").split(",") if part})
        return user
