"""The loss of the job is not a number, or jumped far above its own noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.live.news import Alarm, News
from diagnosis.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("losses")

id: Final = "loss"
why: Final = "a run that diverged wastes every further step, and its own loss says what is noise"
category: Final = "user.numerics"

#: Files whose losses are kept, and losses of each that give the usual one.
MAX_FILES: Final = 8
MAX_USUAL_LOSSES: Final = 64
#: After so many high losses they are the usual ones.
MAX_HIGH_LOSSES: Final = 400


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Add the losses of a file's progress lines, in order; None: not a finite number."""
    files = own.setdefault("files", {})
    if news.source not in files and (len(files) >= MAX_FILES or not news.observation.get("losses")):
        return
    file = files.setdefault(news.source, {"usual": [], "bad": 0, "high": 0})
    if news.has_restarted:
        file.update(bad=0, high=0, usual=[])  # the losses of an earlier iteration are higher
    for n, value in news.observation.get("losses", ()):
        if value is None:
            file.update(bad=file["bad"] + 1, n=n if not file["bad"] else file["n"])
            file["since"] = news.now if file["bad"] == 1 else file["since"]
            continue
        limit = _spike_limit(file["usual"])
        if limit is not None and value > limit and file["high"] < MAX_HIGH_LOSSES:
            file.update(high=file["high"] + 1, n=n if not file["high"] else file["n"], value=value)
            file["since"] = news.now if file["high"] == 1 else file["since"]
            continue
        if file["high"] >= MAX_HIGH_LOSSES:
            file["usual"] = []
        file.update(bad=0, high=0, usual=[*file["usual"], value][-MAX_USUAL_LOSSES:])


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The first file with such losses."""
    for file in own.get("files", {}).values():
        if file["bad"] >= THRESHOLDS.in_turn:
            text = f"The loss is not a finite number since iteration {file['n']:,}."
            return Alarm(id, text, file["since"], category)
        if file["high"] >= THRESHOLDS.in_turn:
            usual = median(file["usual"])
            text = f"The loss jumped to {file['value']:.4g} at iteration {file['n']:,}; before it was {usual:.4g}."
            return Alarm(id, text, file["since"], category)
    return None


def _spike_limit(usual: Sequence[float]) -> float | None:
    """The loss above which it is a spike; None while the usual one is not known."""
    if len(usual) < THRESHOLDS.usual:
        return None
    middle = median(usual)
    spread = MAD_TO_SIGMA * median(abs(value - middle) for value in usual)
    return float(middle + max(THRESHOLDS.spreads * spread, THRESHOLDS.share * abs(middle)))
