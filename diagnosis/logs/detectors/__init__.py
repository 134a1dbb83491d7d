"""The detectors of faulty nodes: each looks at one case in its own way and hands over clues.

Two tables, in order. :data:`OF_CAUSE` look where root events stand; :data:`OF_STRUCTURE` where none does or it is
doubtful: silence, protocol state, order of the end, complaints. A new detector is one module with ``id``, ``why``,
``needs`` and ``look``, its test, and one row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from diagnosis.logs.case import Case
from diagnosis.logs.clues import Clue
from diagnosis.logs.detectors import (
    absent,
    cause,
    early,
    lacking,
    peers,
    quiet,
    spoken,
    undismissed,
    uneven,
    unlike,
    watchdogs,
)


class Detector(Protocol):
    """``id`` names it in reports and switches it off; ``why`` it tells something, ``needs`` what it cannot do without,
    each a clause; ``look`` costs at most a pass over the cells of the case and the lines of a few messages."""

    @property
    def id(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def needs(self) -> str: ...
    def look(self, case: Case) -> Iterable[Clue]: ...


#: Where the cause itself points: the first that says something is believed.
OF_CAUSE: Final[Sequence[Detector]] = (spoken, cause)
#: A node without any log explains what the others say of connections and order: it is asked first, alone.
ABSENT: Final[Sequence[Detector]] = (absent,)
OF_STRUCTURE: Final[Sequence[Detector]] = (
    early, uneven, watchdogs, lacking, undismissed, quiet, peers,
)  # fmt: skip
#: Ranks where nothing better tells.
LAST: Final[Sequence[Detector]] = (unlike,)
EVERY: Final[Sequence[Detector]] = (*OF_CAUSE, *ABSENT, *OF_STRUCTURE, *LAST)


def first(detectors: Sequence[Detector], case: Case) -> list[Clue]:
    """The clues of the first detector that has any."""
    return next((found for d in detectors if (found := seen([d], case))), [])


def seen(detectors: Sequence[Detector], case: Case) -> list[Clue]:
    """The clues of all of them, each with its detector's id; those switched off (``case.without``) say nothing."""
    asked = [d for d in detectors if d.id not in case.without]
    return [replace(clue, detector=d.id) for d in asked for clue in d.look(case)]
