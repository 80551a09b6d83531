"""A cluster of each kind, made once: a new database for every play would take longer than it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from tests.interleavings.clusters import (
    DATABASE,
    Cluster,
    GaleraCluster,
    MariaDBCluster,
    PostgreSQLCluster,
    cluster_kinds,
)
from tests.support.availability import unavailable
from tests.support.servers import Galera, MariaDB, PostgreSQL


@pytest.fixture(scope="session", autouse=True)
def galera_starting() -> Iterator[Future[Galera]]:
    """Starts while the other databases are played on."""
    started: Future[Galera] = Future()
    over = threading.Event()

    def run() -> None:
        # The servers are killed when the thread ends that started them, so it stays.
        try:
            with Galera() as galera:
                started.set_result(galera)
                over.wait()
        except BaseException as error:  # noqa: BLE001 - raised where the cluster is used
            started.set_exception(error)

    if "galera" not in cluster_kinds() or not Galera.is_installed():
        yield started
        return
    thread = threading.Thread(target=run, name="galera", daemon=True)
    thread.start()
    yield started
    over.set()
    thread.join()


@contextmanager
def _closing(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def mariadb_cluster(mariadb_server: MariaDB) -> Iterator[Cluster]:
    mariadb_server.create_database(DATABASE)
    with _closing(MariaDBCluster([mariadb_server], [mariadb_server.url(DATABASE)])) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgresql_cluster(postgresql_server: PostgreSQL) -> Iterator[Cluster]:
    postgresql_server.create_database(DATABASE)
    with _closing(PostgreSQLCluster(postgresql_server, postgresql_server.url(DATABASE))) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def galera_cluster(galera_starting: Future[Galera]) -> Iterator[Cluster]:
    if "galera" not in cluster_kinds():
        unavailable("MariaDB is not among the chosen databases")
    if not Galera.is_installed():
        unavailable("Galera is not installed")
    galera = galera_starting.result(timeout=120)
    galera.create_database(DATABASE)
    with _closing(GaleraCluster(galera.servers, galera.urls(DATABASE))) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=cluster_kinds())
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each kind in turn."""
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return found
