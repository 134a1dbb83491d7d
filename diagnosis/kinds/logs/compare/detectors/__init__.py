"""The detectors of faulty nodes: each examines one case in its own way and returns clues.

:data:`OF_CAUSE` uses the root events; :data:`OF_STRUCTURE` is for cases without a root event or
with a doubtful one: measurements, protocol state, and the order of the end. A new detector is one
module with ``id``, ``why``, ``needs`` and ``find_clues``, its test, and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, Protocol

from msgspec.structs import replace

from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.compare.detectors import absent, cause, complaints, lacking, uneven, watchdogs


class Detector(Protocol):
    """``id`` names it in reports and switches it off; ``why``: the reason why it works, ``needs``:
    its requirements, each a clause; ``find_clues`` costs at most a pass over the case's occurrences and
    the lines of a few messages.
    """

    @property
    def id(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def needs(self) -> str: ...
    def find_clues(self, case: Case) -> Iterable[Clue]: ...


OF_CAUSE: Final[Sequence[Detector]] = (cause,)
#: A node without any log explains the others' messages about connections and order: this detector
#: is asked first, alone.
ABSENT: Final[Sequence[Detector]] = (absent,)
OF_STRUCTURE: Final[Sequence[Detector]] = (uneven, watchdogs, lacking, complaints)
ALL: Final[Sequence[Detector]] = (*OF_CAUSE, *ABSENT, *OF_STRUCTURE)


def all_clues(detectors: Sequence[Detector], case: Case) -> list[Clue]:
    """All their clues, each with its detector's id, but of those in ``case.without``."""
    active = [detector for detector in detectors if detector.id not in case.without]
    return list(chain.from_iterable(_clues_of(detector, case) for detector in active))


def _clues_of(detector: Detector, case: Case) -> list[Clue]:
    found: list[Clue] = case.budgets.run(f"detector {detector.id}", lambda: list(detector.find_clues(case)), [])
    return [replace(clue, detector=detector.id) for clue in found]
