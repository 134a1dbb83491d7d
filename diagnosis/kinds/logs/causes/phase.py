"""When it failed: symptom, stage and iteration of one case."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import polars as pl

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes import temporal
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.meaning import stages, words
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role

LIMITS: Final = thresholds.limits("phase")

THRESHOLDS: Final = thresholds.of("phase")

_DEATH_WORDS: Final = words.pattern("phrases", "process_died")
_START_FAILED: Final = words.pattern("phrases", "start_failed")
_WAIT_ENDS: Final = words.pattern("phrases", "wait_ended")
_BROKEN: Final = words.pattern("phrases", "connection_broke")
#: The stated wait of a watchdog, and the number of seconds from which it is a hang.
_WAITED: Final = words.regex("phrases", "waited")
_STATED: Final = words.regex("phrases", "iteration")
#: A root line: its file, line and time (ns), and the lines of its record up to it.
type RootText = tuple[int, int, int | None, list[str]]


@dataclass(frozen=True, slots=True)
class Moment:
    """``symptom`` as the report names it; ``stage``; ``iteration`` None outside training; ``ended_at`` first
    consequence (ns)."""

    symptom: str
    stage: str | None
    iteration: int | None
    ended_at: int | None
    silence_s: float | None = None


def find_moment(case: Case, mechanism: str = "", category: str = "") -> Moment:
    """The moment of failure. ``mechanism``: the category that follows from structure alone, if any; ``category``: that
    of the root events.
    """
    ended_at, is_wait = _ended_at(case)
    if case.table.files and len(case.table.system_files) == len(case.table.files):
        return Moment("crash", None, None, ended_at)  # kernels do not show the activity of a job
    trained = not case.progress.beats.is_empty()
    texts = _root_texts(case)
    stage, is_seen = _stage(case, texts, trained, category)
    has_trained = trained or stage in ("training", "evaluation", "checkpoint_save")
    silence = None
    if ended_at is not None and case.pace.last_at is not None:
        silence = (ended_at - case.pace.last_at) / SECOND
    if _is_slow(case):
        symptom = "slow"
    elif not has_trained and is_seen and stage in stages.BEFORE_TRAINING:
        symptom = "launch_failure"
    elif stopped_after_silence(case) or (is_wait and not _is_death(mechanism) and _has_hung(case, ended_at)):
        symptom = "hang"
    else:
        symptom = "crash"
    if not is_seen and stage in stages.BEFORE_TRAINING:
        stage = None  # an excerpt does not show the beginning of the job
    if symptom in ("slow", "hang"):
        stage = "training" if stage in (None, "shutdown", *stages.BEFORE_TRAINING) else stage
    iteration = None if symptom == "launch_failure" else _iteration(case, symptom, stage, texts)
    return Moment(symptom, stage, iteration, ended_at, silence)


def _has_hung(case: Case, ended_at: int | None) -> bool:
    """Silence before the end, and no worker had died; if no consequence has a time, the wait that watchdogs state."""
    if _has_death(case):
        return False
    if temporal.is_hang(case.pace, ended_at):
        return True
    cascades = case.events.filter(pl.col("role") == Role.CASCADE, pl.col("jobs_with_it") == 0)
    if case.pace.last_at is not None and cascades["is_stamped"].any():
        return False
    waited = [w for text in cascades["example"] if (w := _WAITED.search(text))]
    return any(
        float(w.group(1)) * (1e-3 if w.group(2)[:2] in ("ms", "mi") else 1.0) >= THRESHOLDS.long_wait_s for w in waited
    )


def stopped_after_silence(case: Case) -> bool:
    """Whether a person or a limit ended a job that had hung long before."""
    decided = case.events.filter(case.catalogue.has("decision") & pl.col("is_stamped") & ~pl.col("is_ordinary"))
    at, since = decided["first_at"].min(), case.pace.silent_from
    if at is None or since is None or case.pace.usual_s is None:
        return False
    causes = [e for e in case.roots.members if e not in decided["event"].to_list()]
    silence = (int(at) - since) / SECOND  # type: ignore[arg-type]  # polars' scalars are untyped
    return not causes and silence > max(
        2 * temporal.THRESHOLDS.hang_intervals * case.pace.usual_s, 2 * THRESHOLDS.long_wait_s
    )


def _ended_at(case: Case) -> tuple[int | None, bool]:
    """The time of the first event that ends a job, other than the cause, and whether it ends a wait: a time-out or a
    kill. Errors caused by a broken connection or a dead peer do not.
    """
    roles = [Role.CASCADE, Role.TEARDOWN]
    every = case.events.filter(
        (pl.col("role").is_in(roles) | pl.col("is_exception"))
        & ~pl.col("event").is_in(list(case.roots.members))
        & (pl.col("novelty") >= THRESHOLDS.novel)
        & ~case.is_survived
    )
    beat_at = case.pace.last_at
    rows = every.drop_nulls("first_at")
    rows = rows if beat_at is None else rows.filter((pl.col("first_at") >= beat_at) | _is_open(beat_at))
    stamped = rows.filter("is_stamped")
    first: int | None = (stamped if stamped.height else rows)["first_at"].min()  # type: ignore[assignment]
    if first is None:
        early = rows.head(0)
    else:
        is_same_end = pl.col("first_at") <= first + THRESHOLDS.same_end_s * SECOND
        early = rows.filter(is_same_end | _is_open(first))
    if beat_at is None:
        # workers without any times: their lines may be as old as those of a launcher with times
        early = pl.concat([early, every.filter(pl.col("first_at").is_null())])
    waits = early.filter(pl.col("example").str.contains(_WAIT_ENDS))
    broken = early.filter(pl.col("example").str.contains(_BROKEN))
    if waits.is_empty():
        return first, False
    is_wait = broken.is_empty() or _earliest_first(waits) <= _earliest_first(broken)
    return None if first is None else max(first, beat_at or 0), is_wait


def _is_open(at: int) -> pl.Expr:
    """Events without a time of their own that may come as late as this."""
    return ~pl.col("is_stamped") & (pl.col("until_at").is_null() | (pl.col("until_at") >= at))


def _earliest_first(rows: pl.DataFrame) -> tuple[int, int]:
    """Sorts groups of events by their first time, those on more nodes first."""
    known = rows["first_at"].drop_nulls()
    first = int(known.min()) if known.len() else 0  # type: ignore[arg-type]
    at_first = rows.filter((pl.col("first_at") == first) | pl.col("first_at").is_null())
    return first, -int(at_first["n_nodes"].max())  # type: ignore[arg-type]


def _has_death(case: Case) -> bool:
    return any(
        row["is_exception"] or _is_death(row["category"]) or re.search(_DEATH_WORDS, row["example"])
        for row in map(case.event, case.roots.members)
    )


def _is_death(category: str | None) -> bool:
    return bool(category) and "death" in taxonomy.load().get(category or "").traits


def _is_slow(case: Case) -> bool:
    if case.pace.slow_from is None:
        return False
    lead = case.lead
    if not lead or (lead["category"] or "").startswith("platform.scheduler"):
        return case.ending.outcome in ("cancelled", "running", "unknown", "failed")
    at = lead["first_at"]
    # the cause of a crash comes at the end, the cause of a slowdown at its beginning
    near_start = at is None or case.pace.slow_at is None or abs(at - case.pace.slow_at) < abs(at - (case.last_at or at))
    return not lead["is_exception"] and bool(near_start)


def _root_texts(case: Case) -> list[RootText]:
    """Some root lines."""
    out = []
    order = sorted(case.roots.members, key=lambda e: (-case.roots.weights[e], e))
    for event in order[: LIMITS.roots_read]:
        rows = case.table.rows(case.catalogue.masked(event), limit=200)
        rows = case.clocks.correct(rows, "at")
        first = rows.unique("source", keep="first", maintain_order=True).head(3)
        for file, line, at in first.select("file", "line", "at").iter_rows():
            before = case.table.around(file, max(1, line - LIMITS.frames_back), line)
            source = before.filter(pl.col("line") == line)["source"][0]
            own_lines = before.filter(pl.col("source") == source)
            out.append((file, line, at, raw_lines.read_lines(own_lines, case.table.files, case.read, 400)))
    return out


def _stage(case: Case, texts: list[RootText], trained: bool, category: str) -> tuple[str | None, bool]:
    """The stage, and whether the logs show it: by a marker, a frame, the cause itself or progress."""
    votes: dict[str, float] = defaultdict(float)
    has_frames = False
    for file, line, at, lines in texts:
        if of_frames := stages.stage_of_frames(_frames(lines)):
            has_frames = True
            votes[of_frames] += THRESHOLDS.framed
        elif marked := _last_mark(case, file, line, at):
            votes[marked] += THRESHOLDS.marked
    own = taxonomy.load().get(category).stage or None
    if any(re.search(_START_FAILED, lines[-1]) for _, _, _, lines in texts if lines):
        own = own or "launch"
    if own == "rendezvous" and not trained and not has_frames:
        # earlier markers are from the ranks that arrived; the cause shows what they waited for
        return own, True
    if own is not None and not trained:
        votes[own] += THRESHOLDS.own
    best = max(sorted(votes), key=lambda stage: votes[stage], default=None)
    if stage := best or _stage_at(case, case.roots.t0 or _ended_at(case)[0] or case.last_at):
        # a job that had trained cannot fail in its preparations
        is_late = trained and stage in stages.BEFORE_TRAINING
        return "training" if is_late else stage, stage != "shutdown" or trained
    return "training" if trained else ("launch" if case.roots.members else None), trained


def _frames(lines: list[str]) -> list[str]:
    """The frames of the last traceback above the error; an excerpt may begin within it."""
    start = next((i for i in range(len(lines) - 1, -1, -1) if "Traceback (most recent call last)" in lines[i]), -1)
    return [text for text in lines[start + 1 :] if re.search(r'File "|, line \d+', text)]


def _last_mark(case: Case, file: int, line: int, at: int | None) -> str | None:
    """The stage of the last marker before a line: in its own file, or in the whole job by time if the file has none."""
    rows = case.table.rows(case.marks["masked"].to_list(), files=[file]).filter(pl.col("line") < line)
    marks = rows.join(case.marks, on="masked").sort("line")
    beats = case.progress.beats.filter((pl.col("file") == file) & (pl.col("line") < line))
    last_beat = int(beats["line"].max() or 0)  # type: ignore[arg-type]
    if marks.height and marks["line"][-1] > last_beat:
        stage, is_end = marks.select("stage", "is_end").row(-1)
        trained = last_beat > 0 or bool((marks["stage"] == "training").any())
        return stages.stage_after_end(stage, trained) if is_end else str(stage)
    if last_beat:
        return "training"
    if case.progress.beats.is_empty() and marks.is_empty() and _is_workers_own(case, file):
        # a worker that fails before its first message of a stage fails at launch
        return "launch"
    return _stage_at(case, case.roots.t0 if at is None else at)


def _stage_at(case: Case, at: int | None) -> str | None:
    """The stage of the whole job at a time (ns), or its last one."""
    spans = temporal.stage_spans(case)
    return next((stage for stage, low, _ in reversed(spans) if at is None or low <= at), None)


def _is_workers_own(case: Case, file: int) -> bool:
    """Whether one rank alone wrote this file. The only file may be an excerpt, which one rank's lines do not rule out:
    then its path must name the rank.
    """
    sources = case.table.sources.filter(pl.col("file") == file)
    path = case.table.files[file]
    if re.search(r"/\d+/(stdout|stderr)|(?:^|/)rank[-_.]?\d+", path):
        return True
    return len(case.table.files) > 1 and sources["rank"].drop_nulls().n_unique() == 1


def _iteration(case: Case, symptom: str, stage: str | None, texts: list[RootText]) -> int | None:
    if symptom == "slow":
        return case.pace.slow_from
    last = case.progress.last if case.progress.kind == "iteration" else None
    stated = [int(m.group(1)) for _, _, _, lines in texts for m in _STATED.finditer(lines[-1] if lines else "")]
    if last is not None:
        near = [n for n in stated if last <= n <= last + max(2, case.progress.interval)]
        return max(near) if near else last + 1
    if stated:
        return max(set(stated), key=stated.count)
    if stage in stages.BEFORE_TRAINING or case.progress.first is None:
        return 1 if stage == "training" else None
    return case.progress.first
