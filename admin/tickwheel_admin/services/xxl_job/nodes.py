"""What the bridge to XXL-JOB executors reads and stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.xxl_job.bridge import (
    AddressReport,
    BridgeView,
    ExpectedLog,
    Registration,
    RunFacts,
    XxlAddress,
    XxlExecutor,
)
from tickwheel_admin.domain.xxl_job.glue import code_of
from tickwheel_admin.services.events.events import CANCEL, NODES, Events, log_topic
from tickwheel_admin.services.secrets.cipher import Cipher, SecretUnreadable
from tickwheel_admin.services.secrets.values import SecretReader
from tickwheel_admin.services.xxl_job.run_masks import RunMasks, T
from tickwheel_admin.services.xxl_job.tokens import decrypt_token
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import DatabaseUnavailable as DatabaseUnavailable
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.xxl_job import addresses, logs, runs
from tickwheel_admin.store.xxl_job.executors import StoredXxlExecutor, read_xxl_executors

log = structlog.get_logger(__name__)

store_expected_logs = logs.expect_logs  # for the recorder: notes them with the ends of their runs

OUTAGE_SECONDS = 10.0  # between two views; after more, the silence before says nothing


class XxlNodes:
    """Addresses, runs and logs of executors of this protocol, for the bridge of one admin."""

    def __init__(self, store: Store, events: Events, cipher: Cipher) -> None:
        self._store = store
        self._events = events
        self._cipher = cipher
        self._configs = JobConfigs(keep=2_000)
        self._masks = RunMasks(SecretReader(cipher), self._configs)
        self._unreadable: set[int] = set()  # executors that the log was told of
        self._viewed_at: float | None = None  # of the event loop's clock; None: never yet
        self._recording_since = 0  # of the database's clock: registrations are recorded since

    async def view(self) -> BridgeView:
        """Executors, their addresses, and the admins that share them."""
        stored = await self._store.read(_view, recording_since=self._recording_since)
        now = asyncio.get_running_loop().time()
        if self._viewed_at is None or now - self._viewed_at > OUTAGE_SECONDS:
            # Nobody may have been there to record what executors said.
            self._recording_since = await self._store.read(now_ms)
            stored = await self._store.read(_view, recording_since=self._recording_since)
        self._viewed_at = now
        executors, known, admins = stored
        found = {each.id: each for each in map(self._readable, executors) if each is not None}
        served = [each for each in known if each.executor_id in found]
        unreadable = {each.executor_id for each in executors}.difference(found)
        return BridgeView(executors=found, addresses=served, admins=admins, unreadable=unreadable)

    async def tell_unreadable(self, admin_id: int, executor_ids: Collection[int]) -> None:
        """Let the other admins know that this one serves the protocol, but not these executors."""
        await self._store.run(
            addresses.tell_unreadable, admin_id=admin_id, executor_ids=executor_ids
        )

    def _readable(self, stored: StoredXxlExecutor) -> XxlExecutor | None:
        """The executor; None while its token cannot be decrypted, which `secret_key` mends."""
        try:
            token = decrypt_token(self._cipher, stored)
        except SecretUnreadable as error:
            if stored.executor_id not in self._unreadable:
                log.error("xxl.token_unreadable", executor=stored.name, reason=str(error))
            self._unreadable.add(stored.executor_id)
            return None
        self._unreadable.discard(stored.executor_id)
        return XxlExecutor(
            id=stored.executor_id,
            name=stored.name,
            app_name=stored.app_name,
            token=token,
            token_hash=stored.token_hash,
            addresses=stored.addresses,
        )

    async def register(self, registrations: Sequence[Registration]) -> list[bool]:
        """Executors listen at these addresses; False: too many of that executor."""
        try:
            taken = await self._store.run(addresses.register_addresses, registrations)
        except DatabaseUnavailable:
            self._viewed_at = None  # also when it can be read all the while
            raise
        self._events.publish(NODES)
        return taken

    async def unregister(self, executor_id: int, address: str) -> bool:
        """An executor stops listening; False: it never registered that address."""
        removed = await self._store.run(addresses.unregister_address, executor_id, address)
        self._events.publish(NODES)
        return removed

    async def forget_old(self) -> None:
        """Drop registered addresses that nobody has used for a day."""
        await self._store.run(addresses.forget_addresses, recording_since=self._recording_since)

    async def process_gone(self, address: XxlAddress) -> None:
        """Whoever answers at this address next is a new process."""
        await self._store.run(
            addresses.raise_incarnation, address.executor_id, address.address, address.incarnation
        )

    async def begin_turn(self, address: XxlAddress) -> int:
        """This admin begins to serve an address; returns how many have by now."""
        return await self._store.run(addresses.begin_turn, address.executor_id, address.address)

    async def report(self, reports: Sequence[AddressReport]) -> None:
        """Add what was seen of addresses, for people."""
        await self._store.run(addresses.note_addresses, reports)

    async def facts(self, run_ids: Iterable[int]) -> dict[int, RunFacts]:
        """What the ledger says of these runs now."""
        return await self._store.read(self._facts, run_ids)

    async def live_runs(self, node_id: int) -> list[RunFacts]:
        """What a node is running, or about to."""
        return await self._store.read(self._complete(runs.live_runs_of_node), node_id)

    async def live_runs_except(
        self, node_ids: Collection[int], known: Collection[int]
    ) -> list[RunFacts]:
        """What these nodes are running, or about to, besides the known runs."""
        return await self._store.read(self._complete(runs.live_runs_except), node_ids, known)

    async def timed_out(self, run_id: int, attempt: int, token: str) -> None:
        """An attempt has run past its timeout: it is to be stopped."""
        await self._store.run(runs.stop_for_timeout, run_id, attempt, token)
        self._events.publish(CANCEL)

    async def older_tokens(
        self, attempts: Collection[tuple[int, int]]
    ) -> dict[tuple[int, int], str | None]:
        """Claim tokens of attempts that others followed, by (run, attempt)."""
        return await self._store.read(runs.tokens_of_attempts, attempts)

    async def expect_logs(self, ended: Sequence[ExpectedLog]) -> None:
        """Note attempts before their end is recorded."""
        await self._store.run(logs.expect_logs, ended)

    async def expected_logs(self, node_ids: Collection[int], *, limit: int) -> list[ExpectedLog]:
        """Logs of ended attempts that are to be read from these nodes."""
        return await self._store.read(self._masked(logs.expected_logs), node_ids, limit=limit)

    async def stored_lines(self, run_id: int, attempt: int) -> int:
        """The number of the last line that is stored of an attempt's log."""
        return await self._store.read(logs.stored_lines, run_id, attempt)

    async def oldest_logs(self, *, limit: int) -> list[tuple[int, int]]:
        """Attempts whose log has been waited for the longest, by (run, attempt)."""
        return await self._store.read(logs.oldest_logs, limit=limit)

    async def give_up_logs(self, unread: Collection[tuple[int, int]]) -> None:
        """The logs of these attempts, (run, attempt), stay as they are."""
        await self._store.run(logs.give_up_logs, unread)
        for run_id, _ in unread:
            self._events.publish(log_topic(run_id))

    async def logs_are_read(self, read: Sequence[tuple[int, int, int]]) -> None:
        """(run, attempt, lines): all that can be had of these logs is stored."""
        await self._store.run(logs.logs_are_read, read)
        for run_id, _, _ in read:
            self._events.publish(log_topic(run_id))

    def _facts(self, conn: sa.Connection, run_ids: Iterable[int]) -> dict[int, RunFacts]:
        found = self._with_code(conn, list(runs.run_facts(conn, run_ids).values()))
        return {each.run: each for each in self._masks.add(conn, found)}

    def _complete(self, read: Callable[..., list[RunFacts]]) -> Callable[..., list[RunFacts]]:
        """The same, each with what it runs, and with what hides its secrets."""

        def complete(conn: sa.Connection, *args: Any, **named: Any) -> list[RunFacts]:
            return self._masks.add(conn, self._with_code(conn, read(conn, *args, **named)))

        return complete

    def _with_code(self, conn: sa.Connection, found: Sequence[RunFacts]) -> list[RunFacts]:
        keys = [each.given and (each.given.job_id, each.given.job_revision) for each in found]
        configs = self._configs.get_many(conn, filter(None, keys))
        return [
            each if key is None or key not in configs else replace(each, code=_code(configs[key]))
            for key, each in zip(keys, found, strict=True)
        ]

    def _masked(self, read: Callable[..., list[T]]) -> Callable[..., list[T]]:
        """The same, each with what hides the secrets of its run."""

        def masked(conn: sa.Connection, *args: Any, **named: Any) -> list[T]:
            return self._masks.add(conn, read(conn, *args, **named))

        return masked


def _code(config: JobConfig) -> str:
    return code_of(config.handler, None if config.script is None else config.script.sha256)


def _view(
    conn: sa.Connection, *, recording_since: int
) -> tuple[list[StoredXxlExecutor], list[XxlAddress], dict[int, frozenset[int]]]:
    executors = read_xxl_executors(conn)
    if not executors:  # in most installations
        return [], [], {}
    known = addresses.read_addresses(conn, recording_since=recording_since)
    return executors, known, addresses.serving_admins(conn)
