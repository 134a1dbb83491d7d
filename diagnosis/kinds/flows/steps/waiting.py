"""Measures for each step how long each member and each transfer delayed the others.

In a synchronous job every rank waits for another, so a slow step looks like silence. The kinds of silence differ in who
could have ended it:

* **Thinking.** A member has received everything that was sent to it, has no transfer in progress, and then sends: it
  computed, loaded data, or got no processor. A member that is silent until another sends to it only waited.
* **Hanging.** All of a transfer is sent, and its answers still come or have yet to come: a queue, a delay or a loss in
  the network. Neither end can act meanwhile. A transfer that its sender continues does not hang: a ring passes data on
  as it arrives, so behind a slow link all its transfers last long.
* **Unanswered.** Transfers (also small ones) without an answer for longer than a kernel delays one: the receiver, or
  its port, is gone.
* **Repeated.** More bytes than usual: the network lost some behind the place where they were seen, so the sender's
  pause before them was not its own.

Needs records short enough to show pauses, including small ones; a capture with only whole transfers has no such pauses
(see ``transfers``). A connection without answers at usual times shows no hanging. O(records log records) of the
analysed steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Floats, Flows, Ints
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("waiting")

#: Maximum number of records; in a large job fewer steps are analysed.
MAX_RECORDS: Final = 1_500_000
#: Usual steps to compare with, at most.
MAX_USUAL_STEPS: Final = 64
#: Maximum number of slow steps.
MAX_SLOW_STEPS: Final = 64


_NEVER: Final = 1e18
_ENDS: Final = ("src", "dst", "low")


@dataclass(frozen=True, slots=True)
class HopDelays:
    """Seconds beyond the usual, one row an analysed step and one column a hop (``src`` to ``dst``, member numbers):
    ``thinking``: of src before it sent to dst; ``hanging``: of transfers on the hop; ``unanswered``: of transfers to
    dst. ``steps``: the numbers of the rows. ``repeated``: bytes that were sent twice.
    """

    steps: Ints
    hops: list[tuple[int, int]]
    thinking: Floats
    hanging: Floats
    unanswered: Floats
    repeated: Floats


def measure_waiting(
    job: JobFlows, steps: Steps, slow: Bools, capture: Capture, *, all_steps: bool = False
) -> HopDelays | None:
    """The delays of each hop in the slow steps and in some usual ones, or in ``all_steps``; None if there is nothing to
    compare.
    """
    calm = np.flatnonzero(~slow)
    each = max(1.0, len(job.flows) / max(1, len(steps)))
    most = int(MAX_RECORDS / each)
    chosen_calm = _evenly_spread(calm, max(THRESHOLDS.min_usual_steps, min(MAX_USUAL_STEPS, most // 2)))
    if all_steps:
        chosen_calm, chosen = calm, np.arange(len(steps))
    else:
        chosen = np.unique(
            np.concatenate([chosen_calm, _evenly_spread(np.flatnonzero(slow), max(1, min(MAX_SLOW_STEPS, most // 2)))])
        )
    if len(chosen_calm) < 3:
        return None
    table = step_records(job, steps, chosen, capture)
    if not _shows_answers(table):
        return None
    every = _transfers_until(table, chosen_calm)
    training = every.join(_training_connections(every), on=["src", "dst", "low"], how="semi")
    hops = [(int(a), int(b)) for a, b in every.select("src", "dst").unique().sort("src", "dst").iter_rows()]
    rows = np.isin(chosen, chosen_calm)
    thinking, hanging, unanswered = (
        _beyond_usual(part, chosen, hops, rows)
        for part in (_thinking_s(training, _ready_s(training, chosen_calm)), _hanging_s(training), _unanswered_s(every))
    )
    volume = every.group_by("step", "src", "dst").agg(seconds=pl.col("size").sum())
    repeated = _repeated_bytes(
        _beyond_usual(volume, chosen, hops, rows), _usual_bytes(volume, hops, len(chosen)), chosen, rows
    )
    lost = (repeated > 0) & (thinking > 0)
    hanging = hanging + np.where(lost, thinking, 0.0)
    return HopDelays(chosen, hops, np.where(lost, 0.0, thinking), hanging, unanswered, repeated)


def step_records(job: JobFlows, steps: Steps, chosen: Ints, capture: Capture) -> pl.DataFrame:
    """The records between members of the chosen steps, small ones too: src, dst, low (port), start, end, size, data,
    empty, step, begun (when the step did); sorted by start.
    """
    flows: Flows = capture.flows
    is_between = _is_between_members(job, capture)
    rows = [np.empty(0, np.int64)]
    for first, last in np.searchsorted(flows.start, np.stack([steps.edges[chosen], steps.edges[chosen + 1]], axis=1)):
        rows.append(first + np.flatnonzero(is_between(flows.take(slice(first, last)))))
        flows.let_go()
    chosen_records = flows.take(np.unique(np.concatenate(rows)))
    step = np.clip(steps.of(chosen_records.start), 0, len(steps) - 1)
    return _table(chosen_records).with_columns(step=step, begun=steps.start[step])


def shows_turns(job: JobFlows, steps: Steps, capture: Capture) -> bool:
    """Whether the records are fine enough for these measures, from a few steps in the middle."""
    middle = len(steps) // 2
    chosen = np.arange(max(0, middle - 2), min(len(steps), middle + 3))
    return _shows_answers(step_records(job, steps, chosen, capture))


def last_messages(job: JobFlows, since: float, until: float, capture: Capture) -> pl.DataFrame:
    """For each direction of the training connections, of what began from ``since`` to ``until``: the last time src sent
    to dst (null if never), and the last time dst sent to src: columns src, dst, low, spoke, heard.
    """
    first, last = np.searchsorted(capture.flows.start, [since, np.nextafter(until, np.inf)])
    inside = capture.flows.take(slice(first, last))
    table = _table(inside.take(_is_between_members(job, capture)(inside))).filter(~pl.col("empty"))
    training = _training_connections(table)
    spoke = table.group_by(*_ENDS).agg(spoke=pl.col("end").max())
    heard = spoke.select("low", src="dst", dst="src", heard="spoke")
    both = training.select(_ENDS).join(spoke, on=list(_ENDS), how="left")
    return both.join(heard, on=list(_ENDS), how="left").sort(_ENDS)


def _is_between_members(job: JobFlows, capture: Capture) -> Callable[[Flows], Bools]:
    """Which records are between two members of a job."""
    member = np.zeros(len(capture.names), dtype=bool)
    member[job.members] = True
    return lambda part: np.asarray(member[part.src] & member[part.dst] & (part.src != part.dst))


def _table(part: Flows) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "src": part.src,
            "dst": part.dst,
            "low": part.port,
            "start": part.start,
            "end": part.end,
            "size": np.nan_to_num(part.size),
            "data": ~part.control,
            "empty": part.empty,
        }
    )


def _shows_answers(table: pl.DataFrame) -> bool:
    """Whether the records show answers: small ones come back on most hops with data. If an exporter gives only whole
    transfers, all hops of a collective last until its last sender is ready, and silence does not show who delayed
    it.
    """
    data = table.filter("data").select("src", "dst").unique()
    words = table.filter(~pl.col("data")).select(src="dst", dst="src").unique()
    return data.height > 0 and data.join(words, on=["src", "dst"]).height >= THRESHOLDS.min_small_share * data.height


def _evenly_spread(numbers: Ints, most: int) -> Ints:
    """At most this many of the numbers, evenly spread."""
    if len(numbers) <= most:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]


def _transfers_until(table: pl.DataFrame, calm: Ints) -> pl.DataFrame:
    """The programs' transfers (no bare acknowledgements), with ``until``: the time of an answer or of the sender's next
    transfer; the end of the answers that began during it, or of the transfer if answers are not visible.
    """
    low = table.filter(~pl.col("data")).sort("start").select(
        "low", src="dst", dst="src", low_start="start", low_end=pl.col("end").cum_max().over("src", "dst", "low")
    )  # fmt: skip
    back = table.select(
        "low", src="dst", dst="src", back_start="start", back_end=pl.col("end").cum_max().over("src", "dst", "low")
    )
    sent = table.filter(~pl.col("empty")).join_asof(
        back.sort("back_end"), left_on="start", right_on="back_end", by=list(_ENDS), strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    sent = sent.with_columns(again=pl.col("start").shift(-1).over(*_ENDS))
    sent = sent.join_asof(
        low, left_on="end", right_on="low_start", by=list(_ENDS), strategy="backward", check_sortedness=False
    )  # fmt: skip
    answer = pl.when(pl.col("back_start") <= pl.col("end")).then("end").otherwise("back_start")
    answer = pl.max_horizontal(answer, pl.when("data").then("low_end"))
    until = pl.min_horizontal(answer.fill_null(_NEVER), pl.col("again").fill_null(_NEVER))
    until = pl.when(until < _NEVER).then(pl.max_horizontal(until, "end")).otherwise("end")
    sent = sent.with_columns(until=until)
    quick = (pl.col("until") <= pl.col("end") + THRESHOLDS.answer_delay_s) & pl.col("back_start").is_not_null()
    usual = sent.filter(pl.col("step").is_in(calm.tolist())).group_by(*_ENDS).agg(answered=quick.mean())
    sent = sent.join(usual, on=list(_ENDS), how="left", maintain_order="left")
    return sent.with_columns(
        until=pl.when(pl.col("answered").fill_null(0.0) >= THRESHOLDS.min_answered_share).then("until").otherwise("end")
    )


def _training_connections(sent: pl.DataFrame) -> pl.DataFrame:
    """The connections with most of the training's bytes, both directions of each: src, dst, low."""
    volume = sent.group_by(*_ENDS).agg(pl.col("size").sum())
    both = pl.concat([volume, volume.select(pl.col("dst").alias("src"), pl.col("src").alias("dst"), "low", "size")])
    both = both.group_by(*_ENDS).agg(pl.col("size").sum())
    return both.filter(pl.col("size") >= THRESHOLDS.min_training_share * pl.col("size").max())


def _ready_s(sent: pl.DataFrame, calm: Ints) -> float:
    """The usual seconds from the begin of a step until its first member sends: all compute until then."""
    first = sent.filter(pl.col("data") & pl.col("step").is_in(calm.tolist())).group_by("step")
    ready = first.agg((pl.col("start").min() - pl.col("begun").first()).alias("seconds"))["seconds"].median()
    return max(0.0, float(ready)) if isinstance(ready, float) else 0.0


def _thinking_s(transfers: pl.DataFrame, ready: float) -> pl.DataFrame:
    """For each step and hop: how long src was silent, with no transfer in progress, before it sent to dst. The time
    until the first member is usually ``ready`` is nobody's: else the fastest, which waits for no one, had all of it.
    Nor is the time from a word of src to its data, if dst said nothing in between: src was ready and waited for dst.
    """
    until = pl.when("data").then("until").otherwise("end").alias("until")
    sent = transfers.select(
        "step", "begun", "start", until, "low", "data", who="src", whom="dst", own=pl.lit(value=True)
    )
    received = transfers.select(
        "step", "begun", "start", until, "low", "data", who="dst", whom="src", own=pl.lit(value=False)
    )
    events = pl.concat([sent, received]).sort("who", "start")
    on = ["who", "whom", "low", "step"]
    asked = (pl.col("own") & ~pl.col("data")).shift(1).over(on).fill_null(value=False) & pl.col("data")
    events = events.with_columns(asked=asked)
    before = pl.col("until").cum_max().shift(1).over("who", "step").fill_null(pl.col("begun"))
    before = pl.max_horizontal(before, pl.col("begun") + ready)
    events = events.with_columns(seconds=(pl.col("start") - before).clip(lower_bound=0.0))
    events = events.filter(pl.col("own") & ~pl.col("asked"))
    return events.group_by("step", src="who", dst="whom").agg(pl.col("seconds").sum())


def _hanging_s(transfers: pl.DataFrame) -> pl.DataFrame:
    """For each step and hop: how long transfers were in progress although nothing was sent, overlaps counted once."""
    data = transfers.filter("data").sort("src", "dst", "start")

    def lasting(end: str) -> pl.Expr:
        before = pl.col(end).cum_max().shift(1).over("src", "dst").fill_null(-1.0)
        return (pl.col(end) - pl.max_horizontal("start", before)).clip(lower_bound=0.0)

    seconds = lasting("until") - lasting("end")
    return data.with_columns(seconds=seconds).group_by("step", "src", "dst").agg(pl.col("seconds").sum())


def _unanswered_s(transfers: pl.DataFrame) -> pl.DataFrame:
    """For each step and hop: how long transfers had no answer, beyond the delay of kernels."""
    late = (pl.col("until") - pl.col("end") - THRESHOLDS.answer_delay_s).clip(lower_bound=0.0)
    return transfers.with_columns(seconds=late).group_by("step", "src", "dst").agg(pl.col("seconds").sum())


def _usual_bytes(volume: pl.DataFrame, hops: Sequence[tuple[int, int]], steps: int) -> Floats:
    """The mean bytes of each hop in a step."""
    mean = {
        (a, b): size / steps for a, b, size in volume.group_by("src", "dst").agg(pl.col("seconds").sum()).iter_rows()
    }
    return np.array([mean[hop] for hop in hops])


def _repeated_bytes(beyond: Floats, usual: Floats, chosen: Ints, calm: Bools) -> Floats:
    """The bytes beyond the usual, without those that only moved from a neighbouring step: a boundary that is cut a
    little late adds to one step what it takes from the next.
    """
    moved = beyond.copy()
    near = np.diff(chosen) == 1
    moved[1:][near] = np.minimum(moved[1:], beyond[1:] + np.minimum(beyond[:-1], 0.0))[near]
    moved[:-1][near] = np.minimum(moved[:-1], beyond[:-1] + np.minimum(beyond[1:], 0.0))[near]
    moved = np.maximum(moved, 0.0)
    scatter = MAD_TO_SIGMA * np.median(moved[calm], axis=0)
    least = np.maximum(
        np.maximum(THRESHOLDS.min_repeated_bytes, THRESHOLDS.min_repeated_share * usual),
        THRESHOLDS.min_deviations * scatter,
    )
    carries = usual >= THRESHOLDS.min_carried_share * usual.max(initial=0.0)
    return np.where((moved > least) & carries, moved, 0.0)


def _beyond_usual(part: pl.DataFrame, chosen: Ints, hops: Sequence[tuple[int, int]], calm: Bools) -> Floats:
    """The seconds as steps × hops, less the median of usual steps."""
    number = {hop: at for at, hop in enumerate(hops)}
    table = np.zeros((len(chosen), len(hops)))
    rows = np.searchsorted(chosen, part["step"].to_numpy())
    columns = np.array([number[hop] for hop in part.select("src", "dst").iter_rows()], dtype=np.int64)
    table[rows, columns] = part["seconds"].to_numpy()
    return np.asarray(table - np.median(table[calm], axis=0))
