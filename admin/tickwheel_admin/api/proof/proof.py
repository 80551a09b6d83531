"""/api/v1/proof: what should have run in a period, what became of it, and a signed file of it."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, cast

from aiohttp import hdrs, web

from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import PAGING, no_fields, page_of, query_fields
from tickwheel_admin.api.ndjson import NDJSON
from tickwheel_admin.api.proof.shapes import (
    ProofExceptionJson,
    ProofHourJson,
    ProofJson,
    ProofKeyJson,
    ProofSumsJson,
    ProofUnrunJson,
)
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.proof.document import ALGORITHM
from tickwheel_admin.domain.proof.fires import DEFAULT_LATE_MS, MAX_LATE_SECONDS
from tickwheel_admin.domain.proof.sums import HourProof, ProofSums
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.proof.keys import PublicProofKey
from tickwheel_admin.services.proof.service import Proof, ProofException, ProofPeriod
from tickwheel_admin.services.proof.unrun import UnrunInstant
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import instant as instant_input
from tickwheel_admin.web.input_fields import integer, optional_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_FROM = instant_input("from", "Its hour is the first one; a day before the end if left out.")
_UNTIL = instant_input(
    "until", "Its hour is the last one, at most 31 days later; else the present."
)
_EXECUTOR = optional_id("executor_id", "Runs of this executor.")
_LATE = integer(
    "late_after_seconds",
    "A run that starts so much later than it was due is told of.",
    low=0,
    high=MAX_LATE_SECONDS,
    default=DEFAULT_LATE_MS // 1_000,
)
_PERIOD = (_FROM, _UNTIL, _EXECUTOR, _LATE)


@routes.get("/api/v1/proof", permission=Permission.VIEW, api=True, query=_PERIOD, answers=ProofJson)
async def get_proof(request: web.Request) -> web.Response:
    """What should have run, and what became of it."""
    period = await _period(request, query_fields(request))
    return answer(proof_view(await request.app[SERVICES].proofs.sums(actor_of(request), period)))


@routes.get(
    "/api/v1/proof/exceptions",
    permission=Permission.VIEW,
    api=True,
    query=(*_PERIOD, *PAGING),
    answers=PageJson[ProofExceptionJson],
)
async def list_proof_exceptions(request: web.Request) -> web.Response:
    """A page of runs that did not succeed at the first try, or started late; oldest first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    period = await _period(request, fields)
    page = await request.app[SERVICES].proofs.exceptions(
        actor_of(request), period, cursor=cursor, limit=limit
    )
    return answer(page_view(page, _exception_view))


@routes.get(
    "/api/v1/proof/unrun",
    permission=Permission.VIEW,
    api=True,
    query=(*_PERIOD, *PAGING),
    answers=PageJson[ProofUnrunJson],
)
async def list_proof_unrun(request: web.Request) -> web.Response:
    """A page of instants that brought no work, hour by hour: without a run, or skipped."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    period = await _period(request, fields)
    page = await request.app[SERVICES].proofs.unrun(
        actor_of(request), period, cursor=cursor, limit=limit
    )
    return answer(page_view(page, _unrun_view))


@routes.get(
    "/api/v1/proof/export",
    permission=Permission.VIEW,
    api=True,
    query=_PERIOD,
    answers=str,
    media_types=(NDJSON,),
    conflicts=("proof_key.none", "proof_key.unreadable"),
)
async def export_proof(request: web.Request) -> web.StreamResponse:
    """The proof as a signed file: lines of JSON, of which the last signs the others."""
    period = await _period(request, query_fields(request))
    return await write_export(request, period)


@routes.get(
    "/api/v1/proof/key",
    permission=Permission.VIEW,
    api=True,
    answers=ProofKeyJson,
    conflicts=("proof_key.none",),
)
async def get_proof_key(request: web.Request) -> web.Response:
    """The public key of this installation, which verifies its proofs."""
    return answer(_key_view(await request.app[SERVICES].proof_keys.public(actor_of(request))))


@routes.post(
    "/api/v1/proof/key",
    permission=Permission.ADMINISTER,
    api=True,
    body=(),
    answers=ProofKeyJson,
    conflicts=("secret_key.missing",),
)
async def create_proof_key(request: web.Request) -> web.Response:
    """Make the key pair that signs proofs, unless there is one."""
    await no_fields(request)
    return answer(_key_view(await request.app[SERVICES].proof_keys.create(actor_of(request))))


async def write_export(request: web.Request, period: ProofPeriod) -> web.StreamResponse:
    """Write the file as it is read. What is refused is refused before it begins."""
    lines = request.app[SERVICES].proof_export.lines(actor_of(request), period)
    async with aclosing(cast("Any", lines)):
        first = await anext(lines)
        response = web.StreamResponse(
            headers={
                hdrs.CONTENT_TYPE: NDJSON,
                hdrs.CONTENT_DISPOSITION: 'attachment; filename="tickwheel-proof.ndjson"',
                hdrs.CACHE_CONTROL: "no-store",
            }
        )
        await response.prepare(request)
        await response.write(first)
        async for piece in lines:
            await response.write(piece)
        await response.write_eof()
    return response


async def _period(request: web.Request, fields: Fields) -> ProofPeriod:
    from_at, until_at = _FROM.of(fields), _UNTIL.of(fields)
    executor_id, late_seconds = _EXECUTOR.of(fields), _LATE.of(fields)
    raise_if_any(fields.problems)
    return await request.app[SERVICES].proofs.period(
        actor_of(request),
        from_at=from_at,
        until_at=until_at,
        executor_id=executor_id,
        late_ms=late_seconds * 1_000,
    )


def _key_view(key: PublicProofKey) -> ProofKeyJson:
    return {
        "key_id": key.key_id,
        "algorithm": ALGORITHM,
        "public_key": key.public_key,
        "created_at": instant(key.created_at),
    }


def proof_view(proof: Proof) -> ProofJson:
    period = proof.period
    return {
        "from": instant(period.from_at),
        "until": instant(period.until_at),
        "made_at": instant(period.made_at),
        "late_after_seconds": period.late_ms / 1_000,
        "agrees": proof.agrees,
        "proven": _sums_view(proof.proven),
        "not_proven": _sums_view(proof.not_proven),
        "hours": [_hour_view(each) for each in proof.hours],
    }


def _hour_view(hour: HourProof) -> ProofHourJson:
    return {
        "at": instant(hour.hour_at),
        "status": hour.status,
        "audited_at": instant(hour.audited_at),
        "sums": _sums_view(hour.sums),
    }


def _sums_view(sums: ProofSums) -> ProofSumsJson:
    return cast("ProofSumsJson", sums.as_dict())


def _exception_view(told: ProofException) -> ProofExceptionJson:
    fire, retry = told.fire, told.retry
    return {
        "run_id": fire.id,
        "outcome": fire.outcome,
        "state": fire.state,
        "reason": fire.reason,
        "late": told.is_late,
        "start_delay_ms": fire.start_delay_ms,
        "tries": fire.tries,
        "scheduled_at": instant(fire.scheduled_at),
        "started_at": instant(fire.started_at),
        "ended_at": instant(fire.ended_at),
        "executor_id": fire.executor_id,
        "executor_name": told.executor_name,
        "job_id": fire.job_id,
        "job_name": told.job_name,
        "trigger_id": fire.trigger_id,
        "node_id": fire.node_id,
        "owner": told.owner,
        "failure_id": None if told.group is None else told.group.id,
        "failure_text": None if told.group is None else told.group.text,
        "acknowledged_at": instant(told.acknowledged_at),
        "acknowledged_by": told.acknowledged_by,
        "resolved_at": instant(told.resolved_at),
        "cancelled_by": fire.cancelled_by,
        "retried_by": [] if retry is None else list(retry.ids),
        "retry_state": None if retry is None else retry.last.state,
    }


def _unrun_view(told: UnrunInstant) -> ProofUnrunJson:
    return {
        "at": instant(told.at),
        "cause": told.cause,
        "run_id": told.run_id,
        "executor_id": told.executor_id,
        "executor_name": told.executor_name,
        "job_id": told.job_id,
        "job_name": told.job_name,
        "trigger_id": told.trigger_id,
        "owner": told.owner,
        "done_by": list(told.done_by),
        "done_state": told.done_state,
        "seen_at": None if told.seen is None else instant(told.seen.at),
        "seen_by": None if told.seen is None else told.seen.by,
    }
