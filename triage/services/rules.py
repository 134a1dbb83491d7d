"""The site's own signatures: written in TOML, checked before they are stored, tried on stored jobs before use."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
from django.conf import settings
from django.db import transaction

from diagnosis import taxonomy
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import Signature, SignatureError, SignatureSet
from diagnosis.kinds.logs.meaning.signatures.validate import DryRun, dry_run, validate
from diagnosis.kinds.logs.rows import stored_rows
from ingest import selectors as evidence
from ingest.models import Artifact
from triage.manual.documents import help_link
from triage.models import Activity, CustomRule
from triage.selectors.access import visible_cluster_ids

log = logging.getLogger(__name__)

#: a dry run reads this many of the newest artifacts and at most so many distinct messages
DRY_RUN_ARTIFACTS = 300
DRY_RUN_MESSAGES = 500_000

TEMPLATE = """[[signature]]
id = "site.my_rule"
title = "What it means, in a few words"
role = "root"
strength = "strong"
category = "hardware.network.adapter"
pattern = \'\'\'(?i)rdma port [0-9]+ wedged\'\'\'
advice = "What to do about it."
source = "who saw it, where"
example = "node7: RDMA port 3 wedged, reset needed"
counter = "node7: RDMA port 3 up"
"""


class RuleRefused(ValueError):
    """A refused rule; ``problems`` are sentences for its author."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def rule_check(body: str) -> Signature:
    """The one rule in ``body``.

    Raises:
        RuleRefused: it is not one readable rule, contradicts its own example, or has a built-in rule's name.
    """
    if len(body) > 20_000:
        raise RuleRefused(["The rule is longer than 20,000 characters."])
    try:
        parsed = signatures.parse(body, area="custom")
    except SignatureError as error:
        raise RuleRefused([f"The rule cannot be read: {error}."]) from error
    if len(parsed) != 1:
        raise RuleRefused([f"Write exactly one [[signature]] table; there are {len(parsed)}."])
    rule = parsed[0]
    problems = validate(rule)
    if rule.category and rule.category not in taxonomy.load():
        problems.append(f"There is no category “{rule.category}”: the list is at {help_link('categories')}.")
    if signatures.load().rule(rule.id):
        problems.append(f"“{rule.id}” is the name of a built-in rule: take another, such as site.{rule.id}.")
    if problems:
        raise RuleRefused(problems)
    return rule


@transaction.atomic
def rule_save(*, body: str, by: Any, is_active: bool = True, existing: CustomRule | None = None) -> CustomRule:
    """Store a checked rule; the next diagnosis uses it.

    Raises:
        RuleRefused: see :func:`rule_check`; or its id belongs to another rule.
    """
    rule = rule_check(body)
    twin = CustomRule.objects.filter(rule_id=rule.id).first()
    if twin and (existing is None or twin.pk != existing.pk):
        raise RuleRefused([f"There is a rule “{rule.id}” already: edit that one or take another id."])
    row = existing or CustomRule(created_by=by)
    before = {"body": row.body, "is_active": row.is_active} if existing else None
    row.rule_id, row.body, row.is_active = rule.id, body, is_active
    row.save()
    after = {"body": body, "is_active": is_active}
    Activity.objects.create(kind="rule_saved", actor=by, data={"subject": rule.id, "before": before, "after": after})
    return row


@transaction.atomic
def rule_delete(*, rule: CustomRule, by: Any) -> None:
    """Delete a rule; its text stays in the activity log."""
    Activity.objects.create(
        kind="rule_deleted", actor=by, data={"subject": rule.rule_id, "before": {"body": rule.body}}
    )
    rule.delete()


def rules_in_force() -> SignatureSet:
    """Active rules of the page, then those of FAULTLINE_RULES_FILE, then the built-in ones."""
    return signatures.load_with(rule_texts_in_force())


def rule_texts_in_force() -> tuple[str, ...]:
    """The site's own rules. A reader makes the set of them, and keeps it: to send the set takes
    longer than to use it.

    An unreadable file is logged and ignored: a diagnosis must not fail because of it.
    """
    texts = list(CustomRule.objects.filter(is_active=True).order_by("rule_id").values_list("body", flat=True))
    if settings.RULES_FILE:
        try:
            text = Path(settings.RULES_FILE).read_text(encoding="utf-8")
            signatures.parse(text, area="custom")
            texts.append(text)
        except (OSError, UnicodeDecodeError, SignatureError) as error:
            log.error("FAULTLINE_RULES_FILE is ignored: %s", error)
    return tuple(texts)


def rule_try(*, rule: Signature, user: Any) -> tuple[DryRun, int]:
    """What ``rule`` matches in the newest artifacts that ``user`` may see, and the number of these artifacts."""
    artifacts = Artifact.objects.filter(
        attempt__job__cluster__in=visible_cluster_ids(user), is_superseded=False, state=Artifact.State.PARSED
    ).exclude(parsed_key="")
    newest = list(artifacts.order_by("-pk")[:DRY_RUN_ARTIFACTS])
    with tempfile.TemporaryDirectory(prefix="faultline-rule-") as folder:
        tables, rows = [], 0
        for table in _uniques(newest, Path(folder)):
            tables.append(table)
            rows += table.height
            if rows > DRY_RUN_MESSAGES:
                break
        read = len(tables)
        schema = {"masked": pl.UInt64, "text": pl.String, "count": pl.Int64, "example": pl.String}
        messages = pl.concat(tables) if tables else pl.DataFrame(schema=schema)
    merged = messages.group_by("masked", maintain_order=True).agg(
        pl.col("text").first(), pl.col("count").sum(), pl.col("example").first()
    )
    return dry_run(rule, merged, rules_in_force()), read


def _uniques(artifacts: Iterable[Artifact], work: Path) -> Iterator[pl.DataFrame]:
    """Tables of unique messages of stored artifacts; skips artifacts without one (flows, stacks)."""
    for _, messages in evidence.messages_of(artifacts, work):
        table = stored_rows.scan(messages).select("masked", "text", "count", "example")
        yield table.with_columns(pl.col("count").cast(pl.Int64)).collect()
