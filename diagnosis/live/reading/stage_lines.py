"""Lines that begin or end a stage, and the stages that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from diagnosis.kinds.logs.meaning import stages
from diagnosis.live.job_state import TRAINING
from diagnosis.live.observation import StageMark


class StageLine(NamedTuple):
    """A line that begins ``stage``, or ends it. ``at``: nanoseconds, None if it states no time."""

    row: int
    at: int | None
    stage: str
    is_end: bool

    @property
    def entered(self) -> str:
        """The stage that it begins, or that follows what it ends."""
        return stages.stage_after_end(self.stage, trained=True) if self.is_end else self.stage


class AnnouncedStage(NamedTuple):
    """A stage, and the line that announces it."""

    row: int
    mark: StageMark


def announced_stages(lines: Sequence[StageLine]) -> list[AnnouncedStage]:
    """The stages that the lines announce, each once in a row."""
    found: list[AnnouncedStage] = []
    for line in lines:
        if not found or found[-1].mark.stage != line.entered:
            found.append(AnnouncedStage(line.row, StageMark(line.entered, line.at)))
    return found


def last_stage(lines: Sequence[StageLine], last_count_row: int) -> tuple[str | None, int | None]:
    """The stage at the end of the range, and its time; training, if counts follow."""
    if not lines:
        return None, None
    last = lines[-1]
    is_over = last_count_row > last.row and not last.is_end
    return (TRAINING if is_over else last.entered), last.at
