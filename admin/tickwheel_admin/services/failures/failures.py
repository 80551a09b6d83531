"""Failure groups as people see and treat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import subject_of_failure
from tickwheel_admin.domain.alarms.kind import OF_GROUPS
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryRetry, CanaryState
from tickwheel_admin.domain.failures.group import (
    MAX_MUTE_S,
    MAX_NOTES_CHARS,
    MAX_OWNER_CHARS,
    FailureGroup,
    GroupState,
)
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import ALARMS, Events
from tickwheel_admin.services.events.transactions import AuditedTransactions, AuditEntry
from tickwheel_admin.services.failures.detective import RunComparison, hold_against_last_good
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import not_found, visible_executors
from tickwheel_admin.store.alarms.alarms import acknowledge_alarm, lock_open_alarms, mute_alarm
from tickwheel_admin.store.alarms.rules import rules_of_kinds
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import executor_names
from tickwheel_admin.store.failures import groups as store
from tickwheel_admin.store.failures.canaries import (
    add_canary,
    lock_open_canary,
    newest_canary,
    write_canary,
)
from tickwheel_admin.store.failures.groups import GroupJob, GroupRun
from tickwheel_admin.store.jobs.jobs import names_of_jobs
from tickwheel_admin.store.overview.alarm_facts import nodes_with_executors

SHOWN_JOBS = 100
SHOWN_RUNS = 20
MAX_ID = 2**53  # beyond all ids of runs


class _Key(NamedTuple):
    """A place in the list: behind this group."""

    last_at: Number
    id: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupItem:
    """A group, with the names of what it is about."""

    group: FailureGroup
    state: GroupState
    executor_name: str | None
    first_job_name: str | None
    first_node_name: str | None
    may_treat: bool  # acknowledge, mute, resolve, edit


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """One group, with its jobs and its newest runs."""

    item: GroupItem
    jobs: Sequence[GroupJob]  # those that failed last first, at most `SHOWN_JOBS`
    runs: Sequence[GroupRun]  # newest first, at most `SHOWN_RUNS`
    job_names: Mapping[int, str]
    node_names: Mapping[int, str]
    canary: CanaryRetry | None  # the newest one


class FailureGroups:
    """Use cases of failure groups."""

    def __init__(self, store: Store, ids: Ids, events: Events) -> None:
        self._store = store
        self._ids = ids
        self._audited = AuditedTransactions(store, ids, events)

    # --- finding -----------------------------------------------------------------------------

    async def page(
        self,
        actor: Actor,
        *,
        only_standing: bool = True,
        executor_id: int | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[GroupItem]:
        """Groups that the caller may see, those that failed last first."""
        actor.require(Permission.LOGGED_IN)
        limit = check_limit(limit)
        key = decode_cursor(cursor, _Key)

        def read(conn: sa.Connection) -> Page[GroupItem]:
            found = store.page_groups(
                conn,
                only_standing=only_standing,
                executor_ids=visible_executors(actor, executor_id),
                before=None if key is None else (key.last_at, key.id),
                limit=limit + 1,
            )
            last = found[limit - 1] if len(found) > limit else None
            return Page(
                items=_items(conn, actor, found[:limit]),
                next=None if last is None else encode_cursor(_Key(last.last_at, last.id)),
            )

        return await self._store.read(read)

    async def get(self, actor: Actor, group_id: int) -> GroupDetail:
        """One group, standing or resolved."""
        actor.require(Permission.LOGGED_IN)

        def read(conn: sa.Connection) -> GroupDetail:
            group = _visible(conn, actor, group_id)
            jobs = store.newest_jobs(conn, group_id, limit=SHOWN_JOBS)
            runs = store.newest_runs(conn, group_id, limit=SHOWN_RUNS)
            job_ids = {each.job_id for each in jobs} | {each.job_id for each in runs}
            return GroupDetail(
                item=_items(conn, actor, [group])[0],
                jobs=jobs,
                runs=runs,
                job_names=names_of_jobs(conn, job_ids),
                node_names=_node_names(conn, {each.node_id for each in runs}),
                canary=newest_canary(conn, group_id),
            )

        return await self._store.read(read)

    async def of_run(self, actor: Actor, run_id: int) -> FailureGroup | None:
        """The group that a run counts to; None: none, or one that the caller may not see."""
        group = await self._store.read(store.group_of_run, run_id)
        if group is None or not actor.may(Permission.VIEW, group.executor_id):
            return None
        return group

    async def why(self, actor: Actor, run_id: int) -> RunComparison:
        """A failed run held against the last good one of its job.

        Raises:
            Conflict: run.not_failed.
        """
        return await self._store.read(hold_against_last_good, actor, run_id)

    # --- treating ----------------------------------------------------------------------------

    async def acknowledge(self, actor: Actor, group_id: int) -> None:
        """The caller looks after it and its open alarms, and is its owner when it has none.

        Raises:
            Conflict: failure_group.resolved, failure_group.acknowledged.
        """

        def acknowledge(conn: sa.Connection, entry: AuditEntry) -> None:
            group = _standing(conn, actor, group_id)
            if group.acknowledged_at is not None:
                raise Conflict(
                    "failure_group.acknowledged",
                    "“%(name)s” has acknowledged this failure already.",
                    name=group.acknowledged_by or "",
                )
            store.change_group(
                conn,
                group_id,
                acknowledged_by=actor.name,
                acknowledged_at=now_ms(conn),
                owner=group.owner or actor.name,
            )
            for each in _alarms_of(conn, group):
                acknowledge_alarm(conn, each, by=actor.name, now=now_ms(conn))
            _note(entry, "failure_group.acknowledged", group)

        await self._audited.run(actor, acknowledge, ALARMS)

    async def mute(self, actor: Actor, group_id: int, *, seconds: int | None) -> None:
        """No alarm tells of its runs for so long, nor those that are open; None: they do again.

        Raises:
            InvalidInput: seconds, not 1 to 30 days.
            Conflict: failure_group.resolved.
        """
        if seconds is not None and not 1 <= seconds <= MAX_MUTE_S:
            raise InvalidInput.one(
                "seconds",
                "out_of_range",
                "This must lie between %(low)s and %(high)s.",
                low=1,
                high=MAX_MUTE_S,
            )

        def mute(conn: sa.Connection, entry: AuditEntry) -> None:
            group = _standing(conn, actor, group_id)
            now = now_ms(conn)
            until = None if seconds is None else now + seconds * 1000
            store.change_group(conn, group_id, muted_until=until)
            for each in _alarms_of(conn, group):
                mute_alarm(conn, each, until=until, now=now)
            action = "failure_group.muted" if until else "failure_group.unmuted"
            _note(entry, action, group, seconds=seconds)

        await self._audited.run(actor, mute, ALARMS)

    async def resolve(self, actor: Actor, group_id: int) -> None:
        """Say that it is over; the same failure again opens it anew.

        Raises:
            Conflict: failure_group.resolved.
        """

        def resolve(conn: sa.Connection, entry: AuditEntry) -> None:
            group = _standing(conn, actor, group_id)
            store.resolve_group(conn, group_id, by=actor.name, now=now_ms(conn))
            _note(entry, "failure_group.resolved", group)

        await self._audited.run(actor, resolve, ALARMS)

    async def edit(
        self, actor: Actor, group_id: int, *, owner: str | None, notes: str, version: int
    ) -> int:
        """Set owner and notes, also of a group that is resolved; the new version.

        Raises:
            InvalidInput: owner or notes are too long.
            Conflict: failure_group.changed, when somebody else was faster.
        """
        owner = (owner or "").strip() or None
        notes = notes.strip()
        _check_length("owner", owner or "", MAX_OWNER_CHARS)
        _check_length("notes", notes, MAX_NOTES_CHARS)

        def edit(conn: sa.Connection, entry: AuditEntry) -> int:
            group = _to_treat(conn, actor, group_id)
            if group.version != version:
                raise Conflict(
                    "failure_group.changed",
                    "Somebody else has changed owner or notes meanwhile. Load the page again.",
                )
            store.change_group(conn, group_id, owner=owner, notes=notes, version=version + 1)
            _note(entry, "failure_group.edited", group, owner=owner)
            return version + 1

        return await self._audited.run(actor, edit, ALARMS, repeated=lambda noted: version + 1)

    # --- retrying its runs -------------------------------------------------------------------

    async def retry(self, actor: Actor, group_id: int) -> int:
        """Do its runs again: one first, then twice as many with each wave that succeeds; returns
        the id of this canary retry.

        The newest runs come first. Left out are those that somebody has retried, shards and steps.

        Raises:
            Conflict: failure_group.resolved, failure_group.retrying.
        """
        canary_id = await self._ids.take("failure_canary")

        def start(conn: sa.Connection, entry: AuditEntry) -> int:
            group = _standing(conn, actor, group_id)
            if lock_open_canary(conn, group_id) is not None:
                raise Conflict(
                    "failure_group.retrying", "The runs of this failure are being retried already."
                )
            now = now_ms(conn)
            add_canary(
                conn,
                CanaryRetry(
                    id=canary_id,
                    group_id=group_id,
                    executor_id=group.executor_id,
                    state=CanaryState.RUNNING,
                    user_id=actor.user_id,
                    started_by=actor.name,
                    started_at=now,
                    since=group.since,
                    before_at=now,
                    before_id=MAX_ID,
                ),
            )
            _note(entry, "failure_group.retry_started", group, canary_retry=canary_id)
            return canary_id

        return await self._audited.run(actor, start, ALARMS, repeated=lambda noted: canary_id)

    async def stop_retry(self, actor: Actor, group_id: int) -> None:
        """Retry no further runs of it; those that were begun go on.

        Raises:
            Conflict: failure_group.not_retrying.
        """

        def stop(conn: sa.Connection, entry: AuditEntry) -> None:
            group = _to_treat(conn, actor, group_id)
            canary = lock_open_canary(conn, group_id)
            if canary is None:
                raise Conflict(
                    "failure_group.not_retrying", "The runs of this failure are not being retried."
                )
            by_hand, now = CanaryReason.BY_HAND, now_ms(conn)
            write_canary(
                conn, canary.ended(CanaryState.STOPPED, now=now, reason=by_hand, by=actor.name)
            )
            _note(entry, "failure_group.retry_stopped", group, canary_retry=canary.id)

        await self._audited.run(actor, stop, ALARMS)


def _check_length(field: str, value: str, most: int) -> None:
    if len(value) > most:
        raise InvalidInput.one(
            field, "too_long", "At most %(limit)d characters, please.", limit=most
        )


def _items(conn: sa.Connection, actor: Actor, groups: Sequence[FailureGroup]) -> list[GroupItem]:
    now = now_ms(conn)
    executors = executor_names(conn, {each.executor_id for each in groups})
    jobs = names_of_jobs(conn, {each.first_job_id for each in groups})
    nodes = _node_names(conn, {each.first_node_id for each in groups})
    return [
        GroupItem(
            group=each,
            state=each.state(now),
            executor_name=executors.get(each.executor_id),
            first_job_name=jobs.get(each.first_job_id),
            first_node_name=nodes.get(each.first_node_id or 0),
            may_treat=actor.may(Permission.OPERATE, each.executor_id),
        )
        for each in groups
    ]


def _node_names(conn: sa.Connection, node_ids: set[int | None]) -> dict[int, str]:
    wanted = [each for each in node_ids if each is not None]
    return {key: name for key, (name, *_) in nodes_with_executors(conn, wanted).items()}


def _visible(conn: sa.Connection, actor: Actor, group_id: int) -> FailureGroup:
    group = store.get_group(conn, group_id)
    if group is None or not actor.may(Permission.VIEW, group.executor_id):
        raise not_found()
    return group


def _to_treat(conn: sa.Connection, actor: Actor, group_id: int) -> FailureGroup:
    group = _visible(conn, actor, group_id)
    if not actor.may(Permission.OPERATE, group.executor_id):
        raise NotAllowed(
            "not_allowed",
            "To treat this failure, your role needs the permission “%(permission)s”.",
            permission=Permission.OPERATE.value,
        )
    # Locked until the end of the transaction: the evaluator counts and resolves as well.
    locked = store.lock_groups(conn, [group_id])
    if not locked:
        raise not_found()
    return locked[group_id]


def _standing(conn: sa.Connection, actor: Actor, group_id: int) -> FailureGroup:
    group = _to_treat(conn, actor, group_id)
    if group.is_resolved:
        raise Conflict(
            "failure_group.resolved", "This failure is resolved. There is nothing left to do."
        )
    return group


def _alarms_of(conn: sa.Connection, group: FailureGroup) -> list[int]:
    """Ids of the open alarms that speak of it, locked."""
    subject = subject_of_failure(group.id)
    rules = rules_of_kinds(conn, OF_GROUPS)
    alarms = lock_open_alarms(conn, [(rule.id, subject) for rule in rules])
    return [each.id for each in alarms.values()]


def _note(entry: AuditEntry, action: str, group: FailureGroup, **detail: object) -> None:
    entry.write(action, group.id, executor_id=group.executor_id, text=group.text[:100], **detail)
