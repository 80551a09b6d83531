"""Needs attention: each kind is told when it is the matter, and only then, within scope."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tests.admin.store.alarms.test_alarms import alarm
from tickwheel_admin.domain.admin_status import (
    AdminStatus,
    LoopStall,
    LoopStatus,
    TlsStatus,
    status_to_json,
)
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.maintenance.rollup import Rollup
from tickwheel_admin.services.overview.attention import service as attention
from tickwheel_admin.services.overview.attention.service import AlarmKind, Concern, Severity
from tickwheel_admin.store.alarms.alarms import insert_alarms
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.admins import enter_admin, remove_dead_admins, renew_admin
from tickwheel_admin.store.overview.job_failures import count_failed_jobs
from tickwheel_admin.store.runs.due_check import check_due
from tickwheel_admin.web.i18n import CHINESE, translate

pytestmark = pytest.mark.turned_clock

SECOND = 1_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
async def mine(world: World) -> dict[str, Any]:
    """A job whose executor has a node with four free slots: nothing is the matter."""
    executor_id = await world.executor()
    world.node(executor_id)
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    return {"executor_id": executor_id, "job_id": job_id}


async def concerns(world: World, actor: Any = ADMIN) -> list[Concern]:
    world.attention = attention.Attention(world.database)  # nothing is kept from before
    return await world.attention.get(actor)


async def kinds(world: World) -> list[str]:
    return [each.kind.value for each in await concerns(world)]


def history(world: World, mine: dict[str, Any], *states: str, ms: int = 1_000) -> list[int]:
    """Runs of the job, oldest first, a minute apart; those that ended took `ms`."""
    rows = []
    for number, state in enumerate(states):
        at = world.now - MINUTE * (len(states) - number)
        ended = None if state in ("queued", "running") else at + ms
        times = {"scheduled_at": at, "started_at": at, "ended_at": ended, "due_at": FAR}
        rows.append(mine | {"state": state} | times)
    return world.add_runs(rows)


async def test_nothing_is_the_matter_with_what_fares_well(
    world: World, mine: dict[str, Any]
) -> None:
    history(world, mine, *["succeeded"] * 5)
    assert await concerns(world) == []


# --- jobs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoped", [False, True])
async def test_steps_of_workflows_hide_no_failure_and_are_none(
    world: World, mine: dict[str, Any], *, scoped: bool
) -> None:
    """Tolerated items, more than one look reads of an index at once."""
    failed = history(world, mine, "succeeded", "failed", "failed", "failed")
    step = mine | {"origin": "step", "state": "failed", "job_id": 1_000}
    step |= {"scheduled_at": world.now, "started_at": world.now, "ended_at": world.now}
    world.add_runs([step] * 1_700)
    slow = step | {"state": "running", "started_at": world.now - HOUR, "job_id": mine["job_id"]}
    world.add_runs([slow | {"ended_at": None}] * 10)
    actor = actor_with(Role.VIEWER, mine["executor_id"]) if scoped else ADMIN

    (found,) = await concerns(world, actor)
    assert (found.kind, found.run_id) == (AlarmKind.FAILING_STREAK, failed[-1])
    data = await world.overview.get(actor)
    assert [item.run.id for item in data.recent_failures] == failed[:0:-1]
    assert data.running_now == []
    noted = world.database.read_sync(lambda c: count_failed_jobs(c, from_at=0, to_at=FAR))
    assert [each.job_id for each in noted] == [mine["job_id"]]


@pytest.mark.parametrize(
    ("states", "streak"),
    [
        (["succeeded", "failed", "timed_out", "lost"], 3),
        (["failed", "failed", "cancelled", "failed", "skipped", "queued", "running"], 3),
        (["failed", "failed", "failed", "succeeded"], 0),
        (["succeeded", "failed", "failed"], 0),
        (["failed"] * 30, 24),
    ],
)
async def test_a_streak_is_what_failed_since_the_last_success(
    world: World, mine: dict[str, Any], states: list[str], streak: int
) -> None:
    runs = history(world, mine, *states)
    found = [e for e in await concerns(world) if e.kind is AlarmKind.FAILING_STREAK]
    assert [each.params["count"] for each in found] == ([streak] if streak else [])
    for each in found:
        assert (each.kind, each.severity) == (AlarmKind.FAILING_STREAK, Severity.ERROR)
        assert (each.job_id, each.job_name) == (mine["job_id"], "invoices")
        newest = max(n for n, state in enumerate(states) if state in ("failed", "lost"))
        assert each.run_id == runs[newest]
        assert each.last_at == world.now - MINUTE * (len(states) - newest) + SECOND


async def test_failures_of_yesterday_and_of_deleted_jobs_are_no_streak(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    history(world, mine, "failed", "failed", "failed")
    clock.advance(86_400)
    assert await concerns(world) == []
    history(world, mine, "failed", "failed", "failed")
    assert await kinds(world) == ["failing_streak"]
    await world.jobs.delete(ADMIN, mine["job_id"])
    assert await kinds(world) == ["low_success"]  # the runs did fail all the same


async def add_history(
    world: World, job: dict[str, Any], states: str, *, every: int, until: int
) -> list[int]:
    """Runs of a job, oldest first, the last one so long ago: `x` failed, `.` succeeded."""
    return world.add_runs(
        job
        | {
            "state": "failed" if state == "x" else "succeeded",
            "scheduled_at": (at := world.now - until - every * (len(states) - 1 - number)),
            "started_at": at,
            "ended_at": at + SECOND,
        }
        for number, state in enumerate(states)
    )


@pytest.mark.parametrize(
    ("before", "lately", "told"),
    [
        ("." * 40, ".x." * 9, True),
        ("..x" * 14, ".x." * 9, False),  # as usual: its executor tells that it is not well
        ("", ".x." * 9, True),  # nobody knows better
        ("." * 40, "." * 24 + "x.x.x.", True),
        ("." * 40, "." * 60 + "x.x.x.", False),  # three of more than sixty
        ("." * 40, "x.x" + "." * 30, False),
    ],
)
async def test_a_job_that_fails_more_often_than_a_day_before_is_told(
    world: World, mine: dict[str, Any], before: str, lately: str, told: bool
) -> None:
    await add_history(world, mine, before, every=MINUTE, until=25 * HOUR)
    runs = await add_history(world, mine, lately, every=30 * SECOND, until=0)
    found = [e for e in await concerns(world) if e.kind is AlarmKind.FAILURE_RATE]
    assert len(found) == told
    for each in found:
        last = lately.rindex("x")
        assert (each.job_id, each.run_id, each.severity) == (mine["job_id"], runs[last], "error")
        assert each.last_at == world.now - 30 * SECOND * (len(lately) - 1 - last) + SECOND
        assert (each.params["runs"], each.params["failures"]) == (len(lately), lately.count("x"))


async def test_two_thirds_of_successes_are_never_well(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    """However they are spread: over many jobs, over one that always fared so, over a day."""
    jobs = [
        mine | {"job_id": await world.jobs.create(ADMIN, mine["executor_id"], JOB | {"name": n})}
        for n in "abcdefgh"
    ]
    for number, job in enumerate(jobs):
        await add_history(world, job, ".x.", every=20 * MINUTE, until=number * MINUTE)
    # Nor do parts of runs make up for it.
    at = {"scheduled_at": world.now, "started_at": world.now, "ended_at": world.now}
    world.add_runs([mine | at | {"origin": "step"}, mine | at | {"fire_id": 1}] * 100)
    (found,) = await concerns(world)
    assert (found.kind, found.severity) == (AlarmKind.LOW_SUCCESS, Severity.ERROR)
    assert (found.executor_id, found.executor_name) == (mine["executor_id"], "billing")
    assert (found.params["succeeded"], found.params["runs"]) == (16, 24)
    clock.advance(20 * 3600)  # there is nothing of the last hour, but of the day
    (found,) = await concerns(world)
    assert found.params["seconds"] == 86_400
    clock.advance(5 * 3600)
    assert await concerns(world) == []
    looked = await world.attention.look(ADMIN)
    assert (looked.is_well, looked.succeeded, looked.failed) == (True, 0, 0)


async def test_failures_that_their_jobs_tell_are_not_told_again_for_all(
    world: World, mine: dict[str, Any]
) -> None:
    await add_history(world, mine, "..xxxx", every=MINUTE, until=0)
    assert await kinds(world) == ["failing_streak"]


async def test_a_drop_is_told_that_is_unusual_for_the_executor(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    clock.now -= clock.now % HOUR
    usual: dict[str, Any] = dict.fromkeys(("timed_out", "cancelled", "made_good"), 0)
    usual |= {"delays": "[]", "durations": "[]", "counted_at": clock.now}
    for hours in range(48, 72):
        row = {"hour_at": clock.now - hours * HOUR, "succeeded": 995, "failed": 5}
        world.change(
            sa.insert(tables.run_stat).values(executor_id=mine["executor_id"], **row, **usual)
        )
    for name in "abcde":
        job = await world.jobs.create(ADMIN, mine["executor_id"], JOB | {"name": name})
        states = ("." * 14 + "x") * 2 + "."
        await add_history(world, mine | {"job_id": job}, states, every=MINUTE, until=0)
    (found,) = await concerns(world)
    assert (found.kind, found.severity) == (AlarmKind.LOW_SUCCESS, Severity.WARNING)
    assert (found.params["failed"], found.params["usual"]) == (10, 0.995)
    world.change(sa.update(tables.run_stat).values(failed=50, succeeded=950))
    assert await concerns(world) == []


DAILY = {"kind": "cron", "expression": "0 2 * * *", "dialect": "unix", "timezone": "UTC"}


async def test_a_nightly_job_that_failed_is_told_until_it_succeeds(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    """Also when another job has failed a thousand times since."""
    clock.now -= clock.now % DAY - 2 * HOUR
    nightly = await world.jobs.create(
        ADMIN, mine["executor_id"], JOB | {"name": "nightly", "triggers": [DAILY]}
    )
    job = mine | {"job_id": nightly}
    await add_history(world, job, "....x", every=DAY, until=0)
    clock.advance(60)
    (found,) = await concerns(world)
    assert (found.kind, found.severity, found.job_id) == ("last_failed", "error", nightly)
    assert found.params["next_at"] == clock.now + DAY - MINUTE
    assert found.last_at == clock.now - MINUTE + SECOND

    clock.advance(7200)
    rollup = Rollup(world.database)
    while await rollup.run_once():
        pass
    await add_history(world, mine, "xxxxx...." * 120, every=MINUTE, until=0)
    told = {each.job_id: each.kind for each in await concerns(world) if each.job_id}
    assert told[nightly] == AlarmKind.LAST_FAILED
    clock.advance(36 * 3600)  # two nights later, its second run has failed as well
    at = clock.now - clock.now % DAY + 2 * HOUR
    world.run(**job, state="timed_out", scheduled_at=at, started_at=at, ended_at=at + SECOND)
    world.change(
        sa.update(tables.trigger).values(next_fire_at=at + DAY),
    )
    (found,) = [each for each in await concerns(world) if each.job_id == nightly]
    assert (found.params["count"], found.last_at) == (2, at + SECOND)
    world.run(**job, scheduled_at=clock.now, started_at=clock.now, ended_at=clock.now)
    assert [each for each in await concerns(world) if each.job_id == nightly] == []
    clock.advance(1)
    while await rollup.run_once():
        pass
    noted = world.rows(sa.select(tables.job_failure.c.job_id))
    assert nightly not in [row.job_id for row in noted]


async def test_a_retry_that_failed_as_well_is_told(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    runs = await add_history(world, mine, "." * 40 + "x", every=MINUTE, until=10 * MINUTE)
    assert await kinds(world) == []

    def retry(of: int, state: str) -> int:
        at = world.now
        times = {"scheduled_at": at, "started_at": at, "ended_at": at + SECOND}
        return world.run(**mine, state=state, origin="retry", retry_of=of, **times)

    again = retry(runs[-1], "failed")
    clock.advance(60)
    world.run(**mine, scheduled_at=clock.now, started_at=clock.now, ended_at=clock.now)
    (found,) = await concerns(world)
    assert (found.kind, found.run_id) == (AlarmKind.RETRY_FAILED, again)
    assert found.params["original"] == runs[-1]
    retry(again, "running")
    assert await concerns(world) == []  # it is being tried once more


@pytest.mark.parametrize(
    ("usual_ms", "since_seconds", "successes", "slow"),
    [
        (20 * SECOND, 61, 5, True),
        (20 * SECOND, 59, 5, False),  # not three times as long
        (SECOND, 29, 5, False),  # nobody minds half a minute
        (SECOND, 31, 5, True),
        (SECOND, 600, 4, False),  # who knows what is usual
    ],
)
async def test_a_run_is_slow_beside_what_its_job_usually_takes(
    world: World,
    mine: dict[str, Any],
    usual_ms: int,
    since_seconds: int,
    successes: int,
    slow: bool,
) -> None:
    history(world, mine, *["succeeded"] * successes, "failed", ms=usual_ms)
    started = world.now - since_seconds * SECOND
    run_id = world.run(**mine, state="running", scheduled_at=started, started_at=started)
    found = await concerns(world)
    found = [each for each in found if each.kind is not AlarmKind.LOW_SUCCESS]
    assert [(each.kind, each.severity, each.run_id, each.since) for each in found] == (
        [(AlarmKind.SLOW, Severity.WARNING, run_id, started)] if slow else []
    )


async def test_a_trigger_in_error_is_told_with_its_reason(world: World) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    rate = {"kind": "fixed_rate", "every_seconds": 86_400}
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [rate]})
    (row,) = world.triggers_of_job(job_id)
    broken = {"state": "error", "reason": "Its job is paused.", "next_fire_at": None}
    world.change(sa.update(tables.trigger).values(broken))
    (found,) = await concerns(world)
    assert (found.kind, found.trigger_id, found.job_id) == ("trigger_error", row.id, job_id)
    assert found.template % found.params == (
        "A trigger of “invoices” does not fire: Its job is paused."
    )
    told = translate(found.template, found.params, CHINESE)
    assert "它的任务已暂停。" in told  # the reason is translated as well


# --- executors -------------------------------------------------------------------------------


async def test_an_executor_needs_a_node_when_it_has_a_job_that_is_not_paused(
    world: World, clock: Clock
) -> None:
    executor_id = await world.executor()
    assert await concerns(world) == []
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    ended = world.node(executor_id, state="gone", ended_at=clock.now - 5)
    (found,) = await concerns(world)
    assert (found.kind, found.executor_id, found.since) == ("no_nodes", executor_id, clock.now - 5)
    await world.jobs.pause(ADMIN, job_id)
    assert await concerns(world) == []
    # What waits there waits for a node as well, whatever was paused since.
    waits = world.run(
        executor_id=executor_id, job_id=job_id, state="queued", attempt=0, due_at=clock.now
    )
    (found,) = await concerns(world)
    assert (found.kind, found.params["waiting"]) == ("no_nodes", "1")
    world.change(sa.delete(tables.run).where(tables.run.c.id == waits))
    await world.jobs.resume(ADMIN, job_id)
    await world.executors.pause(ADMIN, executor_id)
    assert await concerns(world) == []
    await world.executors.resume(ADMIN, executor_id)
    world.change(
        sa.update(tables.node).where(tables.node.c.id == ended).values(state="live", ended_at=None)
    )
    assert await concerns(world) == []


async def test_nodes_that_died_within_the_hour_are_told_with_their_runs(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    times = {"ended_at": clock.now, "lease_expires_at": clock.now}
    first, second = (world.node(mine["executor_id"], state="dead", **times) for _ in range(2))
    world.node(mine["executor_id"], state="gone", **times)  # it said goodbye
    await add_history(world, mine, "." * 50, every=MINUTE, until=0)
    lost = {"state": "lost", "scheduled_at": clock.now, "ended_at": clock.now}
    world.add_runs([mine | lost | {"node_id": first}] * 2)
    clock.advance(3_599)
    (found,) = [each for each in await concerns(world) if each.kind is AlarmKind.NODES_LOST]
    assert (found.severity, found.executor_id) == ("error", mine["executor_id"])
    assert (found.params["nodes"], found.params["runs"]) == (2, 2)
    assert sorted(found.params["names"]) == [f"host-{first}", f"host-{second}"]
    assert found.last_at == clock.now - 3_599 * SECOND
    clock.advance(2)
    assert "nodes_lost" not in await kinds(world)


async def test_runs_that_wait_for_a_slot_make_an_executor_full(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    world.change(sa.update(tables.node).values(in_use=4))
    world.add_runs([mine | {"state": "queued", "due_at": clock.now, "attempt": 0}] * 3)
    clock.advance(10)
    assert await concerns(world) == []
    clock.advance(1)
    (found,) = await concerns(world)
    assert (found.kind, found.severity) == (AlarmKind.FULL, Severity.WARNING)
    assert found.template % found.params == "All 4 slots of “billing” are taken; 3 runs wait."
    assert found.since == clock.now - 11 * SECOND


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ({}, "starting"),
        ({"handlers": '["other"]'}, "no_handler"),
        ({"cordoned": True}, "cordoned"),
    ],
)
async def test_due_runs_that_wait_beside_free_slots_are_late(
    world: World, mine: dict[str, Any], clock: Clock, node: dict[str, Any], why: str
) -> None:
    if node:
        world.change(sa.update(tables.node).values(node))
    run_id = world.run(**mine, state="queued", due_at=clock.now, attempt=0)
    clock.advance(30)
    assert await concerns(world) == []
    clock.advance(1)
    (found,) = await concerns(world)
    assert (found.kind, found.severity, found.run_id) == ("late", "error", run_id)
    assert found.why is not None
    assert found.why.code == why


async def test_runs_that_are_put_off_again_and_again_are_late(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    narrow = JOB | {"name": "narrow", "selector": "zone=moon"}
    job_id = await world.jobs.create(ADMIN, mine["executor_id"], narrow)
    due_at = clock.now
    clock.advance(30)
    times = {"scheduled_at": due_at, "created_at": due_at, "due_at": clock.now + 5 * SECOND}
    own = {"executor_id": mine["executor_id"], "job_id": job_id, "reason": "no_matching_node"}
    run_id = world.run(**own, **times, state="queued", attempt=0, tries=0)
    assert await concerns(world) == []
    clock.advance(1)
    (found,) = await concerns(world)
    assert (found.kind, found.run_id, found.since) == ("late", run_id, due_at)
    assert found.why is not None
    assert found.why.code == "no_matching_node"


async def test_what_waits_on_purpose_is_not_late(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    await world.jobs.run_now(ADMIN, mine["job_id"], delay_ms=HOUR)
    clock.advance(600)
    assert await concerns(world) == []


async def test_triggers_that_are_not_planned_in_time_are_told_together(
    world: World, clock: Clock
) -> None:
    executor_id = await world.executor()
    world.node(executor_id)
    rate = {"kind": "fixed_rate", "every_seconds": 60}
    for name in ("a", "b"):
        await world.jobs.create(ADMIN, executor_id, JOB | {"name": name, "triggers": [rate]})
    due_at = clock.now + MINUTE
    world.change(sa.update(tables.trigger).values(next_fire_at=due_at))
    clock.advance(90)
    assert await concerns(world) == []
    clock.advance(0.1)
    (found,) = await concerns(world)
    assert (found.kind, found.since) == ("late", due_at)
    assert found.template % found.params == "Planning is behind: 2 triggers are overdue."
    await world.executors.pause(ADMIN, executor_id)
    assert await concerns(world) == []  # what a pause holds back is not late
    await world.executors.resume(ADMIN, executor_id)
    await world.system.pause_all(ADMIN)
    assert await concerns(world) == []


# --- admins ----------------------------------------------------------------------------------


STATUSES: list[tuple[AdminStatus, int, str | None]] = [
    (AdminStatus(), 0, None),
    (AdminStatus(), 10, "does not renew its lease"),
    (AdminStatus(clock_offset_ms=2_000), 0, None),
    (AdminStatus(clock_offset_ms=-2_100), 0, "by 2.1 s"),
    (
        AdminStatus(loops={"planner": LoopStatus(last_pass_ms_ago=31_000, failing=False)}),
        0,
        "“Planning fires” stands still on the admin “one”.",
    ),
    (
        AdminStatus(loops={"cleaner": LoopStatus(last_pass_ms_ago=61_000, failing=False)}),
        0,
        None,
    ),
    (
        AdminStatus(loops={"recorder": LoopStatus(last_pass_ms_ago=1, failing=True)}),
        0,
        "“Recording results” fails on the admin “one”.",
    ),
    (
        AdminStatus(loops={"sweeper": LoopStatus(last_pass_ms_ago=None, failing=False)}),
        0,
        "“Sweeping up” stands still on the admin “one”.",
    ),
    (
        AdminStatus(
            stall=LoopStall(
                milliseconds=480, ms_ago=9_000, place="count (x.py:7)", request="GET /coming"
            )
        ),
        0,
        "was blocked for 480 ms: GET /coming, count (x.py:7).",
    ),
    (
        AdminStatus(stall=LoopStall(milliseconds=141, ms_ago=9_000, place="")),
        0,
        "was blocked for 141 ms: its process got no processor time.",
    ),
]


CERTIFICATES: list[tuple[float, str, str | None]] = [  # days left, problem, what is told
    (15, "", None),
    (13.5, "", "The TLS certificate of the admin “one” expires in 13 days."),
    (-1, "tls_key: no", "has expired: nodes and browsers refuse it."),
    (90, "tls_key: no", "still uses its earlier TLS files: tls_key: no"),
]


async def test_an_admin_that_does_not_keep_up_is_told(world: World, clock: Clock) -> None:
    admin = {"name": "one", "url": "http://one", "version": "1", "started_at": clock.now - HOUR}
    certificates = [
        (
            AdminStatus(tls=TlsStatus(expires_at=clock.now + int(days * 24 * HOUR), problem=why)),
            0,
            told,
        )
        for days, why, told in CERTIFICATES
    ]
    for status, silent_seconds, told in (*STATUSES, *certificates):
        renewed_at = clock.now - silent_seconds * SECOND
        states = {"lease_expires_at": renewed_at + 15_000, "status": status_to_json(status)}
        world.change(
            sa.delete(tables.admin), sa.insert(tables.admin).values(id=7, **admin, **states)
        )
        found = await concerns(world)
        assert [(each.kind, each.admin_id) for each in found] == (
            [] if told is None else [("admin_behind", 7)]
        )
        assert told is None or told in found[0].template % found[0].params


@pytest.mark.parametrize(
    ("days", "severity"), [(13, Severity.WARNING), (2.9, Severity.ERROR), (-1, Severity.ERROR)]
)
async def test_a_certificate_is_an_error_from_three_days_before_its_end(
    world: World, clock: Clock, days: float, severity: Severity
) -> None:
    status = AdminStatus(tls=TlsStatus(expires_at=clock.now + int(days * 24 * HOUR)))
    world.change(
        sa.insert(tables.admin).values(
            id=7, name="one", url="http://one", version="1", started_at=clock.now,
            lease_expires_at=clock.now + 15_000, status=status_to_json(status),
        )
    )  # fmt: skip
    assert [each.severity for each in await concerns(world)] == [severity]


async def test_an_admin_that_was_killed_is_shown_as_gone_for_an_hour(
    world: World, clock: Clock
) -> None:
    def enter(admin_id: int, name: str) -> None:
        world.database.run_sync(
            enter_admin, admin_id=admin_id, name=name, url="http://a", version="1"
        )

    def renew(admin_id: int) -> bool:
        return world.database.run_sync(renew_admin, admin_id=admin_id, status="{}")

    async def shown() -> list[tuple[str, bool]]:
        return [(each.name, each.live) for each in await world.overview.admins()]

    enter(1, "one")
    enter(2, "two")
    clock.advance(14)
    assert renew(2)
    clock.advance(1)
    assert await shown() == [("one", False), ("two", True)]
    assert world.database.read_sync(check_due).admins_are_over
    assert world.database.run_sync(remove_dead_admins) == [1]
    assert not world.database.read_sync(check_due).admins_are_over  # there is nothing left to do
    assert world.database.run_sync(remove_dead_admins) == []
    assert await shown() == [("one", False), ("two", True)]
    assert [(each.kind, each.admin_id) for each in await concerns(world)] == [("admin_behind", 1)]
    assert not renew(1)  # frozen, not killed: it must enter again
    enter(3, "one")
    assert await shown() == [("one", True), ("two", True)]
    clock.advance(10)
    assert renew(3)
    clock.advance(5)
    assert world.database.run_sync(remove_dead_admins) == [2]
    clock.advance(3_601)
    assert await shown() == [("one", False)]


# --- all of it -------------------------------------------------------------------------------


async def test_everybody_sees_what_lies_within_their_scope(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    history(world, mine, "failed", "failed", "failed")
    other = await world.executor("other")
    theirs = await world.jobs.create(ADMIN, other, JOB)
    world.add_runs(
        {"executor_id": other, "job_id": theirs, "state": "failed", "scheduled_at": clock.now - n}
        for n in range(3)
    )
    both = {each.executor_id for each in await concerns(world)}
    assert both == {mine["executor_id"], other}
    seen = await concerns(world, actor_with(Role.VIEWER, other))
    assert {each.executor_id for each in seen} == {other}
    assert [each.severity for each in seen] == sorted(each.severity for each in seen)
    assert await concerns(world, actor_with(Role.VIEWER)) == []


async def test_an_answer_is_kept_for_ten_seconds(
    world: World, mine: dict[str, Any], clock: Clock
) -> None:
    assert await world.attention.get(ADMIN) == []
    history(world, mine, "failed", "failed", "failed")
    clock.advance(9.9)
    assert await world.attention.get(ADMIN) == []
    assert await world.attention.get(actor_with(Role.VIEWER, mine["executor_id"])) != []
    clock.advance(0.1)
    assert await world.attention.get(ADMIN) != []


async def test_an_open_alarm_says_that_not_all_is_well(world: World) -> None:
    executor_id = await world.executor()
    world.database.run_sync(
        insert_alarms, [alarm(3, executor_id=executor_id), alarm(4, executor_id=executor_id + 1)]
    )

    looked = await world.attention.look(ADMIN)
    some = await world.attention.look(actor_with(Role.VIEWER, executor_id))

    assert (len(looked.concerns), looked.open_alarms, looked.is_well) == (2, 2, False)
    assert (some.open_alarms, some.is_well) == (1, False)
