"""The report's ``advice`` as records (``docs/advice.md``). It is shown, never executed."""

from __future__ import annotations

import msgspec


class AdviceCost(msgspec.Struct, frozen=True):
    """What an action costs: ``machines`` and ``gpus`` (None: unknown) that leave the job, those of
    them that are expected to be ``healthy``, and all of it in words.
    """

    machines: int
    gpus: int | None
    healthy: int
    text: str


class NearRule(msgspec.Struct, frozen=True):
    """A rule that does not hold for one or two conditions: ``missing`` says these."""

    rule: str
    title: str
    action: str
    missing: list[str]


class PassedRule(msgspec.Struct, frozen=True):
    """A rule that holds, but whose action was tried without success."""

    rule: str
    title: str
    action: str
    action_title: str


class AdvisedCheck(msgspec.Struct, frozen=True):
    """A check of the machines, with its command to copy."""

    id: str
    title: str
    command: str


class Advice(msgspec.Struct, frozen=True):
    """The next action, the rule that chose it, and why.

    ``commands``: by scheduler; ``command``: that of the job's own, empty without one. ``because``:
    sentences; ``next``: what follows if it does not help; ``nearly``: rules about the same subject
    that almost hold; ``would_decide``: evidence that would settle it.
    """

    action: str
    action_title: str
    rule: str
    title: str
    targets: list[str]
    command: str
    commands: dict[str, str]
    cost: AdviceCost
    because: list[str]
    next: str
    source: str
    nearly: list[NearRule]
    would_decide: list[str]
    passed_over: list[PassedRule]
    checks: list[AdvisedCheck]
