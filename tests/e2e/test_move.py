"""An installation goes from the embedded database to MariaDB and on to PostgreSQL, while it fires.

Each instant of every trigger has one run in the end, and each start on the node is in the ledger.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.fires import Fires
from tests.e2e.ledger import LedgerReader
from tests.support.databases import fresh_database, running
from tests.support.forks import run_command
from tests.support.polling import wait_until
from tests.support.servers import MariaDB, PostgreSQL


@pytest.fixture
def new_urls() -> object:
    with (
        running(MariaDB) as mariadb,
        running(PostgreSQL) as postgresql,
        fresh_database(mariadb) as first,
        fresh_database(postgresql) as second,
    ):
        yield [first, second]


def doubts(cluster: Cluster) -> set[str]:
    """What the doctor finds in an installation at work, but for what a busy machine brings."""
    settings = {
        "TICKWHEEL_DATABASE_URL": cluster.database_url,
        "TICKWHEEL_DATA_DIR": str(cluster.directory / "data"),
    }
    done = run_command(["doctor", "--output", "json"], os.environ | settings)
    found = [each["check"] for each in json.loads(done.stdout)["findings"]]
    busy = ("attention.", "database.latency", "machine.disk")
    return {each for each in found if not each.startswith(busy)}


def test_no_fire_is_lost_or_doubled_by_a_move(tmp_path: Path, new_urls: list[str]) -> None:
    old_url = f"sqlite:///{tmp_path / 'data' / 'tickwheel.db'}"
    with Cluster(tmp_path, old_url) as cluster:
        admin = cluster.start_admin()
        cluster.add_executor()
        cluster.start_node("node-1", slots=64)
        fires = Fires(cluster, LedgerReader(old_url), jobs=4, per_second=2, serial=True)
        for url in new_urls:
            fired = fires.reader
            wait_until(
                lambda fired=fired: len(fired.read(fires.jobs).runs) > 30,
                timeout_seconds=30,
                what="some fires",
            )
            # The servers of the tests are quick rather than durable.
            assert doubts(cluster) <= {"database.durability"}
            told = cluster.command("backup", "--move-to", url)
            assert "moved to" in told
            assert admin.process.wait(timeout_seconds=20) == 1
            assert "being moved to" in admin.process.output()

            at_move = {run.scheduled_at for run in fired.read(fires.jobs).runs}
            cluster.database_url = url
            fires.reader = LedgerReader(url)
            admin = cluster.start_admin(port=admin.port)
            reader = fires.reader
            wait_until(
                lambda reader=reader, at_move=at_move: (
                    len({run.scheduled_at for run in reader.read(fires.jobs).runs} - at_move) > 10
                ),
                timeout_seconds=30,
                what="fires in the new database",
            )
            assert {run.scheduled_at for run in fired.read(fires.jobs).runs} == at_move
        settled = fires.settle()
        assert settled.problems == []
        assert len(settled.ledger.runs) > 100
