"""Conditions on runs; those on states have the states in the text of the statement.

Some indexes of runs hold only what has not ended, where the database can do that. It takes such an
index only if it sees, when it plans, that the condition implies this: a parameter hides it.
"""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FINAL, LIVE, Origin, RunState
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run


def has_state(*states: RunState) -> sa.ColumnElement[bool]:
    """The run is in one of these states."""
    texts = [sa.literal_column(f"'{state.value}'", sa.String) for state in sorted(states)]
    return run.c.state == texts[0] if len(texts) == 1 else run.c.state.in_(texts)


IS_QUEUED = has_state(RunState.QUEUED)
IS_LIVE = has_state(*LIVE)


def queued_for(executor_id: object) -> sa.ColumnElement[bool]:
    """The run waits at this executor: by `ix_run_to_claim` and `ix_run_due`."""
    return run.c.queued_for == executor_id


OPEN = "open"  # `listed_as` of what has not ended


def listed_as(state: RunState) -> sa.ColumnElement[bool]:
    """The run is in the state; those that wait, and those that have ended, by `ix_run_by_state`.

    Of what is live there is no more than there are slots: `ix_run_to_sweep` leads to all of it.
    """
    if state in FINAL:
        return run.c.listed_as == state.value
    if state in LIVE:
        return has_state(state)
    # The second condition is no business of any index.
    return sa.and_(run.c.listed_as == OPEN, unindexed(run.c.state) == state.value)


# Neither shards, whose fire tells of them, nor tries of scripts.
IS_NO_PART = sa.and_(run.c.fire_id.is_(None), run.c.origin != Origin.TRY.value)
# Nor steps, whose workflow tells of them.
STANDS_ALONE = run.c.is_part.is_(False)
