"""Holds a run that failed against the last good one of its job: what is different?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.failures.comparison import (
    DifferingValue,
    LineDifference,
    PhaseLengths,
    changes,
    first_difference,
    parameters_of,
    phases,
)
from tickwheel_admin.domain.input.job import changed_fields
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import FAILURES, Run
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.runs.details import visible_item
from tickwheel_admin.store.failures.good_runs import (
    MAX_LINES,
    NodeFacts,
    facts_of_nodes,
    last_good_run,
    log_texts,
)
from tickwheel_admin.store.jobs.configs import Key, read_configs
from tickwheel_admin.store.runs.lists import RunItem, get_run

NO_FACTS = NodeFacts(sdk="", labels={})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """A failed run and the last good one. What is the same is not told."""

    failed: RunItem
    good: RunItem | None  # None: none is known, and nothing else is told
    parameters: Sequence[DifferingValue] = ()
    node: DifferingValue | None = None
    sdk: DifferingValue | None = None
    labels: Sequence[DifferingValue] = ()  # of the nodes
    fields: Sequence[str] = ()  # of the job, that the revisions between them changed
    phases: Sequence[PhaseLengths] = ()
    line: LineDifference | None = None
    lines_read: int = MAX_LINES  # of each log, at most


def hold_against_last_good(conn: sa.Connection, actor: Actor, run_id: int) -> RunComparison:
    """Reads both runs, their configurations and nodes, and at most `MAX_LINES` of each log.

    Raises:
        NotFound: as for the page of the run.
        Conflict: run.not_failed.
    """
    failed = visible_item(conn, actor, run_id)
    if failed.run.state not in FAILURES:
        raise Conflict("run.not_failed", "This run has not failed. There is nothing to explain.")
    good_id = last_good_run(conn, failed.run)
    good = None if good_id is None else get_run(conn, good_id)
    if good is None:
        return RunComparison(failed=failed, good=None)
    one, other = good.run, failed.run
    keys = {(each.job_id, each.job_revision) for each in (one, other)}
    configs = read_configs(conn, keys)
    facts = facts_of_nodes(conn, {n for each in (one, other) if (n := each.node_id) is not None})
    of_good = facts.get(one.node_id or 0, NO_FACTS)
    of_failed = facts.get(other.node_id or 0, NO_FACTS)
    return RunComparison(
        failed=failed,
        good=good,
        parameters=changes(_parameters(one, configs), _parameters(other, configs)),
        node=_change("node", good.node_name, failed.node_name),
        sdk=_change("sdk", of_good.sdk or None, of_failed.sdk or None),
        labels=changes(of_good.labels, of_failed.labels),
        fields=_fields(one, other, configs),
        phases=phases(one, other),
        line=first_difference(
            log_texts(conn, one.id, one.attempt), log_texts(conn, other.id, other.attempt)
        ),
    )


def _change(name: str, good: str | None, failed: str | None) -> DifferingValue | None:
    return None if good == failed else DifferingValue(name=name, good=good, failed=failed)


def _parameters(run: Run, configs: dict[Key, JobConfig]) -> dict[str, object]:
    if run.parameters is not None:
        return parameters_of(run.parameters)
    config = configs.get((run.job_id, run.job_revision))
    return {} if config is None else parameters_of(config.parameters)


def _fields(good: Run, failed: Run, configs: dict[Key, JobConfig]) -> list[str]:
    before = configs.get((good.job_id, good.job_revision))
    after = configs.get((failed.job_id, failed.job_revision))
    return [] if before is None or after is None else list(changed_fields(before, after))
