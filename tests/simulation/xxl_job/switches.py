"""Mechanisms of the take-over switched off one by one: each must turn drills red."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa

from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.xxl_job.take_over import Decision, MoveState, NextAction
from tickwheel_admin.services.xxl_job.moves import edits, situation, take_over
from tickwheel_admin.store.xxl_job import their_schedule

Switch = Callable[[], AbstractContextManager[object]]


def lock_row() -> AbstractContextManager[object]:
    """XXL-JOB's lock is not taken: its admins schedule while we read and stop."""
    both = patch.object(their_schedule, "lock_schedule", lambda conn: None)
    # Nor are the rows of jobs, which would make their write-back wait as well.
    text = str(their_schedule._STATES.text).replace(" FOR UPDATE", "")
    unlocked = sa.text(text).bindparams(sa.bindparam("ids", expanding=True))

    @contextmanager
    def off() -> Iterator[None]:
        with both, patch.object(their_schedule, "_STATES", unlocked):
            yield

    return off()


@contextmanager
def kept_instants() -> Iterator[None]:
    """The instants are kept once XXL-JOB has let go, not before."""
    kept: dict[int, Any] = {}

    def later(conn: sa.Connection, source: str, wanted: Mapping[int, Any]) -> dict[int, None]:
        kept.update(wanted)
        return dict.fromkeys(wanted)

    def arm(conn: sa.Connection, source: str, wanted: Mapping[int, Any], **rest: Any) -> Any:
        mine = {each: kept[each] for each in wanted if each in kept}
        edits.prepare(conn, source, mine)
        return edits.arm_jobs(conn, source, wanted, **rest)

    with patch.object(take_over, "prepare", later), patch.object(take_over, "arm_jobs", arm):
        yield


def their_row_decides() -> AbstractContextManager[object]:
    """What was prepared counts as taken over, whether XXL-JOB was stopped or not."""
    original = situation.to_take_over

    def decide(record: Any, theirs: Any, **rest: Any) -> Decision:
        if record is not None and record.state is MoveState.PREPARED:
            return Decision(step=NextAction.ARM, at=record.next_at)
        return original(record, theirs, **rest)

    return patch.object(situation, "to_take_over", decide)


def their_instant() -> AbstractContextManager[object]:
    """Ours begins with the next instant from now on, and not with XXL-JOB's."""
    original = take_over.refusal_to_start

    def start(ours: Any, at: int, calendars: Any, *, now: int) -> Any:
        found = original(ours, at, calendars, now=now)
        if isinstance(found, edits.MoveRefusal):
            return found
        stored, _ = found
        return stored, parse(stored.trigger.spec, saved_at=at).next_after(now)

    return patch.object(take_over, "refusal_to_start", start)


def moment() -> AbstractContextManager[object]:
    """Jobs are taken over though a ring may hold them that was not written back."""
    return patch.object(take_over, "LOOK_AHEAD_MS", -(10**12))


def arming_waits() -> AbstractContextManager[object]:
    """Ours is armed while XXL-JOB's ring still holds earlier instants."""
    return patch.object(take_over, "_ready_at", lambda move, ours: 0)


def kept_return() -> AbstractContextManager[object]:
    """A give-back that stood half done does not go on from the instant that was kept."""
    original = take_over.return_job

    def give(conn: sa.Connection, *, wanted: Any, **rest: Any) -> Any:
        return original(conn, wanted=replace(wanted, from_at=None), **rest)

    return patch.object(take_over, "return_job", give)


SWITCHES: Mapping[str, Switch] = {
    each.__name__: each
    for each in (
        lock_row,
        kept_instants,
        their_row_decides,
        their_instant,
        moment,
        arming_waits,
        kept_return,
    )
}
