"""Where the flows show another layout than the job states: one of the two is wrong, and the report says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from diagnosis.evidence.flow_findings import Contradiction
from diagnosis.kinds.flows.layout.stated import StatedLayout, differing_sizes, statement_of
from diagnosis.kinds.flows.tell.report_rows import FlowJobRow, FlowReport
from diagnosis.values.plain import listed

#: Groups that are named in a sentence.
_MAX_NAMED: Final = 2


def compare_stated(report: FlowReport, statements: Sequence[StatedLayout], node_of: Mapping[str, str]) -> None:
    """Adds ``stated`` to the jobs of a flow report, and a limit for each that shows other sizes or groups. ``node_of``:
    the machines of members.
    """
    largest_first = sorted(report.jobs, key=lambda job: -len(job.members))
    for number, job in enumerate(largest_first):
        one = statement_of(statements, job.nodes or job.members, is_largest=number == 0)
        if one is None or not (one.sizes or one.groups):
            continue
        job.stated = one.as_json()
        found = contradiction(one, job, node_of)
        if found is not None:
            job.apart = found
            report.limits.append(
                f"The job states {found.stated}; its flows show {found.shown}. One of them is not of this job."
            )


def contradiction(one: StatedLayout, job: FlowJobRow, node_of: Mapping[str, str]) -> Contradiction | None:
    """What a job states and what its flows show instead: sizes, else the members of groups of the same size; None if
    they agree or one is unknown.
    """
    stated = one.as_json()
    kinds = differing_sizes(stated, job.parallelism, len(job.members))
    if kinds:
        return Contradiction(_sizes_text(stated, kinds), _sizes_text(job.parallelism, kinds))
    for kind, stated_groups in one.groups.items():
        groups = [_machines(members, node_of) for members in job.groups.get(kind, [])]
        others = [group for group in groups if group not in set(stated_groups)]
        has_same_sizes = set(map(len, groups)) == set(map(len, stated_groups))
        if others and has_same_sizes:
            shown = _groups_text(sorted(others, key=sorted))
            return Contradiction(f"the {kind} groups {_groups_text(stated_groups)}", shown)
    return None


def _machines(members: Sequence[str], node_of: Mapping[str, str]) -> frozenset[str]:
    return frozenset(node_of.get(member, member) for member in members)


def _sizes_text(sizes: Mapping[str, int | None] | Mapping[str, int], kinds: Sequence[str]) -> str:
    return ", ".join(f"{kind} {sizes[kind]}" for kind in kinds)


def _groups_text(groups: Sequence[frozenset[str]]) -> str:
    """Some groups by their machines."""
    return listed([f"({' '.join(sorted(group))})" for group in groups], _MAX_NAMED)
