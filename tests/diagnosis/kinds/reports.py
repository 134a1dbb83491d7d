"""The parts of a report as JSON, as pages read them."""

from __future__ import annotations

from typing import Any

import msgspec

from diagnosis.evidence.inventory import machine_of
from diagnosis.kinds import stacks
from diagnosis.kinds.flows.tell.engine import diagnose_flows
from diagnosis.values.plain import plain


def flows_json(*given: Any, **options: Any) -> dict[str, Any]:
    """The ``flows`` object of :func:`diagnosis.kinds.flows.tell.engine.diagnose_flows`; ``inventory``: rows of one."""
    rows = options.pop("inventory", ())
    machines = [msgspec.structs.replace(machine_of(row), ranks=tuple(row.get("ranks", ()))) for row in rows]
    report = diagnose_flows(*given, inventory=machines, **options)
    return dict(msgspec.to_builtins(report, enc_hook=plain))


def stacks_json(*given: Any, **options: Any) -> dict[str, Any]:
    """The ``stacks`` object of :func:`diagnosis.kinds.stacks.diagnose_stacks`."""
    report = stacks.diagnose_stacks(*given, **options)
    return dict(msgspec.to_builtins(report, enc_hook=plain)) if report else {}
