"""Completes the sizes of a parallel layout, and says in sentences what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import msgspec
from msgspec.structs import replace

from diagnosis.values.numbers import MAX_RANKS

DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")

#: Fastest first. Megatron-LM: ``parallel_state.initialize_model_parallel(order=…)``; DeepSpeed:
#: ``PipeModelDataParallelTopology`` (axes pipe, data, model, row-major); torchtitan: device mesh
#: (pp, dp, cp, tp), row-major.
DEFAULT_ORDERS = {
    "megatron": "tp-cp-ep-dp-pp",
    "nemo": "tp-cp-ep-dp-pp",
    "mindspeed": "tp-cp-ep-dp-pp",
    "deepspeed": "tp-dp-pp",
    "torchtitan": "tp-cp-dp-pp",
    "mlperf": "tp-cp-ep-dp-pp",
}
DEFAULT_ORDER = "tp-cp-ep-dp-pp"


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of a job, as far as they are known."""

    by_dimension: Mapping[str, int]
    world_size: int | None
    expert_tp: int

    def product(self) -> int:
        """Ranks by the sizes alone; experts share the ranks of the other dimensions."""
        return prod(n for d, n in self.by_dimension.items() if d != "ep")


def completed(stated: Sizes, row_count: int) -> Sizes:
    """The sizes with a missing ``dp`` and world size, as far as the others determine them.

    Args:
        row_count: how many ranks the layout lists one by one.
    """
    usable = _without_dimensions(stated) if _too_large(stated) else stated
    return _with_world_size(_with_dp(_with_rows(usable, row_count)))


def problems_of_sizes(stated: Sizes, complete: Sizes) -> list[str]:
    """Sentences about sizes that no job has, or that do not fit each other."""
    every = (
        _problem_of_large_sizes(_too_large(stated)),
        _problem_of_product(complete),
        _problem_of_world_size(complete),
        _problem_of_experts(complete),
    )
    return [problem for problem in every if problem]


def _too_large(stated: Sizes) -> list[str]:
    """The sizes that no job has, as text."""
    named = {**stated.by_dimension, "world size": stated.world_size or 0, "etp": stated.expert_tp}
    return [f"{name} {n:,}" for name, n in named.items() if n > MAX_RANKS]


def _without_dimensions(stated: Sizes) -> Sizes:
    is_too_large = (stated.world_size or 0) > MAX_RANKS
    return Sizes({}, None if is_too_large else stated.world_size, 1)


def _with_rows(sizes: Sizes, row_count: int) -> Sizes:
    """Without a stated world size, the number of listed ranks."""
    return replace(sizes, world_size=sizes.world_size or row_count or sizes.world_size)


def _with_dp(sizes: Sizes) -> Sizes:
    """Without a stated ``dp``, the rest of the world size."""
    if not sizes.world_size or not sizes.by_dimension or "dp" in sizes.by_dimension:
        return sizes
    fixed = sizes.product()
    if not fixed or sizes.world_size % fixed:
        return sizes
    return replace(sizes, by_dimension={**sizes.by_dimension, "dp": sizes.world_size // fixed})


def _with_world_size(sizes: Sizes) -> Sizes:
    """Without any other source of the world size, the product of the sizes."""
    if sizes.world_size:
        return sizes
    product = sizes.product()
    is_known = "dp" in sizes.by_dimension and product <= MAX_RANKS
    return replace(sizes, world_size=product if is_known else None)


def _problem_of_large_sizes(too_large: Sequence[str]) -> str:
    if not too_large:
        return ""
    return (
        f"The layout states {', '.join(too_large)}; no job has more than {MAX_RANKS:,} ranks, "
        "so its sizes are not used. Correct the layout."
    )


def _problem_of_product(sizes: Sizes) -> str:
    product = sizes.product()
    if sizes.world_size or product <= MAX_RANKS:
        return ""
    return f"The layout's sizes multiply to {product:,} ranks, more than any job has. Correct the layout."


def _problem_of_world_size(sizes: Sizes) -> str:
    product = sizes.product()
    if not sizes.by_dimension or not sizes.world_size or product == sizes.world_size:
        return ""
    factors = " × ".join(f"{d} {n}" for d, n in sizes.by_dimension.items() if d != "ep")
    return (
        f"The layout does not multiply to the world size: {factors} = {product}, but there are "
        f"{sizes.world_size} ranks. "
        "Parallel groups are left out until sizes or world size are corrected."
    )


def _problem_of_experts(sizes: Sizes) -> str:
    ep, pp = sizes.by_dimension.get("ep", 1), sizes.by_dimension.get("pp", 1)
    if ep <= 1 or not sizes.world_size or sizes.world_size % (ep * sizes.expert_tp * pp) == 0:
        return ""
    return f"{sizes.world_size} ranks cannot be cut into expert groups of {ep} within {pp} pipeline stages."


def problem_of_order(order: str | None) -> str:
    if order is None:
        return ""
    return f"The layout's order {order!r} is not a list such as tp-cp-ep-dp-pp."


def assumed_order(sizes: Sizes, framework: str) -> str:
    """The sentence about an order that is not given; empty if it makes no difference."""
    wide = [d for d, n in sizes.by_dimension.items() if n > 1]
    if len(wide) < 2:
        return ""
    order = DEFAULT_ORDERS.get(framework, DEFAULT_ORDER)
    whose = f", the default of {framework}," if framework in DEFAULT_ORDERS else ""
    return f"The order of the layout was not given; {order}{whose} is assumed."


def is_order(order: str) -> bool:
    """Whether this lists dimensions, each once."""
    listed = order.split("-")
    return len(set(listed)) == len(listed) and set(listed) <= set(DIMENSIONS)


def with_all_dimensions(order: str) -> str:
    """The order, with the dimensions that it leaves out at its end."""
    return "-".join(dict.fromkeys([*order.split("-"), *DIMENSIONS]))
