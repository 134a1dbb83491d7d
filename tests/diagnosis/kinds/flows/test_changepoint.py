"""Change points: found where they are, in many sequences at once, and only upward for onsets."""

from __future__ import annotations

import numpy as np

from diagnosis.kinds.flows.slow.changepoint import onsets, run_length_posterior


def test_a_jump_is_seen_at_once_and_calm_stays_calm() -> None:
    rng = np.random.default_rng(2)
    series = rng.normal(0, 1, (20, 120))
    series[10:, 60:] += 8
    recently, _ = run_length_posterior(series, recent=2)
    assert (recently[10:, 60:63].max(axis=1) > 0.85).all()
    assert (recently[:10, 20:].max(axis=1) < 0.9).mean() > 0.8


def test_sequences_do_not_influence_each_other() -> None:
    rng = np.random.default_rng(3)
    series = rng.normal(0, 1, (5, 80))
    together, _ = run_length_posterior(series)
    alone = np.concatenate([run_length_posterior(row[None, :])[0] for row in series])
    assert np.allclose(together, alone)


def test_runs_longer_than_the_cap_are_no_change() -> None:
    series = np.random.default_rng(4).normal(0, 1, (1, 400))
    recently, _ = run_length_posterior(series, cap=32)
    assert recently[0, 100:].max() < 0.9


def test_missing_points_are_waited_out() -> None:
    series = np.random.default_rng(5).normal(0, 1, (1, 100))
    series[0, 40:45] = np.nan
    recently, _ = run_length_posterior(series)
    assert np.isfinite(recently).all()
    assert recently[0, 45:60].max() < 0.9


def test_an_onset_is_where_steps_become_slower_for_good() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(1.0, 0.01, 100)
    values[60:] *= 1.3
    assert onsets(values) == [60]


def test_recovery_and_single_slow_steps_are_no_onset() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(1.0, 0.01, 100)
    values[30] *= 2
    values[:10] *= 1.0
    falling = np.concatenate([rng.normal(1.3, 0.01, 50), rng.normal(1.0, 0.01, 50)])
    assert onsets(values) == []
    assert onsets(falling) == []


def test_no_sequence_is_too_short_or_too_odd_to_ask() -> None:
    for values in ([], [1.0], [1.0] * 20, [1.0, 9.0] * 10, [9.0] * 3 + [1.0] * 20, [float("nan")] * 12):
        assert isinstance(onsets(np.array(values)), list)
