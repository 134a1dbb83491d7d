"""The parallel groups of ranks: sizes, order, and their sources.

A rank is a mixed-radix number whose fastest digit is the first dimension of the order: with ``tp-dp-pp`` the ranks
of a tensor group are neighbours and a pipeline group is spread over the whole job. Orders differ between frameworks, so
the order is always reported, and requested if unknown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from diagnosis.kinds.stacks.ranks.layout_sizes import (
    DEFAULT_ORDER,
    DEFAULT_ORDERS,
    DIMENSIONS,
    Sizes,
    assumed_order,
    completed,
    is_order,
    problem_of_order,
    problems_of_sizes,
    with_all_dimensions,
)
from diagnosis.numbers import MAX_NUMBER, MAX_RANKS

_NAMES = {
    "tp": (
        "tensor_model_parallel_size",
        "tensor_parallel_size",
        "tensor_parallel_degree",
        "tp_size",
        "tp_degree",
        "model_parallel_size",
        "tensor_model_parallel",
        "tensor_parallel",
        "TP",
        "tp",
    ),
    "pp": (
        "pipeline_model_parallel_size",
        "pipeline_parallel_size",
        "pipeline_parallel_degree",
        "pipe_parallel_size",
        "pp_size",
        "pp_degree",
        "pipeline_stages",
        "pipeline_model_parallel",
        "pipeline_parallel",
        "PP",
        "pp",
    ),
    "dp": ("data_parallel_size", "data_parallel_degree", "dp_size", "dp_degree", "data_parallel", "DP", "dp"),
    "cp": ("context_parallel_size", "context_parallel_degree", "cp_size", "cp_degree", "context_parallel", "CP", "cp"),
    "ep": (
        "expert_model_parallel_size",
        "expert_parallel_size",
        "expert_parallel_degree",
        "moe_expert_parallel_size",
        "ep_size",
        "ep_degree",
        "expert_model_parallel",
        "EP",
        "ep",
    ),
    "etp": ("expert_tensor_parallel_size", "expert_tensor_parallel_degree"),
    "world_size": ("world_size", "num_gpus", "WORLD_SIZE"),
}
_SHORT_NAMES = {"TP", "tp", "PP", "pp", "DP", "dp", "CP", "cp", "EP", "ep"}


def _pattern(names: Iterable[str], *, short: bool) -> re.Pattern[str]:
    wanted = [n for n in names if (n in _SHORT_NAMES) == short]
    spelled = "|".join(re.escape(n).replace("_", "[-_ ]") for n in wanted) or "(?!)"
    between = (
        r"['\"]?\s*(?:[:=]\s*|\.{2,}\s*)['\"]?" if short else r"['\"]?(?:\s*[:=]\s*|\s*\.{2,}\s*|\s+(?:is\s+)?)['\"]?"
    )
    number, flags = r"(\d{1,7})\b(?!\.\d)", 0 if short else re.IGNORECASE
    option = rf"(?<!\S)--(?:{spelled})\s+|" if short else ""
    return re.compile(rf"(?:{option}(?<![\w-])(?:--)?(?:{spelled}){between}){number}", flags)


_PATTERNS = {dim: (_pattern(names, short=False), _pattern(names, short=True)) for dim, names in _NAMES.items()}
_ORDER = re.compile(r"\border['\"]?\s*[:=]\s*['\"]?((?:tp|cp|ep|dp|pp)(?:-(?:tp|cp|ep|dp|pp))+)")
_TP_PP_DP = re.compile(
    r"--use[-_]tp[-_]pp[-_]dp[-_]mapping\b|\buse_tp_pp_dp_mapping['\"]?(?:\s*[:=]\s*|\s*\.{2,}\s*|\s+)[Tt]rue"
)
#: All groups of one kind, as ranks: "pipeline_model_parallel_groups: [[0, 4], [1, 5]]", "dp groups = [[0, 1], [2, 3]]".
_GROUPS = re.compile(
    r"(?i)(?<![\w-])(tensor|pipeline|data|context|tp|pp|dp|cp)(?:[-_ ]model)?(?:[-_ ]parallel)?(?:[-_ ]process)?"
    r"[-_ ]groups?\b[^\[\n]{0,40}(\[\s*\[[\d,\[\]\s]{3,20000}\]\s*\])"
)
_KINDS = {"tensor": "tp", "pipeline": "pp", "data": "dp", "context": "cp"}


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes per dimension (only those above 1 need be present), the order, and given facts of each rank. ``problems``
    are sentences for a reader; a layout with problems gives no groups. ``assumptions``: sentences about assumptions.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    order: str = DEFAULT_ORDER
    world_size: int | None = None
    node_of: Mapping[int, str] = field(default_factory=dict)
    rank_of: Mapping[tuple[str, int], int] = field(default_factory=dict)  # (node, pid) -> rank
    coordinates: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    expert_tp: int = 1
    problems: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    source: str = ""
    listed: Mapping[str, Sequence[tuple[int, ...]]] = field(default_factory=dict)  # groups that the job itself states

    @property
    def is_known(self) -> bool:
        return bool(self.sizes or self.coordinates or self.listed) and not self.problems

    def _radix(self, *, expert: bool) -> list[tuple[str, int]]:
        sizes = {d: self.sizes.get(d, 1) for d in DIMENSIONS}
        world = self.world_size or prod(n for d, n in sizes.items() if d != "ep")
        if expert:
            sizes |= {"tp": self.expert_tp, "cp": 1}
            sizes["dp"] = max(1, world // (sizes["tp"] * sizes["ep"] * sizes["pp"]))
        else:
            sizes["ep"] = 1
        return [(d, sizes[d]) for d in self.order.split("-")]

    def coordinate(self, rank: int) -> dict[str, int]:
        """Index of ``rank`` in each dimension (``tp``, ``cp``, ``dp``, ``pp``)."""
        if rank in self.coordinates:
            return dict(self.coordinates[rank])
        found, rest = {}, rank
        for dim, size in self._radix(expert=False):
            found[dim], rest = rest % size, rest // size
        return {d: i for d, i in found.items() if d != "ep"}

    def groups(self, kind: str) -> list[tuple[int, ...]]:
        """All groups of one kind, each sorted. O(world size). Empty if the layout is not known."""
        if not self.is_known or not self.world_size:
            return []
        if self.listed and (kind in self.listed or not self.sizes):
            return list(self.listed.get(kind, ()))
        members: dict[tuple[int, ...], list[int]] = {}
        if self.coordinates and kind != "ep":
            for rank, at in sorted(self.coordinates.items()):
                members.setdefault(tuple(i for d, i in sorted(at.items()) if d != kind), []).append(rank)
        else:
            radix = self._radix(expert=kind == "ep")
            for rank in range(self.world_size):
                key, rest = [], rank
                for dim, size in radix:
                    if dim != kind:
                        key.append(rest % size)
                    rest //= size
                members.setdefault(tuple(key), []).append(rank)
        return [tuple(g) for g in members.values()]

    def kinds(self) -> list[str]:
        """Dimensions that have a group of more than one rank, and those of size 1 that the layout names."""
        named = set(self.sizes) | set(self.listed) | {d for at in self.coordinates.values() for d in at}
        return [d for d in DIMENSIONS if d in named or self.sizes.get(d, 1) > 1]

    def stages(self) -> int:
        return max([self.sizes.get("pp", 1)] + [at.get("pp", 0) + 1 for at in self.coordinates.values()])


def _number(value: Any) -> int | None:
    try:
        return min(int(value), MAX_NUMBER) if not isinstance(value, bool) and int(value) > 0 else None
    except (TypeError, ValueError, OverflowError):
        return None


def build(
    sizes: Mapping[str, int],
    *,
    world_size: int | None,
    order: str | None = None,
    framework: str = "",
    source: str = "",
    rows: Sequence[Mapping[str, Any]] = (),
    expert_tp: int = 1,
) -> Layout:
    """Check and complete a layout: the missing ``dp`` is the rest of the world size; wrong products are reported with
    their numbers.
    """
    known = {d: n for d, n in sizes.items() if d in DIMENSIONS}
    stated = Sizes(known, world_size, expert_tp)
    complete = completed(stated, len(rows))
    is_given = order is not None and is_order(order)
    used_order = order if is_given else DEFAULT_ORDERS.get(framework, DEFAULT_ORDER)
    order_problem = "" if is_given else problem_of_order(order)
    problems = (*problems_of_sizes(stated, complete), order_problem)
    assumption = "" if is_given else assumed_order(complete, framework)
    listed = [(rank, row) for row in rows if (rank := _rank_of_row(row)) is not None]
    placed = [(rank, row) for rank, row in listed if isinstance(row.get("node"), str)]
    coordinates = [(rank, _coordinates_of_row(row)) for rank, row in listed]
    return Layout(
        complete.by_dimension,
        with_all_dimensions(used_order or DEFAULT_ORDER),
        complete.world_size,
        {rank: row["node"] for rank, row in placed},
        {(row["node"], row["pid"]): rank for rank, row in placed if isinstance(row.get("pid"), int)},
        {rank: at for rank, at in coordinates if at},
        complete.expert_tp,
        tuple(filter(None, problems)),
        tuple(filter(None, [assumption])),
        source,
    )


def _rank_of_row(row: Mapping[str, Any]) -> int | None:
    rank = row.get("rank")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < MAX_RANKS:
        return None
    return rank


def _coordinates_of_row(row: Mapping[str, Any]) -> dict[str, int]:
    """The row's index in each dimension that it states."""
    stated = {d: row.get(d) for d in DIMENSIONS if d != "ep"}
    return {d: at for d, at in stated.items() if isinstance(at, int) and 0 <= at < MAX_RANKS}


def from_json(data: Mapping[str, Any], *, framework: str = "", source: str = "layout file") -> Layout:
    """A layout file, a job file's ``layout``, or any configuration dump with sizes somewhere inside (NeMo,
    DeepSpeed)."""
    inner = data.get("layout") if isinstance(data.get("layout"), Mapping) else {}
    flat = {**_flatten(data), **dict((inner or {}).items())}
    sizes = {}
    for dim in DIMENSIONS:
        value = next((n for name in _NAMES[dim] if (n := _number(flat.get(name)))), None)
        if value:
            sizes[dim] = value
    world = next((n for name in _NAMES["world_size"] if (n := _number(flat.get(name)))), None)
    order = flat.get("order")
    rows = data.get("ranks") if isinstance(data.get("ranks"), list) else []
    expert_tp = next((n for name in _NAMES["etp"] if (n := _number(flat.get(name)))), None) or 1
    return build(
        sizes,
        world_size=world,
        order=order if isinstance(order, str) else None,
        framework=framework,
        source=source,
        rows=[r for r in rows or [] if isinstance(r, Mapping)],
        expert_tp=expert_tp,
    )


def _flatten(data: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping) and depth < 6:
            found = {**_flatten(value, depth + 1), **found}
        elif isinstance(value, (int, str)):
            found[str(key)] = value
    return found


def from_text(text: str, *, world_size: int | None = None, framework: str = "", source: str = "log") -> Layout | None:
    """The layout that a command line, a Megatron argument dump or a JSON/YAML/TOML configuration in a log states, or
    None.

    >>> from_text("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8", world_size=32).sizes
    {'tp': 2, 'pp': 8, 'dp': 2}
    """
    sizes = {dim: n for dim in (*DIMENSIONS, "etp", "world_size") if (n := _find_size(dim, text))}
    listed = _listed_groups(text)
    for kind, groups in listed.items():
        sizes.setdefault(kind, len(groups[0]))
        world_size = world_size or sum(map(len, groups))
    if not any(d in sizes for d in ("tp", "pp", "dp", "cp", "ep")):
        return None
    given = _ORDER.search(text)
    order = given[1] if given else "tp-cp-ep-pp-dp" if _TP_PP_DP.search(text) else None
    plan = build(
        {d: n for d, n in sizes.items() if d in DIMENSIONS},
        world_size=sizes.get("world_size") or world_size,
        order=order,
        framework=framework,
        source=source,
        expert_tp=sizes.get("etp", 1),
    )
    whole = {kind: groups for kind, groups in listed.items() if sum(map(len, groups)) == plan.world_size}
    return _with_listed_groups(plan, whole) if whole else plan


def _with_listed_groups(plan: Layout, listed: Mapping[str, Sequence[tuple[int, ...]]]) -> Layout:
    """The layout with the first order that gives the groups which the job states; without one, with only these."""
    wide = [d for d in plan.order.split("-") if plan.sizes.get(d, 1) > 1]
    rest = [d for d in plan.order.split("-") if d not in wide]
    for order in itertools.permutations(wide):
        tried = replace(plan, order="-".join((*order, *rest)), assumptions=())
        if all(sorted(tried.groups(kind)) == list(groups) for kind, groups in listed.items()):
            return tried if order != tuple(wide) else replace(plan, assumptions=())
    return replace(plan, sizes={}, listed=listed, assumptions=(), problems=())


def _listed_groups(text: str) -> dict[str, list[tuple[int, ...]]]:
    """The groups that a text lists by their ranks, of each kind that it lists whole: disjoint groups of one size that
    hold every rank from 0 on.
    """
    found: dict[str, list[tuple[int, ...]]] = {}
    for match in _GROUPS.finditer(text):
        rows = [tuple(sorted(map(int, re.findall(r"\d{1,7}", row)))) for row in re.findall(r"\[([\d,\s]+)\]", match[2])]
        ranks = sorted(rank for row in rows for rank in row)
        if rows and len(set(map(len, rows))) == 1 and len(rows[0]) > 1 and ranks == list(range(len(ranks))):
            kind = match[1].lower()
            found.setdefault(_KINDS.get(kind, kind), sorted(rows))
    return found


def _find_size(dim: str, text: str) -> int | None:
    for pattern in _PATTERNS[dim]:
        if m := pattern.search(text):
            return _number(m[1])
    return None
