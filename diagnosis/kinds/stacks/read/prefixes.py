"""Parts that launchers and shells add to dumps: a prefix before every line, or a heading before every process."""

from __future__ import annotations

import re
from collections.abc import Iterable

from diagnosis.knowledge.late_patterns import late

#: Prefix of every line and its rest. A label of digits is a task (a rank), any other is a host.
_LABELS: tuple[re.Pattern[str], ...] = (
    late(r"^\[pod/([^/\]\s]+)(?:/[^\]]*)?\] ?(.*)$"),  # kubectl logs --prefix
    late(r"^\[(?:[^\]\s,]*@)?\d+,(\d+)\]<std\w+>:(?: (.*))?$"),  # mpirun --tag-output: job, rank
    late(r"^\[(?:[^\]\s,]*@)?\d+,(\d+)\]<std\w+>:(.*)$"),  # the same of Open MPI < 5, without a space
    late(r"^\[rank(\d+)\]: ?(.*)$"),  # torch
    late(r"^([A-Za-z0-9][\w.\-]*)\s+\| (.*)$"),  # docker compose
    late(r"^(?=\S| *\d+: ) *([A-Za-z0-9][\w.\-]*): ?(.*)$"),  # pdsh, clush, srun --label (numbers to the right)
)
#: Share of the lines that begin with a label, from which all do.
_LABELLED_SHARE = 0.9
_NOT_LABELS = {"Error", "Reason", "warning", "Warning", "File", "Traceback", "error", "Timeout"}

RULE_LINE = late(r"^[-=_*#]{5,}$")  # also between the processes of `py-spy dump --subprocesses`
_TAIL_HEADING = late(r"^==> (.+) <==$")
_TELLING_HEADING = late(
    r"^(?:[#=\-*>\[\s]*)(?=.*\b(?:rank|host|hostname|node|pod)\b)([^()\"]{3,160}?)[#=\-*<\]\s]*$", re.IGNORECASE
)
_SAYS_RANK = late(r"\b(?:global[_ ]?)?rank\b[\s:=#_-]*(\d+)\b", re.IGNORECASE)
_SAYS_NODE = late(r"\b(?:host(?:name)?|node|pod)\b\s*[:=]?\s*([A-Za-z0-9][\w.\-]*)", re.IGNORECASE)
_NAME = r"((?=[\w.\-]*\d)[A-Za-z0-9][\w.\-]*)"
_DECORATED_NAME = late(rf"^(?:[=\-#*+]{{2,}}|>{{2,}})\s*(?:(?:pod|node)/)?{_NAME}\s*:?\s*[=\-#*+<]*$")
_ANSIBLE = late(r"^(\S+) \| [A-Z]+!?(?: \| rc=-?\d+)? (?:>>|=>)")
_PSSH = late(r"^\[\d+\] \d\d:\d\d:\d\d \[\w+\] (\S+)")
_NAME_ALONE = late(rf"^{_NAME}(?: \(\d+\))?$")  # between rules: dshbak, clush -b


def label_pattern(head: Iterable[str]) -> re.Pattern[str] | None:
    """The prefix of nine in ten lines of a sample, or None."""
    seen = [line for line in head if line.strip()]
    if not seen:
        return None
    for pattern in _LABELS:
        least_share = 1 if pattern is _LABELS[1] else _LABELLED_SHARE
        labelled = sum(_has_label(line, pattern) for line in seen)
        if labelled >= least_share * len(seen):
            return pattern
    return None


def _has_label(line: str, pattern: re.Pattern[str]) -> bool:
    found = pattern.match(line)
    return found is not None and found[1] not in _NOT_LABELS


def heading(line: str, *, after_rule: bool = False) -> dict[str, str]:
    """The content of a line between processes: ``path``, or ``rank`` and ``node``; empty if it is no heading."""
    of_tail = _TAIL_HEADING.match(line)
    if of_tail is not None:
        return _read_tail_heading(of_tail[1])
    telling = _TELLING_HEADING.match(line)
    stated = {} if telling is None else _read_telling_heading(telling[1])
    if stated:
        return stated
    of_tool = _ANSIBLE.match(line) or _PSSH.match(line)
    if of_tool is not None:
        return {"node": of_tool[1]}
    name = _DECORATED_NAME.match(line)
    if name is None and after_rule:
        name = _NAME_ALONE.match(line)
    if name is None:
        return {}
    return {"rank": name[1]} if name[1].isdigit() else {"node": name[1]}


def _read_tail_heading(name: str) -> dict[str, str]:
    """`tail` prints paths; a loop over hosts in the same format prints the host."""
    is_path = "/" in name or "." in name
    return {"path": name} if is_path else {"node": name}


def _read_telling_heading(text: str) -> dict[str, str]:
    """The rank and the node that a heading states in words."""
    stated = {"rank": _SAYS_RANK.search(text), "node": _SAYS_NODE.search(text)}
    return {what: found[1] for what, found in stated.items() if found is not None}
