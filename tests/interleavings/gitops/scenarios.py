"""Scenarios of files that are applied at the same time as others, or as an edit in the console.

Everybody made a plan before the play, as `tickwheel apply` does: what was shown and agreed to is
what is applied, all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.baton import Actor
from tests.interleavings.props import HANDLER, StagedJob
from tests.interleavings.stage import PERSON, Stage
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.job import config_from_json, job_to_raw
from tickwheel_admin.store.database import tables

_UNTOUCHED = ""
_EDITED = "edited in the console"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Somebody's files: a description for each job that is there, and one job more."""

    owner: str
    documents: list[dict[str, Any]]
    fingerprint: str
    applies: Actor


def two_directories_are_applied(stage: Stage) -> Iterator[None]:
    """Two people apply files about the same jobs: one directory is there whole, the other not."""
    jobs = [stage.job() for _ in range(3)]
    directories = [_directory(stage, stage.admin(), jobs, owner) for owner in ("ada", "bob")]
    yield
    stored = _descriptions(stage, jobs)
    done = [each.owner for each in directories if each.applies.error is None]
    stage.expect(len(done) <= 1, f"{done} applied plans that both began from the same state")
    stage.expect(len(set(stored)) == 1, f"jobs are from several directories: {stored}")
    stage.expect(not done or done == [stored[0]], f"{done} was applied, and {stored} is there")
    _expect_new(stage, stored[0])
    _expect_a_winner(stage, [each.applies for each in directories])


def an_edit_meets_an_application(stage: Stage) -> Iterator[None]:
    """A job is edited in the console while files about it are applied: neither is overwritten."""
    jobs = [stage.job() for _ in range(2)]
    directory = _directory(stage, stage.admin(), jobs, "ada")
    editor = stage.admin()
    edited = stage.random.choice((0, 1))
    raw = job_to_raw(jobs[edited].config) | {"description": _EDITED}
    edits = stage.acts(
        editor, "edits", editor.jobs.update, PERSON, jobs[edited].id, raw, revision=1
    )
    stage.may_raise(edits, Conflict)
    yield
    stored = _descriptions(stage, jobs)
    other = stored[1 - edited]
    stage.expect(
        stored[edited] != _EDITED or other == _UNTOUCHED,
        f"an application went around an edit: {stored}",
    )
    stage.expect(other in (_UNTOUCHED, stored[edited]), f"a half of it was applied: {stored}")
    stage.expect(
        edits.error is not None or stored[edited] == _EDITED, f"the edit is lost: {stored}"
    )
    applied = directory.applies.error is None
    stage.expect(not applied or set(stored) == {"ada"}, f"it was applied, and {stored} is there")
    _expect_new(stage, other)
    _expect_a_winner(stage, [directory.applies, edits])


def _directory(stage: Stage, admin: Admin, jobs: list[StagedJob], owner: str) -> Directory:
    wanted = [(job.config.name, owner) for job in jobs] + [(f"new of {owner}", owner)]
    stage.random.shuffle(wanted)
    documents = [
        {
            "type": "job",
            "executor": "billing",
            "name": name,
            "handler": HANDLER,
            "description": text,
        }
        for name, text in wanted
    ]
    plans: list[str] = []

    async def plan() -> None:
        made = await admin.gitops.plan(PERSON, documents, owner=None)
        assert made.is_checked, [str(each) for each in made.problems]
        plans.append(made.fingerprint)

    stage.afterwards(plan)
    apply = partial(admin.gitops.apply, PERSON, documents, fingerprint=plans[0], owner=None)
    applies = stage.may_raise(stage.acts(admin, "applies", apply), Conflict)
    return Directory(owner=owner, documents=documents, fingerprint=plans[0], applies=applies)


def _descriptions(stage: Stage, jobs: list[StagedJob]) -> list[str]:
    """What each job says of itself now."""
    job, revision = tables.job, tables.job_revision
    rows = stage.rows(
        sa.select(job.c.id, revision.c.config).join(
            revision, sa.and_(revision.c.job_id == job.c.id, revision.c.revision == job.c.revision)
        )
    )
    configs = {row.id: config_from_json(row.config) for row in rows}
    return [configs[each.id].description for each in jobs]


def _expect_new(stage: Stage, owner: str) -> None:
    """The job that only one directory has came with the rest of it, once."""
    name = tables.job.c.name
    rows = stage.rows(sa.select(name).where(name.like("new of %")))
    wanted = [f"new of {owner}"] if owner in ("ada", "bob") else []
    stage.expect([row.name for row in rows] == wanted, f"new jobs {rows} beside those of {owner!r}")


def _expect_a_winner(stage: Stage, actors: list[Actor]) -> None:
    """Each is refused only because of the other."""
    refused = [isinstance(each.error, Conflict) for each in actors]
    stage.expect(not all(refused), "both were refused")


SCENARIOS = (two_directories_are_applied, an_edit_meets_an_application)
