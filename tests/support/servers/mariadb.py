"""A private MariaDB server."""

from __future__ import annotations

import contextlib
import getpass
import shutil
import signal
import socket

import pymysql
import sqlalchemy as sa

from tests.support.servers.base import USER, CommandFailedError, DatabaseServer, find_program


class MariaDB(DatabaseServer):
    name = "MariaDB"
    system_user = "mysql"
    death_signal = signal.SIGKILL
    address_in_use = "Address already in use"

    @classmethod
    def is_installed(cls) -> bool:
        return bool(find_program("mariadbd") and find_program("mariadb-install-db"))

    @property
    def socket_path(self) -> str:
        return str(self.directory / "s")

    def url(self, database: str) -> str:
        # It speaks no TLS. A client that asks for it first reads the system's certificates, which
        # takes longer than all the rest of connecting.
        login = f"{USER}:{self.password}@127.0.0.1:{self.port}"
        return f"mysql+pymysql://{login}/{database}?charset=utf8mb4&ssl_disabled=true"

    def create_database(self, name: str) -> None:
        self.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")

    def drop_database(self, name: str) -> None:
        self._end_connections(name)  # one may hold a metadata lock, for which DROP would wait
        self.execute(f"DROP DATABASE IF EXISTS `{name}`")

    def end_other_connections(self, conn: sa.Connection) -> None:
        threads = conn.exec_driver_sql(
            "SELECT id FROM information_schema.processlist"
            " WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        ).scalars()
        for thread in threads.all():
            with contextlib.suppress(sa.exc.OperationalError):  # it has ended meanwhile
                conn.exec_driver_sql(f"KILL {thread}")

    def _end_connections(self, database: str) -> None:
        with self.log_in() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM information_schema.processlist WHERE db = %s", (database,)
            )
            for (thread,) in cursor.fetchall():
                with contextlib.suppress(pymysql.err.OperationalError):  # it has ended meanwhile
                    cursor.execute(f"KILL {thread}")

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as the server's administrator."""
        with self.log_in() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def crash(self) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _create_data(self) -> None:
        # MariaDB 10.11's bootstrap crashes now and then while it makes the `sys` schema, before
        # anything of ours runs.
        for attempts_left in (2, 1, 0):
            try:
                self._install()
            except CommandFailedError:
                if not attempts_left:
                    raise
                shutil.rmtree(self.directory / "data", ignore_errors=True)
            else:
                return

    def _install(self) -> None:
        self._run_once(
            find_program("mariadb-install-db") or "mariadb-install-db",
            "--no-defaults",
            f"--datadir={self.directory}/data",
            # Whoever runs the tests administers through the socket; there is no password to know.
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={getpass.getuser()}",
            "--skip-test-db",
            "--innodb-log-file-size=48M",
        )

    def _create_user(self) -> None:
        self.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{self.password}'")
        self.execute(f"GRANT ALL ON `{USER}%`.* TO {USER}@'127.0.0.1'")

    def _command(self) -> list[str]:
        return [
            find_program("mariadbd") or "mariadbd",
            "--no-defaults",
            f"--datadir={self.directory}/data",
            f"--socket={self.socket_path}",
            f"--pid-file={self.directory}/pid",
            f"--tmpdir={self.directory}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
            "--innodb-log-file-size=48M",
            *(
                []
                if self.durable
                else ["--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync"]
            ),
            *self.options,
        ]

    def _accepts_logins(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:  # PyMySQL leaks its own when it is refused
            try:
                probe.connect(self.socket_path)
            except OSError:
                return False
        try:
            self.log_in().close()
        except pymysql.err.OperationalError:
            return False
        return True

    def log_in(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        """A connection of the server's administrator, through its socket."""
        return pymysql.connect(
            unix_socket=self.socket_path,
            user=getpass.getuser(),
            autocommit=True,
            ssl_disabled=True,
        )
