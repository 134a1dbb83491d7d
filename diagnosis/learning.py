"""What a healthy job prints and states, for the comparison of others with it (:mod:`history`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from diagnosis.evidence import Fact, Place, inventory
from diagnosis.facts import setups
from diagnosis.history import JobEvents
from diagnosis.kinds import kind_table
from diagnosis.kinds.logs.meaning import event_words, hosts, signatures
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.kinds.logs.rows.events import log_artifacts
from diagnosis.model import JobHints, Level, Parsed, Role

#: Maximum number of distinct messages of one job; the most frequent are kept. Rarer messages are
#: noise.
MAX_TEXTS_PER_JOB: Final = 20_000


def learn(parsed: Sequence[Parsed], *, job_id: str = "", family: str = "", framework: str = "") -> JobEvents:
    """The event table of one healthy job, from its parsed artifacts; its framework is derived from them if unknown.

    Cost: one pass over the tables of unique messages and over the time columns; never over raw lines.
    """
    logs = log_artifacts(parsed)
    nodes = {s.node for p in logs for s in p.sources if s.node}
    framework = framework or inventory.read(parsed, JobHints()).framework
    if not framework:
        examples = stored_rows.read([stored_rows.messages_of(p) for p in logs], ("example",))["example"]
        framework = event_words.first_row(examples, "frameworks") or "unknown"
    counts: dict[str, int] = {}
    for p in logs:
        table = stored_rows.read([stored_rows.messages_of(p)], ("text", "count"))
        for text, n in zip(hosts.hide_hosts(table["text"], nodes), table["count"], strict=True):
            counts[text] = counts.get(text, 0) + int(n)
    most = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:MAX_TEXTS_PER_JOB]
    return JobEvents(
        job_id,
        dict(sorted(most)),
        family,
        framework,
        max(len(nodes), 1),
        _hours(logs),
        _ended_at(logs),
        setups.usual_setup([*kind_table.facts(parsed), *_stated_facts(logs)]),
    )


def _stated_facts(logs: Sequence[Parsed]) -> Iterator[tuple[str, Fact]]:
    """What the messages of each file state of a set-up. The file stands for its machine."""
    for p in logs:
        for example in stored_rows.read([stored_rows.messages_of(p)], ("example",))["example"]:
            for name, value in setups.stated_in(example):
                yield p.path, Fact.of(Place("node", p.path), (name,), value)


def unexplained_errors(parsed: Sequence[Parsed]) -> list[str]:
    """Distinct messages of level error or worse that no built-in rule calls harmless, the first example of each.

    Cost: one search over the distinct messages of that level.
    """
    found: list[str] = []
    rules = signatures.load()
    for p in log_artifacts(parsed):
        table = stored_rows.read([stored_rows.messages_of(p)], ("masked", "text", "example", "level"))
        errors = table.filter(pl.col("level") >= int(Level.ERROR))
        harmless = rules.match(errors).filter(pl.col("role").is_in([Role.BENIGN, Role.ADVICE]))
        found += errors.filter(~pl.col("masked").is_in(harmless["masked"].implode()))["example"].to_list()
    return found


def _ended_at(logs: Sequence[Parsed]) -> float:
    """The last time of all files, in seconds since the epoch; 0 without one."""
    last = pl.col("time").max()
    found = [stored_rows.scan(stored_rows.lines_of(p)).select(last).collect().item() for p in logs]
    return max((ns for ns in found if ns is not None), default=0) / 1e9


def _hours(logs: Sequence[Parsed]) -> float:
    """Longest span of one file's times in hours: files of other zones must not stretch it."""
    span = pl.col("time").max() - pl.col("time").min()
    found = [stored_rows.scan(stored_rows.lines_of(p)).select(span).collect().item() for p in logs]
    return max((ns for ns in found if ns is not None), default=0) / 3.6e12
