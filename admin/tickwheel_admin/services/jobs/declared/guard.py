"""Jobs in code's hands: what people may not do with them, and what follows when they go."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.store.jobs import declared as store


def check_not_managed(conn: sa.Connection, job_id: int) -> None:
    """Refuse an edit that the next process would undo.

    Raises:
        Conflict: job.managed_by_code.
    """
    if store.managed_jobs(conn, [job_id]):
        raise managed_by_code()


def managed_by_code() -> Conflict:
    """Why a person does not edit it."""
    return Conflict(
        "job.managed_by_code",
        "This job is declared in code. Change it there, or first take it out of code’s hands"
        " (“release”, among the executor’s jobs that are declared in code).",
    )


def give_up_declarations(conn: sa.Connection, executor_id: int, job_ids: Collection[int]) -> bool:
    """Jobs were deleted: make no new ones of what code declares; what it declares no more goes.

    Returns whether any of them is still declared.
    """
    names = store.managed_jobs(conn, job_ids)
    if not names:
        return False
    now = store.names_declared_now(conn, [executor_id]).get(executor_id)
    if now is not None:
        store.forget_declared(conn, executor_id, set(names.values()) - now)
    return store.give_up_declared(conn, job_ids) > 0
