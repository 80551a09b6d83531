"""The proof of a period: sums that add up, what became of the fires, and why not all went well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tickwheel_admin.console.frame.charts import ColumnPart, Parts, drawn_chart
from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.formatting import iso, number, short_number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.local_time import instant_of
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import go_to, render
from tickwheel_admin.console.proof import labels
from tickwheel_admin.console.proof.causes import SHOWN_RUNS, causes_of
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.proof.fires import FireOutcome
from tickwheel_admin.domain.proof.sums import HOUR_MS, HourProof, ProofSums
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.proof.service import Proof, ProofException, ProofPeriod, Proofs
from tickwheel_admin.services.proof.unrun import UnrunInstant
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

HOURS = (24, 12, 72, 168)  # until now, to choose from; the usual one first
SHOWN_EXCEPTIONS = 200
SHOWN_UNRUN = 50
LOOKS = 8  # for a list, a day each: as long as the longest of `HOURS`
CHART_HEIGHT = 180
MOST_COLUMNS = 48  # beyond, each stands for several hours
CHOICES = ("executor", "hours", "from", "until")
LABELLED = 8  # of the columns of hours, about so many have a label
# Of the chart, from the bottom up.
COLUMNS: tuple[tuple[str, tuple[FireOutcome, ...]], ...] = (
    ("succeeded", (FireOutcome.SUCCEEDED, FireOutcome.RETRIED)),
    ("failed", (FireOutcome.FAILED,)),
    ("timed_out", (FireOutcome.TIMED_OUT,)),
    ("lost", (FireOutcome.LOST,)),
    ("skipped", (FireOutcome.SKIPPED, FireOutcome.CANCELLED)),
    ("queued", (FireOutcome.OPEN,)),
)

routes = Routes()


@routes.get("/proof", permission=Permission.VIEW)
async def show_proof(request: web.Request) -> web.Response:
    """The proof; the work ends when its reader leaves."""
    set_locale(request)  # times are those of the reader's zone
    actor, query, services = actor_of(request), request.query, request.app[SERVICES]
    hours = next((each for each in HOURS if str(each) == query.get("hours")), HOURS[0])
    from_at = instant_of(query.get("from", ""))
    executors = await services.executors.names(actor)
    executor_id = next((e.id for e in executors if str(e.id) == query.get("executor")), None)
    problem: Problem | None = None
    shown: dict[str, Any] = {"proof": None}
    try:
        period = await services.proofs.period(
            actor, until_at=instant_of(query.get("until", "")), executor_id=executor_id
        )
        begin = period.until_at - hours * HOUR_MS if from_at is None else from_at
        period = await services.proofs.period(
            actor, from_at=max(0, begin), until_at=period.until_at, executor_id=executor_id
        )
        proof, found, after = await while_present(
            request, _read(services.proofs, actor, period, query.get("after"))
        )
        unrun, unrun_after = await while_present(
            request, _read_unrun(services.proofs, actor, period, query.get("unrun"))
        )
        shown = _shown(proof, found, executor_id)
        shown |= {"after": after, "is_continued": "after" in query}
        shown |= {
            "unrun": unrun,
            "unrun_after": unrun_after,
            "unrun_is_continued": "unrun" in query,
            "unrun_only_counted": 0
            if unrun_after or "unrun" in query
            else max(0, proof.proven.unrun - len(unrun)),
        }
    except InvalidInput as error:
        problem = error.problems[0]
    key = await services.proof_keys.find(actor)
    set_locale(request)
    return await render(
        request,
        "proof/page.html",
        {
            "all_hours": sorted(HOURS),
            "hours": hours if from_at is None and not query.get("until") else None,
            "executors": executors,
            "executor_id": executor_id,
            "problem": problem,
            "from_local": query.get("from", ""),
            "until_local": query.get("until", ""),
            "key": key,
            "may_create_key": key is None and actor.may(Permission.ADMINISTER),
            **shown,
        },
    )


@routes.post("/proof/key", permission=Permission.ADMINISTER)
async def create_key(request: web.Request) -> web.Response:
    """Make the key pair that signs proofs, unless there is one; the period stays chosen."""
    await request.app[SERVICES].proof_keys.create(actor_of(request))
    chosen = {name: request.query[name] for name in CHOICES if name in request.query}
    response = go_to(request, f"/proof?{urlencode(chosen)}" if chosen else "/proof")
    set_flash(response, "proof_key.created")
    return response


async def _read(
    proofs: Proofs, actor: Actor, period: ProofPeriod, cursor: str | None
) -> tuple[Proof, list[ProofException], str | None]:
    """The sums, the exceptions behind a place in their list, and the place after those."""
    proof = await proofs.sums(actor, period)
    found: list[ProofException] = []
    for _look in range(LOOKS):
        page = await proofs.exceptions(
            actor, period, cursor=cursor, limit=SHOWN_EXCEPTIONS - len(found)
        )
        found += page.items
        cursor = page.next
        if cursor is None or len(found) == SHOWN_EXCEPTIONS:
            break
    return proof, found, cursor


async def _read_unrun(
    proofs: Proofs, actor: Actor, period: ProofPeriod, cursor: str | None
) -> tuple[list[UnrunInstant], str | None]:
    """Instants that brought no work behind a place in their list, and the place after those."""
    found: list[UnrunInstant] = []
    for _look in range(LOOKS):
        page = await proofs.unrun(actor, period, cursor=cursor, limit=SHOWN_UNRUN - len(found))
        found += page.items
        cursor = page.next
        if cursor is None or len(found) == SHOWN_UNRUN:
            break
    return found, cursor


def _shown(
    proof: Proof, found: Sequence[ProofException], executor_id: int | None
) -> dict[str, Any]:
    period = proof.period
    count = len(proof.hours)
    every = -(-count // MOST_COLUMNS)
    columns = len(proof.hours[::every])
    step = max(1, 24 // every) if every > 1 else -(-columns // LABELLED)
    of = f"executor={executor_id}&" if executor_id else ""
    return {
        "proof": proof,
        "findings": labels.findings(proof),
        "chart": drawn_chart(
            _("What became of them"),
            [
                (first.hour_at, _runs_address(first.hour_at, every, of), _parts(_sum(part)))
                for part in (proof.hours[at : at + every] for at in range(0, count, every))
                for first in part[:1]
            ],
            _parts(_sum(proof.hours)),
            tick=short_number,
            height=CHART_HEIGHT,
            room=12,
        ),
        "labelled": list(range(0, columns, step)),
        "label_pattern": "date" if every > 1 else "minute",
        "causes": causes_of(found),
        "shown_exceptions": len(found),
        "shown_runs": SHOWN_RUNS,
        "export": {"from": iso(period.from_at), "until": iso(period.until_at)},
    }


def _sum(hours: Sequence[HourProof]) -> ProofSums:
    total = ProofSums()
    for each in hours:
        total.add(each.sums)
    return total


def _parts(sums: ProofSums) -> Parts:
    counts = (
        (kind, labels.column_name(kind), sum(sums.outcomes[each] for each in outcomes))
        for kind, outcomes in COLUMNS
    )
    return [ColumnPart(kind, name, count, number(count)) for kind, name, count in counts]


def _runs_address(hour_at: int, every: int, of: str) -> str:
    end = hour_at + every * HOUR_MS
    return f"/runs?{of}origin=no_step&from={hour_at}&to={end}"
