"""Results of checks: the check, its outcome, and the machine, switch or link that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

#: Likelihood ratio from which one outcome alone shows a fault: with the prior of a machine without other evidence (.05)
#: it becomes more probable than not from about 20 on, and a candidate from half of that.
MIN_FAULT_RATIO: Final = 10.0
#: The check of results that compare set-ups (:mod:`diagnosis.facts.setups`).
SETUP_CHECK: Final = "setup"


class Outcome(msgspec.Struct, frozen=True):
    """A possible outcome of a check. ``ratio``: its likelihood ratio for a faulty machine against a healthy one;
    ``categories``: the same for categories by the beginning of their id; ``adds``: the leaf to add if no alternative
    begins so. ``pattern`` None: its output is not recognised, a person reports it.
    """

    id: str
    says: str
    ratio: float
    pattern: re.Pattern[str] | None = None
    categories: Mapping[str, float] = msgspec.field(default_factory=dict)
    adds: str = ""


class Check(msgspec.Struct, frozen=True):
    """One check. ``about``: beginnings of the categories it decides on; ``conditions``: empty for any; ``needs``: the
    fact that is needed to name its target (node, rank or other, a second suspect). ``link_command``, ``link_cost``: the
    same for a switch or the link between two; empty: the check says nothing about those.
    """

    id: str
    title: str
    command: str
    cost: str
    cost_s: float
    needs: str
    about: tuple[str, ...]
    conditions: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    sign: re.Pattern[str] | None = None
    examples: Mapping[str, str] = msgspec.field(default_factory=dict)
    counter: str = ""
    link_command: str = ""
    link_cost: str = ""
    #: the ``what`` of its findings; not "check" where places are compared and no tool is quoted
    finding: str = "check"

    @property
    def is_comparison(self) -> bool:
        return self.finding != "check"


class Result(msgspec.Struct, frozen=True):
    """The result of one output. ``target``: the machine, switch or link that was checked, empty if it is not known, and
    its ``kind``; ``line`` 1-based, ``words`` as written there. ``is_of_run``: of a run that ended so, such as a test
    of the network, not of a part's state. ``is_former``: of the time before what it is about
    began again. ``is_end``: a process of the job ended so. ``iteration``: from which on the job's
    progress shows it.
    """

    check: Check
    outcome: Outcome
    path: str
    line: int
    words: str
    target: str = ""
    kind: str = "node"
    is_of_run: bool = False
    is_former: bool = False
    is_end: bool = False
    iteration: int | None = None

    def as_remark(self) -> Result:
        """The same words as evidence for or against nothing."""
        return replace(self, outcome=replace(self.outcome, ratio=1.0, categories={}, adds=""))

    @property
    def is_fault(self) -> bool:
        """Whether it alone shows that something is broken."""
        outcome = self.outcome
        strength = max(outcome.ratio, outcome.categories.get(outcome.adds, 0.0))
        return bool(outcome.adds) and strength >= MIN_FAULT_RATIO

    @property
    def headline(self) -> str:
        """The result as the answer: who, what, and the words that show it."""
        says = self.outcome.says
        if self.check.is_comparison:
            return self.sentence
        who = f"{self.target}: {says}" if self.target else f"{says[:1].upper()}{says[1:]}"
        return f"{who} ({self.check.title}: “{self.words}”)." if self.words else f"{who} ({self.check.title})."

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.check.is_comparison:
            return self._compared
        where = f" on {self.target}" if self.target else ""
        quoted = f": “{self.words}”" if self.words else ""
        return f"{self.check.title}{where}: {self.outcome.says}{quoted}."

    @property
    def _compared(self) -> str:
        """Who differs, in what, and both values."""
        says = self.outcome.says
        who = f"{self.target} {says}" if self.target else f"{says[:1].upper()}{says[1:]}"
        return f"{who} ({self.words})." if self.words else f"{who}."
