"""Scenarios of runs that stand in line, of shards, and of what follows from the end of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import sqlalchemy as sa

from tests.admin.kit.engine import FakeSession
from tests.interleavings.admins import Admin
from tests.interleavings.membership import arrival
from tests.interleavings.props import EXECUTOR, is_live
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.jobs.children import ChildLink, ChildOn
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, WhenCutOff
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import BLOCKED, FINAL, PARKED_AT, Run, RunState
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_shared.protocol import Held, Outcome, RunKey

DELAY_MS = 60_000


def _ends(
    stage: Stage, admin: Admin, runs: list[Run], outcome: Outcome = Outcome.SUCCEEDED
) -> None:
    said = [(admin.links.sessions[run.node_id or 0], result_of(run, outcome)) for run in runs]
    stage.acts(admin, "records", admin.records, *said)


def _line(
    stage: Stage, policy: BlockingPolicy, *, live: int, queued: int
) -> tuple[list[Run], list[Run]]:
    """Three admins, a node that all hear, and runs of one job; the first admin records."""
    recorder, *claimers = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    job = stage.job(
        blocking=policy, retry=RetryPolicy(retries=stage.random.randint(0, 1), delay_ms=0)
    )
    standing = [stage.running(job, node_id) for _ in range(live)]
    waiting = [stage.queued(job) for _ in range(queued)]
    ending = standing[: stage.random.randint(0, live)]
    if ending:
        _ends(stage, recorder, ending, stage.random.choice((Outcome.SUCCEEDED, Outcome.FAILED)))
    for admin in claimers:
        stage.acts(admin, "claims", admin.claims)
    return standing, waiting


def serial_runs_take_turns(stage: Stage) -> Iterator[None]:
    """At most n runs of a job are live, and none waits for ever, though ends and claims meet."""
    policy = BlockingPolicy(strategy=Blocking.SERIAL, concurrency=stage.random.randint(1, 2))
    _, waiting = _line(stage, policy, live=policy.concurrency, queued=3)
    yield
    stage.finish(stage.admins[0])
    states = [stage.run(run.id).state for run in waiting]
    stage.expect(set(states) == {RunState.SUCCEEDED}, f"those in line ended as {states}")


def lines_at_two_servers(stage: Stage) -> Iterator[None]:
    """Two admins claim runs of one job of which each sees only one, for two nodes.

    On Galera the second server's clock is ahead, and it may lag behind the first, where a run is
    added. What keeps both from being live is then the write to the job's row, and nothing else.
    """
    first, second = stage.admin(), stage.admin()
    for _ in range(2):
        stage.node(heard_by=stage.admins)
    job = stage.job(
        blocking=BlockingPolicy(strategy=Blocking.SERIAL),
        routing=RoutingPolicy(strategy=Routing.FAILOVER),
    )
    due_at = stage.began_at
    if stage.cluster.kind == "galera":
        stage.cluster.set_clock(second.seat.server, ahead_ms=10_000)
        stage.cluster.lag_share = 0.5
        due_at += 5_000
    # Not for the node that the other run will get: its row would be written by both.
    stage.queued(job, due_at=due_at, scheduled_at=due_at, pinned_node_id=2)
    added = stage.unstored(job)
    row = sa.select(tables.run.c.id).where(tables.run.c.id == added.id)

    def add(conn: sa.Connection) -> None:
        if conn.execute(row).first() is None:  # again, after a commit whose answer was lost
            insert_fires(conn, [added])

    async def add_and_claim() -> None:
        await first.seat.store.run(add)
        await first.claims()

    stage.acts(first, "adds a run, claims", add_and_claim)
    stage.acts(second, "claims", second.claims)
    yield


def few_may_wait(stage: Stage) -> Iterator[None]:
    """Of a serial job with `max_waiting`, further runs are skipped and the others take turns."""
    policy = BlockingPolicy(strategy=Blocking.SERIAL, max_waiting=1)
    _, waiting = _line(stage, policy, live=1, queued=3)
    yield
    stage.finish(stage.admins[0])
    ends = [(after.state, after.reason) for after in (stage.run(run.id) for run in waiting)]
    allowed = {(RunState.SUCCEEDED, None), (RunState.SKIPPED, "too_many_waiting")}
    stage.expect(set(ends) <= allowed, f"those in line ended as {ends}")
    stage.expect(ends[0][0] is RunState.SUCCEEDED, "the first in line was skipped")


def later_runs_are_discarded(stage: Stage) -> Iterator[None]:
    """What is due while a run is live is skipped, and nothing else."""
    policy = BlockingPolicy(strategy=Blocking.DISCARD_LATER)
    _, waiting = _line(stage, policy, live=1, queued=3)
    yield
    stage.finish(stage.admins[0])
    ends = [(after.state, after.reason) for after in (stage.run(run.id) for run in waiting)]
    allowed = {(RunState.SUCCEEDED, None), (RunState.SKIPPED, "discarded")}
    stage.expect(set(ends) <= allowed, f"those due meanwhile ended as {ends}")


def the_newest_covers(stage: Stage) -> Iterator[None]:
    """The newest run wins, after the live one was confirmed to have ended."""
    policy = BlockingPolicy(strategy=Blocking.COVER_EARLY)
    _, waiting = _line(stage, policy, live=1, queued=3)
    yield
    stage.finish(stage.admins[0])
    *older, newest = (stage.run(run.id) for run in waiting)
    stage.expect(newest.state is RunState.SUCCEEDED, f"the newest run ended as {newest.state}")
    for run in older:
        stage.expect(
            run.state in (RunState.SKIPPED, RunState.SUCCEEDED, RunState.CANCELLED),
            f"run {run.id} ended as {run.state.value}",
        )


def a_parked_run_wakes(stage: Stage) -> Iterator[None]:
    """The live run ends by a result or a sweeper while its successor is about to be parked."""
    recorder, claimer, other = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    job = stage.job(blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    live = stage.running(job, node_id)
    waiting = stage.queued(job)
    _ends(stage, recorder, [live])
    stage.acts(claimer, "claims", claimer.claims)
    stage.acts(other, "claims", other.claims)
    yield
    if stage.cluster.kind == "galera":
        stage.afterwards(recorder.mends)
    after = stage.run(waiting.id)
    if stage.run(live.id).state in FINAL:
        stage.expect(not after.is_parked, "a run is parked behind nothing")
    stage.finish(recorder)


def a_parked_run_is_cancelled(stage: Stage) -> Iterator[None]:
    """The first in line is cancelled while its turn comes: then it is the turn of the next."""
    recorder, claiming, operator = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    job = stage.job(blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    live = stage.running(job, node_id)
    first, second = (stage.queued(job, due_at=PARKED_AT, reason=BLOCKED) for _ in range(2))
    _ends(stage, recorder, [live])
    cancels = stage.acts(operator, "cancels", operator.runs.cancel, PERSON, first.id)
    stage.may_raise(cancels, Conflict)
    stage.acts(claiming, "claims", claiming.claims)
    yield
    # Whoever ends the live run does not wait for the one who is just cancelling the first in line.
    stage.finish(recorder, mends=True)
    stage.expect(
        stage.run(second.id).state is RunState.SUCCEEDED,
        f"the second in line is {stage.run(second.id).state.value}",
    )


def shards_end_at_once(stage: Stage) -> Iterator[None]:
    """The shards of a fire end at three admins: the fire ends once, with its child."""
    admins = [stage.admin() for _ in range(3)]
    stage.node(heard_by=admins)
    child = stage.job()
    job = stage.job(
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=stage.random.randint(2, 4)),
        children=(ChildLink(job_id=child.id, on=ChildOn.ALWAYS),),
        blocking=BlockingPolicy(strategy=stage.random.choice((Blocking.PARALLEL, Blocking.SERIAL))),
    )
    fire = stage.queued(job)
    stage.afterwards(admins[0].claims, admins[0].claims)
    shards = stage.runs(tables.run.c.fire_id == fire.id)
    outcomes = {run.id: stage.random.choice((Outcome.SUCCEEDED, Outcome.FAILED)) for run in shards}
    parts: list[list[Run]] = [[], [], []]
    for run in shards:
        stage.random.choice(parts).append(run)
    for admin, part in zip(admins, parts, strict=True):
        said = [(admin.links.sessions[1], result_of(run, outcomes[run.id])) for run in part]
        if said:
            stage.acts(admin, "records", admin.records, *said)
    yield
    if any(actor.error for actor in stage.play.actors):
        return  # the database refused for too long
    after = stage.run(fire.id)
    failed = Outcome.FAILED in outcomes.values()
    wanted = RunState.FAILED if failed else RunState.SUCCEEDED
    stage.expect(after.state is wanted, f"all shards ended, and the fire is {after.state.value}")
    children = stage.runs(tables.run.c.parent_run_id.is_not(None))
    stage.expect(
        [run.parent_run_id for run in children] == [fire.id],
        f"children of {[run.parent_run_id for run in children]} for one fire",
    )


def a_fire_is_cut_once(stage: Stage) -> Iterator[None]:
    """Three admins meet a fire that becomes shards; an operator stops it, or nobody does."""
    admins = [stage.admin() for _ in range(3)]
    for _ in range(2):
        stage.node(heard_by=admins, slots=2)
    routing = stage.random.choice((Routing.SHARDS, Routing.BROADCAST))
    strategy = stage.random.choice((Blocking.PARALLEL, Blocking.SERIAL))
    job = stage.job(
        routing=RoutingPolicy(strategy=routing, shards=3 if routing is Routing.SHARDS else 1),
        blocking=BlockingPolicy(strategy=strategy),
    )
    fires = [stage.queued(job) for _ in range(2)]
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
    stops = stage.random.random() < 0.4
    if stops:
        operator = stage.admin()
        cancels = stage.acts(operator, "cancels", operator.runs.cancel, PERSON, fires[0].id)
        stage.may_raise(cancels, Conflict)
    yield
    total = 3 if routing is Routing.SHARDS else 2
    for fire in fires:
        shards = stage.runs(tables.run.c.fire_id == fire.id)
        stage.expect(len(shards) in (0, total), f"fire {fire.id} has {len(shards)} shards")
    for _ in range(2):
        stage.afterwards(admins[0].sweeps)
        stage.finish(admins[0])
    if stops:
        return
    for fire in fires:
        after = stage.run(fire.id)
        stage.expect(after.state is RunState.SUCCEEDED, f"fire {fire.id} is {after.state.value}")


def children_come_once(stage: Stage) -> Iterator[None]:
    """A parent is ended by its result and by two sweepers at once: each child comes once."""
    recorder, *sweepers = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    one, other = stage.job(), stage.job()
    links = (
        ChildLink(job_id=one.id, on=ChildOn.ALWAYS),
        ChildLink(job_id=other.id, on=ChildOn.ALWAYS),
    )
    job = stage.job(children=links, timeout_ms=1_000)
    parents = [stage.running(job, node_id, started_ms_ago=30_000) for _ in range(2)]
    _ends(stage, recorder, parents, stage.random.choice((Outcome.SUCCEEDED, Outcome.FAILED)))
    for admin in sweepers:
        stage.acts(admin, "sweeps", admin.sweeps)
    yield
    ended = [run.id for run in parents if not is_live(stage.run(run.id))]
    children = Counter(
        (run.parent_run_id, run.job_id)
        for run in stage.runs(tables.run.c.parent_run_id.is_not(None))
    )
    wanted = Counter((run_id, child) for run_id in ended for child in (one.id, other.id))
    stage.expect(children == wanted, f"ended {ended}, children {dict(children)}")


def a_fixed_delay_goes_on(stage: Stage) -> Iterator[None]:
    """The run of a fixed-delay trigger ends at two admins at once, while its job is edited."""
    recorder, sweeper, planner = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    spec = FixedDelaySpec(every_ms=DELAY_MS)
    job = stage.job(triggers=[(spec, None)], timeout_ms=1_000)
    (trigger_id,) = job.trigger_ids
    live = stage.running(job, node_id, started_ms_ago=30_000, trigger_id=trigger_id)
    stage.change(
        tables.trigger, trigger_id, next_fire_at=None, last_fire_at=live.scheduled_at, fires=1
    )
    _ends(stage, recorder, [live])
    stage.acts(sweeper, "sweeps", sweeper.sweeps)
    stage.acts(planner, "plans", planner.plans)
    kind = stage.random.choice(("none", "update", "pause", "resume"))
    if kind != "none":
        editor = stage.admin()
        raw = job_to_raw(job.config) | {"owner": "somebody"}
        if kind == "update":
            stage.acts(editor, kind, editor.jobs.update, PERSON, job.id, raw, revision=1)
        else:
            work = editor.jobs.pause if kind == "pause" else editor.jobs.resume
            stage.acts(editor, kind, work, PERSON, job.id)
    yield
    stage.afterwards(recorder.mends)
    (row,) = stage.rows(sa.select(tables.trigger))
    (held,) = stage.rows(sa.select(tables.job.c.paused).where(tables.job.c.id == job.id))
    fires = stage.runs(tables.run.c.trigger_id == trigger_id)
    stage.expect(len(fires) == 1, f"the trigger fired {len(fires) - 1} more times")
    over = stage.run(live.id).state in FINAL
    if held.paused:
        stage.expect(row.next_fire_at is None, "a paused job's trigger is armed")
    elif over:
        stage.expect(row.next_fire_at is not None, "the trigger never fires again")


def a_cut_off_run_comes_back(stage: Stage) -> Iterator[None]:
    """A node is back with the run that kept its place, while sweepers hold it for the node."""
    greeting, claiming, *sweepers = [stage.admin() for _ in range(4)]
    at = stage.began_at - 10
    dead = stage.node(
        node_key="k" * 32, state="dead", lease_expires_at=at, full_lease_at=at, ended_at=at
    )
    stage.node(heard_by=[claiming])
    policy = BlockingPolicy(strategy=Blocking.SERIAL, when_cut_off=WhenCutOff.CONTINUE)
    job = stage.job(blocking=policy)
    live = stage.running(job, dead)
    waiting = stage.queued(job)

    async def return_and_tell() -> None:
        await greeting.engine.membership.admit(arrival("k" * 32))
        session = FakeSession(dead, EXECUTOR)
        greeting.links.sessions[dead] = session
        key = RunKey(run=live.id, attempt=live.attempt, token=live.claim_token or "")
        await greeting.records((session, Held(runs=[key])))

    stage.acts(greeting, "admits, hears what it holds", return_and_tell)
    for admin in sweepers:
        stage.acts(admin, "sweeps", admin.sweeps)
    stage.acts(claiming, "claims", claiming.claims)
    yield
    after = stage.run(live.id)
    stage.expect(is_live(after), f"a run that goes on is {after.state.value}")
    if not stage.play.gave_up:
        stage.expect(after.reason is None, f"its node is back, and it is still {after.reason}")
    stage.expect(not is_live(stage.run(waiting.id)), "the next one runs beside it")


def an_operator_releases(stage: Stage) -> Iterator[None]:
    """Two operators release a run while its node confirms the end, and the next one is claimed."""
    recorder, claiming, *operators = [stage.admin() for _ in range(4)]
    node_id = stage.node(heard_by=stage.admins)
    job = stage.job(blocking=BlockingPolicy(strategy=Blocking.SERIAL))
    asked_at = stage.began_at - 60_000
    live = stage.running(
        job, node_id, cancel_requested_at=asked_at, cancel_reason="operator", deadline_at=asked_at
    )
    waiting = stage.queued(job)
    _ends(stage, recorder, [live], Outcome.CANCELLED)
    stage.acts(claiming, "claims", claiming.claims)
    for admin in operators:
        stage.may_raise(
            stage.acts(admin, "releases", admin.runs.release, PERSON, live.id), Conflict
        )
    yield
    stage.finish(recorder)
    after = stage.run(live.id)
    stage.expect(after.state is RunState.CANCELLED, f"the run ended as {after.state.value}")
    stage.expect(
        stage.run(waiting.id).state is RunState.SUCCEEDED,
        f"the next one is {stage.run(waiting.id).state.value}",
    )


def shards_are_tried_again(stage: Stage) -> Iterator[None]:
    """The failed shards of a fire are retried by two people while its job's next run is claimed."""
    admins = [stage.admin() for _ in range(3)]
    stage.node(heard_by=admins)
    job = stage.job(
        routing=RoutingPolicy(strategy=Routing.SHARDS, shards=2),
        blocking=BlockingPolicy(strategy=Blocking.DISCARD_LATER),
    )
    fire = stage.queued(job)
    claiming, *operators = admins
    stage.afterwards(claiming.claims, claiming.claims)
    shards = stage.runs(tables.run.c.fire_id == fire.id)
    said = [(claiming.links.sessions[1], result_of(run, Outcome.FAILED)) for run in shards]
    stage.afterwards(partial(claiming.records, *said))
    stage.queued(job)
    stage.acts(claiming, "claims", claiming.claims)
    for admin in operators:
        retries = stage.acts(
            admin,
            "retries failed shards",
            admin.runs.retry,
            PERSON,
            fire.id,
            request_key=admin.name,
            failed_shards_only=True,
        )
        stage.may_raise(retries, Conflict)
    yield
    stage.finish(claiming)


SCENARIOS = (
    serial_runs_take_turns,
    lines_at_two_servers,
    few_may_wait,
    later_runs_are_discarded,
    the_newest_covers,
    a_parked_run_wakes,
    a_parked_run_is_cancelled,
    shards_end_at_once,
    a_fire_is_cut_once,
    children_come_once,
    a_fixed_delay_goes_on,
    a_cut_off_run_comes_back,
    an_operator_releases,
    shards_are_tried_again,
)
