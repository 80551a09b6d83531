"""Conditions on runs; those on states have the states in the text of the statement.

Some indexes of runs hold only what has not ended, where the database can do that. It takes such an
index only if it sees, when it plans, that the condition implies this: a parameter hides it.
"""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import LIVE, Origin, RunState
from tickwheel_admin.store.database.tables import run


def has_state(*states: RunState) -> sa.ColumnElement[bool]:
    """The run is in one of these states."""
    texts = [sa.literal_column(f"'{state.value}'", sa.String) for state in sorted(states)]
    return run.c.state == texts[0] if len(texts) == 1 else run.c.state.in_(texts)


IS_QUEUED = has_state(RunState.QUEUED)
IS_LIVE = has_state(*LIVE)

# Neither shards, whose fire tells of them, nor tries of scripts.
IS_NO_PART = sa.and_(run.c.fire_id.is_(None), run.c.origin != Origin.TRY.value)
# Nor steps, whose workflow tells of them.
STANDS_ALONE = run.c.is_part.is_(False)
