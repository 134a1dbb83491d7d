"""What one kind of evidence adds to the conclusion, for the top of its tab, in the same words as everywhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from diagnosis.conclusion.model import PROBLEM_CONDITIONS

#: Maximum texts and culprits.
MAX_ROWS = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """``sentence`` is the conclusion's; ``texts`` what this evidence shows; ``accused`` (name, probability) of those
    that it accuses; ``is_open`` whether anything is wrong.
    """

    sentence: str
    condition: str
    texts: tuple[str, ...]
    accused: tuple[tuple[str, float], ...]
    is_open: bool


def answer_of(report: dict[str, Any], source: str, *, shown: Collection[str] = ()) -> Answer | None:
    """The top of the tab of ``source`` (flows or stacks), without the texts that are ``shown``
    beneath it; None for a report without a conclusion.
    """
    conclusion = report.get("conclusion")
    if not conclusion:
        return None
    sentence = str(report.get("headline") or conclusion.get("sentence") or "")
    rows = [row for row in conclusion.get("chain") or [] if row.get("source") == source and not _is_mere_silence(row)]
    texts = [str(row.get("text") or "") for row in rows]
    # nothing is told twice
    texts = [text for text in texts if text not in shown and text.rstrip(".") not in sentence]
    accused = [
        (display_name(row), float(row.get("p") or 0.0))
        for row in conclusion.get("fault") or []
        if source in (row.get("from") or ())
    ]
    return Answer(
        sentence=sentence,
        condition=str(conclusion["condition"]),
        texts=tuple(dict.fromkeys(texts))[:MAX_ROWS],
        accused=tuple(accused[:MAX_ROWS]),
        is_open=conclusion["condition"] in PROBLEM_CONDITIONS,
    )


def _is_mere_silence(row: dict[str, Any]) -> bool:
    """Whether a row says only when a machine fell silent, and nobody waited for it then: the strip shows that."""
    return row.get("what") == "flows_ceased" and row.get("amount") is None


def display_name(row: dict[str, Any]) -> str:
    """One entry of ``fault`` with node and rank: ``node-3 (rank 5)``, ``rank 5``, ``link leaf0-leaf1``."""
    if row.get("kind") in ("rank", "link", "switch"):
        return f"{row['kind']} {row['name']}"
    return f"{row['name']} (rank {row['rank']})" if isinstance(row.get("rank"), int) else str(row["name"])
