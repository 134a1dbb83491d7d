"""When it failed: symptom, stage and iteration of one case."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import polars as pl

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes import lifecycles, standing_still
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.failure_facts import stage_spans
from diagnosis.kinds.logs.meaning import stages
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.knowledge import words
from diagnosis.model import Role
from diagnosis.values.extremes import greatest, least

LIMITS: Final = thresholds.limits("phase")

THRESHOLDS: Final = thresholds.of("phase")

_DEATH: Final = words.regex("phrases", "process_died")
_START_FAILED: Final = words.regex("phrases", "start_failed")
_WAIT_ENDS: Final = words.pattern("phrases", "wait_ended")
#: The stated wait of a watchdog, and the number of seconds from which it is a hang.
_WAITED: Final = words.regex("phrases", "waited")
_STATED: Final = words.regex("phrases", "iteration")
_FRAME: Final = re.compile(r'File "|, line \d+')
#: Stages of a job that has begun to train.
_STAGES_OF_TRAINING: Final = ("training", "evaluation", "checkpoint_save")


class RootText(NamedTuple):
    """A root line: its file, line and time (ns), and the lines of its record up to it."""

    file: int
    line: int
    at: int | None
    record: list[str]


class Moment(msgspec.Struct, frozen=True):
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
    O(events + occurrences).
    """
    end = _find_end(case)
    files = case.table.files
    if files and len(case.table.system_files) == len(files):
        return Moment("crash", None, None, end.at)  # kernels do not show the activity of a job
    if "starting" in taxonomy.load().get(category).traits:
        # what an earlier launch did says nothing of this one
        return Moment("crash" if case.has_progress else "launch_failure", "launch", None, end.at)
    texts = _root_texts(case)
    shown = _find_stage(case, texts, category, end.at)
    symptom = _symptom(case, shown, end, mechanism)
    stage = _stage_of_symptom(symptom, shown)
    iteration = None if symptom == "launch_failure" else _iteration(case, symptom, stage, texts)
    return Moment(symptom, stage, iteration, end.at, _silence_s(case, end.at))


def _silence_s(case: Case, ended_at: int | None) -> float | None:
    """Seconds from the last progress to the end."""
    point_at = case.pace.last_at
    if ended_at is None or point_at is None:
        return None
    return (ended_at - point_at) / SECOND


class _Shown(msgspec.Struct, frozen=True):
    """The stage in which a job failed. ``is_seen``: the logs show it."""

    stage: str | None
    is_seen: bool

    @property
    def is_early(self) -> bool:
        """Whether it is a stage of the job's preparations."""
        return self.stage in stages.BEFORE_TRAINING


def _symptom(case: Case, shown: _Shown, end: _End, mechanism: str) -> str:
    has_trained = case.has_progress or shown.stage in _STAGES_OF_TRAINING
    if _is_slow(case):
        return "slow"
    if not has_trained and shown.is_seen and shown.is_early:
        return "launch_failure"
    if _was_stalled(case) or standing_still.stands_still(case):
        return "hang"
    is_open_wait = end.is_wait and not _is_death(mechanism)
    return "hang" if is_open_wait and _has_hung(case, end.at) else "crash"


def _stage_of_symptom(symptom: str, shown: _Shown) -> str | None:
    """The stage to report. An excerpt does not show the beginning of the job, and only training hangs or is slow."""
    if symptom in ("slow", "hang"):
        is_of_training = shown.stage in _STAGES_OF_TRAINING
        return shown.stage if is_of_training else "training"
    if shown.is_early and not shown.is_seen:
        return None
    return shown.stage


def _has_hung(case: Case, ended_at: int | None) -> bool:
    """Silence before the end, and no worker had died; if no consequence has a time, the wait that watchdogs state."""
    if _has_death(case):
        return False
    if lifecycles.is_hang(case.pace, ended_at):
        return True
    cascades = case.events.filter(pl.col("role") == Role.CASCADE, pl.col("jobs_with_it") == 0)
    if case.pace.last_at is not None and cascades["is_stamped"].any():
        return False
    return any(map(_states_long_wait, cascades["example"]))


def _was_stalled(case: Case) -> bool:
    """Whether somebody stopped a job that had made no progress for long. An exception whose process
    lived on until then made the job hang; a part that died made it fail.
    """
    stops = set(case.events.filter(case.catalogue.is_stop)["event"])
    causes = [case.event(event) for event in case.roots.members if event not in stops]
    has_dead_part = any(_is_death(row.category) for row in causes)
    return case.lives.was_stalled(case.pace) and not has_dead_part


def _states_long_wait(text: str) -> bool:
    """Whether a line of a watchdog states a wait that is long enough for a hang."""
    waited = _WAITED.search(text)
    if waited is None:
        return False
    is_in_ms = waited[2].startswith(("ms", "mi"))
    seconds = float(waited[1]) * (1e-3 if is_in_ms else 1.0)
    return bool(seconds >= THRESHOLDS.long_wait_s)


class _End(msgspec.Struct, frozen=True):
    """When something other than the cause ended the job (ns), and whether that ended a wait: a time-out or a kill."""

    at: int | None
    is_wait: bool = False


def _find_end(case: Case) -> _End:
    """The first event that ends a job, other than the cause."""
    every = case.events.filter(
        pl.col("role").is_in([Role.CASCADE, Role.TEARDOWN]) | pl.col("is_exception"),
        ~pl.col("event").is_in(list(case.roots.members)),
        pl.col("novelty") >= THRESHOLDS.novel,
        ~case.is_survived,
    )
    point_at = case.pace.last_at
    dated = every.drop_nulls("first_at")
    if point_at is not None:
        dated = dated.filter((pl.col("first_at") >= point_at) | _may_be_as_late_as(point_at))
    first = _first_time(dated)
    if point_at is None:
        # workers without any times: their lines may be as old as those of a launcher with times
        dated = pl.concat([dated, every.filter(pl.col("first_at").is_null())])
    if dated.filter(case.catalogue.says(_WAIT_ENDS)).is_empty():
        return _End(first)
    return _End(None if first is None else max(first, point_at or 0), is_wait=True)


def _first_time(dated: pl.DataFrame) -> int | None:
    """The first time of events; that of lines that state one, if there are any."""
    stamped = dated.filter("is_stamped")
    return least((dated if stamped.is_empty() else stamped)["first_at"])


def _may_be_as_late_as(at: int) -> pl.Expr:
    """Events without a time of their own that may come as late as this."""
    return ~pl.col("is_stamped") & (pl.col("until_at").is_null() | (pl.col("until_at") >= at))


def _has_death(case: Case) -> bool:
    """Whether a root event is the death of a process."""
    roots = [case.event(event) for event in case.roots.members]
    return any(row.is_exception or _is_death(row.category) or _DEATH.search(row.example) for row in roots)


def _is_death(category: str | None) -> bool:
    return bool(category) and "death" in taxonomy.load().get(category or "").traits


def _is_slow(case: Case) -> bool:
    if case.pace.slow_from is None:
        return False
    if not case.has_lead or case.lead.is_below("platform.scheduler"):
        return case.ending.outcome in ("cancelled", "running", "unknown", "failed")
    return not case.lead.is_exception and _is_near_slowdown(case, case.lead.first_at)


def _is_near_slowdown(case: Case, at: int | None) -> bool:
    """Whether a cause is nearer to the slowdown's beginning than to the end of the job."""
    slow_at, last_at = case.pace.slow_at, case.last_at
    if at is None or slow_at is None:
        return True
    return abs(at - slow_at) < abs(at - (last_at or at))


def _root_texts(case: Case) -> list[RootText]:
    """Some root lines."""
    found = []
    order = sorted(case.roots.members, key=lambda event: (-case.roots.weights[event], event))
    for event in order[: LIMITS.roots_read]:
        rows = case.table.rows(case.catalogue.masked(event), limit=LIMITS.root_lines)
        dated = case.clocks.correct(rows, "at")
        first = dated.unique("source", keep="first", maintain_order=True).head(LIMITS.root_writers)
        for file, line, at in first.select("file", "line", "at").iter_rows():
            found.append(RootText(file, line, at, _record(case, file, line)))
    return found


def _record(case: Case, file: int, line: int) -> list[str]:
    """The lines of a writer up to one of them."""
    before = case.table.around(file, max(1, line - LIMITS.frames_back), line)
    source = before.filter(pl.col("line") == line)["source"][0]
    own = before.filter(pl.col("source") == source)
    return raw_lines.read_lines(own, case.table.files, case.read, LIMITS.line_bytes)


def _find_stage(case: Case, texts: list[RootText], category: str, ended_at: int | None) -> _Shown:
    """The stage, and whether the logs show it: by a marker, a frame, the cause itself or progress."""
    trained = case.has_progress
    framed = [stages.stage_of_frames(_frames(text.record)) for text in texts]
    own = "" if trained else _stage_of_cause(category, texts)
    if own == "rendezvous" and not any(framed):
        # earlier markers are from the ranks that arrived; the cause shows what they waited for
        return _Shown(own, is_seen=True)
    votes = _votes(case, texts, framed)
    if own:
        votes[own] += THRESHOLDS.own
    best = max(sorted(votes), key=lambda stage: votes[stage], default=None)
    stage = best or _stage_at(case, case.roots.t0 or ended_at or case.last_at)
    if stage:
        return _settled(stage, trained=trained)
    if trained:
        return _Shown("training", is_seen=True)
    return _Shown("launch" if case.roots.members else None, is_seen=False)


def _stage_of_cause(category: str, texts: list[RootText]) -> str:
    """The stage in which such a cause shows, whatever the lines before it."""
    own = taxonomy.load().get(category).stage
    if not own and any(map(_is_failed_start, texts)):
        return "launch"
    return own


def _votes(case: Case, texts: list[RootText], framed: Sequence[str | None]) -> dict[str, float]:
    """Of each stage, how much frames and markers before the root lines speak for it."""
    votes: dict[str, float] = defaultdict(float)
    for text, of_frames in zip(texts, framed, strict=True):
        voted = of_frames or _last_mark(case, text)
        if voted:
            votes[voted] += THRESHOLDS.framed if of_frames else THRESHOLDS.marked
    return votes


def _settled(stage: str, *, trained: bool) -> _Shown:
    """A stage that the logs show. A job that had trained cannot fail in its preparations."""
    is_late = trained and stage in stages.BEFORE_TRAINING
    return _Shown("training" if is_late else stage, is_seen=trained or stage != "shutdown")


def _is_failed_start(text: RootText) -> bool:
    return bool(text.record) and _START_FAILED.search(text.record[-1]) is not None


def _frames(lines: list[str]) -> list[str]:
    """The frames of the last traceback above the error; an excerpt may begin within it."""
    heads = [place for place, text in enumerate(lines, 1) if "Traceback (most recent call last)" in text]
    begin = max(heads, default=0)
    return list(filter(_FRAME.search, lines[begin:]))


def _last_mark(case: Case, text: RootText) -> str | None:
    """The stage of the last marker before a line: in its own file, or in the whole job by time if the file has none."""
    is_before = pl.col("line") < text.line
    marked = case.table.rows(case.marks["masked"].to_list(), files=[text.file]).filter(is_before)
    marks = marked.join(case.marks, on="masked").sort("line")
    points = case.progress.points.filter(pl.col("file") == text.file, is_before)
    last_point = greatest(points["line"]) or 0
    if marks.filter(pl.col("line") > last_point).height:
        return _stage_of_mark(marks, has_progress=last_point > 0)
    if last_point:
        return "training"
    return _stage_at(case, case.roots.t0 if text.at is None else text.at)


def _stage_of_mark(marks: pl.DataFrame, *, has_progress: bool) -> str:
    """The stage that the last of these markers begins, or what follows the one that it ends."""
    stage, is_end = marks.select("stage", "is_end").row(-1)
    if not is_end:
        return str(stage)
    trained = has_progress or "training" in marks["stage"]
    return stages.stage_after_end(stage, trained)


def _stage_at(case: Case, at: int | None) -> str | None:
    """The stage of the whole job at a time (ns), or its last one."""
    spans = stage_spans(case)
    begun = [stage for stage, low, _ in spans if at is None or low <= at]
    return begun[-1] if begun else None


def _iteration(case: Case, symptom: str, stage: str | None, texts: list[RootText]) -> int | None:
    """The iteration that failed: the one that the root lines state if it fits the progress, else the next one."""
    if symptom == "slow":
        return case.pace.slow_from
    progress = case.progress
    stated = _stated_iterations(texts)
    if progress.kind == "iteration" and progress.last is not None:
        if of_progress := _progress_of(case, texts):
            return min(of_progress)
        most = progress.last + max(2, progress.interval)
        near = [number for number in stated if progress.last <= number <= most]
        return max(near, default=progress.last + 1)
    if stated:
        return max(set(stated), key=stated.count)
    if progress.first is not None and stage not in stages.BEFORE_TRAINING:
        return progress.first
    return 1 if stage == "training" else None


def _progress_of(case: Case, texts: list[RootText]) -> list[int]:
    """The iterations of root lines that are lines of progress, such as those with a loss that is no number."""
    points = case.progress.points
    root = pl.DataFrame(
        {"file": [text.file for text in texts], "line": [text.line for text in texts]},
        points.select("file", "line").schema,
    )
    return points.join(root, on=["file", "line"], how="semi")["n"].to_list()


def _stated_iterations(texts: list[RootText]) -> list[int]:
    """The iterations that the root lines themselves state."""
    found: list[int] = []
    for text in texts:
        for line in text.record[-1:]:
            found += map(int, _STATED.findall(line))
    return found
