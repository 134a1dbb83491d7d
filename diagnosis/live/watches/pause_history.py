"""What a job's own pauses were: how long it went without progress before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from diagnosis.live.observation import Count
from diagnosis.live.site_time import Seconds

#: Pauses without announcement that are remembered, and pauses of each stage.
MAX_PAUSES: Final = 16
MAX_STAGE_TIMES: Final = 32


class PauseRow(msgspec.Struct, frozen=True, array_like=True):
    """One pause ``after`` a count; ``silence_s``: the longest time in it without a line."""

    after: Count
    seconds: Seconds
    silence_s: Seconds

    @classmethod
    def of(cls, after: int, seconds: float, silences: Iterable[float]) -> PauseRow:
        """A pause with silences of so many seconds; where none is known all of it was silent."""
        longest = max(silences, default=seconds)
        return cls(after, round(seconds, 1), round(min(seconds, longest), 1))


class HangState(msgspec.Struct):
    """``stages``: stage -> its pauses; ``pauses``: those that no announced stage explains;
    ``passed``: round numbers of iterations that the job passed without such a pause, negative where
    its first iteration is called 0; ``longest_s``: the longest usual time between two counts.
    """

    stages: dict[str, list[PauseRow]] = {}
    pauses: list[PauseRow] = []
    passed: list[Annotated[int, msgspec.Meta(ge=-(10**15), le=10**15)]] = []
    longest_s: Seconds = msgspec.field(name="longest", default=0.0)

    def of_stage(self, stage: str) -> list[PauseRow]:
        """The former pauses of a stage."""
        return self.stages.get(stage, [])

    def add_stage_pause(self, stage: str, pause: PauseRow) -> None:
        """Remember a pause of a stage."""
        self.stages[stage] = [*self.of_stage(stage), pause][-MAX_STAGE_TIMES:]

    def add_pause(self, pause: PauseRow) -> None:
        """Remember a pause that no announced stage explains."""
        self.pauses = [*self.pauses, pause][-MAX_PAUSES:]

    def add_passed(self, units: Iterable[int]) -> None:
        """Remember round numbers that were passed."""
        self.passed += [unit for unit in units if unit not in self.passed]
