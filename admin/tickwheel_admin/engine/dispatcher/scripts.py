"""The scripts that claimed runs take with them, each source read once."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.runs import script as domain
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.engine.dispatcher.claim_inputs import ClaimInputs
from tickwheel_admin.store.jobs.scripts import ScriptSources
from tickwheel_shared.protocol import RunScript


def read_scripts(
    conn: sa.Connection, claimed: Sequence[Run], inputs: ClaimInputs, sources: ScriptSources
) -> dict[int, RunScript]:
    """By run; runs without a script are left out."""
    scripts: dict[int, domain.Script] = {
        run.id: script for run in claimed if (script := inputs.config(run).script) is not None
    }
    if not scripts:
        return {}
    known = sources.get_many(conn, {each.sha256 for each in scripts.values()})
    return {
        run_id: RunScript(
            language=each.language,
            source=known[each.sha256],
            sha256=each.sha256,
            signature=each.signature,
        )
        for run_id, each in scripts.items()
    }
