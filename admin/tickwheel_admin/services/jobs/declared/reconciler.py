"""What a process that just started says of its code: looked at once, the newest process last.

Most processes say what the one before them said. That costs three indexed reads and a note in the
node's own row; only what differs is decided under the executor's lock, each in a transaction of
its own. A node that said it over several sockets, or again after an answer was lost, changes
nothing the second time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.errors import InvalidInput, Problem, UserError
from tickwheel_admin.domain.input.node_manifest import NodeManifest, Process
from tickwheel_admin.domain.jobs.declared_job import MAX_KNOWN
from tickwheel_admin.services.events.events import NODES, Events
from tickwheel_admin.services.handlers import schemas as handler_schemas
from tickwheel_admin.services.jobs.declared import decisions
from tickwheel_admin.services.jobs.declared.configs import code_actor
from tickwheel_admin.services.jobs.declared.decisions import DeclarationOutcome
from tickwheel_admin.services.jobs.declared.edits import needs_of
from tickwheel_admin.services.jobs.declared.service import announce, take_edit
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.declared import note_looked_at

AT_ONCE = 2  # processes looked at by one admin: they must not take the database from the engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What became of what a process declares."""

    outcomes: Sequence[DeclarationOutcome]
    faults: Sequence[str]


class DeclaredReconciler:
    """Takes what processes say of their code: schemas of handlers and declared jobs."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._events = events
        # Of the nodes of one executor, the second mostly finds that the first has said it all.
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._places = asyncio.Semaphore(AT_ONCE)

    async def take(self, process: Process, manifest: NodeManifest) -> Reconciliation:
        """Take it in; raises DatabaseUnavailable, and then it may be said again."""
        async with self._turns[process.executor_id], self._places:
            if await self._store.read(handler_schemas.differs, process, manifest):
                await self._store.run(handler_schemas.take_schemas, process, manifest)
                self._events.publish(NODES)
            view = await self._store.read(decisions.look, process, manifest)
            outcomes = list(view.outcomes)
            for name in view.open:
                outcome = await self._propose(process, manifest, name)
                if outcome is not None:
                    outcomes.append(outcome)
            if view.forgotten:
                await self._store.run(decisions.forget, process, view.forgotten)
            await self._store.run(note_looked_at, process.node_id, manifest.jobs.keys())
        if view.open or view.forgotten:
            announce(self._events)
        return Reconciliation(
            outcomes=outcomes, faults=[*manifest.faults, *_no_room(view.too_many)]
        )

    async def _propose(
        self, process: Process, manifest: NodeManifest, name: str
    ) -> DeclarationOutcome | None:
        actor = code_actor(process.executor_id, node=process.name, address=process.address)
        edit = await take_edit(self._ids, actor, needs_of(manifest.jobs[name]))
        try:
            return await self._ids.run_with_ids(
                "run",
                lambda run_ids: self._store.run(
                    decisions.propose, edit, process, manifest, name, run_ids=run_ids
                ),
            )
        except UserError as error:  # the transaction was rolled back: no job can be made of it
            return await self._store.run(
                decisions.refuse, process, manifest, name, problems=_problems_of(error)
            )


def _no_room(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    told = (
        f"{len(names)} of its declared jobs, {names[0]!r} for one, are not looked at: the executor"
        f" knows {MAX_KNOWN:,} already; delete jobs that are not declared any more"
    )
    return [told]


def _problems_of(error: UserError) -> tuple[Problem, ...]:
    if isinstance(error, InvalidInput):
        return error.problems
    return (Problem(field="", code=error.code, template=error.template, params=error.params),)
