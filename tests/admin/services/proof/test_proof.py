"""A proof adds up: with the self-audit, with the ledger, and with what happened since."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.proven_night import MINUTE_MS, Night, proven_night
from tests.admin.kit.services import RUN_COLUMNS
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.proof.sums import HOUR_MS, HourStatus
from tickwheel_admin.domain.proof.verification import read_public_key, verify
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.proof import service
from tickwheel_admin.services.proof import unrun as unrun_list
from tickwheel_admin.services.proof.keys import ProofKeys
from tickwheel_admin.services.proof.unrun import UnrunInstant
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.readability import unreadable_secrets
from tickwheel_admin.services.secrets.rotation import KeyRotation
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.self_audit.periods import keep_retained


@pytest.fixture
async def night(tmp_path: Path) -> AsyncIterator[Night]:
    async with proven_night(tmp_path) as found:
        yield found


async def test_what_became_of_each_instant_adds_up(night: Night) -> None:
    proof = await night.prove()
    first, second = proof.hours
    assert (first.status, second.status) == (HourStatus.AUDITED, HourStatus.NOT_AUDITED)
    sums = proof.proven
    assert sums.faults() == []
    assert (sums.hours, sums.expected, sums.missing, sums.runs) == (1, 61, 1, 58)
    assert dict(sums.without_run) == {"paused": 2}
    assert dict(sums.outcomes) == {
        "succeeded": 53, "retried": 1, "failed": 1, "skipped": 1, "lost": 1, "open": 1,
    }  # fmt: skip
    assert (dict(sums.skipped), sums.late) == ({"discarded": 1}, 1)
    assert (proof.not_proven.hours, proof.not_proven.runs) == (1, 60)
    assert proof.not_proven.expected == 0
    assert not proof.agrees
    clean = {"expected": 58, "absent": Counter(), "differences": Counter(), "explained": Counter()}
    await night.audit(**clean)
    assert not (await night.prove()).agrees  # an hour is still unknown
    assert (await night.prove(until_at=night.hour_at + HOUR_MS)).agrees


async def test_pages_of_any_size_come_to_the_same(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await night.prove()
    monkeypatch.setattr(service, "FIRES_PER_PAGE", 7)
    monkeypatch.setattr(service, "RUNS_PER_COUNT", 7)
    assert (await night.prove()).hours == whole.hours
    parts = night.services.proofs.parts(COMMAND_LINE, whole.period)
    assert [part.hour async for part in parts if part.hour is not None] == whole.hours


async def test_what_is_gone_or_new_since_the_audit_is_told(night: Night) -> None:
    run = tables.run
    await night.change(sa.delete(run).where(run.c.id.in_([20, 21])))
    sums = (await night.prove()).proven
    assert (sums.runs, dict(sums.gone), sums.faults()) == (56, {"unknown": 2}, [])
    purge = {"job_id": night.job_id, "from_at": night.hour_at + 1, "to_at": night.hour_at + 2}
    await night.change(sa.insert(tables.run_purge).values(purge))
    assert dict((await night.prove()).proven.gone) == {"purged": 2}
    await night.services.store.run(keep_retained, kept_from=night.hour_at + HOUR_MS)
    assert dict((await night.prove()).proven.gone) == {"retention": 2}
    await night.audit(expected=59, fires=56)
    assert not (await night.prove()).proven.gone
    at = night.hour_at + 59 * MINUTE_MS + 1
    row = night._run(59) | {"id": 500, "scheduled_at": at}
    await night.services.store.run(insert_rows, tables.run, [row], columns=RUN_COLUMNS)
    sums = (await night.prove()).proven
    assert (sums.new, sums.faults()) == (1, [])


async def test_an_hour_whose_triggers_were_not_all_audited_is_not_proven(night: Night) -> None:
    await night.audit(audited=0)
    proof = await night.prove()
    assert proof.hours[0].status is HourStatus.PARTLY
    assert (proof.proven.hours, proof.not_proven.hours, proof.not_proven.runs) == (0, 2, 118)


async def test_exceptions_have_cause_owner_and_what_was_done(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = {"run_id": 5, "retry_id": 900, "scheduled_at": night.hour_at, "state": "succeeded"}
    await night.change(sa.insert(tables.run_retry).values(link | {"ended_at": 1}))
    proofs, period = night.services.proofs, await night.period()
    page = await proofs.exceptions(COMMAND_LINE, period)
    assert page.next is None
    told = {each.fire.id: each for each in page.items}
    assert sorted(told) == [2, 3, 4, 5, 6, 7]
    failed, lost, late = told[3], told[5], told[6]
    assert failed.group is not None
    assert (failed.group.text, failed.owner) == ("bank-gw refused", "ann")
    assert failed.acknowledged_by == "bob"
    assert lost.retry is not None
    assert (lost.owner, lost.retry.ids, lost.retry.last.state) == ("carl", (900,), "succeeded")
    assert (late.is_late, late.fire.start_delay_ms) == (True, 61_000)
    assert late.job_name == "bills"
    # Somebody looks after what came since; nobody did after this.
    await night.change(sa.update(tables.failure_group).values(since=night.hour_at + HOUR_MS))
    [failed] = [
        each for each in (await proofs.exceptions(COMMAND_LINE, period)).items if each.fire.id == 3
    ]
    assert (failed.acknowledged_by, failed.owner) == (None, "carl")

    monkeypatch.setattr(service, "HOURS_PER_PAGE", 1)
    found, cursor = [], None
    for _ in range(9):
        page = await proofs.exceptions(COMMAND_LINE, period, cursor=cursor, limit=4)
        found += [each.fire.id for each in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert found == [2, 3, 4, 5, 6, 7]


async def unrun(night: Night, actor: Actor = COMMAND_LINE, **wanted: Any) -> list[UnrunInstant]:
    """All of the list, in pages."""
    period, found, cursor = await night.period(actor), [], None
    while True:
        page = await night.services.proofs.unrun(actor, period, cursor=cursor, **wanted)
        found += page.items
        cursor = page.next
        if cursor is None:
            return found


async def test_each_instant_that_brought_no_work_is_listed_once_and_the_sums_agree(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await unrun(night)
    sums = (await night.prove()).proven
    causes = Counter(each.cause for each in found)
    assert causes == sums.without_run + sums.skipped + Counter(missing=sums.missing)
    at = [(each.at - night.hour_at) // MINUTE_MS for each in found]
    assert at == [7, 8, 59, 3]
    assert [each.run_id for each in found] == [None, None, None, 4]
    assert {(e.job_name, e.executor_name, e.owner) for e in found} == {("bills", "billing", "carl")}
    monkeypatch.setattr(service, "HOURS_PER_PAGE", 1)
    for rows in (1, 50):
        monkeypatch.setattr(unrun_list, "ROWS_AT_ONCE", rows + 1)
        for limit in (1, 2, 3):
            assert await unrun(night, limit=limit) == found
    with pytest.raises(InvalidInput):
        await night.services.proofs.unrun(COMMAND_LINE, await night.period(), cursor="x")
    # What an audit finds next replaces what it found before.
    await night.audit(absences=[], absent=Counter(), differences=Counter())
    assert [each.cause for each in await unrun(night)] == ["discarded"]


async def test_of_an_instant_without_a_run_it_is_told_what_was_done(night: Night) -> None:
    at = night.hour_at + 8 * MINUTE_MS
    filled = {"job_id": night.job_id, "trigger_id": 9, "backfill_id": 1}
    for values in (
        {"at": at, "run_id": 700, "outcome": "failed"},
        {"at": at, "backfill_id": 2, "run_id": 600, "outcome": "succeeded"},
        {"at": at - MINUTE_MS, "run_id": 800, "outcome": "existing"},
    ):
        await night.change(sa.insert(tables.backfill_run).values(filled | values))
    link = {"run_id": 4, "retry_id": 900, "scheduled_at": at, "state": "failed", "ended_at": 1}
    await night.change(sa.insert(tables.run_retry).values(link))
    seen = sa.update(tables.self_audit_difference).values(seen_at=5, seen_by="eve")
    await night.change(seen)
    missing, paused, other, skipped = await unrun(night)
    assert missing.seen is not None
    assert (missing.seen.by, missing.done_by, missing.done_state) == ("eve", [], None)
    assert (paused.done_by, paused.done_state, paused.seen) == ([600, 700], "succeeded", None)
    assert (other.done_by, other.done_state) == ([], None)
    assert (skipped.done_by, skipped.done_state) == ([900], "failed")


async def test_the_file_is_verified_and_tells_the_same(night: Night) -> None:
    services = night.services
    with pytest.raises(Conflict, match="no key"):
        await services.proof_keys.public(COMMAND_LINE)
    key = await services.proof_keys.create(COMMAND_LINE)
    assert await services.proof_keys.create(COMMAND_LINE) == key
    assert await services.proof_keys.public(COMMAND_LINE) == key
    period = await night.period()
    file = b"".join([piece async for piece in services.proof_export.lines(COMMAND_LINE, period)])
    lines = file.splitlines(keepends=True)
    found = verify(lines, read_public_key(key.public_key))
    proof = await night.prove()
    assert (found.proven, found.not_proven) == (proof.proven, proof.not_proven)
    assert found.exceptions == 6
    assert found.without_run == found.proven.without_run.total() + found.proven.missing == 3
    assert "called bank" in file.decode()


async def test_the_private_half_is_encrypted_and_kept_by_a_rotation(night: Night) -> None:
    services = night.services
    await services.proof_keys.create(COMMAND_LINE)
    before = await services.proof_keys.signer()
    old, new = bytes(range(32)), bytes(range(1, 33))
    both = Cipher([new, old])
    report = await KeyRotation(services.store, services.ids, both).rotate(
        COMMAND_LINE, trusts_all=True
    )
    assert (report.anew, list(report.unreadable)) == (1, [])
    after = ProofKeys(services.store, services.ids, Cipher([new]))
    assert (await after.signer()).key_id == before.key_id
    assert await services.store.read(unreadable_secrets, Cipher([old])) == ["key that signs proofs"]
    with pytest.raises(Exception, match="cannot be read"):
        await services.proof_keys.signer()


async def test_periods_are_whole_hours_of_at_most_31_days(night: Night) -> None:
    period = await night.period(from_at=night.hour_at + 5, until_at=night.hour_at + HOUR_MS + 1)
    assert list(period.hours) == [night.hour_at, night.hour_at + HOUR_MS]
    usual = await night.services.proofs.period(COMMAND_LINE)
    assert (len(usual.hours), usual.until_at) == (24, night.hour_at + 2 * HOUR_MS)
    for wrong in (
        {"from_at": night.hour_at + 3 * HOUR_MS},
        {"from_at": night.hour_at - 31 * 24 * HOUR_MS},
    ):
        with pytest.raises(InvalidInput):
            await night.period(**wrong)


async def test_others_see_nothing_of_it(night: Night) -> None:
    other = await night.services.executors.create(COMMAND_LINE, name="other", description="")
    stranger = Actor(user_id=7, name="x", grants={other.id: Role.VIEWER})
    proofs, period = night.services.proofs, await night.period(stranger)
    proof = await proofs.sums(stranger, period)
    assert (proof.proven.hours, proof.proven.runs, proof.proven.expected) == (1, 0, 0)
    assert (await proofs.exceptions(stranger, period)).items == []
    assert await unrun(night, stranger) == []
    mine = await night.period(stranger, executor_id=night.executor_id)
    assert (await proofs.sums(stranger, mine)).not_proven.runs == 0
