"""Jobs declared in code that wait for somebody's decision."""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.services.concerns import PER_KIND, Concern, ConcernKind, Severity
from tickwheel_admin.services.declared_lists import read_waiting
from tickwheel_admin.store.attention import Scope
from tickwheel_admin.store.executors import executor_names

MAX_NAMED = 3


def declared_waiting(conn: sa.Connection, scope: Scope) -> list[Concern]:
    """Executors with declared jobs that wait, the longest first."""
    waiting = read_waiting(conn, scope)
    oldest = sorted(waiting, key=lambda executor_id: min(waiting[executor_id].values()))[:PER_KIND]
    names = executor_names(conn, oldest)
    return [
        Concern(
            kind=ConcernKind.DECLARED_WAITING,
            severity=Severity.WARNING,
            template="Jobs declared in the code of “%(executor)s” wait for a decision: %(names)s.",
            params={
                "executor": names.get(executor_id, ""),
                "names": _told(sorted(waiting[executor_id])),
            },
            since=min(waiting[executor_id].values()),
            executor_id=executor_id,
            executor_name=names.get(executor_id),
        )
        for executor_id in oldest
    ]


def _told(names: list[str]) -> str:
    more = f" +{len(names) - MAX_NAMED}" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more
