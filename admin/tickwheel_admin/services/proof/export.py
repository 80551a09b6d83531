"""A proof as a signed file, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.proof.document import VERSION, ProofSigner
from tickwheel_admin.domain.proof.sums import HourProof, HourStatus, ProofSums
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.proof.keys import ProofKeys
from tickwheel_admin.services.proof.service import (
    HourPart,
    ProofException,
    ProofPeriod,
    Proofs,
)
from tickwheel_admin.services.proof.unrun import UnrunInstant
from tickwheel_admin.store.self_audit.results import StoredDifference


class ProofExport:
    """Use case of writing the file."""

    def __init__(self, proofs: Proofs, keys: ProofKeys) -> None:
        self._proofs = proofs
        self._keys = keys

    async def lines(self, actor: Actor, period: ProofPeriod) -> AsyncIterator[bytes]:
        """The file in pieces of whole lines; the last one is the signature.

        Raises:
            Conflict: proof_key.none, proof_key.unreadable, before the first piece.
            TooMany: before the first piece.
        """
        signer = await self._keys.signer()
        totals = {True: ProofSums(), False: ProofSums()}
        groups: set[int] = set()
        exceptions = 0
        listed: Counter[str] = Counter()  # of the hour, instants without a run by cause
        head = signer.line(_header(period, signer.key_id))
        async for part in self._proofs.parts(actor, period):
            listed.update(each.cause for each in part.unrun)
            written = [head, *_part_lines(signer, part, groups, listed)]
            head = b""
            exceptions += len(part.exceptions)
            if part.hour is not None:
                totals[part.hour.status is HourStatus.AUDITED].add(part.hour.sums)
                listed.clear()
            yield b"".join(written)
        sums = {
            "kind": "sums",
            "proven": totals[True].as_dict(),
            "not_proven": totals[False].as_dict(),
            "exceptions": exceptions,
        }
        yield signer.line(sums) + signer.signature()


def _header(period: ProofPeriod, key_id: str) -> Mapping[str, Any]:
    return {
        "kind": "proof",
        "version": VERSION,
        "key_id": key_id,
        "from": instant_to_iso(period.from_at),
        "from_ms": period.from_at,
        "until": instant_to_iso(period.until_at),
        "until_ms": period.until_at,
        "made_at": instant_to_iso(period.made_at),
        # Null: all. The proof tells nothing of others.
        "executors": None if period.executors is None else sorted(period.executors),
        "late_after_ms": period.late_ms,
    }


def _part_lines(
    signer: ProofSigner, part: HourPart, groups: set[int], listed: Mapping[str, int]
) -> list[bytes]:
    lines = []
    for each in part.exceptions:
        if each.group is not None and each.group.id not in groups:
            groups.add(each.group.id)
            lines.append(signer.line(_group(each.group)))
        lines.append(signer.line(_run(each)))
    lines += [signer.line(_unrun(each)) for each in part.unrun]
    lines += [signer.line(_difference(each)) for each in part.differences]
    if part.hour is not None:
        missing = sum(each.what == "missing" for each in part.differences)
        lines.append(signer.line(_hour(part.hour, missing, listed)))
    return lines


def _run(told: ProofException) -> Mapping[str, Any]:
    fire, retry = told.fire, told.retry
    return {
        "kind": "run",
        "id": fire.id,
        "outcome": fire.outcome,
        "state": fire.state,
        "reason": fire.reason,
        "late": told.is_late,
        "start_delay_ms": fire.start_delay_ms,
        "tries": fire.tries,
        "scheduled_at": instant_to_iso(fire.scheduled_at),
        "started_at": _instant(fire.started_at),
        "ended_at": _instant(fire.ended_at),
        "executor_id": fire.executor_id,
        "executor": told.executor_name,
        "job_id": fire.job_id,
        "job": told.job_name,
        "trigger_id": fire.trigger_id,
        "node_id": fire.node_id,
        "owner": told.owner,
        "failure_id": None if told.group is None else told.group.id,
        "acknowledged_by": told.acknowledged_by,
        "acknowledged_at": _instant(told.acknowledged_at),
        "resolved_at": _instant(told.resolved_at),
        "cancelled_by": fire.cancelled_by,
        "retried_by": [] if retry is None else list(retry.ids),
        "retry_state": None if retry is None else retry.last.state,
    }


def _group(group: FailureGroup) -> Mapping[str, Any]:
    return {
        "kind": "failure",
        "id": group.id,
        "text": group.text,
        "since": instant_to_iso(group.since),
        "owner": group.owner,
        "notes": group.notes,
        "acknowledged_by": group.acknowledged_by,
        "acknowledged_at": _instant(group.acknowledged_at),
        "resolved_by": group.resolved_by,
        "resolved_at": _instant(group.resolved_at),
    }


def _unrun(told: UnrunInstant) -> Mapping[str, Any]:
    return {
        "kind": "without_run",
        "at": instant_to_iso(told.at),
        "cause": told.cause,
        "executor_id": told.executor_id,
        "executor": told.executor_name,
        "job_id": told.job_id,
        "job": told.job_name,
        "trigger_id": told.trigger_id,
        "owner": told.owner,
        "done_by": list(told.done_by),
        "done_state": told.done_state,
        "seen_by": None if told.seen is None else told.seen.by,
        "seen_at": None if told.seen is None else instant_to_iso(told.seen.at),
    }


def _difference(found: StoredDifference) -> Mapping[str, Any]:
    return {
        "kind": "difference",
        "what": found.what,
        "at": instant_to_iso(found.at),
        "trigger_id": found.trigger_id,
        "job_id": found.job_id,
        "job": found.job_name,
        "executor_id": found.executor_id,
        "found_at": instant_to_iso(found.found_at),
        "seen_by": found.seen_by,
        "seen_at": _instant(found.seen_at),
    }


def _hour(
    hour: HourProof, missing_listed: int, unrun_listed: Mapping[str, int]
) -> Mapping[str, Any]:
    return {
        "kind": "hour",
        "at": instant_to_iso(hour.hour_at),
        "at_ms": hour.hour_at,
        "status": hour.status,
        "audited_at": _instant(hour.audited_at),
        "sums": hour.sums.as_dict(),
        "missing_listed": missing_listed,  # at most 1,000 differences of an hour are kept
        # By cause. None: they are kept for 40 days.
        "without_run_listed": {key: unrun_listed[key] for key in sorted(unrun_listed)},
    }


def _instant(at: int | None) -> str | None:
    return None if at is None else instant_to_iso(at)
