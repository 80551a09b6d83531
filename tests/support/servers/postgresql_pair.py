"""A PostgreSQL primary with a synchronous standby, which takes its place when it dies."""

from __future__ import annotations

from typing import Self

from tests.support.polling import wait_until
from tests.support.servers.base import find_program
from tests.support.servers.postgresql import PostgreSQL


class PostgreSQLStandby(PostgreSQL):
    """Follows a primary; `promote` makes it one itself."""

    def __init__(self, primary: PostgreSQL) -> None:
        self._primary = primary
        super().__init__(durable=primary.durable)

    def promote(self) -> None:
        """Take over; returns when it can be written to."""
        self.execute("SELECT pg_promote(true, 60)")

    def _create_data(self) -> None:
        self.password = self._primary.password
        login = f"host=127.0.0.1 port={self._primary.port} user=postgres password={self.password}"
        self._run_once(
            find_program("pg_basebackup") or "pg_basebackup",
            f"--pgdata={self.directory}/data",
            f"--dbname={login}",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        )

    def _create_user(self) -> None:
        """The primary's users come along."""


class PostgreSQLPair:
    """Each commit waits until both servers have it on disk."""

    def __init__(self) -> None:
        self.primary = PostgreSQL(durable=True)
        self._servers = [self.primary]
        try:
            self.standby = PostgreSQLStandby(self.primary)
            self._servers.append(self.standby)
            self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.primary.execute("SELECT pg_reload_conf()")
            wait_until(
                lambda: (
                    self.primary.execute(
                        "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
                    )
                    == [(1,)]
                ),
                what="the standby to follow synchronously",
            )
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_installed() -> bool:
        return PostgreSQL.is_installed() and find_program("pg_basebackup") is not None

    @property
    def port(self) -> int:
        """Of the primary."""
        return self.primary.port

    def url(self, database: str) -> str:
        return self.primary.url(database)

    def create_database(self, name: str) -> None:
        self.primary.execute(f"CREATE DATABASE {name} OWNER tickwheel")

    def kill_primary(self) -> None:
        """`kill -9` of all its processes."""
        self.primary.crash()

    def fail_over(self) -> int:
        """Make the standby the primary; returns its port.

        It waits for no standby of its own: what was to be kept twice is kept once from now on.
        """
        self.standby.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        self.standby.promote()
        self.primary = self.standby
        return self.port

    def close(self) -> None:
        for server in reversed(self._servers):
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
