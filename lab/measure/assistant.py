"""Time and size of what assistants read: each tool's 95th percentile over a database of many incidents.

``python -m lab.measure assistant [DATABASE] [--calls N]`` asks each tool N times through the SDK's client, over a copy
of an SQLite database of a site or over a generated one. Targets: 300 ms, 25 kB.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from pathlib import Path
from typing import Any

from lab.measure.search import prepare
from scripts.scratch import scratch_site

QUERIES = (
    "",
    "category:hardware",
    "is:unreviewed category:network",
    "node:gpu-*",
    "timeout",
    "confidence:<0.5 is:open",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path, nargs="?", help="default: generate one")
    parser.add_argument("--incidents", type=int, default=100_000, help="of the generated database")
    parser.add_argument("--findings", type=int, default=10, help="an incident of it")
    parser.add_argument("--calls", type=int, default=60)
    args = parser.parse_args()
    with scratch_site(args.database):
        if args.database is None:
            prepare(args)
        return _measure(args.calls)


def _measure(calls: int) -> int:
    import anyio

    logging.disable(logging.WARNING)  # there is no cache: each page is computed
    from django.contrib.auth import get_user_model
    from mcp import Client

    from ingest.services import token_create
    from triage.assistant import mcp_server
    from triage.models import Incident, Suspect

    user = get_user_model().objects.create_superuser("measure")
    _, secret = token_create(user=user, name="measure", scopes=["read"])
    numbers = list(Incident.objects.values_list("pk", flat=True))
    nodes = list(Suspect.objects.exclude(node=None).values_list("entity", flat=True)[:1000]) or ["none"]
    jobs = list(Incident.objects.values_list("job__slug", flat=True)[:1000])
    draw = random.Random(1)
    tools: dict[str, Any] = {
        "search_incidents": lambda: {"query": draw.choice(QUERIES), "limit": 25},
        "get_incident": lambda: {"number": draw.choice(numbers)},
        "get_evidence": lambda: {"number": draw.choice(numbers)},
        "similar_incidents": lambda: {"number": draw.choice(numbers)},
        "get_node": lambda: {"name": draw.choice(nodes)},
        "compare_job": lambda: {"job": draw.choice(jobs)},
    }
    print(f"{len(numbers):,} incidents, {calls} calls a tool")
    print(f"{'tool':20} {'p50 ms':>8} {'p95 ms':>8} {'max ms':>8} {'p95 CPU ms':>11} {'max kB':>7}  errors")

    async def ask() -> bool:
        is_fine = True
        async with Client(mcp_server.server_of(secret=secret)) as client:
            for tool, given in tools.items():
                took, cpu, sizes, errors = [], [], [0], 0
                for _ in range(calls):
                    args, began, used = given(), time.perf_counter(), time.process_time()
                    result = await client.call_tool(tool, args)
                    took.append((time.perf_counter() - began) * 1000)
                    cpu.append((time.process_time() - used) * 1000)
                    errors += bool(result.is_error)
                    sizes.append(len(json.dumps(json.loads(result.content[0].text)) if not result.is_error else ""))
                took.sort()
                cpu.sort()
                p95 = took[int(len(took) * 0.95) - 1]
                is_fine &= p95 < 300 and max(sizes) < 25_000
                kb = max(sizes) / 1000
                times = f"{took[len(took) // 2]:8.0f} {p95:8.0f} {took[-1]:8.0f} {cpu[int(len(cpu) * 0.95) - 1]:11.0f}"
                print(f"{tool:20} {times} {kb:7.1f}  {errors}")
        return is_fine

    return 0 if anyio.run(ask) else 1


if __name__ == "__main__":
    raise SystemExit(main())
