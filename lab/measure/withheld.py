"""Removes the rules that match a job's own root lines, to simulate causes that no rule knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from diagnosis.kinds.logs.meaning.signatures import SignatureSet, load
from diagnosis.model import Role

#: Rules that know any exception by its form: they also match unknown causes.
BY_FORM = ("code.exception", "code.assertion", "code.traceback")
#: Roles of rules that know a cause; rules for consequences and ends stay.
OF_CAUSES = (Role.ROOT, Role.CONFIRMATION)


def rules_without_cause(truth: Mapping[str, Any]) -> SignatureSet | None:
    """The built-in rules without those that match a root line of the truth and know its cause; None if no rule does:
    there is nothing to measure then.
    """
    lines = [x for t in truth.get("templates") or () if t["role"] in ("root", "mixed") for x in t["examples"]]
    frame = pl.DataFrame(
        {"masked": range(len(lines)), "example": lines}, schema={"masked": pl.UInt64, "example": pl.String}
    )
    rules = load()
    # rules after a deciding one are removed too: a more general rule may know the cause as well
    orders = set(rules.match(frame, every=True)["order"].to_list())
    own = {
        s.id
        for order, s in enumerate(rules.signatures)
        if order in orders and s.role in OF_CAUSES and s.id not in BY_FORM
    }
    return SignatureSet(s for s in rules.signatures if s.id not in own) if own else None
