"""The writer of a line: its node and rank, from the path, a prefix or the line itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.model import Source
from diagnosis.values import numbers

THRESHOLDS: Final = thresholds.of("sources")

_RANK = re.compile(r"(?:^|[-_./])(?:global[-_]?)?ran[kg][-_.]?(\d{1,7})(?![\d])", re.IGNORECASE)
_ATTEMPT = re.compile(r"^attempt_(\d{1,9})$")
_KERNEL_TAIL = re.compile(
    r"[-_.](?:dmesg|kern(?:el)?|syslog|messages|journal|var-log)$|^(?:dmesg|kern(?:el)?|syslog|journal)[-_.]",
    re.IGNORECASE,
)
#: Suffixes that number the writers of one machine ("cn17-task2", "node3_rank21").
_WRITER_TAIL = re.compile(r"[-_.](?:local[-_]?|global[-_]?)?(?:rank|task|proc|process)[-_.]?\d{1,7}$", re.IGNORECASE)
_EXTENSION = re.compile(
    r"[-_]json(?=\.log$|$)|\.(?:log|logfmt|txt|out|err|gz|bz2|xz|zst|zstd|json|jsonl|ndjson|dmesg|journal|syslog|messages"
    r"|kern|events|stdout|stderr|\d{1,2})$",
    re.IGNORECASE,
)
_HOST = re.compile(r"^[A-Za-z][A-Za-z0-9]*+(?:[-_.][A-Za-z0-9]++)*+$")
_HOST_WORD = re.compile(
    r"(?:^|[-_.\d])(?:node|host|hgx|dgx|gpu|npu|worker|compute|cn|server|srv|ip|nid|gke|aks|hpc)(?=[-_.\d]|$)",
    re.IGNORECASE,
)
_IPV4 = re.compile(r"^(?:\d{1,3}\.){3}\d{1,3}$")
# Numbered names of files and directories that are no hosts.
_NOT_HOST = re.compile(
    r"^(?:attempt|run|job|log|logs|result|results|trial|exp|experiment|part|try|out|err|output"
    r"|std(?:out|err)|slurm|step|task|epoch|version|v|test|day|date|restart|train|training"
    r"|launch(?:er)?|agent|plog|events?|"
    r"rank|world|size|seed|file|tmp|nccl|debug|trace|dump|main|scheduler|console)[-_.]?[\d_-]*$|^\d"
    r"|^flux-(?:eventlog\b|f\w{6,}$)|^[a-z]\w*[-_.]\d{5,}$",
    re.IGNORECASE,
)

#: The parts before the machine in schedulers' names of output files: the job's name and number
#: ("%x.%j.%N").
_JOB = re.compile(r".+?[-_.]\d{5,}[-_.](?=[A-Za-z])")

#: Indices are 16 bits wide; further writers count as the writer in the path.
MAX_SOURCES = 65_535
#: Names that are looked for in lines.
MAX_STATED_NAMES = 16
_LABELLED_SHARE = 0.3
#: Confidence up to which a path's name is a node only if there are others like it.
MAX_DOUBTFUL_CONFIDENCE = 0.5


class PathWriter(msgspec.Struct, frozen=True):
    """The writer that a path states. ``local_rank``: of ``attempt_N/<local rank>/``."""

    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    confidence: float = 0.0


@lru_cache(maxsize=1 << 14)
def from_path(path: str) -> PathWriter:
    """Node, rank, local rank and attempt in a path: ``logs/node-3/attempt_0/5/stderr.log``."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    if not parts:
        return PathWriter()
    stem = parts[-1]
    while (shorter := _EXTENSION.sub("", stem)) != stem:
        stem = shorter
    names = [*parts[:-1], stem]
    rank = local = attempt = None
    for index, name in enumerate(names):
        if found := _ATTEMPT.match(name):
            attempt = int(found.group(1))
            local = numbers.whole(names[index + 1]) if index + 1 < len(names) else None
    if found := _RANK.search("/".join(names)):
        rank = int(found.group(1))
    best: tuple[float, str] = (0.0, "")
    for depth, name in enumerate(reversed(names)):
        host = _WRITER_TAIL.sub("", _KERNEL_TAIL.sub("", name))
        score = _host_score(host) - 0.01 * depth
        if score > best[0]:
            best = (score, host)
    confidence = best[0] if best[1] or rank is None else 0.9
    return PathWriter(best[1] or None, rank, local, attempt, round(confidence, 2))


def _host_score(name: str) -> float:
    """Score of a path component as a host name, in [0, 1]."""
    if _IPV4.match(name):
        return 0.95
    if not _HOST.match(name) or _NOT_HOST.match(name) or len(name) > 80 or not any(char.isdigit() for char in name):
        return 0.0
    if _RANK.search(name) and not _HOST_WORD.search(name):
        return 0.0
    # "gpu-node-02" begins like a machine; "sigkill_node3" only contains one, like the name of an
    # experiment
    return 0.9 if (found := _HOST_WORD.search(name)) and found.start() == 0 else MAX_DOUBTFUL_CONFIDENCE


class Sources:
    """The distinct writers of one artifact; index 0 is the path's own."""

    def __init__(self, path: str, node: str | None = None) -> None:
        says = from_path(path)
        own = node or says.node
        how = "inventory" if node else "path" if own or says.rank is not None or says.local_rank is not None else ""
        rank_how = "path" if says.rank is not None else ""
        self.path = Source(own, says.rank, says.local_rank, how, 0.95 if node else says.confidence, rank_how=rank_how)
        self.all: list[Source] = [self.path]
        self._index: dict[tuple[str, str, str, str, str], int] = {("", "", "", "", ""): 0}
        self._place: dict[Source, int] = {self.path: 0}

    def index(self, label: str, rank: str, local: str, host: str, task: str = "") -> int:
        """Index of the writer that a line names; missing parts come from the path. ``task``: the
        number that begins the line.
        """
        key = (label, rank, local, host, task)
        found = self._index.get(key)
        if found is not None:
            return found
        source = self._writer(label, rank, local, host, task)
        if len(self.all) >= MAX_SOURCES:
            return 0
        place = self._place.setdefault(source, len(self.all))
        if place == len(self.all):
            self.all.append(source)
        self._index[key] = place
        return place

    def _writer(self, label: str, rank: str, local: str, host: str, task: str) -> Source:
        own = Source() if label or host else self.path
        # a line that states only a rank says nothing of the machine: its path does, as doubtful as
        # before
        is_of_path = bool(own.node)
        number = rank or task
        return Source(
            node=label or host or self.path.node,
            rank=int(number) if number else own.rank,
            local_rank=_local_rank(local, number, own),
            how=own.how if is_of_path else _how(label, number, local),
            confidence=own.confidence if is_of_path else _confidence(label, number),
            label=label or None,
            rank_how=_rank_how(rank, task, own),
        )


def _local_rank(local: str, number: str, own: Source) -> int | None:
    """A line that states its rank alone may be of any GPU."""
    if local:
        return int(local)
    return None if number else own.local_rank


def _how(label: str, number: str, local: str) -> str:
    return "prefix" if label or number or local else "line"


def _confidence(label: str, number: str) -> float:
    return 0.9 if number or label else 0.8


def _rank_how(rank: str, task: str, own: Source) -> str:
    if rank:
        return "line"
    return "task" if task else own.rank_how


class PathScheme:
    """Which ranks and nodes the ``paths`` of a job state. O(paths) when it is asked first; then
    nothing: one for all files of a job, whatever their number.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = paths

    def has_other_rank(self, rank: int) -> bool:
        """Whether a path states another rank than this one."""
        return bool(self._stated[0] - {rank})

    def has_other_node(self, node: str) -> bool:
        """Whether a path states another node than this one."""
        return bool(self._stated[1] - {node})

    @cached_property
    def _stated(self) -> tuple[set[int], set[str]]:
        """Ranks and nodes, of each two at most."""
        ranks: set[int] = set()
        nodes: set[str] = set()
        for says in map(from_path, self._paths):
            if says.rank is not None and len(ranks) < 2:
                ranks.add(says.rank)
            if says.node is not None and len(nodes) < 2:
                nodes.add(says.node)
            if len(ranks) == len(nodes) == 2:
                break
        return ranks, nodes


def with_scheme(sources: Sequence[Source], scheme: PathScheme) -> tuple[Source, ...]:
    """The writers of one file without the ranks and doubtful nodes that only its path states,
    unless the job's paths have several values. A single ``rank5`` in a directory's name is the name
    of an experiment.
    """
    rank = next((s.rank for s in sources if s.rank_how == "path"), None)
    node = next((s.node for s in sources if _is_doubtful(s)), None)
    is_rank_alone = rank is not None and not scheme.has_other_rank(rank)
    is_node_alone = node is not None and not scheme.has_other_node(node)
    if not is_rank_alone and not is_node_alone:
        return tuple(sources)
    found = []
    for source in sources:
        kept = replace(source, node=None) if is_node_alone and _is_doubtful(source) else source
        found.append(replace(kept, rank=None, rank_how="") if is_rank_alone and kept.rank_how == "path" else kept)
    return tuple(found)


def without_job_name(named: Sequence[Sequence[Source]], is_stated: Callable[[str], bool]) -> list[tuple[Source, ...]]:
    """The writers of all files, with machine names without the job's name before them. The same job
    name and number before several names is no part of them, unless lines state a machine's name
    with it: ``is_stated`` tells whether any line matches a pattern. O(files).
    """
    every = list(chain.from_iterable(named))
    nodes = {s.node for s in every if s.node and _is_doubtful(s)}
    job = _job_before(nodes)
    if not job or _is_sure(every, nodes) or is_stated(_names_pattern(nodes)):
        return [tuple(sources) for sources in named]
    return [tuple(_without_job(s, job) for s in sources) for sources in named]


def _job_before(nodes: Set[str]) -> str:
    """What all these names begin with; empty if they do not."""
    found = [_JOB.match(node) for node in nodes]
    jobs = {match[0] if match else "" for match in found}
    return jobs.pop() if len(jobs) == 1 and len(nodes) > 1 else ""


def _is_sure(every: Iterable[Source], nodes: Set[str]) -> bool:
    """Whether anything else than a doubtful path names one of these machines."""
    return any(not _is_doubtful(s) and (s.node in nodes or s.label in nodes) for s in every)


def _names_pattern(nodes: Set[str]) -> str:
    names = "|".join(map(re.escape, sorted(nodes)[:MAX_STATED_NAMES]))
    return rf"(?:^|[^\w./-])(?:{names})(?:$|[^\w./-])"


def _without_job(source: Source, job: str) -> Source:
    if not source.node or not _is_doubtful(source):
        return source
    return replace(source, node=source.node[len(job) :])


def _is_doubtful(source: Source) -> bool:
    return source.node is not None and source.how == "path" and source.confidence <= MAX_DOUBTFUL_CONFIDENCE


def settle_labels(sources: Sequence[Source], lines: Sequence[int]) -> tuple[Source, ...]:
    """The writers, with labels believed or not; ``lines`` counts each one's lines.

    ``word3: `` before a few lines is wording; before many lines, or if it looks like a machine, it
    is their writer. Lines with another label belong to the path's node.
    """
    total = sum(lines)
    labelled = sum(count for source, count in zip(sources, lines, strict=True) if source.label)
    out = []
    for source in _without_counts(sources, lines):
        if source.label:
            is_host = labelled >= _LABELLED_SHARE * total or bool(
                _HOST_WORD.search(source.label) or _IPV4.match(source.label)
            )
            own = sources[0]
            source = (  # noqa: PLW2901
                replace(source, node=source.label, confidence=0.9)
                if is_host or source.label == own.node
                else replace(source, node=own.node, confidence=min(own.confidence, 0.5))
            )
        out.append(source)
    return tuple(out)


def _without_counts(sources: Sequence[Source], lines: Sequence[int]) -> Sequence[Source]:
    """The writers without the numbers that begin lines, where these count the lines and name no
    tasks: nearly each one begins one line only, and they grow in the order in which they came.
    """
    if sources[-1].rank_how != "task":
        return sources
    tasks = [(source, n) for source, n in zip(sources, lines, strict=True) if source.rank_how == "task"]
    once = [source.rank or 0 for source, n in tasks if n == 1]
    if len(once) < THRESHOLDS.counted or len(once) < THRESHOLDS.counted_share * len(tasks):
        return sources
    if once != sorted(once):
        return sources
    nameless = {id(source): replace(source, rank=None, rank_how="") for source, _ in tasks}
    return [nameless.get(id(source), source) for source in sources]


def unsettle_labels(source: Source) -> Source:
    """``source`` as before :func:`settle_labels`, so that ranges of a file count together."""
    return replace(source, node=source.label, confidence=0.9) if source.label else source
