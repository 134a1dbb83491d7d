"""The head row of statistics: how many failures, what they cost, how often and how long; each with its basis. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from triage.selectors.sums import Sums

#: below this run time a rate is not significant and is shown as not known
MIN_RUN_S = 86_400.0
ETTR_TITLE = "Effective training time (ETTR)"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the head row, and its value in the period before. ``None`` if unknown.

    ``basis`` says what it is computed from, or what is missing.
    """

    key: str
    title: str
    value: float | None
    before: float | None
    unit: str
    is_more_better: bool
    basis: str = ""

    @property
    def change(self) -> float | None:
        """Relative change, as a fraction; 0 if pages show it as 0 %."""
        if self.value is None or not self.before:
            return None
        change = (self.value - self.before) / self.before
        return 0.0 if abs(change) < 0.005 else change

    @property
    def is_better(self) -> bool | None:
        return None if not self.change else (self.change > 0) == self.is_more_better


class Effective(NamedTuple):
    """The fleet's ratio of effective training time in a period, and the seconds that its jobs
    lasted in it from their first steps to their ends.
    """

    ettr: float | None = None
    lasted_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Exposure:
    """How long jobs ran in a period, the denominator of failure rates, and what was effective."""

    wall_s: float
    node_days: float
    effective: Effective


def _ratio(numerator: float, denominator: float) -> float | None:
    """None where there is nothing to divide by."""
    return numerator / denominator if denominator else None


def figures_of(sums: tuple[Sums, Sums], exposure: tuple[Exposure, ...]) -> tuple[Figure, ...]:
    """The figures of a period and of the one before, in the order of the page."""

    def figure(key: str, title: str, unit: str, is_more_better: bool, of: _Measure) -> Figure:
        (now, basis), (before, _) = (of(part, ran) for part, ran in zip(sums, exposure, strict=True))
        return Figure(key, title, now, before, unit, is_more_better, basis)

    return (
        figure("incidents", "Incidents", "", False, _incidents),
        figure("gpu_hours", "GPU-hours lost", "h", False, _gpu_hours),
        figure("mtbf", "Between incidents (MTBF)", "s", True, _mtbf),
        figure("mttd", "Until detected (MTTD)", "s", False, _mttd),
        figure("mttr", "Until repaired (MTTR)", "s", False, _mttr),
        figure("ettr", ETTR_TITLE, "%", True, _ettr),
        figure("right", "Verdicts confirmed", "%", True, _right_share),
    )


#: a value with its basis; None with what is missing
type _ValueAndBasis = tuple[float | None, str]
_Measure = Callable[[Sums, "Exposure"], _ValueAndBasis]


def _count(number: float, of: str) -> str:
    return f"{number:,.0f} {of}{'' if number == 1 else 's'}"


def _incidents(part: Sums, _: Exposure) -> _ValueAndBasis:
    imported = part.incidents - part.diagnosed
    return part.incidents, f"{imported:,.0f} of them imported" if imported else ""


def _gpu_hours(part: Sums, _: Exposure) -> _ValueAndBasis:
    if part.incidents and not part.priced:
        return None, "no evidence shows what an incident cost"
    if not part.incidents:
        return part.gpu_hours, ""
    of_all = f"of {part.priced:,.0f} of {_count(part.incidents, 'incident')}"
    if part.assumed:
        of_all += f", {part.assumed:,.0f} of them with an assumed number of GPUs"
    return part.gpu_hours, of_all


def _too_short(ran: Exposure) -> str:
    hours = f"{ran.wall_s / 3600:,.1f} h" if ran.wall_s else "no"
    return f"{hours} run time observed, {MIN_RUN_S / 3600:.0f} h needed" if ran.wall_s < MIN_RUN_S else ""


def mtbf_s(ran_s: float, diagnosed: float) -> float | None:
    """Seconds that attempts ran for each diagnosed incident; None without one, and below a day."""
    return _ratio(ran_s, diagnosed) if ran_s >= MIN_RUN_S else None


def _mtbf(part: Sums, ran: Exposure) -> _ValueAndBasis:
    if missing := _too_short(ran):
        return None, missing
    failures = _count(part.diagnosed, "incident") if part.diagnosed else "no incident"
    return mtbf_s(ran.wall_s, part.diagnosed), f"{failures} in {ran.wall_s / 3600:,.0f} h"


def _mttd(part: Sums, _: Exposure) -> _ValueAndBasis:
    if not part.detections:
        return None, "no evidence came within a day of the failure" if part.diagnosed else ""
    late = part.diagnosed - part.detections
    left_out = f"; {late:,.0f} uploaded late or without times left out" if late else ""
    basis = f"of {_count(part.detections, 'incident')}{left_out}"
    return _ratio(part.detected_s, part.detections), basis


def _mttr(part: Sums, _: Exposure) -> _ValueAndBasis:
    basis = f"of {_count(part.repairs, 'resolved one')}" if part.repairs else "none was resolved"
    return _ratio(part.repaired_s, part.repairs), basis


def _ettr(_: Sums, ran: Exposure) -> _ValueAndBasis:
    return _known_ettr(ran.effective)


def _known_ettr(found: Effective) -> _ValueAndBasis:
    if found.ettr is None:
        return None, "no logs show steps with times"
    if found.lasted_s < MIN_RUN_S:
        needed = f"{MIN_RUN_S / 3600:.0f} h needed"
        return None, f"{found.lasted_s / 3600:,.1f} h with known steps, {needed}"
    return found.ettr, f"of {found.lasted_s / 3600:,.0f} h with known steps"


def ettr_figure(found: Effective) -> Figure:
    """The same figure as among :func:`figures_of`, without the period before."""
    value, basis = _known_ettr(found)
    return Figure("ettr", ETTR_TITLE, value, None, "%", True, basis)


def _right_share(part: Sums, _: Exposure) -> _ValueAndBasis:
    basis = f"{part.right:,.0f} of {part.judged:,.0f} judged" if part.judged else "none was judged"
    return _ratio(part.right, part.judged), basis
