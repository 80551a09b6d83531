"""Jitter: later and never earlier, in order, the same everywhere."""

from __future__ import annotations

import random
from itertools import pairwise

from tickwheel_admin.domain.schedule.jitter import due_of, mixed

NOON = 1_767_268_800_000


def test_these_moments_never_change() -> None:
    """Another admin, or the next release, must not plan the same fire for another moment."""
    assert [
        due_of(trigger_id, NOON + minute * 60_000, jitter_ms=30_000, next_nominal=None) - NOON
        for trigger_id, minute in ((1, 0), (1, 1), (2, 0), (2**62, 0))
    ] == [22_521, 85_677, 14_335, 7_604]


def test_bits_are_mixed_as_splitmix64_mixes_them() -> None:
    assert mixed(0) == 0xE220A8397B1DCDAF  # its first number from seed 0


def test_a_run_is_due_within_the_window() -> None:
    draw = random.Random(1)
    delays = [
        due_of(draw.randrange(1 << 63), NOON, jitter_ms=1_000, next_nominal=None) - NOON
        for _ in range(5_000)
    ]
    assert min(delays) == 0
    assert max(delays) == 1_000
    tenths = [sum(delay // 101 == tenth for delay in delays) for tenth in range(10)]
    assert min(tenths) > 400  # of 500: spread evenly


def test_runs_of_a_trigger_keep_their_order() -> None:
    draw = random.Random(2)
    for _ in range(200):
        every = draw.randrange(1, 500)
        nominal = [NOON + index * every for index in range(10)]
        due = [
            due_of(7, at, jitter_ms=draw.randrange(3_600_000), next_nominal=at + every)
            for at in nominal
        ]
        assert all(earlier < later for earlier, later in pairwise(due))
        assert all(0 <= moment - at < every for at, moment in zip(nominal, due, strict=True))


def test_without_jitter_nothing_moves() -> None:
    assert due_of(7, NOON, jitter_ms=0, next_nominal=None) == NOON
    assert due_of(7, NOON, jitter_ms=1_000, next_nominal=NOON + 1) == NOON
