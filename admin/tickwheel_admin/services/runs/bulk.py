"""The same done to many runs: some in a transaction, in bounded steps."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, UserError
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.runs.batches import BatchEdit, Outcomes, code_of
from tickwheel_admin.services.runs.requests import MAX_KEY_CHARS
from tickwheel_admin.services.system.bulk_entries import BulkAction, BulkEntries, join_cursor
from tickwheel_admin.store.database.database import StatementRefused, Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs import lists as run_lists

MAX_IDS = 1_000
STEP = 100  # runs of one step through all that match a filter
BATCH = 50  # runs of one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """What became of many runs."""

    runs: list[int]  # those that were cancelled, or the new ones that retry others
    skipped: Mapping[str, int]  # how many were left alone, by the code of the reason
    next: str | None = None  # cursor of the next step; None: this was the last one

    @property
    def done(self) -> int:
        """How many were not skipped."""
        return len(self.runs)


def check_ids(run_ids: Iterable[int]) -> list[int]:
    """The ids, each once.

    Raises:
        InvalidInput: none, or more than 1,000.
    """
    ids = list(dict.fromkeys(run_ids))
    if not 1 <= len(ids) <= MAX_IDS:
        raise InvalidInput.one(
            "runs", "out_of_range", "Name 1 to %(limit)s runs at once.", limit=f"{MAX_IDS:,}"
        )
    return ids


def key_for(request_key: str, run_id: int) -> str:
    """The key of one retry among many: the same request gives each run the same one again."""
    key = f"{request_key}:{run_id}"
    if len(key) <= MAX_KEY_CHARS:
        return key
    return f"{hashlib.sha256(request_key.encode()).hexdigest()}:{run_id}"


class BulkEdits:
    """Does the same to every run; what refuses one does not stop the others."""

    def __init__(self, store: Store, ids: Ids, *, configs: JobConfigs) -> None:
        self._store = store
        self._ids = ids
        self._configs = configs
        self._entries = BulkEntries(store, ids)

    async def edit(
        self,
        actor: Actor,
        run_ids: Sequence[int],
        work: Callable[[sa.Connection, BatchEdit], Outcomes],
        single: Callable[[Actor, int], Awaitable[int]],
        *,
        bulk: BulkAction,
        behind: str | None = None,
    ) -> Bulk:
        """Edit these runs, 50 in a transaction.

        Args:
            work: says what became of runs; those that it leaves out are done one by one.
            single: does it to one run; returns the id of the run that it changed or made.
            bulk: what the audit calls it.
            behind: cursor of the step after this one.
        """
        outcomes: Outcomes = {}
        is_one = len(run_ids) == 1 and bulk.number is None and behind is None
        executors = await self._store.read(run_lists.executors_of_runs, run_ids)
        concerned = {each for each in executors.values() if actor.may(Permission.OPERATE, each)}
        step = await self._entries.open(actor, bulk, () if is_one else concerned)
        actor = step.actor
        for start in range(0, len(run_ids), BATCH):
            chunk = run_ids[start : start + BATCH]
            # Refused: some run of them is at fault, and the others need not suffer for it.
            with contextlib.suppress(StatementRefused, sa.exc.IntegrityError):
                outcomes |= await self._batch(actor, chunk, work)
            for run_id in chunk:
                if run_id not in outcomes:
                    outcomes[run_id] = await _one(single, actor, run_id)
        done = [outcomes[run_id] for run_id in run_ids]
        skipped = dict(Counter(each for each in done if isinstance(each, str)))
        await self._entries.tell(step, skipped)
        return Bulk(
            runs=[each for each in done if isinstance(each, int)],
            skipped=skipped,
            next=join_cursor(behind, step.number),
        )

    async def _batch(
        self,
        actor: Actor,
        run_ids: Sequence[int],
        work: Callable[[sa.Connection, BatchEdit], Outcomes],
    ) -> Outcomes:
        """One transaction, with ids for what it notes and for the runs that it has to write."""
        batch = BatchEdit(
            actor=actor,
            runs=run_ids,
            audit_ids=await self._ids.take_many("audit", len(run_ids)),
            configs=self._configs,
        )
        return await self._ids.run_with_ids(
            "run", lambda new: self._store.run(work, replace(batch, run_ids=new))
        )


async def _one(
    single: Callable[[Actor, int], Awaitable[int]], actor: Actor, run_id: int
) -> int | str:
    try:
        return await single(actor, run_id)
    except UserError as error:
        return code_of(error)
