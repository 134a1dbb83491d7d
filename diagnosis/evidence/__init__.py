"""The currency of the engine: what every kind of evidence produces, and the only thing that the conclusion reads.

The nouns of the engine; each means this in code, reports and documents alike.

=========== ========================================================================================
word        meaning
=========== ========================================================================================
job         one training run under its scheduler; its evidence is diagnosed together
attempt     one start of a job; a job that is started again has several
launch      one start of the processes within an attempt
process     one program on one node: a trainer, a loader, a launcher's agent
rank        a trainer's number in the job, counted over all nodes from 0
node        a machine of the job
place       a part of the job or the cluster: node, rank, device, port, link, switch
writer      the process, or the part of the system, that wrote a line
line        one line of a file, as it was written
record      one thing printed or exported: time, writer, place, level, text, fields
header      the part of a line before its message: time, writer, level
message     the text of a record without its header
template    messages that are equal but for their numbers and names
event       all records of one template in one attempt
occurrence  the lines of one writer with one message: how many, the first, the last, their times
point       one line of progress: a counter, its value and its time
rule        a row of the tables of messages: words, and what they mean (signature)
role        what an event is to the failure: root, cascade, confirmation, teardown, benign
level       how severe its writer calls a record
fact        what one report says of one place: property, value, line ("gpu-19 mlx5_2: rate 100")
flow        the traffic of two addresses in a period, as a switch or a host exported it
unit        a ring or pair of members that exchange data in a step of training
step        one iteration of training
stage       what a job does at a time: start, training, checkpoint, evaluation
lane        a row of a timeline: a node, a rank, a place
stack       the calls in which a thread of a process stands
group       ranks with equal stacks, or the ranks of one parallel dimension
layout      the sizes and the order of the parallel dimensions of a job
hint        one reason for a category or a place, with a weight
clue        a hint for a node, found by a detector
finding     a claim with its place, moment, strength and evidence
suspect     a place that may be the reason, with a score
conclusion  the one answer of all findings: condition, category, places, moment
=========== ========================================================================================

The conclusion (``diagnosis.conclusion``, ``joining``, ``advising``) imports the types of this package and no kind of
evidence.
"""

from diagnosis.evidence.accused import Suspect
from diagnosis.evidence.check_results import SETUP_CHECK, Check, Outcome, Result
from diagnosis.evidence.claims import COURSE_KINDS, FINDING_KINDS, Finding, Reference
from diagnosis.evidence.decoding import decode
from diagnosis.evidence.facts import MAX_FACTS, NO_FACTS, Fact, FactSummary, number_of
from diagnosis.evidence.flow_findings import FlowFinding, FlowJob, Interval, SilentMember, SlowFinding
from diagnosis.evidence.measures import MAX_VALUES, Measure
from diagnosis.evidence.place_names import PLACE_KINDS, Place
from diagnosis.evidence.stack_findings import StackFinding, StackGroup

__all__ = [
    "COURSE_KINDS",
    "FINDING_KINDS",
    "MAX_FACTS",
    "MAX_VALUES",
    "NO_FACTS",
    "PLACE_KINDS",
    "SETUP_CHECK",
    "Check",
    "Fact",
    "FactSummary",
    "Finding",
    "FlowFinding",
    "FlowJob",
    "Interval",
    "Measure",
    "Outcome",
    "Place",
    "Reference",
    "Result",
    "SilentMember",
    "SlowFinding",
    "StackFinding",
    "StackGroup",
    "Suspect",
    "decode",
    "number_of",
]
