"""The ladder of advice: ordered rules as data (``advice.toml``), and the facts that they test.

Source: ByteRobust, arXiv 2509.16293, section 4 (figure 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from diagnosis.knowledge.knowledge_files import parsed
from diagnosis.records.tried import ACTIONS

#: Every fact that a rule may test, with its meaning.
FACTS = {
    "is_failure": "the attempt failed, hung or slowed down",
    "is_course_unknown": "nothing shows a failure, and nothing how the job went or ended",
    "symptom": "launch_failure, crash, hang, slow or none",
    "category": "first level of the taxonomy",
    "subcategory": "leaf of the taxonomy",
    "cause": "title of the category, for sentences",
    "category_advice": "what usually helps where a line states the cause, else what the taxonomy advises",
    "is_setup": "the category is that of a difference between the set-ups of nodes",
    "setup": "that difference, as a sentence",
    "confidence": "of the category, 0 to 1",
    "is_cause_known": "the category is not unknown",
    "is_machine_event": "the leaf is an event that proves a fault of the machine by itself",
    "is_network_event": "the leaf is a network event, which usually disappears",
    "is_input_error": "configuration or input",
    "is_space_error": "a disk or a quota is full",
    "is_memory_error": "memory ran out",
    "is_user_error": "an exception of user code",
    "has_worked": "the job made progress in this attempt; without a conclusion: nothing says that it did not",
    "is_to_look_up": "without a suspected machine, a look at what the category names decides most",
    "is_refusal": "the platform could not start the job",
    "is_outside": "the platform ended the job",
    "is_nan": "NaN or a jump of the loss",
    "is_silent": "hang or slow: no message names the cause",
    "is_host_code": "the stacks' outliers sit in data loading, storage or user code on their host",
    "has_stacks": "stack evidence was given",
    "stack_reason": "what it shows, as a sentence",
    "is_mismatch": "one set of ranks called another collective than all the others",
    "network_alerts": "most network alerts of one node within 300 s",
    "culprit_nodes": "nodes accused by the fused ranking, best first",
    "culprit_ranks": "ranks accused by the conclusion, in words",
    "suspect_score": "score of the first of them",
    "stack_suspects": "ranks accused by the stacks",
    "stack_who": "the same in words (rank 5; ranks 0/82)",
    "stack_nodes": "those of their nodes that the conclusion accuses",
    "evict_nodes": "nodes of the parallel group that explains the outliers",
    "is_group_due": "the whole group is accused, or evicting its accused members did not help",
    "evict_share": "their share of the job's nodes",
    "switches": "switches that are accused",
    "has_conflict": "logs and stacks accuse different nodes",
    "has_tie": "several parallel groups explain the outliers equally well",
    "tried_evict": "machines were evicted and it failed again",
    "tried_stop_time_check": "stop-time checks were run in this episode and found nothing",
    "tried_reattempt": "a restart on the same machines failed again",
    "tried_rollback": "a rollback of code failed again",
}

#: What one of them may be; a list is of machines, switches or ranks.
type FactValue = str | float | list[str] | list[int]
#: The facts about one diagnosis, by their names.
type Facts = Mapping[str, FactValue]

#: What a rule may mean for a program that restarts jobs by itself.
RESTARTS = frozenset({"continue", "restart", "stop", "stop_if_repeated", "unknown"})


class Condition(msgspec.Struct, frozen=True):
    """One test of one fact. A list or a string counts by its length in comparisons with numbers."""

    fact: str
    test: str
    value: Any
    otherwise: str
    decide: str = ""

    def holds(self, facts: Facts) -> bool:
        actual = facts.get(self.fact)
        if self.test == "is":
            return bool(actual == self.value)
        if self.test == "in":
            return bool(actual in self.value)
        number = len(actual) if isinstance(actual, (list, tuple, str)) else float(actual or 0)
        return bool(number >= self.value if self.test == "at_least" else number < self.value)


class Rule(msgspec.Struct, frozen=True):
    """One rule of the ladder."""

    id: str
    title: str
    action: str
    when: tuple[Condition, ...]
    why: str
    next: str
    source: str
    #: what a restart controller is told: a word of :data:`RESTARTS`
    restart: str
    targets: str = ""
    checks: tuple[str, ...] = ()
    #: whether the commands of the action do what ``next`` says
    has_commands: bool = True


class Ladder(msgspec.Struct, frozen=True):
    """All rules in order, with lists of leaves, checks and commands."""

    rules: tuple[Rule, ...]
    leaves: Mapping[str, frozenset[str]]
    checks: Mapping[str, Mapping[str, str]]
    commands: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)


def _condition(row: Mapping[str, Any]) -> Condition:
    tests = [t for t in ("is", "in", "at_least", "below") if t in row]
    if len(tests) != 1 or row.get("fact") not in FACTS:
        raise ValueError(f"advice.toml: a condition needs one known fact and one test, got {dict(row)!r}")
    return Condition(row["fact"], tests[0], row[tests[0]], row["else"], row.get("decide", ""))


def parse(text: str) -> Ladder:
    """Read a ladder. :raises ValueError: names the invalid rule."""
    data = parsed(text)
    rules = []
    for row in data["rule"]:
        if row["action"] not in ACTIONS:
            raise ValueError(f"advice.toml: rule {row['id']} has unknown action {row['action']!r}")
        if row.get("restart") not in RESTARTS:
            raise ValueError(f"advice.toml: rule {row['id']} has unknown restart {row.get('restart')!r}")
        rules.append(
            Rule(
                row["id"],
                row["title"],
                row["action"],
                tuple(_condition(c) for c in row["when"]),
                row["why"],
                row["next"],
                row["source"],
                row["restart"],
                row.get("targets", ""),
                tuple(row.get("checks", ())),
                row.get("has_commands", True),
            )
        )
    leaves = {k: frozenset(v) for k, v in data.items() if isinstance(v, list) and k != "rule"}
    return Ladder(tuple(rules), leaves, data.get("checks", {}), data.get("commands", {}))


@cache
def load() -> Ladder:
    """The built-in ladder."""
    return parse(resources.files("diagnosis").joinpath("advice.toml").read_text(encoding="utf-8"))
