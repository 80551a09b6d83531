"""Fixed delays are audited by what names their fires: the next fire, and the trigger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tickwheel_admin.domain.self_audit.comparison import compare
from tickwheel_admin.domain.self_audit.past import (
    LedgerFire,
    Past,
    PausePeriod,
    PurgedRuns,
    TriggerPeriod,
)
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.trigger import TriggerState

MINUTE = 60_000
HOUR = 60 * MINUTE
# Of the hour that is audited. It fires every ten minutes; a run takes none.
TRIGGER = TriggerPeriod(
    trigger_id=1,
    version=1,
    job_id=2,
    executor_id=3,
    spec=FixedDelaySpec(every_ms=10 * MINUTE),
    saved_at=0,
    since_at=0,
    until_at=None,
    planned_to=None,
    state=TriggerState.ACTIVE,
    paused=False,
    next_fire_at=2 * HOUR + 10 * MINUTE,
    last_fire_at=2 * HOUR,
)


def fire(minute: int, *, follows: int | None, ended: bool = True) -> LedgerFire:
    at = HOUR + minute * MINUTE
    return LedgerFire(
        run_id=at,
        trigger_id=1,
        job_id=2,
        executor_id=3,
        scheduled_at=at,
        created_at=at,
        is_on_time=True,
        passed_over=None,
        ended_at=at if ended else None,
        follows_at=None if follows is None else HOUR + follows * MINUTE,
    )


CHAIN = [fire(minute, follows=minute - 10) for minute in range(0, 70, 10)]  # the last is behind it


def told(
    fires: list[LedgerFire], trigger: TriggerPeriod = TRIGGER, past: Past | None = None
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    """(minute and kind of each difference, what is explained)."""
    count, found, _ = compare(
        [trigger],
        [each for each in fires if each.scheduled_at < 2 * HOUR],
        past or Past(),
        begin=HOUR,
        end=2 * HOUR,
        others=[each for each in fires if each.scheduled_at >= 2 * HOUR],
    )
    assert count.expected == count.happened + count.explained.total() + count.missing
    return [((each.at - HOUR) // MINUTE, each.what.value) for each in found], dict(count.explained)


def test_an_unbroken_chain_is_what_is_expected() -> None:
    assert told(CHAIN) == ([], {})


@pytest.mark.parametrize("gone", [0, 20, 50])
def test_a_fire_that_another_follows_was_there(gone: int) -> None:
    left = [each for each in CHAIN if each.scheduled_at != HOUR + gone * MINUTE]
    assert told(left) == ([(gone, "missing")], {})
    purged = PurgedRuns(job_id=2, from_at=HOUR, to_at=2 * HOUR)
    assert told(left, past=Past(purged=[purged])) == ([], {"purged": 1})
    paused = PausePeriod(executor_id=0, paused_at=0, resumed_at=None)  # it was there nevertheless
    assert told(left, past=Past(pauses=[paused])) == ([(gone, "missing")], {})


def test_the_last_fire_of_a_trigger_was_there() -> None:
    waits = replace(TRIGGER, next_fire_at=None, last_fire_at=HOUR + 50 * MINUTE)
    assert told(CHAIN[:5], waits) == ([(50, "missing")], {})
    live = [*CHAIN[:5], fire(50, follows=40, ended=False)]
    assert told(live, waits) == ([], {})
    ended = replace(waits, until_at=HOUR + 45 * MINUTE)  # taken back by the edit that ended this
    assert told(CHAIN[:5], ended) == ([], {})


def test_a_trigger_that_is_due_and_not_planned() -> None:
    due = replace(TRIGGER, next_fire_at=HOUR + 30 * MINUTE, last_fire_at=HOUR + 20 * MINUTE)
    assert told(CHAIN[:3], due) == ([(30, "missing")], {})
    paused = PausePeriod(executor_id=3, paused_at=HOUR, resumed_at=None)
    assert told(CHAIN[:3], due, Past(pauses=[paused])) == ([], {"paused": 1})
    assert told(CHAIN[:3], replace(due, job_paused=True)) == ([], {})


def test_a_trigger_that_was_never_armed_again() -> None:
    stands = replace(TRIGGER, next_fire_at=None, last_fire_at=HOUR + 20 * MINUTE)
    assert told(CHAIN[:3], stands) == ([(30, "missing")], {})
    assert told(CHAIN[:3], replace(stands, job_paused=True)) == ([], {})
    assert told(CHAIN[:3], replace(stands, state=TriggerState.COMPLETE)) == ([], {})
    never = replace(stands, since_at=HOUR, last_fire_at=None)
    assert told([], never) == ([(10, "missing")], {})


def test_two_runs_that_follow_the_same_one() -> None:
    assert told([*CHAIN, fire(33, follows=20)]) == ([(33, "doubled")], {})
    assert told([*CHAIN[:6], fire(60, follows=40)])[0] == [(50, "doubled")]
