"""How many real failure messages match a signature, and with which role and category.

    python -m lab.measure messages [--show | --speed]

Reads ``messages.jsonl`` of the shared data (``FAULTLINE_SHARED``). The file has fewer classes and older roles than we
do, so both are mapped. ``--show`` prints differences; ``docs/signatures.md`` explains them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter

import polars as pl

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning import signatures
from lab.measure.evidence import SHARED

#: Roles of the file -> roles with the same meaning here. A "diagnostic" line only informs: it has any role except root.
ROLES = {
    "root_candidate": {"root"},
    "cascade": {"cascade"},
    "teardown": {"teardown"},
    "confirmation": {"confirmation", "root"},
    "diagnostic": {"cascade", "confirmation", "advice", "benign"},
}
#: Classes of the file -> beginnings of our category ids.
CLASSES = {
    "hardware.accelerator": ("hardware.gpu", "hardware.npu", "hardware.host.pcie"),
    "hardware.network": ("hardware.network", "network", "framework.collective"),
    "hardware.node": ("hardware", "platform.storage"),
    "hardware.storage": ("hardware.disk", "platform.storage", "framework.checkpoint", "framework.dataloader"),
    "user.config": ("user", "platform", "hardware.host.oom", "hardware.disk.full", "framework.rendezvous"),
    "user.script": ("user", "framework", "hardware.gpu.kernel"),
    "user.incompat": ("user.environment",),
    "user.misop": ("user", "platform", "hardware.disk.full", "framework.checkpoint"),
    "framework": ("framework", "user.code.native_crash"),
    "platform": ("platform", "hardware.gpu.nvswitch", "network", "user.config"),
    "any": ("",),
}


def main() -> None:
    """Print the shares of messages known, with the right role, and with a fitting category."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print every message that differs")
    parser.add_argument("--speed", action="store_true", help="match 100,000 distinct messages instead")
    arguments = parser.parse_args()
    if arguments.speed:
        speed()
        return
    show = arguments.show
    rows = [json.loads(line) for line in (SHARED / "data" / "messages.jsonl").read_text(encoding="utf-8").splitlines()]
    rules = signatures.load()
    found = rules.match_texts(row["message"] for row in rows)
    counts: Counter[str] = Counter()
    for row, rule_id in zip(rows, found, strict=True):
        rule = rules.rule(rule_id) if rule_id else None
        is_role = rule is not None and rule.role.value in ROLES[row["role"]]
        says_no_cause = rule is not None and rule.category in {taxonomy.NONE, taxonomy.UNKNOWN}
        fits = rule is not None and (says_no_cause or rule.category.startswith(CLASSES[row["l4_class"]]))
        counts.update(known=rule is not None, role=is_role, category=fits)
        if show and not (is_role and fits):
            mine = f"{rule.role.value} {rule.category} ({rule_id})" if rule else "-"
            print(f"{row['role']} {row['l4_class']} | {mine} | {row['message'][:150]}")
    for name in ("known", "role", "category"):
        print(f"{name:9} {counts[name]:4d} of {len(rows)}  {counts[name] / len(rows):.3f}")


def speed(distinct: int = 100_000) -> None:
    """Match generated messages, one in five of which matches a rule, and print CPU seconds."""
    rules = signatures.load()
    known = [text for rule in rules.signatures for text in rule.examples]
    rows = [
        f"{known[n % len(known)]} case {n}"
        if n % 5 == 0
        else f"iteration {n} of shard {n * 7919} loaded in {n % 97} ms"
        for n in range(distinct)
    ]
    frame = pl.DataFrame({"masked": range(distinct), "example": rows}, schema_overrides={"masked": pl.UInt64})
    wall, cpu = time.perf_counter(), time.process_time()
    found = rules.match(frame)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    size = f"{distinct:,} messages ({sum(map(len, rows)) / 1e6:.1f} MB)"
    print(f"{size} x {len(rules.signatures)} rules: {wall:.2f} s wall, {cpu:.2f} s CPU")
    print(f"{found.height:,} matched")
