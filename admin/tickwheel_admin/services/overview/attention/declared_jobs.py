"""Jobs declared in code that wait for somebody's decision, and those that cannot be made."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.declared_job import DeclaredState
from tickwheel_admin.services.jobs.declared.lists import read_in_state
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.overview.attention import Scope

MAX_NAMED = 3


def declared_waiting(
    conn: sa.Connection, scope: Scope, *, most: int | None = PER_KIND
) -> list[Concern]:
    """Executors with declared jobs that wait, the longest first; None: all of them."""
    return _concerns(
        conn,
        scope,
        DeclaredState.WAITING,
        most=most,
        kind=AlarmKind.DECLARED_WAITING,
        template="Jobs declared in the code of “%(executor)s” wait for a decision: %(names)s.",
    )


def declared_broken(
    conn: sa.Connection, scope: Scope, *, most: int | None = PER_KIND
) -> list[Concern]:
    """Executors with declared jobs that break a rule, the longest first; None: all of them."""
    return _concerns(
        conn,
        scope,
        DeclaredState.INVALID,
        most=most,
        kind=AlarmKind.DECLARED_BROKEN,
        template="Jobs declared in the code of “%(executor)s” break a rule: %(names)s.",
    )


def _concerns(
    conn: sa.Connection,
    scope: Scope,
    state: DeclaredState,
    *,
    most: int | None,
    kind: AlarmKind,
    template: str,
) -> list[Concern]:
    standing = read_in_state(conn, state, scope)
    oldest = sorted(standing, key=lambda executor_id: min(standing[executor_id].values()))
    oldest = oldest[:most]
    names = executor_names(conn, oldest)
    return [
        Concern(
            kind=kind,
            severity=Severity.WARNING,
            template=template,
            params={
                "executor": names.get(executor_id, ""),
                "names": _told(sorted(standing[executor_id])),
            },
            since=min(standing[executor_id].values()),
            executor_id=executor_id,
            executor_name=names.get(executor_id),
        )
        for executor_id in oldest
    ]


def _told(names: list[str]) -> str:
    more = f" +{len(names) - MAX_NAMED}" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
