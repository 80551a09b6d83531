"""An admin that is slow to admit nodes cannot tell which are dead (G10).

Time is virtual here: each sleep moves a clock and waits for nothing.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_admin.engine.membership.admission import NodeAdmission
from tickwheel_admin.store.database.database import DatabaseUnavailable


async def admitted(admission: NodeAdmission, *, after: float) -> None:
    with admission.measured():
        await asyncio.sleep(after)


@virtual_time
async def test_who_gets_in_at_once_leaves_it_open() -> None:
    admission = NodeAdmission()
    for _ in range(100):
        await asyncio.gather(*(admitted(admission, after=0.3) for _ in range(10)))
        assert not admission.delays_expiry(since=0)


@virtual_time
async def test_a_slow_admission_delays_expiry_and_for_a_while_afterwards() -> None:
    admission = NodeAdmission()
    waiting = asyncio.gather(admitted(admission, after=4), admitted(admission, after=0.1))
    await asyncio.sleep(0.9)
    assert not admission.delays_expiry(since=0)
    await asyncio.sleep(0.2)
    assert admission.delays_expiry(since=0)  # the first one still waits, whoever else got in
    await waiting
    await admitted(admission, after=0.1)
    await asyncio.sleep(14)
    assert admission.delays_expiry(since=0)
    await asyncio.sleep(1)
    assert not admission.delays_expiry(since=0)


@virtual_time
async def test_a_failed_admission_delays_expiry_for_a_while() -> None:
    admission = NodeAdmission()
    with pytest.raises(DatabaseUnavailable), admission.measured():
        raise DatabaseUnavailable("it is away")
    await asyncio.sleep(14)
    assert admission.delays_expiry(since=0)
    await asyncio.sleep(1.1)
    assert not admission.delays_expiry(since=0)


@virtual_time
async def test_a_node_that_is_refused_says_nothing_about_the_database() -> None:
    admission = NodeAdmission()
    with pytest.raises(LookupError), admission.measured():
        raise LookupError("no such executor")
    assert not admission.delays_expiry(since=0)


@virtual_time
async def test_trouble_without_a_pause_delays_expiry_for_a_minute() -> None:
    """Else a stream of slow hellos, or of wrong tokens, kept dead nodes alive for ever."""
    admission = NodeAdmission()
    held = 0
    for _ in range(20):
        await admitted(admission, after=2)
        held += admission.delays_expiry(since=0)
        await asyncio.sleep(8)
    assert held == 6
    await asyncio.sleep(10)  # then it was quiet
    await admitted(admission, after=2)
    assert admission.delays_expiry(since=0)


@virtual_time
async def test_an_admission_that_never_ends_delays_expiry_for_a_minute() -> None:
    admission = NodeAdmission()
    waiting = asyncio.create_task(admitted(admission, after=1_000))
    await asyncio.sleep(59)
    assert admission.delays_expiry(since=0)
    await asyncio.sleep(2)
    assert not admission.delays_expiry(since=0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


@virtual_time
async def test_an_outage_uses_up_none_of_the_time() -> None:
    """All nodes come at once when the database is back."""
    admission = NodeAdmission()
    for _ in range(100):
        with pytest.raises(DatabaseUnavailable), admission.measured():
            raise DatabaseUnavailable("it is away")
        await asyncio.sleep(1)
    now = asyncio.get_running_loop().time()
    assert not admission.delays_expiry(since=0)
    assert admission.delays_expiry(since=now)
