"""Who may give a job a script, and where: asked on every way by which a job gets one.

A script is code that a machine runs, so being allowed to edit jobs is not enough. Whoever leaves
the script as it is may change everything else of a job; taking a script away is no danger.
"""

from __future__ import annotations

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.script import Script
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.store.executors.executors import allows_scripts


def check_script(
    conn: sa.Connection,
    actor: Actor,
    executor_id: int,
    config: JobConfig,
    *,
    before: JobConfig | None = None,
    is_stored: bool = False,
) -> None:
    """Refuse a script that this person may not give, or that the executor forbids.

    Args:
        before: what the job said until now; None: it is new.
        is_stored: the script is that of another revision of the job, so its source is there.

    Raises:
        NotAllowed: without the permission.
        InvalidInput: on "script"; on "script.source" if only the hash of another source was given.
    """
    script = config.script
    earlier = None if before is None else before.script
    if script is None or script == earlier:
        return
    actor.require(Permission.SCRIPT, executor_id)
    if not allows_scripts(conn, executor_id):
        raise InvalidInput.one(
            "script",
            "script.forbidden",
            "This executor forbids scripts; somebody who administers it can allow them.",
        )
    if script.source is None and not is_stored and not _has_source(earlier, script):
        raise InvalidInput.one(
            "script.source",
            "script.source_missing",
            "Give the source itself: this hash is not that of the job’s current script.",
        )


def may_run_again(
    actor: Actor, executor_id: int, *, script: Script | None, now: Script | None
) -> None:
    """Refuse to run a script that its job has no more to whoever may not give it to the job.

    Raises:
        NotAllowed: without the permission.
    """
    if script is not None and not script.runs_the_same(now):
        actor.require(Permission.SCRIPT, executor_id)


def noted(config: JobConfig, before: JobConfig | None = None) -> dict[str, object]:
    """What the audit keeps of a script that a job gets."""
    script = config.script
    if script is None or (before is not None and script == before.script):
        return {}
    told: dict[str, object] = {"script": f"{script.language} {script.sha256}"}
    return told | {"remark": script.remark} if script.remark else told


def _has_source(earlier: Script | None, script: Script) -> bool:
    return earlier is not None and earlier.sha256 == script.sha256
