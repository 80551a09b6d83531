"""Instants that are packed are the same when they are unpacked, and few entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickwheel_admin.domain.self_audit.absences import (
    Absence,
    listed,
    packed,
    unpacked,
)


@given(st.lists(st.integers(0, 200)))
def test_what_is_packed_is_unpacked_ascending_and_once(instants: list[int]) -> None:
    spans = packed(instants)
    assert list(unpacked(spans)) == sorted(set(instants))
    absence = Absence(trigger_id=1, job_id=1, executor_id=1, reason="paused", spans=spans)
    assert absence.number == len(set(instants))


def test_those_of_a_schedule_are_one_entry() -> None:
    assert packed(range(7, 3_600_007, 1_000)) == [(7, 1_000, 3_600)]
    assert packed([5]) == [(5, 0, 1)]
    assert packed([0, 10, 20, 25, 35]) == [(0, 10, 3), (25, 10, 2)]


def test_what_nobody_intended_is_listed_first() -> None:
    absences = [
        Absence(trigger_id=number, job_id=1, executor_id=1, reason=reason, spans=packed([number]))
        for number, reason in enumerate(("paused", "missing", "calendar", "edited", "paused"))
    ]
    assert [each.trigger_id for each in listed(absences, 3)] == [1, 3, 0]
    assert len(listed(absences)) == 5
