"""A proof adds up: with the self-audit, with the ledger, and with what happened since."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.domain.errors import Conflict, InvalidInput
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.proof.sums import HOUR_MS, HourStatus
from tickwheel_admin.domain.proof.verification import read_public_key, verify
from tickwheel_admin.domain.self_audit.comparison import (
    AuditCount,
    DifferenceKind,
    LedgerDifference,
)
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.proof import service
from tickwheel_admin.services.proof.keys import ProofKeys
from tickwheel_admin.services.proof.service import Proof, ProofPeriod
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.readability import unreadable_secrets
from tickwheel_admin.services.secrets.rotation import KeyRotation
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.failures.groups import insert_groups
from tickwheel_admin.store.self_audit.periods import keep_retained
from tickwheel_admin.store.self_audit.results import EVERYBODY, write_hour

MINUTE_MS = 60_000
GROUP = 77


class Night:
    """Two hours with a run each minute, of which some go wrong; the first hour is audited."""

    def __init__(self, admin: Served, executor_id: int, job_id: int) -> None:
        self.admin = admin
        self.services = admin.services
        self.executor_id = executor_id
        self.job_id = job_id
        self.hour_at = 0

    async def begin(self) -> None:
        now = self.admin.clock.now
        self.hour_at = now - now % HOUR_MS - 2 * HOUR_MS
        rows = [self._run(n) for n in range(120)]
        group = FailureGroup(
            id=GROUP, executor_id=self.executor_id, text="bank-gw refused", since=self.hour_at,
            last_at=now, runs=2, jobs=1, first_run_id=5, first_job_id=self.job_id,
            first_revision=1, first_node_id=None, last_run_id=6, owner="ann", notes="called bank",
            acknowledged_by="bob", acknowledged_at=now,
        )  # fmt: skip

        def insert(conn: sa.Connection) -> None:
            insert_rows(conn, tables.run, rows, columns=RUN_COLUMNS)
            insert_groups(conn, [group])

        await self.services.store.run(insert)
        await self.audit()

    def _run(self, n: int) -> dict[str, Any]:
        at = self.hour_at + n * MINUTE_MS
        changed: dict[str, Any] = {
            1: {"tries": 2},
            2: {"state": "failed", "error_id": GROUP},
            3: {"state": "skipped", "reason": "discarded", "started_at": None},
            4: {"state": "lost"},
            5: {"started_at": at + 61_000},
            6: {"state": "running"},
            7: {"trigger_id": None},  # by hand: it is no fire
            8: {"fire_id": 1},  # a shard, which its whole fire tells of
        }.get(n, {})
        whole = {
            "executor_id": self.executor_id, "job_id": self.job_id, "trigger_id": 9,
            "scheduled_at": at, "created_at": at, "due_at": at, "state": "succeeded", "tries": 1,
            "started_at": at + 1_000, "ended_at": at + 2_000,
        }  # fmt: skip
        return dict.fromkeys(RUN_COLUMNS) | run_row(n + 1, whole | changed)

    async def audit(self, *, audited: int = 1, **changed: Any) -> None:
        """As the loop writes it: 60 instants, two of them paused, one missing, 57 runs of them."""
        count = AuditCount(expected=61, happened=56, fires=58)
        count.explained.update({"paused": 2, "discarded": 1})
        count.absent["paused"] = 2
        count.differences["missing"] = 1
        missing = LedgerDifference(
            trigger_id=9, job_id=self.job_id, executor_id=self.executor_id,
            at=self.hour_at + 7 * MINUTE_MS, what=DifferenceKind.MISSING,
        )  # fmt: skip
        for name, value in changed.items():
            setattr(count, name, value)
        await self.services.store.run(
            write_hour,
            self.hour_at,
            {EVERYBODY: count, self.executor_id: count},
            [missing],
            triggers=[9],
            audited=[9][:audited],
            now=self.hour_at + HOUR_MS + 5 * MINUTE_MS,
        )

    async def period(self, actor: Actor = COMMAND_LINE, **wanted: Any) -> ProofPeriod:
        wanted = {"from_at": self.hour_at, "until_at": self.hour_at + 2 * HOUR_MS} | wanted
        return await self.services.proofs.period(actor, **wanted)

    async def prove(self, **wanted: Any) -> Proof:
        return await self.services.proofs.sums(COMMAND_LINE, await self.period(**wanted))

    async def change(self, statement: Any) -> None:
        await self.services.store.run(lambda conn: conn.execute(statement) and None)


@pytest.fixture
async def night(tmp_path: Path) -> AsyncIterator[Night]:
    async with served(tmp_path) as admin:
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        job_id = await admin.services.jobs.create(
            COMMAND_LINE, executor.id, {"name": "bills", "handler": "h", "owner": "carl"}
        )
        found = Night(admin, executor.id, job_id)
        await found.begin()
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
    assert (await night.prove()).proven == whole.proven


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
    mine = await night.period(stranger, executor_id=night.executor_id)
    assert (await proofs.sums(stranger, mine)).not_proven.runs == 0
