"""Two executors of the same make, people who may do something with one of them, and every route."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from tests.admin.kit.served import Client, Served, new_session
from tickwheel_admin.domain.alarms.alarm import Alarm, Told
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.notification import Notification, NotificationState
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Grant, Role, everywhere
from tickwheel_admin.services.backfills.requests import BackfillRequest
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.services.users.logins import NewSession
from tickwheel_admin.store.alarms.alarms import insert_alarms
from tickwheel_admin.store.alarms.outbox import add_notifications
from tickwheel_admin.store.backup.contents import columns_of
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes
from tickwheel_admin.store.failures.groups import insert_groups
from tickwheel_admin.web.identity import SESSION_COOKIE
from tickwheel_admin.web.routes import Route, declared_routes

HOUR_MS = 3_600_000
# Which ids were taken, and what readers of events of runs leave there, some of it a little later.
_BOOKKEEPING = frozenset({"id_block", "run_event_feed", "run_event_batch"})
FOREIGN = "foreign-thing"  # in every name of what belongs to the other executor

# What paths name: ids by the parameter of the path, of one executor and all that is its own.
Ids = Mapping[str, int | str]
MISSING: Ids = dict.fromkeys(
    (
        "executor_id", "job_id", "trigger_id", "run_id", "node_id", "user_id", "token_id",
        "view_id", "alarm_id", "rule_id", "backfill_id", "workflow_run_id",
        "pool_id", "failure_id",
    ),
    999_999,
)  # fmt: skip
PERSONAL = ("user_id", "token_id", "view_id")  # of one person, whom only some others may look at
COMMON: Ids = {
    "revision": 1, "name": "declared", "version": "x", "calendar_id": 1, "channel_id": 1,
    "message_id": 1, "step_key": "first", "operation": "list_runs", "type_name": "Run",
}  # fmt: skip
"""What belongs to no executor and to nobody: everybody has the same."""

_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who asks."""

    name: str
    headers: Mapping[str, str]
    role: Role | None = None  # with their own executor; None: nobody we know
    on_all: bool = False  # with every executor
    is_token: bool = False


def all_routes(client: Client) -> list[Route]:
    """Every declared route, by path."""
    assert client.app is not None
    return sorted(set(declared_routes(client.app).values()), key=lambda r: (r.path, r.method))


def parameters_of(route: Route) -> list[str]:
    """Names of the path's parameters, as they stand."""
    return _PARAMETER.findall(route.path)


def address(route: Route, ids: Ids) -> str:
    """The route's path with ids of existing things in it."""
    return _PARAMETER.sub(lambda match: str(ids.get(match[1], COMMON.get(match[1], 1))), route.path)


async def two_executors(admin: Served) -> tuple[Ids, Ids]:
    """An executor with a job, a trigger, a run, a node, a person and their token; twice.

    And a calendar and a channel of alarms with a message, which belong to none of them.
    """
    services = admin.services
    holiday = {"name": "holidays", "dates": ["2027-10-01"]}
    assert await services.calendars.create(COMMAND_LINE, holiday) == COMMON["calendar_id"]
    hook = {"name": "hook", "kind": "webhook", "settings": {"url": "https://example.com/hook"}}
    assert await services.alarm_channels.create(COMMAND_LINE, hook) == COMMON["channel_id"]
    await services.store.run(add_notifications, [_message(int(COMMON["message_id"]))])
    return await _executor(admin, "own"), await _executor(admin, FOREIGN)


async def _executor(admin: Served, name: str) -> Ids:
    services = admin.services
    executor = await services.executors.create(COMMAND_LINE, name=name, description="")
    job_id = await services.jobs.create(
        COMMAND_LINE,
        executor.id,
        {
            "name": f"{name}-job",
            "handler": "h",
            "triggers": [
                {
                    "kind": "fixed_rate",
                    "every_seconds": 3_600,
                    "anchor_at": "2026-01-01T00:00:00Z",
                }
            ],
        },
    )
    detail = await services.jobs.get(COMMAND_LINE, job_id)
    await services.secrets.put(COMMAND_LINE, executor.id, str(COMMON["name"]), f"{name}-value")
    run_id = await services.jobs.run_now(
        COMMAND_LINE, job_id, parameters=None, request_key=None, origin=Origin.MANUAL
    )
    asked = {"roles": [role.value for role in Role]}  # whom a step asks is not up to its route
    first = {"key": COMMON["step_key"], "approval": asked}
    steps = {"steps": [first, {"key": "second", "handler": "h"}]}
    workflow_id = await services.jobs.create(
        COMMAND_LINE, executor.id, {"name": f"{name}-workflow", "workflow": steps}
    )
    workflow_run_id = await services.jobs.run_now(COMMAND_LINE, workflow_id)
    arrival = Arrival(
        executor_id=executor.id,
        node_key=name,
        name=f"{name}-node",
        sdk="",
        slots=1,
        handlers=["h"],
        unstoppable=[],
        labels={},
        weight=1,
        address="192.0.2.9",
    )
    node_id = 100 + executor.id
    await services.store.run(
        admit_nodes, [arrival], new_ids=[node_id], session_ids=[node_id], admin_id=1
    )
    grants = {executor.id: Grant(Role.VIEWER)}
    person = await services.users.create(COMMAND_LINE, f"{name}-person", grants=grants)
    await services.api_tokens.create_for(COMMAND_LINE, person.name, name=f"{name}-token")
    tokens = (await services.api_tokens.page(COMMAND_LINE)).items
    await services.store.run(_keep_view, executor.id, user_id=person.id)
    rule = {"name": f"{name}-rule", "kind": "failed", "scope": "job", "job_id": job_id}
    rule_id = await services.alarm_rules.create(COMMAND_LINE, rule)
    now = await services.store.read(now_ms)
    past = BackfillRequest(from_at=now - 10 * HOUR_MS, to_at=now)
    backfill_id = await services.backfills.create(COMMAND_LINE, job_id, past)
    pool = {"name": f"{name}-pool", "slots": 1, "executor": executor.id}
    pool_id = await services.pools.create(COMMAND_LINE, pool)
    alarm_id = 200 + executor.id
    await services.store.run(insert_alarms, [_alarm(alarm_id, rule_id, executor.id, job_id, name)])
    failure_id = 300 + executor.id
    failure = _failure(failure_id, executor.id, job_id, name)
    await services.store.run(insert_groups, [failure])
    return {
        "executor_id": executor.id,
        "job_id": job_id,
        "failure_id": failure_id,
        "trigger_id": detail.item.triggers[0].id,
        "run_id": run_id,
        "node_id": node_id,
        "user_id": person.id,
        "token_id": tokens[0].id,
        "view_id": executor.id,
        "rule_id": rule_id,
        "alarm_id": alarm_id,
        "backfill_id": backfill_id,
        "pool_id": pool_id,
        "workflow_run_id": workflow_run_id,
    }


def _alarm(alarm_id: int, rule_id: int, executor_id: int, job_id: int, name: str) -> Alarm:
    return Alarm(
        id=alarm_id,
        rule_id=rule_id,
        subject=f"job:{job_id}",
        kind=AlarmKind.FAILED,
        severity=Severity.ERROR,
        executor_id=executor_id,
        job_id=job_id,
        run_id=None,
        told=Told(template="“%(job)s” failed.", params={"job": f"{name}-job"}),
        count=1,
        since=1,
        last_at=1,
        opened_at=1,
    )


def _failure(failure_id: int, executor_id: int, job_id: int, name: str) -> FailureGroup:
    return FailureGroup(
        id=failure_id,
        executor_id=executor_id,
        text=f"{name}: refused",
        since=1,
        last_at=1,
        runs=1,
        jobs=1,
        first_run_id=1,
        first_job_id=job_id,
        first_revision=1,
        first_node_id=None,
        last_run_id=1,
    )


def _message(message_id: int) -> Notification:
    return Notification(
        id=message_id,
        channel_id=int(COMMON["channel_id"]),
        executor_id=0,
        message_id="m",
        state=NotificationState.DEAD,
        items=0,
        due_at=1,
        attempts=1,
        written_at=1,
    )


def _keep_view(conn: sa.Connection, view_id: int, *, user_id: int) -> None:
    conn.execute(
        sa.insert(tables.saved_view).values(
            id=view_id,
            user_id=user_id,
            page="jobs",
            name=f"view of {user_id}",
            query="q=x",
            shared=False,
            created_at=0,
        )
    )


async def callers(admin: Served, executor_id: int) -> list[Caller]:
    """Nobody, a node, somebody of each role with one executor, a token narrowed to it; and root."""
    found = [
        Caller(name="nobody", headers={}),
        Caller(name="node", headers={"Authorization": "Bearer twx_" + "n" * 43}),
    ]
    for role in Role:
        grants = {executor_id: Grant(role)}
        session = await logged_in(admin, role.value, grants)
        found.append(Caller(name=role.value, headers=headers_of(session), role=role))
    root = headers_of(await logged_in(admin, "root", everywhere(Role.ADMIN)))
    token = await admin.services.api_tokens.create_for(
        COMMAND_LINE, "root", name="narrow", role=Role.OPERATOR, executors=[executor_id]
    )
    bearer = {"Authorization": f"Bearer {token}"}
    return [
        *found,
        Caller(name="token", headers=bearer, role=Role.OPERATOR, is_token=True),
        Caller(name="root", headers=root, role=Role.ADMIN, on_all=True),
    ]


async def logged_in(admin: Served, name: str, grants: Mapping[int, Grant]) -> NewSession:
    """A new person's session, with a password of their own."""
    return await new_session(admin.services, name, grants)


def headers_of(session: NewSession) -> dict[str, str]:
    """What a browser and our pages send."""
    return {
        "Cookie": f"{SESSION_COOKIE}={session.cookie}",
        "X-CSRF-Token": session.csrf_token,
    }


async def names_of(admin: Served, path: str, headers: Mapping[str, str]) -> list[str]:
    """The parameters that an endpoint knows, as it tells whoever misspells one."""
    response = await admin.client.get(f"{path}?zzz=1", headers=headers)
    text = await response.text()
    found = re.search(r"known are ([a-z_, ]+)\.", text)
    return found[1].split(", ") if found else ["zzz"]


class Rewind:
    """Notices changes of a SQLite database and takes them back, but for mere bookkeeping."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("ATTACH ':memory:' AS before")
        self._db.execute("PRAGMA synchronous=OFF")
        self._tables = [name for name in tables.metadata.tables if name not in _BOOKKEEPING]
        for name in self._tables:
            self._db.execute(f'CREATE TABLE before."{name}" AS SELECT * FROM main."{name}"')
        self._before = {name: self._rows(name) for name in self._tables}
        self._version = self._read_version()

    def changes(self) -> list[str]:
        """Tables that are not as they were."""
        if self._read_version() == self._version:
            return []
        return [name for name in self._tables if self._rows(name) != self._before[name]]

    def undo(self, changed: Iterable[str]) -> None:
        """Make these tables as they were."""
        for name in changed:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(f'DELETE FROM main."{name}"')
            # The database computes some from others, and takes none for them.
            known = columns_of(tables.metadata.tables[name])
            columns = ", ".join(f'"{column.name}"' for column in known)
            self._db.execute(
                f'INSERT INTO main."{name}" ({columns}) SELECT {columns} FROM before."{name}"'
            )
            self._db.execute("COMMIT")
        self._version = self._read_version()

    def close(self) -> None:
        self._db.close()

    def _rows(self, name: str) -> list[tuple[object, ...]]:
        return self._db.execute(f'SELECT * FROM main."{name}" ORDER BY 1, 2').fetchall()

    def _read_version(self) -> int:
        return int(self._db.execute("PRAGMA main.data_version").fetchone()[0])
