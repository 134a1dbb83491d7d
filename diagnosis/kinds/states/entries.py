"""What every shape of a state report is turned into."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: Levels of nesting that are followed.
MAX_DEPTH: Final = 24
#: Characters of one line that are read.
MAX_LINE_CHARS: Final = 4_000
#: A label of a sample, and those that name its place.
LABEL: Final = re.compile(r'([A-Za-z_]\w{0,100})="((?:[^"\\]|\\.){0,300})"')
NODE_LABELS: Final = ("hostname", "node", "nodename", "kubernetes_node", "host", "instance")
#: Labels that name a state, of which the sample says whether it holds.
STATE_LABELS: Final = ("state", "status", "phase", "condition", "health")
PART_LABELS: Final = ("mountpoint", "gpu", "device", "port", "interface")


class Entry(NamedTuple):
    """One property as it was found. ``node`` is empty where the report does not name the
    machine; ``kind`` is the word of a table for its objects.
    """

    path: tuple[str, ...]
    value: str
    line: int
    part: str = ""
    node: str = ""
    kind: str = ""
