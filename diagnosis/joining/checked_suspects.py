"""Weighs suspects and categories with results of checks: odds times the likelihood ratio (Bayes)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import Result, Suspect

THRESHOLDS: Final = thresholds.of("checked_suspects")

#: Kinds of suspects that a check is about.
CHECKED_KINDS: Final = ("node", "switch", "link")


#: What a result is about: results that are about the same count once.
type _About = Callable[[Result], tuple[str, ...]]


def posterior(p: float, ratio: float) -> float:
    """A probability after evidence of this likelihood ratio."""
    before = min(max(p, THRESHOLDS.least), THRESHOLDS.most)
    odds = before / (1.0 - before) * ratio
    return float(min(max(odds / (1.0 + odds), THRESHOLDS.least), THRESHOLDS.most))


def checked_places(suspects: Iterable[Suspect]) -> dict[str, str]:
    """The suspects that a check may be about, each with its kind."""
    return {suspect.entity: suspect.kind for suspect in suspects if suspect.kind in CHECKED_KINDS}


def update_suspects(suspects: Iterable[Suspect], results: Sequence[Result]) -> tuple[Suspect, ...]:
    """The ranking after the results. The probability that a passed check takes from one machine,
    switch or link is divided among the others in proportion to their own. O(suspects × results).
    """
    rows = {(suspect.kind, suspect.entity): suspect for suspect in suspects}
    for result in _counted_once(results, _cause_of_target):
        if result.target and result.outcome.ratio != 1.0:
            _update(rows, result)
    return tuple(sorted(rows.values(), key=lambda row: (-round(row.score, 6), row.kind, row.entity)))


def _cause(result: Result) -> tuple[str, ...]:
    return result.check.id, result.outcome.adds


def _cause_of_target(result: Result) -> tuple[str, ...]:
    return result.target, *_cause(result)


def _counted_once(results: Sequence[Result], about: _About) -> list[Result]:
    """The results without comparisons that are ``about`` the same as a stronger one: versions of
    one image differ together, and two slow ranks are no two reasons for a cause.
    """
    strongest_first = sorted(results, key=lambda result: -result.outcome.ratio)
    counted: dict[tuple[str, ...], Result] = {}
    for result in strongest_first:
        counted.setdefault(about(result), result)
    kept = list(counted.values())
    return [result for result in results if not result.check.is_comparison or result in kept]


def _update(rows: dict[tuple[str, str], Suspect], result: Result) -> None:
    """Weigh the target of one result, its ranks and the others."""
    key = (result.kind, result.target)
    unsuspected = Suspect(result.target, result.kind, THRESHOLDS.prior, (), is_suspect=False)
    old = rows.get(key, unsuspected)
    if result.sentence in old.reasons:
        return  # the logs accused it for the same measurement
    new = posterior(old.score, result.outcome.ratio)
    rows[key] = _with_score(old, new, result.sentence)
    if new < old.score:
        _share_among_others(rows, key, old.score - new)
    for rank_key, row in _ranks_of(rows, old).items():
        rows[rank_key] = _with_score(row, posterior(row.score, result.outcome.ratio), result.sentence)


def _ranks_of(rows: Mapping[tuple[str, str], Suspect], machine: Suspect) -> dict[tuple[str, str], Suspect]:
    """The suspected ranks of a machine: they are the same culprit."""
    ranks = {key: row for key, row in rows.items() if row.kind == "rank" and row.ranks}
    return {key: row for key, row in ranks.items() if set(row.ranks) <= set(machine.ranks)}


def _share_among_others(rows: dict[tuple[str, str], Suspect], tested: tuple[str, str], freed: float) -> None:
    others = {key: row for key, row in rows.items() if row.kind in CHECKED_KINDS and row.score > 0}
    others.pop(tested, None)
    total = sum(row.score for row in others.values())
    reason = f"A check cleared {tested[1]}, which was likelier before."
    for key, row in others.items():
        most = max(THRESHOLDS.inherited, row.score)
        rows[key] = _with_score(row, min(most, row.score + freed * row.score / total), reason)


def _with_score(row: Suspect, score: float, reason: str) -> Suspect:
    """A suspect with the score that a check gives it."""
    reasons = tuple(dict.fromkeys((reason, *row.reasons)))
    sources = tuple(dict.fromkeys((*row.sources, "check")))
    is_suspect = score >= THRESHOLDS.accused
    return msgspec.structs.replace(row, score=round(score, 4), is_suspect=is_suspect, reasons=reasons, sources=sources)


def update_categories(rows: Sequence[tuple[str, float]], results: Sequence[Result]) -> list[tuple[str, float]]:
    """Categories after the results, most probable first; the rest counts as a further category."""
    weights = {name: p for name, p in rows if name != taxonomy.UNKNOWN}
    rest = max(1.0 - sum(weights.values()), THRESHOLDS.prior)
    is_changed = False
    for result in _telling(_counted_once(results, _cause)):
        for head, ratio in result.outcome.categories.items():
            matching = _matching(weights, head)
            if not matching and ratio > 1.0:
                matching = _added(weights, result.outcome.adds)
            weights |= {name: weights[name] * ratio for name in matching}
            is_changed = is_changed or bool(matching)
    if not is_changed:
        return list(rows)
    total = sum(weights.values()) + rest
    shares = [(name, round(weight / total, 4)) for name, weight in weights.items()]
    return sorted(shares, key=lambda row: (-row[1], row[0]))


def _telling(results: Sequence[Result]) -> Iterator[Result]:
    """The results that tell of the cause: what a check found on one machine is no less likely
    because it finds nothing on the others.
    """
    weakest_first = sorted(results, key=lambda result: result.outcome.ratio)
    strongest = {result.check.id: result.outcome.ratio for result in weakest_first}

    def tells(result: Result) -> bool:
        return not result.outcome.ratio <= 1.0 < strongest[result.check.id]

    return filter(tells, results)


def _matching(weights: Iterable[str], head: str) -> list[str]:
    """The categories that are this one or below it."""
    return [name for name in weights if f"{name}.".startswith(f"{head}.")]


def _added(weights: dict[str, float], leaf: str) -> list[str]:
    """The category that an outcome brings in, if any."""
    if not leaf:
        return []
    weights[leaf] = THRESHOLDS.prior
    return [leaf]
