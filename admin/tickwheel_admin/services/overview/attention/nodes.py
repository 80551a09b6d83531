"""Nodes that died within the hour, and the runs that were lost with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.overview.attention.concern import (
    PER_KIND,
    AlarmKind,
    Concern,
    Severity,
)
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.overview.attention import FailedRun, LostNode, Scope, lost_nodes

HOUR_MS = 3_600_000


def nodes_lost(
    conn: sa.Connection, scope: Scope, failed: Sequence[FailedRun], *, now: int
) -> list[Concern]:
    """One for each executor that lost nodes.

    Args:
        failed: the newest failed runs, in which lost ones are found.
    """
    by_executor: defaultdict[int, list[LostNode]] = defaultdict(list)
    for each in lost_nodes(conn, since=now - HOUR_MS, scope=scope):
        by_executor[each.executor_id].append(each)
    runs = Counter(run.node_id for run in failed if run.state == RunState.LOST.value)
    names = executor_names(conn, list(by_executor))
    found = []
    for executor_id, nodes in by_executor.items():
        if executor_id not in names:
            continue
        lost = sum(runs[node.id] for node in nodes)
        found.append(
            Concern(
                kind=AlarmKind.NODES_LOST,
                severity=Severity.ERROR if lost else Severity.WARNING,
                template="“%(executor)s” lost nodes within the hour: %(nodes)d; runs lost with"
                " them: %(runs)d.",
                params={
                    "executor": names[executor_id],
                    "nodes": len(nodes),
                    "runs": lost,
                    "names": [node.name for node in nodes],
                },
                since=nodes[-1].ended_at,
                last_at=nodes[0].ended_at,
                executor_id=executor_id,
                executor_name=names[executor_id],
            )
        )
    return found[:PER_KIND]
