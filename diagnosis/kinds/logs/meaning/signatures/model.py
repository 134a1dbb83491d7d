"""A signature: a rule that knows the wording of one kind of message and its role in a failure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.model import Role

THRESHOLDS: Final = thresholds.of("signatures")

#: Areas of rules that do not ship with the engine.
USER_AREAS: Final = frozenset({"", "custom"})


class Strength(StrEnum):
    """How surely a matching message alone shows the cause.

    ``DECISIVE``  names the cause itself (a fallen GPU, a full disk).
    ``STRONG``    names a cause that a deeper cause may explain (an illegal memory access, a missing file).
    ``WEAK``      shows that something failed, but hardly what (any exception); it yields to every stronger root.
    """

    DECISIVE = "decisive"
    STRONG = "strong"
    WEAK = "weak"

    @property
    def weight(self) -> float:
        """Number of votes of a message of this strength in classification."""
        return float(getattr(THRESHOLDS, self.value))


class Signature(msgspec.Struct, frozen=True):
    """One ordered rule.

    ``pattern`` is a regular expression of the linear-time dialect (no look-around, no back-references), searched in
    one physical line. ``unless`` excludes matches. ``codes``: the group ``code`` of the pattern selects the rule of
    that number (Xid 79 is not Xid 43). ``yields_to`` names signatures, or prefixes ending in ``.``; if one of them is
    present, this one is a consequence. ``also`` names other possible categories of the same words. ``ends`` names the
    signatures whose complaint a line of this one withdraws. ``is_form``: the pattern knows the form of a message (any
    exception) and not its words, so that these are left to the learned model. ``blames``: whom a line of it accuses, if
    another than its category does (see ``taxonomy.toml``).
    ``subject``: its group finds in the line what the message is about, such as the port that is taken.
    ``examples`` must match and ``counters`` must not; both are tested for every rule.
    """

    id: str
    title: str
    role: Role
    category: str
    pattern: str
    advice: str
    source: str
    examples: tuple[str, ...]
    counters: tuple[str, ...]
    strength: Strength = Strength.STRONG
    unless: str = ""
    yields_to: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    is_form: bool = False
    blames: str = ""
    subject: str = ""
    codes: Mapping[str, Signature] = msgspec.field(default_factory=dict)
    area: str = ""
