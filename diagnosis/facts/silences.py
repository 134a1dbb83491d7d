"""How long without progress is a hang, of a job that has ended: in its logs and in its flows."""

from __future__ import annotations

from typing import Final

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("silences")


def is_long_silence(silence_s: float, usual_s: float) -> bool:
    """Whether so many seconds without progress are no slow step, but a hang; ``usual_s``: between
    two steps.
    """
    return bool(silence_s > max(THRESHOLDS.hang_intervals * usual_s, THRESHOLDS.hang_floor_s))
