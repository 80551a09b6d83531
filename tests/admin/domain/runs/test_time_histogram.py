"""Histograms of times: close enough, and the same whether added up before or after."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.runs.time_histogram import MAX_MS, TimeHistogram

TIMES = [n * n % 50_021 for n in range(1, 2_000)]


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 1.0])
def test_a_quantile_is_never_too_low_and_at_most_a_twelfth_too_high(share: float) -> None:
    exact = sorted(TIMES)[round(share * len(TIMES) + 0.4999) - 1]
    told = TimeHistogram.of(TIMES).quantile(share)
    assert told is not None
    assert exact <= told <= exact * 1.085 + 1


def test_short_times_are_told_exactly() -> None:
    for time_ms in (0, 1, 2, 3, 7):
        assert TimeHistogram.of([time_ms]).quantile(0.95) == time_ms


def test_histograms_of_parts_add_up_to_that_of_the_whole() -> None:
    parts = [TimeHistogram.of(TIMES[start::7]) for start in range(7)]
    assert TimeHistogram.sum(parts) == TimeHistogram.of(TIMES)


def test_a_sample_weighs_as_much_as_what_it_stands_for() -> None:
    busy = TimeHistogram.of([100], each=99)
    quiet = TimeHistogram.of([5_000])
    both = TimeHistogram.sum([busy, quiet])
    assert both.total == 100
    assert both.quantile(0.99) == TimeHistogram.of([100]).quantile(1.0)
    assert both.quantile(1.0) == TimeHistogram.of([5_000]).quantile(1.0)


def test_it_is_stored_and_read_back_and_stays_small() -> None:
    many = TimeHistogram.of(range(0, MAX_MS, 10_007))
    assert TimeHistogram.from_json(many.to_json()) == many
    assert len(TimeHistogram.of(int(1.01**n) for n in range(2_500)).counts) < 300


def test_without_time_mss_there_is_no_quantile_and_clocks_set_back_count_as_none() -> None:
    assert TimeHistogram().quantile(0.95) is None
    assert TimeHistogram.of([-5]).quantile(0.95) == 0
    assert TimeHistogram.of([10 * MAX_MS]).quantile(0.95) == MAX_MS
