"""Start delays as histograms: close enough, and the same whether added up before or after."""

from __future__ import annotations

import pytest

from tickwheel_admin.domain.runs.start_delays import MAX_DELAY_MS, StartDelays

DELAYS = [n * n % 50_021 for n in range(1, 2_000)]


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 1.0])
def test_a_quantile_is_never_too_low_and_at_most_a_twelfth_too_high(share: float) -> None:
    exact = sorted(DELAYS)[round(share * len(DELAYS) + 0.4999) - 1]
    told = StartDelays.of(DELAYS).quantile(share)
    assert told is not None
    assert exact <= told <= exact * 1.085 + 1


def test_short_delays_are_told_exactly() -> None:
    for delay in (0, 1, 2, 3, 7):
        assert StartDelays.of([delay]).quantile(0.95) == delay


def test_histograms_of_parts_add_up_to_that_of_the_whole() -> None:
    parts = [StartDelays.of(DELAYS[start::7]) for start in range(7)]
    assert StartDelays.sum(parts) == StartDelays.of(DELAYS)


def test_a_sample_weighs_as_much_as_what_it_stands_for() -> None:
    busy = StartDelays.of([100], each=99)
    quiet = StartDelays.of([5_000])
    both = StartDelays.sum([busy, quiet])
    assert both.total == 100
    assert both.quantile(0.99) == StartDelays.of([100]).quantile(1.0)
    assert both.quantile(1.0) == StartDelays.of([5_000]).quantile(1.0)


def test_it_is_stored_and_read_back_and_stays_small() -> None:
    many = StartDelays.of(range(0, MAX_DELAY_MS, 10_007))
    assert StartDelays.from_json(many.to_json()) == many
    assert len(StartDelays.of(int(1.01**n) for n in range(2_500)).counts) < 300


def test_without_delays_there_is_no_quantile_and_clocks_set_back_count_as_none() -> None:
    assert StartDelays().quantile(0.95) is None
    assert StartDelays.of([-5]).quantile(0.95) == 0
    assert StartDelays.of([10 * MAX_DELAY_MS]).quantile(0.95) == MAX_DELAY_MS
