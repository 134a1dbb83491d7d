"""Whose turn it was, step by step: what each member and each transfer held up.

In a synchronous job everybody waits for somebody, so a slow step shows as silence. Silence is told apart by who could
have ended it:

* **Thinking.** A member that has heard all that it was sent, has nothing under way, and then speaks itself was the one
  to act: it computed, loaded data, or got no processor. Whoever is silent until another speaks to it only waited.
* **Hanging.** A transfer during which nothing comes back hangs until something does: a queue, a delay or a loss
  on the way. Neither end can act meanwhile.
* **Unanswered.** Words (also small ones) to which no answer comes for longer than a kernel delays one: the receiver,
  or its port, is gone.

Needs records short enough to show pauses, small ones among them; a capture of whole transfers alone says nothing here
(see ``transfers`` for what it says). A connection on which answers are not seen at usual times tells of no hanging.
O(records log records) of the steps that are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis.flows.capture import Bools, Capture, Floats, Flows, Ints
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.steps import Steps

#: Records looked at in all; of a large job fewer steps are.
LOOK: Final = 1_500_000
#: Usual steps to compare with, at most and at least.
CALM: Final = 64
CALM_LEAST: Final = 8
#: Slow steps looked at, at most.
SLOW: Final = 64
#: Kernels delay the answer to a small packet by up to 40 ms, and send again what is lost after 200 ms.
DELAYED_S: Final = 0.06
#: A connection that moves less than this share of the busiest one's bytes only coordinates.
TRAINING: Final = 0.005
#: Answers are seen on a connection if they are to this share of its transfers of usual steps.
ANSWERED: Final = 0.8

#: Small records must come back on this share of the hops that carry data.
WORDS: Final = 0.5

_NEVER: Final = 1e18
_ENDS: Final = ("src", "dst", "low")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Seconds beyond the usual, one row a looked-at step and one column a hop (``src`` to ``dst``, member numbers):
    ``thinking`` of src before it spoke to dst; ``hanging`` of transfers on the hop; ``unanswered`` words to dst.
    ``steps``: the numbers of the rows.
    """

    steps: Ints
    hops: list[tuple[int, int]]
    thinking: Floats
    hanging: Floats
    unanswered: Floats


def waiting(job: JobFlows, steps: Steps, slow: Bools, capture: Capture) -> Waiting | None:
    """What each hop held up in the slow steps and in some of the usual ones; None where there is nothing to compare."""
    calm = np.flatnonzero(~slow)
    each = max(1.0, len(job.flows) / max(1, len(steps)))
    most = int(LOOK / each)
    chosen_calm = _spread(calm, max(CALM_LEAST, min(CALM, most // 2)))
    chosen = np.unique(np.concatenate([chosen_calm, _spread(np.flatnonzero(slow), max(1, min(SLOW, most // 2)))]))
    if len(chosen_calm) < 3:
        return None
    table = records(job, steps, chosen, capture)
    if not _shows_words(table):
        return None
    every = _until(table, chosen_calm)
    training = every.join(_training(every), on=["src", "dst", "low"], how="semi")
    hops = [(int(a), int(b)) for a, b in every.select("src", "dst").unique().sort("src", "dst").iter_rows()]
    rows = np.isin(chosen, chosen_calm)
    found = [
        _beyond(part, chosen, hops, rows) for part in (_thinking(training), _hanging(training), _unanswered(every))
    ]
    return Waiting(chosen, hops, *found)


def records(job: JobFlows, steps: Steps, chosen: Ints, capture: Capture) -> pl.DataFrame:
    """The records between members of the chosen steps, small ones too: src, dst, low (port), start, end, size, data,
    empty, step, begun (when the step did); sorted by start.
    """
    flows: Flows = capture.flows
    inside = np.zeros(len(flows), dtype=bool)
    for k in chosen:
        first, last = np.searchsorted(flows.start, steps.edges[[k, k + 1]])
        inside[first:last] = True
    mine = flows.take(inside & _among(job, capture))
    step = np.clip(steps.of(mine.start), 0, len(steps) - 1)
    return _table(mine).with_columns(step=step, begun=steps.start[step])


def shows_turns(job: JobFlows, steps: Steps, capture: Capture) -> bool:
    """Whether the records are fine enough to say whose turn it was, by a few steps from the middle."""
    middle = len(steps) // 2
    chosen = np.arange(max(0, middle - 2), min(len(steps), middle + 3))
    return _shows_words(records(job, steps, chosen, capture))


def last_words(job: JobFlows, since: float, capture: Capture) -> pl.DataFrame:
    """For each direction of the connections that carry the training, from ``since`` on: when src last spoke to dst
    (null where it did not), and when dst last spoke to src: columns src, dst, low, spoke, heard.
    """
    flows = capture.flows
    table = _table(flows.take((flows.start >= since) & _among(job, capture))).filter(~pl.col("empty"))
    training = _training(table)
    spoke = table.group_by(*_ENDS).agg(spoke=pl.col("end").max())
    heard = spoke.select("low", src="dst", dst="src", heard="spoke")
    both = training.select(_ENDS).join(spoke, on=list(_ENDS), how="left")
    return both.join(heard, on=list(_ENDS), how="left").sort(_ENDS)


def _among(job: JobFlows, capture: Capture) -> Bools:
    """The records between two members of a job."""
    member = np.zeros(len(capture.names), dtype=bool)
    member[job.members] = True
    flows = capture.flows
    return np.asarray(member[flows.src] & member[flows.dst] & (flows.src != flows.dst))


def _table(mine: Flows) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "src": mine.src,
            "dst": mine.dst,
            "low": mine.port,
            "start": mine.start,
            "end": mine.end,
            "size": np.nan_to_num(mine.size),
            "data": ~mine.control,
            "empty": mine.empty,
        }
    )


def _shows_words(table: pl.DataFrame) -> bool:
    """Whether the records show who answers whom: small ones come back on most hops that carry data. Where an exporter
    gives whole transfers alone, all hops of a collective last until its last sender is ready, and who was silent says
    nothing of whose turn it was."""
    data = table.filter("data").select("src", "dst").unique()
    words = table.filter(~pl.col("data")).select(src="dst", dst="src").unique()
    return data.height > 0 and data.join(words, on=["src", "dst"]).height >= WORDS * data.height


def _spread(numbers: Ints, most: int) -> Ints:
    """At most so many of the numbers, evenly spread."""
    if len(numbers) <= most:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]


def _until(table: pl.DataFrame, calm: Ints) -> pl.DataFrame:
    """What programs said (no bare acknowledgements), with ``until``: when something came back, or the sender spoke
    again, or the end where something came back meanwhile or where answers are not seen.
    """
    back = table.select(
        "low", src="dst", dst="src", back_start="start", back_end=pl.col("end").cum_max().over("src", "dst", "low")
    )
    said = table.filter(~pl.col("empty")).join_asof(
        back.sort("back_end"), left_on="start", right_on="back_end", by=list(_ENDS), strategy="forward",
        check_sortedness=False,
    )  # fmt: skip
    said = said.with_columns(again=pl.col("start").shift(-1).over(*_ENDS))
    answer = pl.when(pl.col("back_start") <= pl.col("end")).then("end").otherwise("back_start")
    until = pl.min_horizontal(answer.fill_null(_NEVER), pl.col("again").fill_null(_NEVER))
    until = pl.when(until < _NEVER).then(pl.max_horizontal(until, "end")).otherwise("end")
    said = said.with_columns(until=until)
    quick = (pl.col("until") <= pl.col("end") + DELAYED_S) & pl.col("back_start").is_not_null()
    usual = said.filter(pl.col("step").is_in(calm.tolist())).group_by(*_ENDS).agg(answered=quick.mean())
    said = said.join(usual, on=list(_ENDS), how="left", maintain_order="left")
    return said.with_columns(
        until=pl.when(pl.col("answered").fill_null(0.0) >= ANSWERED).then("until").otherwise("end")
    )


def _training(said: pl.DataFrame) -> pl.DataFrame:
    """The connections that carry the training's bytes, both directions of each: src, dst, low."""
    volume = said.group_by(*_ENDS).agg(pl.col("size").sum())
    both = pl.concat([volume, volume.select(pl.col("dst").alias("src"), pl.col("src").alias("dst"), "low", "size")])
    both = both.group_by(*_ENDS).agg(pl.col("size").sum())
    return both.filter(pl.col("size") >= TRAINING * pl.col("size").max())


def _thinking(said: pl.DataFrame) -> pl.DataFrame:
    """For each step and hop: how long src was silent with nothing under way before it spoke to dst."""
    until = pl.when("data").then("until").otherwise("end").alias("until")
    sent = said.select("step", "begun", "start", until, who="src", whom="dst", own=pl.lit(value=True))
    heard = said.select("step", "begun", "start", until, who="dst", whom="src", own=pl.lit(value=False))
    events = pl.concat([sent, heard]).sort("who", "start")
    before = pl.col("until").cum_max().shift(1).over("who", "step").fill_null(pl.col("begun"))
    events = events.with_columns(seconds=(pl.col("start") - before).clip(lower_bound=0.0)).filter("own")
    return events.group_by("step", src="who", dst="whom").agg(pl.col("seconds").sum())


def _hanging(said: pl.DataFrame) -> pl.DataFrame:
    """For each step and hop: how long transfers were under way, each moment once."""
    data = said.filter("data").sort("src", "dst", "start")
    before = pl.col("until").cum_max().shift(1).over("src", "dst").fill_null(-1.0)
    seconds = (pl.col("until") - pl.max_horizontal("start", before)).clip(lower_bound=0.0)
    return data.with_columns(seconds=seconds).group_by("step", "src", "dst").agg(pl.col("seconds").sum())


def _unanswered(said: pl.DataFrame) -> pl.DataFrame:
    """For each step and hop: how long words went without an answer beyond what kernels delay one."""
    late = (pl.col("until") - pl.col("end") - DELAYED_S).clip(lower_bound=0.0)
    return said.with_columns(seconds=late).group_by("step", "src", "dst").agg(pl.col("seconds").sum())


def _beyond(part: pl.DataFrame, chosen: Ints, hops: Sequence[tuple[int, int]], calm: Bools) -> Floats:
    """The seconds as steps × hops, less the median of usual steps."""
    number = {hop: at for at, hop in enumerate(hops)}
    table = np.zeros((len(chosen), len(hops)))
    rows = np.searchsorted(chosen, part["step"].to_numpy())
    columns = np.array([number[hop] for hop in part.select("src", "dst").iter_rows()], dtype=np.int64)
    table[rows, columns] = part["seconds"].to_numpy()
    return np.asarray(table - np.median(table[calm], axis=0))
