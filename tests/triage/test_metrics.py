"""Cost of failures, held against the worked numbers of the papers."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from triage import metrics
from triage.metrics import Attempt, Outage


@pytest.mark.parametrize(("machines", "expected"), [(128, 2), (256, 2), (512, 3), (1024, 4)])
def test_standbys_are_those_of_the_papers_table(machines, expected):
    assert metrics.standbys(machines) == expected


def test_the_whole_range_of_probabilities_gives_the_papers_table():
    for p in (0.00118, 0.0012, 0.00124):
        assert [metrics.standbys(n, p) for n in (128, 256, 512, 1024)] == [2, 2, 3, 4]


def test_standbys_are_the_smallest_number_that_is_enough():
    for n in (1, 16, 128, 1024, 4096):
        fewest = metrics.standbys(n, 0.003)
        assert binom.cdf(fewest, n, 0.003) >= 0.99
        assert binom.cdf(fewest - 1, n, 0.003) < 0.99 or fewest == 0


def test_no_machines_need_no_standbys_and_nonsense_is_refused():
    assert metrics.standbys(0) == 0
    with pytest.raises(ValueError, match="probabilities"):
        metrics.standbys(10, 1.5)


def test_mean_time_to_failure_of_16384_gpus_is_the_published_1_8_hours():
    assert metrics.mttf_h(16384 // 8, 6.50 / 1000) == pytest.approx(1.8, abs=0.01)


def test_a_rate_of_zero_has_no_mean_time():
    assert metrics.mttf_h(128, 0.0) is None
    assert metrics.checkpoint_interval_s(60, 128, 0.0) is None


def test_the_checkpoint_interval_balances_writing_against_losing():
    write, nodes, rate = 60.0, 128, 0.0065

    def cost(interval):  # share of time spent writing plus expected loss of half an interval a failure
        return write / interval + 0.5 * interval / metrics.DAY_S * nodes * rate

    best = metrics.checkpoint_interval_s(write, nodes, rate)
    assert cost(best) <= min(cost(best * 0.9), cost(best * 1.1))
    assert best == pytest.approx(math.sqrt(2 * (write / 86400) / (nodes * rate)) * 86400)


def test_an_outage_falls_into_its_four_phases():
    o = Outage(failed_at=100, detected_at=160, localised_at=760, resumed_at=1000, recompute_s=90, gpus=1024)
    assert o.phases_s() == {"detect": 60, "localise": 600, "fail_over": 240, "recompute": 90}
    assert o.unproductive_s == 990
    assert o.gpu_hours == pytest.approx(1024 * 990 / 3600)


def test_a_manual_restart_costs_its_fail_over_only():
    o = Outage(failed_at=100, detected_at=400, localised_at=800, resumed_at=1000, is_manual=True)
    assert o.phases_s() == {"detect": 0, "localise": 0, "fail_over": 900, "recompute": 0}


def test_without_recorded_phases_the_whole_outage_is_fail_over():
    assert Outage(0, resumed_at=300).phases_s()["fail_over"] == 300


def test_mean_time_to_recovery_leaves_open_outages_out():
    assert metrics.recovery_s([Outage(0, resumed_at=100), Outage(0, resumed_at=300), Outage(500)]) == 200
    assert metrics.recovery_s([Outage(500)]) is None
    assert metrics.recovery_s([Outage(0, resumed_at=100), Outage(500, resumed_at=400)]) == 100  # clocks that disagree


def test_steps_that_were_computed_again_were_not_productive():
    attempts = [Attempt(0, 100, 1, 100), Attempt(200, 300, 51, 150)]
    assert metrics.productive_intervals(attempts) == [(0, 50), (200, 300)]
    assert metrics.recompute_s(attempts) == 50


def test_a_restart_from_an_old_checkpoint_takes_whole_attempts_with_it():
    attempts = [Attempt(0, 100, 1, 100), Attempt(100, 200, 101, 200), Attempt(300, 400, 51, 150)]
    assert metrics.productive_intervals(attempts) == [(0, 50), (300, 400)]


def test_an_attempt_without_steps_is_not_productive():
    assert metrics.productive_intervals([Attempt(0, 100, 1, 0)]) == []


def test_ettr_is_cumulative_since_the_start_and_sliding_over_an_hour():
    productive = [(0.0, 1800.0), (5400.0, 7200.0)]
    assert metrics.ettr_cumulative(productive, 0, 7200) == pytest.approx(0.5)
    assert metrics.ettr_sliding(productive, 0, 7200) == pytest.approx(0.5)
    assert metrics.ettr_sliding(productive, 0, 5400) == 0
    assert metrics.ettr_sliding(productive, 0, 900) == 1  # younger than the window
    assert metrics.ettr(1, 0) is None


def test_failure_rates_are_per_thousand_node_days_with_an_interval_around_them():
    assert metrics.failures_per_1000_node_days(13, 2000) == pytest.approx(6.5)
    low, high = metrics.rate_interval_per_1000_node_days(13, 2000)
    assert low < 6.5 < high
    assert metrics.rate_interval_per_1000_node_days(0, 2000)[0] == 0
    assert metrics.failures_per_1000_node_days(1, 0) is None


def test_one_accusation_does_not_make_a_lemon_but_repeated_ones_alone_do():
    once = metrics.lemon_score(confirmed=1, unreviewed=0)
    crowd = metrics.lemon_score(confirmed=3, unreviewed=0)
    alone = metrics.lemon_score(confirmed=3, unreviewed=0, alone=3)
    assert 0 < once < 0.5 < crowd < alone < 1
    assert metrics.lemon_score(confirmed=0, unreviewed=0) == 0
    assert metrics.lemon_score(confirmed=10_000, unreviewed=0) < 1
    assert metrics.lemon_score(confirmed=1, unreviewed=0, alone=9) == metrics.lemon_score(
        confirmed=1, unreviewed=0, alone=1
    )


def test_a_human_word_weighs_more_than_an_open_accusation():
    assert metrics.lemon_score(confirmed=1, unreviewed=0) > metrics.lemon_score(confirmed=0, unreviewed=2)
    with pytest.raises(ValueError, match="negative"):
        metrics.lemon_score(confirmed=-1, unreviewed=0)


def test_standbys_and_intervals_are_those_of_the_distributions_of_scipy():
    from scipy.stats import binom, chi2

    for n, p in [(1, 0.5), (128, 0.0012), (4096, 0.003), (50, 0.9), (10, 1.0)]:
        assert metrics.standbys(n, p) == int(binom.ppf(0.99, n, p))
    low, high = metrics.rate_interval_per_1000_node_days(13, 1000)
    assert low == pytest.approx(chi2.ppf(0.05, 26) / 2)
    assert high == pytest.approx(chi2.ppf(0.95, 28) / 2)
    low, high = metrics.rate_interval_per_1000_node_days(25_000, 1000)
    assert low == pytest.approx(chi2.ppf(0.05, 50_000) / 2)
    assert high == pytest.approx(chi2.ppf(0.95, 50_002) / 2)


HOUR = 3600.0


def two_jobs():
    """8 GPUs that train for two hours; 24 GPUs that train for one and stand still for the other."""
    whole = metrics.Run(8, 0, 2 * HOUR, [(0, 2 * HOUR)])
    half = metrics.Run(24, 0, 2 * HOUR, [(0, HOUR)])
    return metrics.Fleet([whole, half])


@pytest.mark.parametrize(("at_h", "ratio"), [(1, 1.0), (1.5, 20 / 32), (2, 8 / 32), (2.5, 8 / 32), (9, None)])
def test_the_fleets_sliding_hour_weighs_jobs_by_their_gpus(at_h, ratio):
    assert two_jobs().ettr_sliding(at_h * HOUR) == (None if ratio is None else pytest.approx(ratio))


def test_the_fleets_ratio_over_a_period_is_productive_over_all_gpu_time():
    fleet = two_jobs()
    assert fleet.ettr(0, 2 * HOUR) == pytest.approx((2 * 8 + 24) / (2 * 32))
    assert fleet.wall_gpu_s(0, 2 * HOUR) - fleet.productive_gpu_s(0, 2 * HOUR) == pytest.approx(24 * HOUR)


def test_a_fleet_of_one_job_has_that_jobs_ratio_at_any_moment():
    productive = [(0.0, 5000.0), (7000.0, 9000.0), (9500.0, 20_000.0)]
    fleet = metrics.Fleet([metrics.Run(16, 0, 20_000, productive)])
    for at in range(600, 20_001, 700):
        assert fleet.ettr_sliding(at) == pytest.approx(metrics.ettr_sliding(productive, 0, at))
        assert fleet.ettr(0, at) == pytest.approx(metrics.ettr_cumulative(productive, 0, at))


def test_jobs_without_length_or_gpus_and_stretches_outside_a_job_count_for_nothing():
    fleet = metrics.Fleet([metrics.Run(8, 5, 5, [(5, 5)]), metrics.Run(0, 0, 9, [(0, 9)])])
    assert fleet.ettr(0, 10) is None
    clipped = metrics.Fleet([metrics.Run(1, 10, 20, [(0, 15)])])
    assert clipped.productive_gpu_s(0, 100) == pytest.approx(5)
    assert clipped.ettr(20, 10) is None
