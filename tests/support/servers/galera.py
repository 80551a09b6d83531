"""A private Galera cluster: MariaDB servers that certify each other's transactions.

Row locks are local to a server. Two transactions on different servers that wrote the same row both
go on until one commits; the other then fails with 1213, at its next statement or at its commit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Self

from tests.support.polling import wait_until
from tests.support.processes import free_port
from tests.support.servers.base import find_program
from tests.support.servers.mariadb import MariaDB

_PROVIDERS = (
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib/galera-4/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
)


def find_provider() -> str | None:
    """The library that makes a MariaDB server a member of a cluster."""
    return next((path for path in _PROVIDERS if Path(path).exists()), None)


class GaleraServer(MariaDB):
    """One server of a cluster; the first one founds it, others copy its data when they join.

    Once stopped or crashed it is not started again: the founder would found a second cluster.
    """

    name = "Galera"

    def __init__(self, founder: GaleraServer | None = None) -> None:
        self._founder = founder
        self._group_port = 0
        super().__init__(durable=False)

    def status(self, variable: str) -> str:
        """A status variable, by its full name."""
        rows = self.execute(f"SHOW GLOBAL STATUS LIKE '{variable}'")
        return str(rows[0][1]) if rows else ""

    def last_committed(self) -> int:
        """The number of the latest transaction that it has applied."""
        return int(self.status("wsrep_last_committed"))

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # what copies data is in its group
                os.killpg(self._process.pid, signal.SIGKILL)
        super().close()

    def _create_data(self) -> None:
        if self._founder is None:
            super()._create_data()
            return
        data = self.directory / "data"  # filled when it joins
        data.mkdir()
        if self._user is not None:
            shutil.chown(data, self._user, self._user)

    def _create_user(self) -> None:
        if self._founder is None:
            super()._create_user()
        else:
            self.password = self._founder.password

    def _command(self) -> list[str]:
        # A port that somebody else was quicker to take ends the start, and all are chosen anew.
        self._group_port, *others = (free_port() for _ in range(3))
        address = f"127.0.0.1:{self._group_port}"
        founder = "" if self._founder is None else f"127.0.0.1:{self._founder._group_port}"
        provider_options = (
            f"base_host=127.0.0.1;base_port={self._group_port};gmcast.listen_addr=tcp://{address};"
            f"ist.recv_addr=127.0.0.1:{others[0]};gcache.size=16M;pc.recovery=FALSE;"
            "gcs.fc_limit=1000"  # a server that a test lets fall behind holds up none
        )
        return [
            *super()._command(),
            "--binlog-format=ROW",
            "--log-bin-trust-function-creators=1",  # else only an administrator may add triggers
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-on=ON",
            f"--wsrep-provider={find_provider()}",
            f"--wsrep-provider-options={provider_options}",
            f"--wsrep-cluster-name={self._cluster}",
            f"--wsrep-cluster-address=gcomm://{founder}",
            f"--wsrep-node-address={address}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{others[1]}",
        ]

    @property
    def _cluster(self) -> str:
        return self.directory.name if self._founder is None else self._founder._cluster

    def _accepts_logins(self) -> bool:
        return super()._accepts_logins() and self.status("wsrep_local_state_comment") == "Synced"


class Galera:
    """A cluster of two servers, or of more."""

    def __init__(self, servers: int = 2) -> None:
        self.servers: list[GaleraServer] = []
        try:
            self.servers.append(GaleraServer())
            while len(self.servers) < servers:
                self.servers.append(GaleraServer(self.servers[0]))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def is_installed() -> bool:
        return bool(
            MariaDB.is_installed()
            and find_provider()
            and find_program("rsync")
            and find_program("lsof")
        )

    def create_database(self, name: str) -> None:
        self.servers[0].create_database(name)
        self.wait_until_applied()

    def drop_database(self, name: str) -> None:
        self.servers[0].drop_database(name)

    def urls(self, database: str) -> list[str]:
        """The URL of the database at each server."""
        return [server.url(database) for server in self.servers]

    def wait_until_applied(self) -> None:
        """Return when each server has applied all that the others had committed."""
        wanted = max(server.last_committed() for server in self.servers)
        wait_until(
            lambda: all(server.last_committed() >= wanted for server in self.servers),
            what="the cluster to apply a transaction",
        )

    def close(self) -> None:
        """End all servers at once and delete their data."""
        for server in reversed(self.servers):
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class GaleraTrio(Galera):
    """A cluster of three whose first server alone is written to, until it dies."""

    def __init__(self) -> None:
        self._dead: list[GaleraServer] = []
        super().__init__(servers=3)

    @property
    def port(self) -> int:
        """Of the server that is written to."""
        return self.servers[0].port

    def url(self, database: str) -> str:
        return self.servers[0].url(database)

    def kill_primary(self) -> None:
        """`kill -9`; the other two are a majority."""
        self.servers[0].crash()

    def fail_over(self) -> int:
        """Return the port of the next server, when it takes statements again."""
        self._dead.append(self.servers.pop(0))
        wait_until(
            lambda: self.servers[0].status("wsrep_ready") == "ON",
            timeout_seconds=60,
            what="the cluster to go on without the server",
        )
        return self.port

    def close(self) -> None:
        super().close()
        for server in self._dead:
            server.close()
