"""Coverage: what the ledger says of intervals is what handlers did; holes are filled exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.admin.kit.backfill_site import HOUR, Site
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.rows import add_run, trigger_of
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.backfills.coverage import Coverage, IntervalState
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.services.backfills.coverage import CoverageRequest
from tickwheel_admin.services.backfills.requests import BackfillRequest
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.runs.purge import purge_runs
from tickwheel_admin.store.runs.retention import remove_old_runs
from tickwheel_admin.store.self_audit.periods import forget_past
from tickwheel_shared.protocol import Outcome as Said

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("entered")]
State = IntervalState


@pytest.fixture
async def site(database: Database, admin: Admin) -> Site:
    site = Site(database, admin)
    await site.add_job()
    return site


@pytest.fixture
def runs(admin: Admin) -> Runs:
    return Runs(admin.database, Ids(admin.database), admin.events)


async def fire(site: Site, hour: int, state: RunState, **values: Any) -> int:
    """A fire of an hour that has ended so."""
    values.setdefault("trigger_id", (await trigger_of(site.database, site.job_id)).id)
    values.setdefault("interval_start", site.start + (hour - 1) * HOUR if hour else None)
    return await add_run(
        site.database,
        site.job_id,
        scheduled_at=site.start + hour * HOUR,
        state=state,
        origin=Origin.SCHEDULE,
        **values,
    )


async def coverage(site: Site, hours: int) -> Coverage:
    request = CoverageRequest(from_at=site.start, until_at=site.start + hours * HOUR)
    return (await site.backfills.coverage(ADMIN, site.job_id, request)).coverage


async def states(site: Site, hours: int) -> list[State]:
    return [each.state for each in (await coverage(site, hours)).intervals]


async def fill(site: Site, hours: int) -> int:
    return await site.ask(hours, parallel=9, only_holes=True)


async def test_a_backfill_of_holes_makes_the_strip_whole_and_does_nothing_twice(
    site: Site, node: FakeSession
) -> None:
    worked: Counter[int] = Counter()
    for hour, state in enumerate((RunState.SUCCEEDED, RunState.FAILED, RunState.SKIPPED)):
        await fire(site, hour, state)
        worked[hour] += state is RunState.SUCCEEDED
    await fire(site, 4, RunState.TIMED_OUT)
    await fire(site, 5, RunState.SUCCEEDED)
    worked[5] += 1
    assert await states(site, 6) == [
        State.DONE, State.FAILED, State.SKIPPED, State.NO_RUN, State.FAILED, State.DONE,
    ]  # fmt: skip

    request = BackfillRequest(
        from_at=site.start, to_at=site.start + 6 * HOUR, only_holes=True, parallel=9
    )
    seen = await site.backfills.preview(ADMIN, site.job_id, request)
    assert (seen.total, seen.existing, seen.new) == (6, 2, 4)
    await fill(site, 6)
    assert await site.write() == [1, 2, 3, 4]
    assert await states(site, 6) == [
        State.DONE,
        *[State.RUNNING] * 0,
        *[State.WAITING] * 4,
        State.DONE,
    ]
    # A second one that comes meanwhile leaves what waits.
    await fill(site, 6)
    requests = await site.admin.dispatch_all(node)
    broken = [each for each in requests if site.hour(each.scheduled_at) == 3]
    good = [each for each in requests if each not in broken]
    await site.do(node, good)
    await site.do(node, broken, Said.FAILED)
    worked.update(site.hour(each.scheduled_at) for each in good)
    for each in await site.finish(node):
        worked[site.hour(each.scheduled_at)] += 1

    found = await coverage(site, 6)
    told = {site.hour(each.at): each.state for each in found.intervals}
    assert {hour: worked[hour] == 1 for hour in range(6)} == {
        hour: state is State.DONE for hour, state in told.items()
    }
    if not found.is_whole:  # the second backfill had passed the hour before its run failed
        assert told[3] is State.FAILED
        await fill(site, 6)
        worked.update(site.hour(each.scheduled_at) for each in await site.finish(node))
    found = await coverage(site, 6)
    assert found.is_whole
    assert found.counts == {State.DONE: 6}
    assert worked == dict.fromkeys(range(6), 1)


async def test_a_retry_by_hand_makes_good_once_and_doubles_what_was_done(
    site: Site, node: FakeSession, runs: Runs
) -> None:
    done, failed = await fire(site, 1, RunState.SUCCEEDED), await fire(site, 2, RunState.FAILED)
    for each in (done, failed):
        await runs.retry(ADMIN, each)
    assert await states(site, 3) == [State.NO_RUN, State.DONE, State.WAITING]
    await site.finish(node)
    found = await coverage(site, 3)
    assert [each.state for each in found.intervals] == [State.NO_RUN, State.TWICE, State.DONE]
    assert len(found.intervals[1].run_ids) == 2
    assert not found.is_whole
    assert found.holes == 1


async def test_what_an_earlier_schedule_did_is_no_hole(site: Site, node: FakeSession) -> None:
    """One run of three hours, of a trigger that was edited since; its end lies behind what is asked
    for. Half of the hour after it was done by another one.
    """
    trigger = 777
    await fire(site, 3, RunState.SUCCEEDED, trigger_id=trigger, interval_start=site.start)
    half = site.start + 3 * HOUR
    await add_run(
        site.database,
        site.job_id,
        trigger_id=trigger,
        scheduled_at=half + HOUR // 2,
        interval_start=half,
        state=RunState.SUCCEEDED,
        origin=Origin.SCHEDULE,
    )
    assert await states(site, 3) == [State.NO_RUN, State.DONE, State.DONE]
    assert await states(site, 6) == [
        State.NO_RUN, State.DONE, State.DONE, State.DONE, State.PARTLY, State.NO_RUN,
    ]  # fmt: skip
    await fill(site, 6)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [0, 5]
    await fire(site, 2, RunState.SUCCEEDED)
    assert (await states(site, 4))[1:] == [State.DONE, State.TWICE, State.DONE]


async def test_what_was_deleted_is_not_known_and_not_run_again(
    site: Site, node: FakeSession, database: Database
) -> None:
    first, _, third = [await fire(site, hour, RunState.SUCCEEDED) for hour in range(3)]
    await fire(site, 3, RunState.FAILED)
    await database.run(purge_runs, [first, third])
    await database.run(lambda conn: forget_past(conn, now=2**52, limit=100))
    assert await states(site, 4) == [State.UNKNOWN, State.DONE, State.UNKNOWN, State.FAILED]
    backfill_id = await fill(site, 4)
    assert [site.hour(each.scheduled_at) for each in await site.finish(node)] == [3]
    assert (await site.get(backfill_id)).existing == 3
    # What a backfill did is kept with it.
    await database.run(purge_runs, [each.id for each in await site.filled()])
    assert (await states(site, 4))[3] is State.DONE

    await database.run(remove_old_runs, older_than_ms=0, limit=100)
    assert (await states(site, 4))[:3] == [State.UNKNOWN] * 3
    assert (await coverage(site, 4)).is_whole


async def test_too_many_runs_end_a_page_early(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwheel_admin.store.backfills.coverage.MAX_RUNS", 3)
    monkeypatch.setattr("tickwheel_admin.services.backfills.coverage.MAX_INTERVALS", 5)
    for hour in range(8):
        await fire(site, hour, RunState.SUCCEEDED)
    pages = []
    begin = site.start
    while True:
        request = CoverageRequest(from_at=begin, until_at=site.start + 8 * HOUR)
        page = (await site.backfills.coverage(ADMIN, site.job_id, request)).coverage
        pages.append([site.hour(each.at) for each in page.intervals])
        if not page.more:
            break
        assert page.until_at > begin
        begin = page.until_at
    assert [each for page in pages for each in page] == list(range(8))
    assert len(pages) > 2
