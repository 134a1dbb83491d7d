"""Weighs suspects and categories with results of checks: odds times the likelihood ratio (Bayes)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import Result, Suspect

THRESHOLDS: Final = thresholds.of("weigh")

#: Kinds of suspects that a check is about.
CHECKED_KINDS: Final = ("node", "switch", "link")


def posterior(p: float, ratio: float) -> float:
    """A probability after evidence of this likelihood ratio."""
    before = min(max(p, THRESHOLDS.least), THRESHOLDS.most)
    odds = before / (1.0 - before) * ratio
    return float(min(max(odds / (1.0 + odds), THRESHOLDS.least), THRESHOLDS.most))


def checked_places(suspects: Iterable[Suspect]) -> dict[str, str]:
    """The suspects that a check may be about, each with its kind."""
    return {suspect.entity: suspect.kind for suspect in suspects if suspect.kind in CHECKED_KINDS}


def update_suspects(suspects: Iterable[Suspect], results: Sequence[Result]) -> tuple[Suspect, ...]:
    """The ranking after the results. The probability that a passed check takes from one machine, switch or link is
    divided among the others in proportion to their own. O(suspects × results).
    """
    rows = {(s.kind, s.entity): s for s in suspects}
    for result in results:
        if not result.target or result.outcome.ratio == 1.0:
            continue
        key = (result.kind, result.target)
        old = rows.get(key) or Suspect(result.target, result.kind, THRESHOLDS.prior, (), is_suspect=False)
        new = posterior(old.score, result.outcome.ratio)
        rows[key] = _with_score(old, new, result.sentence, "check")
        if new < old.score:
            _share_among_others(rows, key, old.score - new)
        for other, row in list(rows.items()):  # its ranks are the same culprit
            if row.kind == "rank" and row.ranks and set(row.ranks) <= set(old.ranks):
                rows[other] = _with_score(row, posterior(row.score, result.outcome.ratio), result.sentence, "check")
    return tuple(sorted(rows.values(), key=lambda s: (-round(s.score, 6), s.kind, s.entity)))


def _share_among_others(rows: dict[tuple[str, str], Suspect], tested: tuple[str, str], freed: float) -> None:
    others = {k: s for k, s in rows.items() if s.kind in CHECKED_KINDS and k != tested and s.score > 0}
    total = sum(s.score for s in others.values())
    for key, row in others.items():
        score = min(max(THRESHOLDS.inherited, row.score), row.score + freed * row.score / total)
        rows[key] = _with_score(row, score, f"A check cleared {tested[1]}, which was likelier before.", "check")


def _with_score(row: Suspect, score: float, reason: str, source: str) -> Suspect:
    reasons = tuple(dict.fromkeys((reason, *row.reasons)))
    sources = tuple(dict.fromkeys((*row.sources, source)))
    is_suspect = score >= THRESHOLDS.accused
    return msgspec.structs.replace(row, score=round(score, 4), is_suspect=is_suspect, reasons=reasons, sources=sources)


def update_categories(rows: Sequence[tuple[str, float]], results: Iterable[Result]) -> list[tuple[str, float]]:
    """Categories after the results, most probable first; the rest counts as a further category."""
    weights = {name: p for name, p in rows if name != taxonomy.UNKNOWN}
    rest = max(1.0 - sum(weights.values()), THRESHOLDS.prior)
    moved = False
    for result in results:
        ratios: Mapping[str, float] = result.outcome.categories
        for head, ratio in ratios.items():
            matching = [name for name in weights if name == head or name.startswith(f"{head}.")]
            if not matching and ratio > 1.0 and result.outcome.adds:
                weights[result.outcome.adds] = THRESHOLDS.prior
                matching = [result.outcome.adds]
            for name in matching:
                weights[name] *= ratio
                moved = True
    if not moved:
        return list(rows)
    total = sum(weights.values()) + rest
    return sorted(((name, round(w / total, 4)) for name, w in weights.items()), key=lambda row: (-row[1], row[0]))
