"""The fit of the order of candidates."""

from __future__ import annotations

import numpy as np

from diagnosis.kinds.logs.causes.root_events import candidates, ranker
from lab.measure.ranker import SIGNS, Judged, fit


def job_of(measure: str, *, right_has_it: bool) -> Judged:
    """A job of two candidates, of which one has a measure."""
    measures = np.zeros((2, len(candidates.NAMES)))
    measures[0, candidates.NAMES.index(measure)] = 1.0
    return Judged("job", "source", measures, np.array([right_has_it, not right_has_it]))


def weight_of(measure: str, *, right_has_it: bool) -> float:
    weights = fit([job_of(measure, right_has_it=right_has_it)] * 9)
    return float(weights[candidates.NAMES.index(measure)])


def test_stored_weights_have_the_sign_that_their_meaning_demands() -> None:
    assert [name for name, sign in SIGNS.items() if ranker.weights()[name] * sign < 0] == []


def test_what_right_lines_have_raises_a_score_and_what_others_have_lowers_it() -> None:
    assert weight_of("writers", right_has_it=True) > 0.5
    assert weight_of("writers", right_has_it=False) < -0.5


def test_a_weight_never_has_the_wrong_sign() -> None:
    assert weight_of("survived", right_has_it=True) == 0.0
    assert weight_of("rule", right_has_it=False) == 0.0
