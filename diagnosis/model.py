"""The input and output types of the engine, shared by parsing, diagnosis and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

#: The stages of a job, in order; a diagnosis names the one in which it failed.
STAGES: Final = (
    "launch",
    "rendezvous",
    "model_build",
    "checkpoint_load",
    "training",
    "evaluation",
    "checkpoint_save",
    "shutdown",
)
#: The symptoms of a failure.
SYMPTOMS: Final = ("launch_failure", "crash", "hang", "slow", "none")


class Kind(StrEnum):
    """The kind of an artifact, from its content."""

    LOG = "log"
    KERNEL = "kernel"
    SCHEDULER = "scheduler"
    FLOW = "flow"
    STACK = "stack"
    INVENTORY = "inventory"
    LAYOUT = "layout"
    STATE = "state"
    OTHER = "other"


def kind_named(name: str) -> str:
    """The member of :class:`Kind` with this value; ``name`` itself for the kinds that only the table knows."""
    return Kind(name) if name in Kind else name


#: The kind of the alarm that a job makes no progress (:mod:`diagnosis.live.watches.hang`).
HANG_ALARM: Final = "hang"

#: The kinds whose lines are read as logs.
LOG_KINDS: Final = (Kind.LOG, Kind.KERNEL, Kind.SCHEDULER)


class Level(IntEnum):
    """Severity of a log line; ``NONE`` if the line states none."""

    NONE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5


class Role(StrEnum):
    """The role of an event in a failure."""

    ROOT = "root"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONFIRMATION = "confirmation"
    ADVICE = "advice"
    BENIGN = "benign"


class Source(msgspec.Struct, frozen=True):
    """The writer of a line: a node and, if known, a global rank or a rank's number on its node.

    ``how`` is the place it was read from (``path``, ``prefix``, ``line``, ``inventory``; empty: unknown),
    ``confidence`` in [0, 1].
    """

    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    how: str = ""
    confidence: float = 0.0
    label: str | None = None  # the word before the line, whether or not it is used as the node
    rank_how: str = ""  # the source of the rank: ``path``, ``line``, ``task``, empty without


class AlarmNote(msgspec.Struct, frozen=True):
    """An alarm of a job while it runs, in a sentence. ``kind``: of :mod:`diagnosis.live.watches`. Times are seconds
    since the epoch; ``until`` is None while it holds; ``ended_at``: when the job ended although it held.
    """

    kind: str
    text: str
    since: float
    until: float | None = None
    category: str = "unknown"
    ended_at: float | None = None


class JobHints(msgspec.Struct, frozen=True):
    """Facts about the job from a person or an inventory file. Everything is optional."""

    job_id: str = ""
    name: str = ""
    family: str = ""
    framework: str = ""
    nodes: tuple[str, ...] = ()
    world_size: int | None = None
    layout: dict[str, Any] = msgspec.field(default_factory=dict)  # {"tp": 8, "pp": 2, "dp": 4, "order": "tp-dp-pp"}
    time_zone: str = "UTC"
    started_at: float | None = None
    ended_at: float | None = None
    outcome: str = ""
    alarms: tuple[AlarmNote, ...] = ()


class ParseHints(msgspec.Struct, frozen=True):
    """Facts that the caller knows about one artifact, or one byte range of it, before parsing.

    A huge plain file is parsed as several ranges cut at line boundaries (``offset``: the begin of this range) and
    joined by :func:`diagnosis.merge`. ``head``: the first bytes of the file of a range, which show how it is read;
    without them a range is a log in UTF-8.
    """

    attempt: int = 0
    time_zone: str = "UTC"
    kind: str | None = None
    offset: int = 0
    bytes_total: int | None = None
    node: str | None = None
    head: bytes = b""


class Part(msgspec.Struct, frozen=True):
    """One log's rows in tables that hold several logs': number ``number`` of them; its lines from row ``line`` on, and
    ``messages`` rows of messages from row ``message`` on.
    """

    number: int
    line: int
    message: int
    messages: int


class Parsed(msgspec.Struct, frozen=True):
    """The result of parsing one artifact. Large tables are separate Parquet files, never in memory.

    ``columns``  logs: one row a line (see ``tables.COLUMNS``); flows: one row a record.
    ``uniques``  logs: one row a distinct masked message (see ``tables.UNIQUES``).
    ``occurrences``  large logs, and small ones with common tables: what :mod:`occurrences` makes of
                 ``columns``; None: not yet counted.
    ``part``     logs: which rows of the tables are this artifact's; None: all.
    ``facts``    JSON-able: facts about the job (framework, configuration, inventory rows, stacks …).
    """

    path: str
    kind: str
    sha256: str = ""
    bytes: int = 0
    lines: int = 0
    skipped: str | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    columns: Path | None = None
    uniques: Path | None = None
    occurrences: Path | None = None
    part: Part | None = None


class ReadRange(Protocol):
    """Reads ``length`` bytes of the artifact ``path`` from ``offset`` on."""

    def __call__(self, path: str, offset: int, length: int) -> bytes: ...


class Aside(Protocol):
    """Does a pure function of arguments that can be pickled in another process, or in this one once its result is
    wanted: returns what waits for the result. Like ``functools.partial``, which does the latter.
    """

    def __call__(self, function: Callable[..., Any], /, *args: Any) -> Callable[[], Any]: ...


class Runner(Protocol):
    """Does parts of the records elsewhere, from the call on: the packed answer of
    :func:`partitions.run_part` for each of ``parts``, in their order. Every process that does a part
    must see ``folder``, where the columns are. ``is_far``: some are on other machines, which see what a mapped file
    holds only once it is written through.
    """

    @property
    def is_far(self) -> bool: ...

    def __call__(self, function: str, parts: Sequence[bytes], folder: Path) -> Iterator[bytes]: ...


#: ``on_stage(stage, done, total)``: reports progress.
OnStage = Callable[[str, int, int], None]


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignores progress."""
