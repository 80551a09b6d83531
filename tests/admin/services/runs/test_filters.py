"""Runs found by trigger, node, origin and requester: every one once, in order, and counted."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.runs import queries as run_queries
from tickwheel_admin.services.runs.service import RunQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs import pages as run_pages

WORDS: dict[str, tuple[Any, ...]] = {
    "trigger_id": (None, 21, 22),
    "node_id": (None, 31, 32),
    "origin": (None, "schedule", "manual"),
    "requested_by": (None, "ada"),
    "parent_run_id": (None, 77),
    "state": (None, "failed", "failed_any"),
}
GROUPS = {"failed": {"failed"}, "failed_any": {"failed", "timed_out", "lost"}}


@pytest.fixture
async def ledger(world: World) -> dict[int, dict[str, Any]]:
    """Fires of two triggers, each at instants of its own, and what somebody asked for."""
    executor_id = await world.executor()
    jobs = [await world.jobs.create(ADMIN, executor_id, JOB | {"name": n}) for n in ("a", "b")]
    dice = random.Random(3)
    rows: list[dict[str, Any]] = []
    for n in range(60):
        trigger_id = (21, 22, None)[n % 3]
        shards = dice.choice([0, 0, 2]) if trigger_id else 0
        row = {
            "executor_id": executor_id,
            "job_id": jobs[n % 2],
            "trigger_id": trigger_id,
            "origin": "schedule" if trigger_id else "manual",
            "requested_by": None if trigger_id else dice.choice(["ada", "bob"]),
            "parent_run_id": 77 if n % 5 else None,
            "state": dice.choice(["succeeded", "failed", "lost"]),
            "scheduled_at": 1_000 + n // 3,
            "node_id": None if shards else dice.choice([31, 32]),
            "shard_index": -1 if shards else 0,
            "fire_id": None,
        }
        rows.append(row)
        rows += [
            row | {"shard_index": index, "node_id": dice.choice([31, 32]), "fire_id": 1}
            for index in range(shards)
        ]
    return dict(zip(world.add_runs(rows), rows, strict=True))


def expected(ledger: dict[int, dict[str, Any]], wanted: dict[str, Any]) -> list[int]:
    def fits(row: dict[str, Any]) -> bool:
        if row["fire_id"] is not None and wanted["node_id"] is None:
            return False  # shards are shown with their fire, unless a node's own are asked for
        states = GROUPS.get(wanted["state"])
        return (states is None or row["state"] in states) and all(
            row[name] == value
            for name, value in wanted.items()
            if value is not None and name != "state"
        )

    newest_first = sorted(ledger, key=lambda each: (ledger[each]["scheduled_at"], each))[::-1]
    return [run_id for run_id in newest_first if fits(ledger[run_id])]


@pytest.mark.parametrize(("scanned", "size"), [(7, 50), (7, 4), (10_000, 50), (10_000, 9)])
async def test_every_run_that_fits_is_met_once_and_counted(
    world: World,
    ledger: dict[int, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    scanned: int,
    size: int,
) -> None:
    monkeypatch.setattr(run_pages, "MAX_SCANNED", scanned)
    monkeypatch.setattr(run_pages, "CHUNK", 5)
    job_id = next(iter(ledger.values()))["job_id"]
    some = random.Random(1).sample(list(itertools.product(*WORDS.values())), 25)  # of 216
    for values in some:
        wanted = dict(zip(WORDS, values, strict=True))
        for of_job in (None, job_id) if scanned > 7 else (None,):
            narrowed = wanted | ({} if of_job is None else {"job_id": of_job})
            query = RunQuery(**narrowed)
            fitting = expected(ledger, narrowed)
            seen: list[int] = []
            cursor = None
            while True:
                page = await world.runs.page(ADMIN, query, cursor=cursor, limit=size)
                seen += [item.run.id for item in page.items]
                if (cursor := page.next) is None:
                    break
            assert seen == fitting, narrowed
            if len(fitting) > size and page.previous is not None:  # and all the way back
                seen = seen[-len(page.items) :]
                while page.previous is not None:
                    page = await world.runs.page(ADMIN, query, cursor=page.previous, limit=size)
                    ids = [item.run.id for item in page.items]
                    if page.previous is None:  # the first page is shown whole
                        assert ids == fitting[: len(ids)]
                        ids = ids[: len(fitting) - len(seen)]
                    seen = ids + seen
                assert seen == fitting, narrowed
            assert await world.runs.count_matching(ADMIN, query) == (len(fitting), False)


async def test_a_count_ends_at_its_limit(
    world: World, ledger: dict[int, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwheel_admin.services.runs.service.MAX_COUNTED", 10)
    whole = sum(row["fire_id"] is None for row in ledger.values())
    assert whole > 10
    assert await world.runs.count_matching(ADMIN, RunQuery()) == (10, True)
    monkeypatch.setattr(run_pages, "MAX_SCANNED_TO_COUNT", 20)
    monkeypatch.setattr(run_pages, "CHUNK", 5)
    rare = RunQuery(origin="manual", requested_by="nobody")
    assert await world.runs.count_matching(ADMIN, rare) == (0, True)  # nobody looked further
    stranger = actor_with(Role.VIEWER, 999)
    job_id = next(iter(ledger.values()))["job_id"]
    assert await world.runs.count_matching(stranger, RunQuery(job_id=job_id)) == (0, False)


async def test_runs_of_a_node_that_ended_are_looked_for_from_its_end_on(world: World) -> None:
    executor_id = await world.executor()
    node_id = world.node(executor_id, state="gone", ended_at=5_000_000)
    wanted = run_pages.RunFilter(node_id=node_id, to_at=9_000_000_000_000)
    narrowed = world.database.read_sync(run_queries.narrow, wanted)
    assert narrowed is not None
    assert narrowed.to_at == 5_000_000 + run_queries.HOUR_MS
    world.change(sa.update(tables.node).values(state="live", ended_at=None))
    assert world.database.read_sync(run_queries.narrow, wanted) == wanted


async def test_an_origin_that_is_none_is_refused(world: World) -> None:
    for call in (world.runs.page, world.runs.count_matching):
        with pytest.raises(InvalidInput):
            await call(ADMIN, RunQuery(origin="nowhere"))


@pytest.mark.parametrize("ranges", [10, 0])
async def test_runs_are_found_by_what_is_said_of_their_jobs(
    world: World, monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    """A few jobs are read from their own index, many are picked out of all; both alike."""
    monkeypatch.setattr(run_pages, "MAX_JOB_RANGES", ranges)
    billing, crm = [await world.executor(name) for name in ("billing", "crm")]
    said = {
        "Close-Books": {"owner": "maria", "tags": ["night", "money"]},
        "close_door": {"owner": "olga", "tags": ["night"]},
        "report": {"owner": "maria"},
    }
    jobs = {}
    for name, more in said.items():
        owner = crm if name == "report" else billing
        jobs[name] = await world.jobs.create(ADMIN, owner, JOB | {"name": name} | more)
    rows = [
        {
            "executor_id": crm if name == "report" else billing,
            "job_id": job_id,
            "state": "failed" if n % 2 else "succeeded",
            "scheduled_at": 1_000 + n,
        }
        for n in range(7)
        for name, job_id in jobs.items()
    ]
    names = {job_id: name for name, job_id in jobs.items()}
    world.add_runs(rows)

    async def found(query: RunQuery, actor: Actor = ADMIN) -> dict[str, int]:
        runs, cursor = [], None
        while True:
            page = await world.runs.page(actor, query, cursor=cursor, limit=2)
            runs += [item.run for item in page.items]
            cursor = page.next
            if cursor is None:
                break
        keys = [(run.scheduled_at, run.id) for run in runs]
        assert keys == sorted(set(keys), reverse=True)
        assert await world.runs.count_matching(actor, query) == (len(runs), False)
        return dict(Counter(names[run.job_id] for run in runs))

    assert await found(RunQuery(text="close")) == {"Close-Books": 7, "close_door": 7}
    assert await found(RunQuery(text="e_d")) == {"close_door": 7}
    assert await found(RunQuery(owner="maria")) == {"Close-Books": 7, "report": 7}
    assert await found(RunQuery(tags=("night",))) == {"Close-Books": 7, "close_door": 7}
    assert await found(RunQuery(tags=("night", "money"), state="failed")) == {"Close-Books": 3}
    assert await found(RunQuery(owner="maria", executor_id=crm)) == {"report": 7}
    assert await found(RunQuery(owner="maria", job_id=jobs["close_door"])) == {}
    assert await found(RunQuery(owner="nobody")) == {}
    assert await found(RunQuery(text="o"), actor_with(Role.VIEWER, crm)) == {"report": 7}
    cancelled = await world.runs.retry_matching(ADMIN, RunQuery(tags=("money",)), request_key="k")
    assert cancelled.done == 3
