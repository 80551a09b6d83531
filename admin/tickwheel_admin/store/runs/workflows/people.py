"""What people decide of single steps: answers, skips and pauses."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.by_hand import (
    can_be_paused,
    can_be_skipped,
    is_paused,
    wait_again,
)
from tickwheel_admin.domain.workflows.states import (
    APPROVAL,
    APPROVED,
    BREAKPOINT,
    DECLINED,
    LET_GO,
    PASSED_BY_HAND,
    StepState,
)
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.follow_ups import FollowUpResult, move_with_follow_ups
from tickwheel_admin.store.runs.workflows.advance import go_on
from tickwheel_admin.store.runs.workflows.defects import Defects


class NotWaiting(Exception):
    """The step does not stand so that this could be done with it."""


def answer_step(
    conn: sa.Connection,
    book: WorkflowBook,
    index: int,
    *,
    approved: bool,
    by: str,
    message: str | None,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int] = (),
) -> FollowUpResult:
    """Let a step go on that waits for a person, or end it as failed; its workflow is locked.

    Args:
        by: name of the person or token.
        message: what that person says about it.

    Raises:
        NotWaiting: the step waits for nobody.
        TooFewIds: as `move_with_follow_ups`.
    """
    status = book.steps[index]
    if status.state is not StepState.READY or status.reason not in (APPROVAL, BREAKPOINT):
        raise NotWaiting
    if not approved:
        book.set(index, StepState.FAILED, DECLINED, decided_by=by, message=message)
    elif status.reason == BREAKPOINT:
        book.set(index, StepState.WAITING, LET_GO, decided_by=by, message=message)
    else:
        book.set(index, StepState.SUCCEEDED, APPROVED, decided_by=by, message=message)
    return _go_on(conn, book, configs=configs, now=now, run_ids=run_ids)


def skip_step(
    conn: sa.Connection,
    book: WorkflowBook,
    index: int,
    *,
    by: str,
    reason: str,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int] = (),
) -> FollowUpResult:
    """Let a step count as passed; what was skipped only because of it waits again.

    Raises:
        NotWaiting: it has begun, or has ended without a failure.
        TooFewIds: as `move_with_follow_ups`.
    """
    status = book.steps[index]
    if not can_be_skipped(status):
        raise NotWaiting
    for other in wait_again(book.graph, book.steps, index):
        book.set(other, StepState.WAITING, started_at=None)
    book.set(
        index,
        StepState.SUCCEEDED,
        PASSED_BY_HAND,
        decided_by=by,
        message=reason,
        started_at=status.started_at,
    )
    return _go_on(conn, book, configs=configs, now=now, run_ids=run_ids)


def pause_step(
    conn: sa.Connection,
    book: WorkflowBook,
    index: int,
    *,
    paused: bool,
    by: str,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int] = (),
) -> FollowUpResult:
    """Let a step wait for a person before it begins, or no more; one that waits so goes on.

    Raises:
        NotWaiting: it has begun, or there is nothing to lift.
        TooFewIds: as `move_with_follow_ups`.
    """
    status, pause_before = book.steps[index], book.step(index).pause_before
    if paused and can_be_paused(status):
        book.note(index, reason=BREAKPOINT, decided_by=by)
    elif paused or not is_paused(status, pause_before=pause_before):
        raise NotWaiting
    elif status.state is StepState.READY:
        book.set(index, StepState.WAITING, LET_GO, decided_by=by)
    else:
        book.note(index, reason=LET_GO if pause_before else None, decided_by=by)
    return _go_on(conn, book, configs=configs, now=now, run_ids=run_ids)


def _go_on(
    conn: sa.Connection,
    book: WorkflowBook,
    *,
    configs: JobConfigs,
    now: int,
    run_ids: Sequence[int],
) -> FollowUpResult:
    defects = Defects()
    advanced = go_on(conn, {book.run.id: book}, configs, now=now, run_ids=run_ids, defects=defects)
    if defects.raised:  # what the person did would not be kept, so it is not said to be done
        raise defects.raised[book.run.id]
    followed = move_with_follow_ups(conn, advanced.moves, configs=configs, now=now, run_ids=run_ids)
    followed.queued += advanced.queued
    followed.steps += advanced.queued
    return followed
