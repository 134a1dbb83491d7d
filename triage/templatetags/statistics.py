"""Tags of the statistics page: figures with units, and addresses that keep the page's state."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from diagnosis.values.plain import percent
from ingest.roles import can
from triage.selectors.nodes import FleetRow, MonthOfNode
from triage.selectors.period_figures import Figure
from triage.selectors.sums import Period, Sums
from triage.wording import amount, duration, money, number, ratio

register = template.Library()


@register.filter
def figure_value(figure: Figure) -> str:
    """The value with its unit, or that it is unknown."""
    if figure.value is None:
        return "not known"
    if figure.unit == "s":
        return duration(figure.value)
    if figure.unit == "%":
        return ratio(figure.value)
    return f"{amount(figure.value)} {figure.unit}" if figure.unit else number(figure.value)


_MEANINGS = {
    "incidents": "Failed, hung or slow episodes that happened in the period, and imported faults, with any verdict.",
    "gpu_hours": "What incidents cost, in three parts, times the GPUs of the job. Lost: from the last progress to "
    "the end of the attempt; of slow steps the time beyond the usual. Waited for: from there until training ran "
    "again. Repeated: steps that had to run again. A wait of more than a day does not count: then others had the "
    "machines. GPUs are those that are "
    "stated, else the ranks, else the devices seen, else an assumed number for each node.",
    "mtbf": "Run time of all attempts that ended in the period, healthy ones too, divided by the number of "
    "diagnosed incidents. A job's Cost tab counts the same. Unknown below a day of observed run time, and without a "
    "failure. Imported faults have no run time and do not count.",
    "mttd": "Mean time from the failure in the evidence to the first diagnosis. Evidence that was uploaded more than a "
    "day after the end of its attempt is left out: its age is no time to detection.",
    "mttr": "Mean time from the failure until a person called the incident resolved. When training ran again "
    "stands on a job's Cost tab.",
    "ettr": "Effective training time ratio: the share of GPU time whose steps count in the end. All GPU time is from "
    "the first step of each job to its end. The same as in Planning and, of one job, on its Cost tab. Unknown "
    "below a day.",
    "right": "The share of confirmed categories among those that the machine named and people judged. Imported faults "
    "and incidents without a category of the machine do not count.",
}


register.filter(money)


@register.filter
def cost_parts(sums: Sums) -> list[dict[str, Any]]:
    """The parts of the GPU-hours lost, with the place of each in a bar of 100 units."""
    hours = {"lost": sums.lost_gpu_hours, "waited": sums.waited_gpu_hours, "repeated": sums.repeated_gpu_hours}
    total = sum(hours.values()) or 1.0
    parts, begin = [], 0.0
    for name, value in hours.items():
        width = 100 * value / total
        parts.append({"name": name, "hours": value, "begin": round(begin, 2), "width": round(width, 2)})
        begin += width
    return parts


_LEMON_WORDS = {
    "confirmed": "confirmed by people",
    "unreviewed": "not judged",
    "alone": "accused alone",
    "suspended": "out of service",
}


@register.filter
def hundredths(value: float) -> float:
    """A score from 0 to 1 as a width in a bar of 100 units."""
    return round(100 * value, 1)


@register.filter
def lemon_bar(row: FleetRow) -> list[dict[str, Any]]:
    """The parts of a lemon score, with the place of each in a bar of 100 units for a score of 1."""
    total = sum(row.lemon_parts.values()) or 1.0
    shares = {name: row.lemon * value / total for name, value in row.lemon_parts.items() if value}
    parts, begin = [], 0.0
    for name, share in shares.items():
        place = {"begin": round(100 * begin, 2), "width": round(100 * share, 2)}
        parts.append({"name": name, "words": f"{share:.2f} {_LEMON_WORDS[name]}", **place})
        begin += share
    return parts


#: height of a bar of a month, in units of its picture
_BAR = 40


@register.filter
def year_bars(months: list[MonthOfNode]) -> list[dict[str, Any]]:
    """The months with the places of their bars; the highest fills its picture."""
    most = max((one.accused for one in months), default=0) or 1
    bars = []
    for one in months:
        confirmed = round(_BAR * one.confirmed / most, 2)
        alone = round(_BAR * (one.accused - one.confirmed) / most, 2)
        tops = {"confirmed_top": _BAR - confirmed, "accused_top": _BAR - confirmed - alone}
        heights = {"confirmed_height": confirmed, "accused_height": alone}
        bars.append({**one._asdict(), **tops, **heights})
    return bars


@register.filter
def meaning(figure: Figure) -> str:
    """What the figure counts, in a sentence."""
    return _MEANINGS[figure.key]


@register.filter
def fine(seconds: float | None) -> str:
    """Very short or normal durations: 12 µs, 3.4 ms, 20 s."""
    if seconds is None or seconds >= 1:
        return duration(seconds)
    value, unit = (seconds * 1e3, "ms") if seconds >= 1e-3 else (seconds * 1e6, "µs")
    return f"{value:.3g} {unit}"


@register.filter
def hours(value: float) -> str:
    """Hours in the most readable unit."""
    return duration(value * 3600)


@register.filter
def figure_change(figure: Figure) -> str:
    """The change against the period before, in words and with a sign."""
    if figure.value is None:
        return ""
    if figure.before is None:
        return "no figure before"
    if figure.unit == "%":
        return f"{(figure.value - figure.before) * 100:+.1f} points"
    if figure.change is None and figure.value:
        return "none before"
    if not figure.change:
        return "as before"
    return f"{'▲' if figure.change > 0 else '▼'} {percent(abs(figure.change))} against before"


@register.filter
def compared(figure: Figure) -> str:
    """The change as a part of a sentence; empty if nothing can be compared."""
    if not figure.change:
        return ""
    return f"{percent(abs(figure.change))} {'more' if figure.change > 0 else 'less'}"


@register.filter
def in_money_and_compared(cost: Figure, period: Period) -> str:
    """What follows the GPU-hours in a sentence: “ (190 EUR), 50 % less than in the month before”;
    may be empty.
    """
    price, change = money(cost.value), compared(cost)
    in_money = f" ({price})" if price else ""
    return in_money + (f", {change} than in {period.before_words}" if change else "")


@register.simple_tag(takes_context=True)
def with_params(context: dict[str, Any], **changes: Any) -> str:
    """The page's own address with some parameters changed; None removes one."""
    params = {**context["params"].dict(), **changes}
    return f"?{urlencode({name: value for name, value in params.items() if value not in (None, '')})}"


@register.simple_tag(takes_context=True)
def csv_link(context: dict[str, Any], table: str) -> SafeString | str:
    """A link to the table as CSV, for people who may export."""
    if not can(context["request"].user, "export"):
        return ""
    url = f"{reverse('statistics-csv', args=[table])}{with_params(context)}"
    return format_html('<a class="csv" href="{}" download>CSV</a>', url)
