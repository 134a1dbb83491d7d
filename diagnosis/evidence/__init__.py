"""The currency of the engine: what every kind of evidence produces, and the only thing that the conclusion reads.

The nouns of the engine; each means this in code, reports and documents alike.

=========== =================================================================================
The conclusion (``diagnosis.conclusion``, ``advice``, ``localize``) imports the types of this package and no kind of
evidence.
"""

from diagnosis.evidence.accused import Suspect
from diagnosis.evidence.check_results import Check, Outcome, Result
from diagnosis.evidence.claims import FINDING_KINDS, Finding
from diagnosis.evidence.decoding import decode
from diagnosis.evidence.facts import MAX_FACTS, Fact, FactSummary, number_of
from diagnosis.evidence.flow_findings import FlowFinding, FlowJob, Interval, SilentMember, SlowFinding
from diagnosis.evidence.place_names import PLACE_KINDS, Place
from diagnosis.evidence.stack_findings import StackFinding, StackGroup

__all__ = [
    "FINDING_KINDS",
    "MAX_FACTS",
    "PLACE_KINDS",
    "Check",
    "Fact",
    "FactSummary",
    "Finding",
    "FlowFinding",
    "FlowJob",
    "Interval",
    "Outcome",
    "Place",
    "Result",
    "SilentMember",
    "SlowFinding",
    "StackFinding",
    "StackGroup",
    "Suspect",
    "decode",
    "number_of",
]
