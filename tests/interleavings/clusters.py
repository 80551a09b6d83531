"""The databases that plays run on, and what their servers say about locks."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar

import psycopg
import sqlalchemy as sa

from tests.interleavings.baton import Connection
from tests.interleavings.seats import Seat
from tests.support.databases import chosen_kinds
from tests.support.servers import MariaDB, PostgreSQL
from tickwheel_admin.store.database.tables import metadata
from tickwheel_admin.store.triggers.planning import ensure_buckets

SEATS = 8  # one for the stage, the others for actors
# A variable that does nothing. Not a user lock: the server would kill whoever held it.
_LAGS = "@@GLOBAL.slow_launch_time = 99"
LAG_SHARE = 0.15  # of commits that the other server of a Galera cluster falls behind for
DATABASE = "tickwheel_interleavings"

# Every change of a run's state or attempt, whoever makes it, is written down by the database.
_MEMORY = """CREATE TABLE seen_move (id {serial} PRIMARY KEY, run_id BIGINT, old_state VARCHAR(16),
    new_state VARCHAR(16), old_attempt INT, attempt INT, node_id BIGINT, reason VARCHAR(50))"""
_REMEMBER = """INSERT INTO seen_move
    (run_id, old_state, new_state, old_attempt, attempt, node_id, reason) VALUES
    (NEW.id, OLD.state, NEW.state, OLD.attempt, NEW.attempt, NEW.node_id, NEW.reason)"""
_CHANGED = "OLD.state <> NEW.state OR OLD.attempt <> NEW.attempt"


def cluster_kinds() -> list[str]:
    """The servers among the chosen databases; Galera comes last, for it takes seconds to start."""
    chosen = [kind for kind in chosen_kinds() if kind != "sqlite"]
    return [*chosen, "galera"] if "mariadb" in chosen else chosen


class Cluster(ABC):
    """A database of one kind, with seats at its servers."""

    kind: ClassVar[str]
    _unique: ClassVar[str]  # how ALTER TABLE calls a unique key
    _own_tables: ClassVar[tuple[str, ...]] = ("seen_move",)

    def __init__(self, urls: Sequence[str]) -> None:
        self.seats = [
            Seat(urls[number % len(urls)], server=number % len(urls)) for number in range(SEATS)
        ]
        self.quiet = self.seats[0].database  # for what happens before and after a play
        self._random = Random()
        self.lag_share = LAG_SHARE
        metadata.create_all(self.quiet.engine)
        with self.quiet.engine.begin() as conn:
            for statement in self._memory():
                conn.exec_driver_sql(statement)
            ensure_buckets(conn)
            self._tables = [t.name for t in metadata.sorted_tables if t.name != "bucket"]
        self.await_applied()

    @abstractmethod
    def waiting(self, connections: Sequence[Connection]) -> set[Connection]: ...

    def committing(self, connection: Connection) -> str:
        """Nothing special where there is one server."""
        return ""

    def committed(self, connection: Connection) -> None:  # noqa: B027 - few have something to do
        """Others see it at once where there is one server."""

    def set_clock(self, server: int, *, ahead_ms: int) -> None:
        """Let the clock of a server be ahead."""
        for seat in self.seats:
            if seat.server == server:
                seat.ahead_ms = ahead_ms

    def await_applied(self) -> None:  # noqa: B027 - few have something to do
        """Return when every server has all that was committed."""

    @contextmanager
    def rewriting(self, rewrite: Callable[[str], str]) -> Iterator[None]:
        """Change statements on their way to the servers."""
        for seat in self.seats:
            seat.rewrites.append(rewrite)
        try:
            yield
        finally:
            for seat in self.seats:
                seat.rewrites.remove(rewrite)

    @contextmanager
    def without_unique(self, table: str, name: str, columns: Sequence[str]) -> Iterator[None]:
        """Do without a unique key."""
        index = next((i for i in metadata.tables[table].indexes if i.name == name), None)
        with self.quiet.engine.begin() as conn:
            if index is not None:
                index.drop(conn)
            else:
                conn.exec_driver_sql(f"ALTER TABLE {table} DROP {self._unique} {name}")
        self.await_applied()
        try:
            yield
        finally:
            self.begin(self._random)
            with self.quiet.engine.begin() as conn:
                if index is not None:
                    index.create(conn)
                else:
                    conn.exec_driver_sql(
                        f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE ({', '.join(columns)})"
                    )
            self.await_applied()

    def begin(self, random: Random) -> None:
        """Empty every table for the next play."""
        self._random = random
        self.lag_share = LAG_SHARE
        for seat in self.seats:
            seat.ahead_ms = 0
        with self.quiet.engine.begin() as conn:
            quote = conn.dialect.identifier_preparer.quote_identifier
            for name in (*self._tables, *self._own_tables):
                conn.exec_driver_sql(f"DELETE FROM {quote(name)}")
            conn.exec_driver_sql("UPDATE bucket SET planned_at = 0, planned_by = 0")

    def close(self) -> None:
        for seat in self.seats:
            seat.close()

    @abstractmethod
    def _memory(self) -> list[str]: ...


class MariaDBCluster(Cluster):
    """One MariaDB server."""

    kind = "mariadb"
    _unique = "INDEX"

    def __init__(self, servers: Sequence[MariaDB], urls: Sequence[str]) -> None:
        self._administrators = [server.log_in() for server in servers]
        super().__init__(urls)

    def waiting(self, connections: Sequence[Connection]) -> set[Connection]:
        # Not innodb_trx: what that table shows is up to 100 ms old.
        found = set()
        for server in sorted({connection.server for connection in connections}):
            (_, _, status), *_ = self._ask(server, "SHOW ENGINE INNODB STATUS")
            for transaction in status.split("---TRANSACTION ")[1:]:
                thread = re.search(r"MariaDB thread id (\d+)", transaction)
                if thread and re.search(r"^LOCK WAIT", transaction, re.MULTILINE):
                    found.add(Connection(server, int(thread[1])))
        return found & set(connections)

    def close(self) -> None:
        super().close()
        for connection in self._administrators:
            connection.close()

    def _ask(self, server: int, question: str) -> Sequence[tuple[Any, ...]]:
        with self._administrators[server].cursor() as cursor:
            cursor.execute(question)
            return cursor.fetchall()

    def _memory(self) -> list[str]:
        return [
            _MEMORY.format(serial="BIGINT AUTO_INCREMENT"),
            f"""CREATE TRIGGER remember AFTER UPDATE ON run FOR EACH ROW
            IF {_CHANGED} THEN {_REMEMBER}; END IF""",
        ]


class GaleraCluster(MariaDBCluster):
    """Two servers; what one commits, the other has a little later.

    Sometimes one falls behind: what the other commits is certified, but not applied there until
    the one that lags commits something itself, and waits for its turn. It is held by a trigger that
    sleeps while a variable of its server says so, on a table that has this trigger at that server
    only: such triggers fire where the transactions of others are applied.
    """

    kind = "galera"
    _own_tables = ("seen_move", "lag_0", "lag_1")

    def __init__(self, servers: Sequence[MariaDB], urls: Sequence[str]) -> None:
        self._behind: int | None = None  # the server that lags
        super().__init__(servers, urls)
        for server in range(len(servers)):
            for statement in (
                "SET GLOBAL slave_run_triggers_for_rbr = 'YES'",
                "SET SESSION wsrep_on = OFF",  # it must not be created elsewhere
                f"""CREATE TRIGGER {DATABASE}.fall_behind AFTER INSERT ON {DATABASE}.lag_{server}
                FOR EACH ROW WHILE {_LAGS} DO DO SLEEP(0.001); END WHILE""",
                "SET SESSION wsrep_on = ON",
            ):
                self._ask(server, statement)

    def committing(self, connection: Connection) -> str:
        if self._behind is None and self._random.random() < self.lag_share:
            self._behind = 1 - connection.server
            self._ask(self._behind, f"SET {_LAGS}")
            self._ask(connection.server, f"INSERT INTO {DATABASE}.lag_{self._behind} VALUES ()")
            return f"server {self._behind + 1} falls behind"
        return ""

    def waiting(self, connections: Sequence[Connection]) -> set[Connection]:
        found = super().waiting(connections)
        if any(each.server == self._behind for each in set(connections) - found):
            self._let_catch_up()  # its commit is certified, and comes after all that is not applied
        return found

    def committed(self, connection: Connection) -> None:
        # Mostly the others go on when they have it. When not, certification fails and not a lock.
        if self._behind is None and self._random.random() < 0.8:
            self.await_applied()

    def await_applied(self) -> None:
        self._let_catch_up()
        committed = [self._last_committed(server) for server in range(len(self._administrators))]
        for server in range(len(committed)):
            while self._last_committed(server) < max(committed):
                pass  # some tenths of a millisecond

    def _let_catch_up(self) -> None:
        if self._behind is not None:
            self._ask(self._behind, f"SET {_LAGS} + 1")
            self._behind = None

    def _last_committed(self, server: int) -> int:
        ((_, number),) = self._ask(server, "SHOW GLOBAL STATUS LIKE 'wsrep_last_committed'")
        return int(number)

    def _memory(self) -> list[str]:
        return [
            *super()._memory(),
            "CREATE TABLE lag_0 (id BIGINT AUTO_INCREMENT PRIMARY KEY)",
            "CREATE TABLE lag_1 (id BIGINT AUTO_INCREMENT PRIMARY KEY)",
        ]


class PostgreSQLCluster(Cluster):
    """One PostgreSQL server."""

    kind = "postgresql"
    _unique = "CONSTRAINT"

    def __init__(self, server: PostgreSQL, url: str) -> None:
        # The first to wait is too early to see a deadlock, so the one who completes it is its
        # victim, in every replay. By default it would be found after a second.
        server.execute(f"ALTER DATABASE {DATABASE} SET deadlock_timeout = '1ms'")
        dsn = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._administrator = psycopg.connect(dsn, autocommit=True)
        super().__init__([url])

    def waiting(self, connections: Sequence[Connection]) -> set[Connection]:
        rows = self._administrator.execute("SELECT pid FROM pg_locks WHERE NOT granted").fetchall()
        return {Connection(0, pid) for (pid,) in rows} & set(connections)

    def close(self) -> None:
        super().close()
        self._administrator.close()

    def _memory(self) -> list[str]:
        return [
            _MEMORY.format(serial="BIGSERIAL"),
            f"""CREATE FUNCTION remember() RETURNS trigger AS $$ BEGIN
            IF {_CHANGED} THEN {_REMEMBER}; END IF; RETURN NULL; END $$ LANGUAGE plpgsql""",
            "CREATE TRIGGER remember AFTER UPDATE ON run FOR EACH ROW EXECUTE FUNCTION remember()",
        ]
