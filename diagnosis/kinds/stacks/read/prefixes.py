"""Parts that launchers and shells add to dumps: a prefix before every line, or a heading before every process."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Prefix of every line and its rest. A label of digits is a task (a rank), any other is a host.
_LABELS: tuple[re.Pattern[str], ...] = (
    re.compile(r"^\[pod/([^/\]\s]+)(?:/[^\]]*)?\] ?(.*)$"),  # kubectl logs --prefix
    re.compile(r"^\[(?:[^\]\s,]*@)?\d+,(\d+)\]<std\w+>:(?: (.*))?$"),  # mpirun --tag-output: job, rank
    re.compile(r"^\[(?:[^\]\s,]*@)?\d+,(\d+)\]<std\w+>:(.*)$"),  # the same of Open MPI < 5, without a space
    re.compile(r"^\[rank(\d+)\]: ?(.*)$"),  # torch
    re.compile(r"^([A-Za-z0-9][\w.\-]*)\s+\| (.*)$"),  # docker compose
    re.compile(r"^(?=\S| *\d+: ) *([A-Za-z0-9][\w.\-]*): ?(.*)$"),  # pdsh, clush, srun --label (numbers to the right)
)
_NOT_LABELS = {"Error", "Reason", "warning", "Warning", "File", "Traceback", "error", "Timeout"}

RULE_LINE = re.compile(r"^[-=_*#]{5,}$")  # also between the processes of `py-spy dump --subprocesses`
_TAIL_HEADING = re.compile(r"^==> (.+) <==$")
_TELLING_HEADING = re.compile(
    r"^(?:[#=\-*>\[\s]*)(?=.*\b(?:rank|host|hostname|node|pod)\b)([^()\"]{3,160}?)[#=\-*<\]\s]*$", re.IGNORECASE
)
_SAYS_RANK = re.compile(r"\b(?:global[_ ]?)?rank\b[\s:=#_-]*(\d+)\b", re.IGNORECASE)
_SAYS_NODE = re.compile(r"\b(?:host(?:name)?|node|pod)\b\s*[:=]?\s*([A-Za-z0-9][\w.\-]*)", re.IGNORECASE)
_NAME = r"((?=[\w.\-]*\d)[A-Za-z0-9][\w.\-]*)"
_DECORATED_NAME = re.compile(rf"^(?:[=\-#*+]{{2,}}|>{{2,}})\s*(?:(?:pod|node)/)?{_NAME}\s*:?\s*[=\-#*+<]*$")
_ANSIBLE = re.compile(r"^(\S+) \| [A-Z]+!?(?: \| rc=-?\d+)? (?:>>|=>)")
_PSSH = re.compile(r"^\[\d+\] \d\d:\d\d:\d\d \[\w+\] (\S+)")
_NAME_ALONE = re.compile(rf"^{_NAME}(?: \(\d+\))?$")  # between rules: dshbak, clush -b


def label_pattern(head: Iterable[str]) -> re.Pattern[str] | None:
    """The prefix of nine in ten lines of a sample, or None."""
    seen = [line for line in head if line.strip()]
    for pattern in _LABELS:
        labelled = sum(bool((m := pattern.match(line)) and m[1] not in _NOT_LABELS) for line in seen)
        if seen and labelled >= (1 if pattern is _LABELS[1] else 0.9) * len(seen):
            return pattern
    return None


def heading(line: str, *, after_rule: bool = False) -> dict[str, str]:
    """The content of a line between processes: ``path``, or ``rank`` and ``node``; empty if it is no heading."""
    if m := _TAIL_HEADING.match(line):
        # `tail` prints paths; a loop over hosts in the same format prints the host.
        return {"node": m[1]} if "/" not in m[1] and "." not in m[1] else {"path": m[1]}
    if m := _TELLING_HEADING.match(line):
        rank, node = _SAYS_RANK.search(m[1]), _SAYS_NODE.search(m[1])
        if rank or node:
            return ({"rank": rank[1]} if rank else {}) | ({"node": node[1]} if node else {})
    if m := _ANSIBLE.match(line) or _PSSH.match(line):
        return {"node": m[1]}
    if m := _DECORATED_NAME.match(line) or (_NAME_ALONE.match(line) if after_rule else None):
        return {"rank": m[1]} if m[1].isdigit() else {"node": m[1]}
    return {}
