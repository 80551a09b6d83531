"""Scenarios of claims: several dispatchers, one queue, few slots."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from tests.interleavings.props import is_live
from tests.interleavings.stage import PERSON, Stage
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.store.database import tables


def the_last_slot(stage: Stage) -> Iterator[None]:
    """Two or three admins claim for a node that has one slot left."""
    admins = [stage.admin() for _ in range(stage.random.randint(2, 3))]
    node_id = stage.node(heard_by=admins, slots=2)
    stage.running(stage.job(), node_id)
    # As many as there are admins: with fewer they would run into each other at the runs already.
    # Serial ones too: who gets no slot must not be taken for live by those behind it.
    serial = BlockingPolicy(strategy=Blocking.SERIAL)
    jobs = [stage.job(), stage.job(blocking=serial), stage.job(blocking=serial)]
    waiting = [stage.queued(job) for job in jobs]
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
    yield
    stage.afterwards(admins[0].claims)
    claimed = [run for run in waiting if is_live(stage.run(run.id))]
    stage.expect(len(claimed) == 1, f"{len(claimed)} runs were claimed for one slot")


def one_queue(stage: Stage) -> Iterator[None]:
    """Three admins claim from one queue for nodes that not all of them hear."""
    admins = [stage.admin() for _ in range(3)]
    stage.node(heard_by=admins, slots=stage.random.randint(1, 3))
    stage.node(heard_by=stage.random.sample(admins, 2), slots=stage.random.randint(1, 3))
    stage.node(heard_by=[stage.random.choice(admins)], slots=1)
    jobs = [
        stage.job(routing=RoutingPolicy(strategy=routing))
        for routing in (Routing.ROUND_ROBIN, Routing.LEAST_BUSY)
    ]
    for _ in range(6):
        stage.queued(stage.random.choice(jobs), priority=stage.random.randint(4, 6))
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
        if stage.random.random() < 0.3:
            stage.acts(admin, "renews", stage.twin(admin).renews)
    yield
    for admin in admins:
        admin.waits_out_contention()
    for _ in range(2):
        stage.afterwards(*(admin.claims for admin in admins))
    nodes = sum(stage.node_row(node_id).slots for node_id in (1, 2, 3))
    live = [run for run in stage.runs() if is_live(run)]
    stage.expect(len(live) == min(6, nodes), f"{len(live)} of 6 runs are live in {nodes} slots")


def claims_meet_cancels(stage: Stage) -> Iterator[None]:
    """Runs are cancelled while two admins claim them: each is stopped, or asked to be."""
    admins = [stage.admin(), stage.admin()]
    stage.node(heard_by=admins, slots=4)
    job = stage.job()
    runs = [stage.queued(job) for _ in range(2)]
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
    cancels = []
    for run in runs:
        operator = stage.admin()
        cancels.append(
            stage.acts(operator, f"cancels run {run.id}", operator.runs.cancel, PERSON, run.id)
        )
    yield
    stage.afterwards(admins[0].claims)
    for run, actor in zip(runs, cancels, strict=True):
        after = stage.run(run.id)
        if actor.error is None:
            stopped = after.state is RunState.CANCELLED or (
                is_live(after) and after.cancel_requested_at is not None
            )
            stage.expect(stopped, f"run {run.id} was cancelled and is {after.state.value}")


def claims_meet_edits(stage: Stage) -> Iterator[None]:
    """A job is deleted while two admins claim its runs and one records an end."""
    admins = [stage.admin(), stage.admin()]
    node_id = stage.node(heard_by=admins, slots=3)
    job = stage.job()
    other = stage.job()
    ended = stage.running(job, node_id)
    for _ in range(2):
        stage.queued(job)
        stage.queued(other)
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
    editor, operator = stage.admin(), stage.admin()
    stage.acts(editor, "deletes", editor.jobs.delete, PERSON, job.id)
    cancels = stage.acts(operator, "cancels", operator.runs.cancel, PERSON, ended.id)
    stage.may_raise(cancels, Conflict)
    yield
    states = {run.state for run in stage.runs(tables.run.c.job_id == job.id) if run.attempt == 0}
    if stage.is_deleted(job):
        stage.expect(states <= FINAL, f"what nobody had claimed is {states} after the deletion")


def routing_remembers(stage: Stage) -> Iterator[None]:
    """Jobs whose routing counts uses, or avoids busy nodes, are asked for while all claim them."""
    admins = [stage.admin(), stage.admin()]
    nodes = [stage.node(heard_by=admins) for _ in range(3)]
    counting = stage.job(routing=RoutingPolicy(strategy=Routing.LEAST_FREQUENTLY_USED))
    avoiding = stage.job(routing=RoutingPolicy(strategy=Routing.BUSY_OVER))
    asking = stage.admin()

    async def ask() -> None:
        for job in (counting, avoiding, counting):
            await asking.jobs.run_now(PERSON, job.id)

    for job in (counting, avoiding):
        stage.queued(job)
    stage.acts(asking, "asks", ask)
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
        stage.acts(admin, "claims again", stage.twin(admin).claims)
    yield
    stage.afterwards(admins[0].claims)
    claimed = len([run for run in stage.runs(tables.run.c.job_id == counting.id) if run.attempt])
    uses = [row.uses for row in stage.rows(sa.select(tables.job_node))]
    stage.expect(sum(uses) == claimed, f"{claimed} runs were claimed, {uses} counted")
    stage.expect(max(uses) - min(uses) <= 1, f"uses are {uses}")
    busy = [run.node_id for run in stage.runs(tables.run.c.job_id == avoiding.id) if is_live(run)]
    stage.expect(len(set(busy)) == len(busy) <= len(nodes), f"the job runs on the nodes {busy}")


SCENARIOS = (the_last_slot, one_queue, claims_meet_cancels, claims_meet_edits, routing_remembers)
