"""Steps that read lines back and need nothing of what is decided: of a large job they are done
beside the decisions.

Each is sent the messages that it reads, and no others. Cost: as the steps state, plus
O(occurrences of these messages).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from diagnosis.evidence import Fact, Measure
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.compare import rank_measures, stated_setups
from diagnosis.kinds.logs.compare.detectors import watchdogs
from diagnosis.kinds.logs.rows.events import Groups, LogTable
from diagnosis.model import ReadRange
from diagnosis.processing.budgets import Budgets

type _Told[R] = tuple[tuple[R, ...], list[str]]
type _Reading[R] = Callable[[LogTable, Groups, ReadRange], tuple[R, ...]]


@dataclass(frozen=True, slots=True)
class StepsAside:
    """What waits for the results of the steps."""

    protocol: Callable[[], tuple[watchdogs.State, ...]]
    setup: Callable[[], tuple[tuple[str, Fact], ...]]
    measures: Callable[[], tuple[Measure, ...]]


def begin(facts: Facts) -> StepsAside:
    """Begins the steps, or does them when wanted. O(messages × properties + occurrences)."""
    measures_in = partial(rank_measures.measures_in, machine_of=facts.node_of_rank)
    return StepsAside(
        _begun(facts, "watchdogs", watchdogs.messages, watchdogs.states_in),
        _begun(facts, "set-up", stated_setups.messages, stated_setups.setup_in),
        _begun(facts, "measures", rank_measures.messages, measures_in),
    )


def _begun[R](
    facts: Facts, stage: str, choose: Callable[[Facts], Groups], reading: _Reading[R]
) -> Callable[[], tuple[R, ...]]:
    """``choose``: which messages are read; ``reading``: reads them."""
    budgets = facts.budgets
    none_chosen: Groups = ()
    groups = budgets.run(stage, partial(choose, facts), none_chosen)
    if not groups:
        return tuple
    table = facts.table.only(list(chain.from_iterable(groups)))
    wait = facts.aside(_done, budgets.apart(), stage, partial(reading, table, groups, facts.read))

    def result() -> tuple[R, ...]:
        found: tuple[R, ...]
        found, told = wait()
        budgets.told += told
        return found

    return result


def _done[R](budgets: Budgets, stage: str, act: Callable[[], tuple[R, ...]]) -> _Told[R]:
    """The result of a stage, and what is said of it."""
    return budgets.run(stage, act, ()), budgets.told
