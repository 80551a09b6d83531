"""Scenarios of a job's state: who may write it, and what the next run is given (G6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from tests.admin.kit.engine import FakeSession
from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.services.jobs.kept_state import JobStates
from tickwheel_admin.store.database import tables
from tickwheel_shared.protocol import Result, RunRequest


def _leaves(run: Run, state: object) -> Result:
    left = msgspec.Raw(msgspec.json.encode(state))
    return msgspec.structs.replace(result_of(run), state=left)


def _given(admins: list[Admin], run_id: int) -> list[Any]:
    """The states that attempts of a run were sent with."""
    requests = [request for admin in admins for request in admin.sent(RunRequest)]
    return [json.loads(bytes(each.state)) for each in requests if each.run == run_id]


def a_late_result_meets_the_next_claim(stage: Stage) -> Iterator[None]:
    """A lost run succeeds after all while the next one is claimed, or a person sets the state.

    Either the next run is given what the late one leaves, or nobody is.
    """
    recorders, claimers = [[stage.admin() for _ in range(2)] for _ in range(2)]
    dead, alive = stage.node(), stage.node(heard_by=stage.admins)
    job = stage.job(blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    at = stage.began_at
    lost = stage.running(job, dead, state=RunState.LOST, ended_at=at - 10, blocking_key=None)
    stage.live_before.remove(lost)
    stage.change(tables.node, dead, in_use=0, state="dead", lease_expires_at=at - 20)
    stage.add_state(job.id, '{"by": "before"}', lent_to=lost)
    following = stage.queued(job)
    for recorder in recorders:
        session = FakeSession(dead, EXECUTOR)
        stage.acts(recorder, "records", recorder.records, (session, _leaves(lost, {"by": "late"})))
    for claimer in claimers:
        stage.acts(claimer, "claims", claimer.claims)
    person_too = stage.random.random() < 0.5
    if person_too:
        editor = stage.admin()
        states = JobStates(editor.seat.store, editor.ids, editor.events)
        stage.acts(editor, "sets the state", states.set, PERSON, job.id, '{"by": "person"}')
    yield
    (row,) = stage.rows(sa.select(tables.job_state))
    kept = json.loads(row.state)
    given = _given(stage.admins, following.id)
    stage.expect(len(given) <= 1, f"the next run was sent {len(given)} times")
    if person_too and not stage.play.gave_up:
        stage.expect(kept == {"by": "person"}, f"{kept} took the place of what a person wrote")
    elif given and not person_too:
        stage.expect(kept == given[0], f"the next run began from {given[0]}, and {kept} is kept")
    if given and stage.run(following.id).node_id == alive:
        holder = (row.lent_run_id, row.lent_attempt)
        rightful = [(following.id, 1), (None, None)] if person_too else [(following.id, 1)]
        stage.expect(holder in rightful, f"the state is lent to {holder}")


SCENARIOS = (a_late_result_meets_the_next_claim,)
