"""Events of runs and the ledger agree: each change once, in order, none left out."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.rows import add_job, add_run, now
from tickwheel_admin.domain.runs.events import LAPSE_MS, READY_MS, WANTED_MS, RunEvent
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import database_now
from tickwheel_admin.store.database.database import Database, Repeat
from tickwheel_admin.store.database.event_interest import (
    EventInterest,
    interest_of,
    left_events_out,
    wants_events,
)
from tickwheel_admin.store.runs.events.feed import (
    EventBatch,
    number_events,
    read_events,
    read_state,
    remove_old_events,
    renew_interest,
    want_events,
)
from tickwheel_admin.store.triggers.triggers import delete_unclaimed_fires
from tickwheel_shared.protocol import Accepted, Outcome, Result, RunRequest

every_database = pytest.mark.every_database()


async def opened(database: Database) -> int:
    """Wanted, and complete from here on; returns the number to read after."""
    await database.run(want_events, ready_ms=0)
    await database.run(number_events, limit=1_000)
    state = await database.read(read_state)
    assert state is not None
    assert state.has_all_after(state.last_seq)
    return state.last_seq


async def numbered_after(database: Database, seq: int) -> list[tuple[int, RunEvent]]:
    while await database.run(number_events, limit=2):
        pass
    found: list[EventBatch] = []
    at = seq
    while more := await database.read(read_events, after=at, limit=3):
        found += more
        at = more[-1].last_seq
    return [
        (number, event)
        for batch in found
        for number, event in enumerate(batch.events, batch.first_seq)
        if number > seq
    ]


def check_chains(events: Sequence[RunEvent], ledger: dict[int, str]) -> None:
    """Each run's events follow one another, and end where the ledger is."""
    chains: defaultdict[int, list[RunEvent]] = defaultdict(list)
    for event in events:
        chains[event.run_id].append(event)
    for run_id, chain in chains.items():
        befores = [event.before for event in chain]
        assert befores == [None, *(event.state for event in chain[:-1])], (run_id, chain)
    last = {run_id: chain[-1].state for run_id, chain in chains.items()}
    assert {run_id: state for run_id, state in last.items() if state != "deleted"} == ledger


async def ledger_of(database: Database) -> dict[int, str]:
    def read(conn: sa.Connection) -> dict[int, str]:
        return {row.id: row.state for row in conn.execute(sa.select(tables.run))}

    return await database.read(read)


def result_of(request: RunRequest, outcome: Outcome = Outcome.SUCCEEDED) -> Result:
    return Result(
        run=request.run,
        attempt=request.attempt,
        token=request.token,
        outcome=outcome,
        duration_ms=1,
    )


def accepted(request: RunRequest) -> Accepted:
    return Accepted(run=request.run, attempt=request.attempt, token=request.token)


async def plan(admin: Admin) -> None:
    while await admin.engine.planner.run_once():
        pass


@every_database
async def test_two_admins_write_each_change_once_and_in_order(database: Database) -> None:
    start = await opened(database)
    first, session = await admin_with_node(database, slots=40)
    second = Admin(database, admin_id=2)
    executor_id = session.executor_id
    beside = await second.add_node(executor_id, slots=40)
    await first.engine.membership.enter()
    await second.engine.membership.enter()
    at = await now(database) - 10
    retried = RetryPolicy(retries=1, delay_ms=0)
    for _ in range(6):
        await add_job(
            database, executor_id=executor_id, retry=retried, triggers=[(OnceSpec(at=at), at)] * 4
        )

    read: list[tuple[int, RunEvent]] = []

    async def work(admin: Admin, own: FakeSession) -> None:
        """Claim, report and fail some, while the other one does and somebody numbers."""
        await plan(admin)
        for _ in range(4):
            requests = await admin.dispatch_all(own)
            await admin.say(own, *map(accepted, requests))
            read.extend(await numbered_after(database, read[-1][0] if read else start))
            outcomes = (Outcome.FAILED, Outcome.SUCCEEDED)
            await admin.say(
                own, *(result_of(each, outcomes[n % 2]) for n, each in enumerate(requests))
            )

    await asyncio.gather(work(first, session), work(second, beside))
    await work(first, session)
    await work(second, beside)

    events = await numbered_after(database, start)
    numbers = [number for number, _ in events]
    assert numbers == list(range(start + 1, start + 1 + len(events)))
    ledger = await ledger_of(database)
    assert len(ledger) == 24
    check_chains([event for _, event in events], ledger)
    assert {event.state for _, event in events} >= {"queued", "dispatched", "running", "failed"}
    # Whoever goes on from any event gets exactly the rest.
    for place in range(0, len(events), 7):
        assert await numbered_after(database, numbers[place]) == events[place + 1 :]


@pytest.mark.every_database(but=("sqlite",))  # there, one transaction at a time writes
async def test_what_commits_late_comes_behind_what_was_read(database: Database) -> None:
    """Ids are given before the commit: a reader by id would have passed it over."""
    start = await opened(database)
    job_id = await add_job(database)
    slow = await asyncio.to_thread(database.engine.connect)
    transaction = await asyncio.to_thread(slow.begin)
    try:
        await asyncio.to_thread(insert_event, slow, 1)
        await add_run(database, job_id=job_id)
        (early,) = await numbered_after(database, start)
    finally:
        await asyncio.to_thread(transaction.commit)
        await asyncio.to_thread(slow.close)
    ((number, late),) = await numbered_after(database, early[0])
    assert (number, late.run_id) == (early[0] + 1, 1)


def insert_event(conn: sa.Connection, run_id: int) -> None:
    conn.execute(
        sa.insert(tables.run_event_batch).values(
            at=database_now(),
            events=1,
            data=f'[[{run_id},1,1,0,null,"queued",null,null,"manual",false]]',
        )
    )


@every_database
async def test_a_rolled_back_transaction_has_no_events(database: Database) -> None:
    start = await opened(database)
    admin, session = await admin_with_node(database)
    job_id = await add_job(database, executor_id=session.executor_id)
    run_id = await add_run(database, job_id=job_id, executor_id=session.executor_id)
    (request,) = await admin.dispatch_all(session)
    before = [event.state for _, event in await numbered_after(database, start)]
    assert before == ["queued", "dispatched"]
    # The result comes twice: the second transaction finds that the run has left its state.
    await admin.say(session, result_of(request), result_of(request))
    events = [event for _, event in await numbered_after(database, start)]
    assert [event.state for event in events] == [*before, "succeeded"]
    assert {event.run_id for event in events} == {run_id}


@every_database
async def test_fires_that_are_there_or_taken_back_are_told_right(database: Database) -> None:
    start = await opened(database)
    job_id = await add_job(database)
    at = await now(database) + 60_000
    fire = {"job_id": job_id, "trigger_id": 5, "scheduled_at": at, "due_at": at}
    run_id = await add_run(database, **fire)
    await add_run(database, **fire)  # the same fire: it counts as planned
    assert list(await ledger_of(database)) == [run_id]
    await database.run(delete_unclaimed_fires, 5, after=at - 1)
    events = [event for _, event in await numbered_after(database, start)]
    assert [(e.run_id, e.before, e.state) for e in events] == [
        (run_id, None, "queued"),
        (run_id, "queued", "deleted"),
    ]


# --- who wants them ------------------------------------------------------------------------------


class Clocks:
    def __init__(self) -> None:
        self.monotonic = self.wall = 100.0

    def pass_(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


def with_clocks(url: str) -> tuple[Database, Clocks]:
    clocks = Clocks()
    interest = EventInterest(monotonic=lambda: clocks.monotonic, wall=lambda: clocks.wall)
    return Database(url, interest=interest), clocks


async def rows(database: Database) -> int:
    def count(conn: sa.Connection) -> int:
        table = tables.run_event_batch
        return int(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())

    return await database.read(count)


async def test_nothing_is_written_while_nobody_wants_it(store_url: str) -> None:
    database, clocks = with_clocks(store_url)
    job_id = await add_job(database)
    await add_run(database, job_id=job_id)
    assert await rows(database) == 1  # it did not ask yet
    await database.run(renew_interest)
    await add_run(database, job_id=job_id)
    assert await rows(database) == 1
    # Frozen for longer than what it knows may be trusted; and a paused virtual machine, whose own
    # clock stood still.
    clocks.pass_(6.5)
    await add_run(database, job_id=job_id)
    assert await rows(database) == 2
    await database.run(renew_interest)
    clocks.wall += 3_600
    await add_run(database, job_id=job_id)
    assert await rows(database) == 3
    await database.run(want_events)
    await database.run(renew_interest)
    await add_run(database, job_id=job_id)
    assert await rows(database) == 4
    await database.close()


async def test_a_transaction_during_which_it_becomes_wanted_is_repeated(store_url: str) -> None:
    """An admin that freezes in the middle of a transaction leaves no event out."""
    database, clocks = with_clocks(store_url)
    await database.run(renew_interest)
    tries: list[bool] = []

    def moves(conn: sa.Connection) -> None:
        tries.append(wants_events(conn))
        clocks.pass_(7)

    await database.run(moves)
    assert tries == [False, True]

    def fails(conn: sa.Connection) -> None:
        assert wants_events(conn)
        interest = interest_of(conn)
        assert interest is not None
        assert not left_events_out(conn)
        raise Repeat

    with pytest.raises(Exception, match="fails"):
        await database.run(fails)
    await database.close()


@pytest.mark.turned_clock
async def test_the_feed_is_complete_when_every_admin_must_know(
    database: Database, clock: Clock
) -> None:
    job_id = await add_job(database)
    await database.run(want_events)
    await add_run(database, job_id=job_id)
    clock.advance(READY_MS / 1000 - 1)
    assert not await database.run(number_events, limit=10)
    state = await database.read(read_state)
    assert state is not None
    assert not state.has_all_after(state.last_seq)
    await add_run(database, job_id=job_id)
    clock.advance(1)
    assert await database.run(number_events, limit=1)  # what came before is numbered first
    assert not await database.run(number_events, limit=1)
    state = await database.read(read_state)
    assert state is not None
    assert state.has_all_after(state.last_seq)
    assert not state.has_all_after(state.last_seq - 1)


@pytest.mark.turned_clock
async def test_a_reader_that_stays_away_for_too_long_is_told_of_the_gap(
    database: Database, clock: Clock
) -> None:
    start = await opened(database)
    job_id = await add_job(database)
    await add_run(database, job_id=job_id)
    clock.advance((WANTED_MS - LAPSE_MS) / 1000)
    await opened(database)  # in time
    assert len(await numbered_after(database, start)) == 1
    state = await database.read(read_state)
    assert state is not None
    assert state.has_all_after(start)

    clock.advance((WANTED_MS - LAPSE_MS) / 1000 + 1)  # an admin may take it for over by now
    newest = await opened(database)
    state = await database.read(read_state)
    assert state is not None
    assert not state.has_all_after(start + 1)
    assert state.has_all_after(newest)
    assert newest > start + 1


@pytest.mark.turned_clock
async def test_old_events_go_in_batches_and_their_readers_are_told(
    database: Database, clock: Clock
) -> None:
    start = await opened(database)
    job_id = await add_job(database)
    for _ in range(5):
        await add_run(database, job_id=job_id)
        clock.advance(10)
    await numbered_after(database, start)
    clock.advance(-50)
    assert await database.run(remove_old_events, limit=2, kept_ms=25_000) == 0
    clock.advance(50)
    assert await database.run(remove_old_events, limit=2, kept_ms=25_000) == 2
    assert await database.run(remove_old_events, limit=2, kept_ms=25_000) == 1
    state = await database.read(read_state)
    assert state is not None
    assert [state.has_all_after(start + n) for n in range(7)] == [False] * 3 + [True] * 3 + [False]
    # As many as are kept at most, however young they are; and those that nobody numbered.
    assert await database.run(remove_old_events, limit=9, kept_ms=99_000, most=1) == 1
    await add_run(database, job_id=job_id)
    clock.advance(100)
    assert await database.run(remove_old_events, limit=9, kept_ms=99_000) == 2
    assert await rows(database) == 0
