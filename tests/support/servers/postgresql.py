"""A private PostgreSQL server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import psycopg
import sqlalchemy as sa

from tests.support.polling import wait_until
from tests.support.servers.base import USER, DatabaseServer, find_program

KEEPER = "keeper"
"""Name of the session that empties a database between tests, and stays."""


class PostgreSQL(DatabaseServer):
    name = "PostgreSQL"
    system_user = "postgres"
    death_signal = signal.SIGQUIT  # to the postmaster alone SIGKILL would leave its children
    address_in_use = "Address already in use"

    @classmethod
    def is_installed(cls) -> bool:
        return bool(find_program("postgres") and find_program("initdb"))

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE {name} OWNER {USER}")

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def end_other_connections(self, conn: sa.Connection) -> None:
        conn.exec_driver_sql(f"SET application_name = '{KEEPER}'")
        # What it counted is told when this transaction ends, and not in the middle of a test.
        conn.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        # Not those of the server itself (autovacuum) and of its administrator: to end them is
        # refused, and they end by themselves or hold nothing.
        conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND usename = current_user AND backend_type = 'client backend'"
        )

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as the server's administrator."""
        with self._log_in() as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def crash(self) -> None:
        if self._process is None:
            return
        # Every backend leads a session of its own, so there is no group to signal, and the data
        # cannot be opened again while one of them lives.
        children = _children_of(self._process.pid)
        self._process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        wait_until(
            lambda: not any(_state_and_parent(child) for child in children),
            what="the backends to end",
        )

    @property
    def _stop_signal(self) -> signal.Signals:
        return signal.SIGINT  # "fast": ends the clients' transactions instead of waiting for them

    def _create_data(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        if self._user is not None:
            shutil.chown(password_file, self._user)
        self._run_once(
            find_program("initdb") or "initdb",
            f"--pgdata={self.directory}/data",
            "--username=postgres",
            f"--pwfile={password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )
        password_file.unlink()

    def _create_user(self) -> None:
        self.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{self.password}'")

    def _command(self) -> list[str]:
        settings = [
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={self.directory}",
        ]
        if not self.durable:
            settings += ["fsync=off", "full_page_writes=off"]
        return [
            find_program("postgres") or "postgres",
            "-D",
            f"{self.directory}/data",
            *(part for setting in settings for part in ("-c", setting)),
            *self.options,
        ]

    def _accepts_logins(self) -> bool:
        try:
            self._log_in().close()
        except psycopg.OperationalError:
            return False
        return True

    def _log_in(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )


def _children_of(pid: int) -> list[int]:
    """Read from /proc (Linux), because a small image has no `ps`."""
    pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
    return [child for child in pids if (found := _state_and_parent(child)) and found[1] == pid]


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    """None when it has ended, also when nobody has reaped it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]  # the name before it may contain anything
    return None if state == "Z" else (state, int(parent))
