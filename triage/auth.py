"""Sign-in: Django's own backend, which also reads roles, visible clusters and the data version in the same query."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db import DEFAULT_DB_ALIAS
from django.db.models import CharField, OuterRef, Q, StringAgg, Subquery, Value
from django.db.models.functions import Cast, Concat

from ingest.models import Cluster
from ingest.roles import ABILITIES
from triage.selectors.memory import data_version

#: placeholder for the user's id in the cached statement
_SOMEBODY = -1


class Backend(ModelBackend):
    """Every page needs roles and clusters, many need the data version: one query instead of four."""

    def get_user(self, user_id: Any) -> Any:
        sql, params = _statement()
        key = get_user_model()._meta.pk.to_python(user_id)
        found = get_user_model().objects.raw(sql, [key if param == _SOMEBODY else param for param in params])
        user: Any = next(iter(found), None)
        if user is None or not self.user_can_authenticate(user):
            return None
        names = frozenset((user.group_names or "").split(",")) & ABILITIES.keys()
        user._role_names = names | {"admin"} if user.is_superuser else names
        if "admin" not in user._role_names:
            pairs = (part.partition(":") for part in sorted((user.seen_clusters or "").split(",")) if part)
            user._visible_clusters = {int(number): slug for number, _, slug in pairs}
        return user


@cache
def _statement() -> tuple[str, tuple[Any, ...]]:
    """The query as SQL, built once per process: building takes longer than the database needs to answer."""
    comma = Value(",")
    open_to = Cluster.objects.filter(Q(teams=None) | Q(teams__members=OuterRef("pk"))).order_by()
    named = Concat(Cast("pk", CharField()), Value(":"), Cast("slug", CharField()), output_field=CharField())
    seen = open_to.values(one=Value(1)).annotate(seen=StringAgg(named, comma)).values("seen")
    people = get_user_model().objects.annotate(
        seen_clusters=Subquery(seen),
        data_version=data_version(),
        group_names=StringAgg("groups__name", comma),
    )
    sql, params = people.filter(pk=_SOMEBODY).order_by().query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
    return sql, tuple(params)
