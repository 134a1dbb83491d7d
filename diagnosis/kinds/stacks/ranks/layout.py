"""The parallel groups of ranks: sizes, order, and their sources.

A rank is a mixed-radix number whose fastest digit is the first dimension of the order: with ``tp-dp-pp`` the ranks
of a tensor group are neighbours and a pipeline group is spread over the whole job. Orders differ between frameworks, so
the order is always reported, and requested if unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, permutations
from math import prod
from typing import Any, Final

import msgspec
from msgspec.structs import replace

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
from diagnosis.values.json_values import Json, JsonObject
from diagnosis.values.numbers import MAX_NUMBER, MAX_RANKS

#: Objects within objects that are read.
_MAX_DEPTH: Final = 6
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


class Layout(msgspec.Struct, frozen=True):
    """Sizes per dimension (only those above 1 need be present), the order, and given facts of each rank. ``problems``
    are sentences for a reader; a layout with problems gives no groups. ``assumptions``: sentences about assumptions.
    """

    sizes: Mapping[str, int] = msgspec.field(default_factory=dict)
    order: str = DEFAULT_ORDER
    world_size: int | None = None
    node_of: Mapping[int, str] = msgspec.field(default_factory=dict)
    rank_of: Mapping[tuple[str, int], int] = msgspec.field(default_factory=dict)  # (node, pid) -> rank
    coordinates: Mapping[int, Mapping[str, int]] = msgspec.field(default_factory=dict)
    expert_tp: int = 1
    problems: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    source: str = ""
    listed: Mapping[str, Sequence[tuple[int, ...]]] = msgspec.field(
        default_factory=dict
    )  # groups that the job itself states

    @property
    def is_known(self) -> bool:
        return bool(self.sizes or self.coordinates or self.listed) and not self.problems

    def _radix(self, *, expert: bool) -> list[tuple[str, int]]:
        """Dimension and size of each digit of a rank, the fastest first; for experts or for all else."""
        sizes = {d: self.sizes.get(d, 1) for d in DIMENSIONS}
        if expert:
            product = prod(n for d, n in sizes.items() if d != "ep")
            world = self.world_size or product
            sizes |= {"tp": self.expert_tp, "cp": 1}
            sizes["dp"] = max(1, world // (sizes["tp"] * sizes["ep"] * sizes["pp"]))
        else:
            sizes["ep"] = 1
        return [(d, sizes[d]) for d in self.order.split("-")]

    def groups(self, kind: str) -> list[tuple[int, ...]]:
        """All groups of one kind, each sorted. O(world size). Empty if the layout is not known."""
        if not self.is_known or not self.world_size:
            return []
        if self.listed and (kind in self.listed or not self.sizes):
            return list(self.listed.get(kind, ()))
        if self.coordinates and kind != "ep":
            keys = {rank: _other_coordinates(at, kind) for rank, at in sorted(self.coordinates.items())}
        else:
            radix = self._radix(expert=kind == "ep")
            keys = {rank: _other_digits(rank, radix, kind) for rank in range(self.world_size)}
        members: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for rank, key in keys.items():
            members[key].append(rank)
        return [tuple(ranks) for ranks in members.values()]

    def kinds(self) -> list[str]:
        """Dimensions that have a group of more than one rank, and those of size 1 that the layout names."""
        named = {*self.sizes, *self.listed, *chain.from_iterable(self.coordinates.values())}
        return [d for d in DIMENSIONS if d in named]


def _other_coordinates(coordinate: Mapping[str, int], kind: str) -> tuple[int, ...]:
    """The indices in all dimensions but one: equal for the members of one group of it."""
    return tuple(index for dim, index in sorted(coordinate.items()) if dim != kind)


def _other_digits(rank: int, radix: Sequence[tuple[str, int]], kind: str) -> tuple[int, ...]:
    """The same of a rank whose digits are its indices."""
    digits: list[int] = []
    rest = rank
    for dim, size in radix:
        rest, digit = divmod(rest, size)
        if dim != kind:
            digits.append(digit)
    return tuple(digits)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(number, MAX_NUMBER) if number > 0 else None


def build(
    sizes: Mapping[str, int],
    *,
    world_size: int | None,
    order: str | None = None,
    framework: str = "",
    source: str = "",
    rows: Sequence[JsonObject] = (),
    expert_tp: int = 1,
) -> Layout:
    """Check and complete a layout: ``dp`` is the rest; wrong products are reported."""
    known = {d: n for d, n in sizes.items() if d in DIMENSIONS}
    stated = Sizes(known, world_size, expert_tp)
    complete = completed(stated, len(rows))
    chosen, problem, assumption = _choose_order(order, complete, framework)
    problems = (*problems_of_sizes(stated, complete), problem)
    listed = [(rank, row) for row in rows if (rank := _rank_of_row(row)) is not None]
    placed = [(rank, node, row) for rank, row in listed if isinstance(node := row.get("node"), str)]
    processes = [(rank, node, pid) for rank, node, row in placed if isinstance(pid := row.get("pid"), int)]
    coordinates = [(rank, _coordinates_of_row(row)) for rank, row in listed]
    return Layout(
        complete.by_dimension,
        with_all_dimensions(chosen),
        complete.world_size,
        {rank: node for rank, node, _ in placed},
        {(node, pid): rank for rank, node, pid in processes},
        {rank: at for rank, at in coordinates if at},
        complete.expert_tp,
        tuple(filter(None, problems)),
        tuple(filter(None, [assumption])),
        source,
    )


def _choose_order(order: str | None, complete: Sizes, framework: str) -> tuple[str, str, str]:
    """The order, a sentence about an order that is none, and one about an order that is assumed; empty for none."""
    if order is not None and is_order(order):
        return order, "", ""
    default = DEFAULT_ORDERS.get(framework, DEFAULT_ORDER)
    return default, problem_of_order(order), assumed_order(complete, framework)


def _rank_of_row(row: JsonObject) -> int | None:
    rank = row.get("rank")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < MAX_RANKS:
        return None
    return rank


def _coordinates_of_row(row: JsonObject) -> dict[str, int]:
    """The row's index in each dimension that it states."""
    stated = {d: row.get(d) for d in DIMENSIONS if d != "ep"}
    return {d: at for d, at in stated.items() if isinstance(at, int) and 0 <= at < MAX_RANKS}


def from_json(data: JsonObject, *, framework: str = "", source: str = "layout file") -> Layout:
    """A layout file, a job file's ``layout``, or any configuration dump with sizes somewhere inside (NeMo,
    DeepSpeed)."""
    inner = data.get("layout")
    flat = _flatten(data)
    if isinstance(inner, Mapping):
        flat |= inner
    sizes = {dim: size for dim in DIMENSIONS if (size := _first_number(flat, dim)) is not None}
    order = flat.get("order")
    rows = data.get("ranks")
    return build(
        sizes,
        world_size=_first_number(flat, "world_size"),
        order=order if isinstance(order, str) else None,
        framework=framework,
        source=source,
        rows=[row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else [],
        expert_tp=_first_number(flat, "etp") or 1,
    )


def _first_number(flat: JsonObject, what: str) -> int | None:
    """The first positive number under one of the names of a size."""
    numbers = [_number(flat.get(name)) for name in _NAMES[what]]
    return next(filter(None, numbers), None)


def _flatten(data: JsonObject, depth: int = 0) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in data.items():
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
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
    sizes = {what: size for what in (*DIMENSIONS, "etp", "world_size") if (size := _find_size(what, text))}
    listed = _listed_groups(text)
    listed_ranks = [sum(map(len, groups)) for groups in listed.values()]
    for kind, groups in listed.items():
        sizes.setdefault(kind, len(groups[0]))
    if sizes.keys().isdisjoint(DIMENSIONS):
        return None
    plan = build(
        {dim: size for dim, size in sizes.items() if dim in DIMENSIONS},
        world_size=sizes.get("world_size") or world_size or next(iter(listed_ranks), None),
        order=_order_in(text),
        framework=framework,
        source=source,
        expert_tp=sizes.get("etp", 1),
    )
    whole = {kind: groups for kind, groups in listed.items() if sum(map(len, groups)) == plan.world_size}
    return _with_listed_groups(plan, whole) if whole else plan


def _order_in(text: str) -> str | None:
    """The order that a text states, by its name or by Megatron's option."""
    given = _ORDER.search(text)
    if given is not None:
        return given[1]
    return "tp-cp-ep-pp-dp" if _TP_PP_DP.search(text) else None


def _with_listed_groups(plan: Layout, listed: Mapping[str, Sequence[tuple[int, ...]]]) -> Layout:
    """The layout with the first order that gives the groups which the job states; without one, with only these."""
    wide = [d for d in plan.order.split("-") if plan.sizes.get(d, 1) > 1]
    rest = [d for d in plan.order.split("-") if d not in wide]
    for order in permutations(wide):
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
        groups = [_ranks_in(listed) for listed in re.findall(r"\[([\d,\s]+)\]", match[2])]
        if groups and _is_division(groups):
            word = match[1].lower()
            found.setdefault(_KINDS.get(word, word), sorted(groups))
    return found


def _ranks_in(text: str) -> tuple[int, ...]:
    return tuple(sorted(map(int, re.findall(r"\d{1,7}", text))))


def _is_division(groups: Sequence[tuple[int, ...]]) -> bool:
    """Whether these are groups of one size that hold every rank from 0 on once."""
    sizes = set(map(len, groups))
    ranks = sorted(chain.from_iterable(groups))
    return len(sizes) == 1 and len(groups[0]) > 1 and ranks == list(range(len(ranks)))


def _find_size(dim: str, text: str) -> int | None:
    for pattern in _PATTERNS[dim]:
        if m := pattern.search(text):
            return _number(m[1])
    return None
