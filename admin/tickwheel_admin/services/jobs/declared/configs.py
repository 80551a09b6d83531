"""What a declaration says, with ids for the names in its workflow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.jobs.checks import merged
from tickwheel_admin.services.workflows.names import with_ids


def code_actor(executor_id: int, *, node: str = "", address: str = "") -> Actor:
    """Who declares jobs: code acts for its own executor alone."""
    return Actor(
        user_id=0, name=f"code:{node}", grants={executor_id: Role.DEVELOPER}, address=address
    )


def declared_config(conn: sa.Connection, actor: Actor, executor_id: int, raw: str) -> JobConfig:
    """The job that a declaration means.

    Args:
        actor: who has to see the jobs and executors that its workflow names.

    Raises:
        InvalidInput: with every problem found.
    """
    fields, unknown = with_ids(conn, actor, executor_id, json.loads(raw))
    config, problems = read_job(fields)
    if found := merged(unknown, problems):
        raise InvalidInput(found)
    return config


def declared_fields(conn: sa.Connection, executor_id: int, raw: str) -> Mapping[str, Any]:
    """The fields of a declaration with ids for names, where code may see what they name."""
    fields, _ = with_ids(conn, code_actor(executor_id), executor_id, json.loads(raw))
    return fields
