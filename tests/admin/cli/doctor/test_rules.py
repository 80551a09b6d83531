"""What each check finds, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from tickwheel_admin.cli.doctor import database, installation, machine, network
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.doctor.installation import (
    ChannelFailures,
    PausedSince,
    unreached_addresses,
)
from tickwheel_admin.store.doctor.server_settings import (
    TableSize,
    read_server_settings,
    read_table_sizes,
)

DAY_MS = 86_400_000
GOOD = {
    "sqlite": {"journal_mode": "wal", "synchronous": "2"},
    "postgresql": {
        "fsync": "on",
        "full_page_writes": "on",
        "synchronous_commit": "remote_apply",
        "autovacuum": "on",
        "track_counts": "on",
        "max_connections": "100",
        "read_only": "off",
    },
    "mariadb": {
        "innodb_flush_log_at_trx_commit": "1",
        "sync_binlog": "1",
        "log_bin": "ON",
        "binlog_format": "ROW",
        "innodb_doublewrite": "ON",
        "max_allowed_packet": "16777216",
        "max_connections": "151",
        "read_only": "OFF",
    },
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_durable_server_has_no_findings(kind: str) -> None:
    settings: Mapping[str, str] = GOOD[kind]
    assert list(database.durability(kind, settings)) == []
    assert list(database.room(settings, admins=3)) == []


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        ("sqlite", "journal_mode", "delete", "local disk"),
        ("postgresql", "fsync", "off", "fsync = on"),
        ("postgresql", "full_page_writes", "off", "full_page_writes = on"),
        ("postgresql", "synchronous_commit", "off", "synchronous_commit = on"),
        ("postgresql", "autovacuum", "off", "autovacuum = on"),
        ("mariadb", "innodb_flush_log_at_trx_commit", "2", "innodb_flush_log_at_trx_commit = 1"),
        ("mariadb", "sync_binlog", "0", "sync_binlog = 1"),
        ("mariadb", "binlog_format", "STATEMENT", "binlog_format = ROW"),
        ("mariadb", "innodb_doublewrite", "OFF", "Switch it on"),
        ("mariadb", "max_allowed_packet", "1048576", "16M"),
    ],
)
def test_each_setting_that_loses_data_is_found(kind: str, name: str, value: str, told: str) -> None:
    (finding,) = database.durability(kind, GOOD[kind] | {name: value})
    assert told in finding.remedy


def test_too_few_connections_and_a_standby_are_found() -> None:
    settings = GOOD["mariadb"] | {"max_connections": "40", "read_only": "ON"}
    standby, few = database.room(settings, admins=3)
    assert "primary" in standby.remedy
    assert "46" in few.what


def test_binlog_settings_do_not_matter_without_a_binlog() -> None:
    settings = GOOD["mariadb"] | {
        "log_bin": "OFF",
        "sync_binlog": "0",
        "binlog_format": "STATEMENT",
    }
    assert list(database.durability("mariadb", settings)) == []


def test_tables_that_nobody_looks_after_are_found() -> None:
    small = TableSize(name="job", rows=10, bytes=1, was_analyzed=False)
    never = TableSize(name="run", rows=1_000_000, bytes=1, was_analyzed=False)
    dead = TableSize(name="node", rows=100, bytes=1, dead_rows=90_000)
    assert [each.what for each in database.tables({}, [small])] == []
    found = [each.what for each in database.tables({}, [small, never, dead])]
    assert "never analysed run:" in found[0]
    assert "90,000 dead rows" in found[1]
    large = TableSize(name="run", rows=1, bytes=300 * 1024**2)
    (finding,) = database.tables({"innodb_buffer_pool_size": str(128 * 1024**2)}, [large])
    assert "300 MiB" in finding.what
    assert list(database.round_trip(1.0)) == []
    assert list(database.round_trip(50.0)) != []


@pytest.mark.every_database
def test_the_servers_of_the_tests_are_found_not_to_be_durable(database: Database) -> None:
    """They are started so, to be quick."""
    from tickwheel_admin.cli.doctor.database import durability

    kind = database.engine.dialect.name
    found = list(durability(kind, database.read_sync(read_server_settings)))
    sizes = {each.name for each in database.read_sync(read_table_sizes)}
    if kind == "sqlite":
        assert found == []
    else:
        assert {each.check for each in found} >= {"database.durability"}
        assert {"run", "trigger", "user"} <= sizes


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /srv/shared nfs4 rw 0 0
/dev/sdb1 /srv/shared/local ext4 rw 0 0
tmpfs /with\\040space tmpfs rw 0 0
"""


def test_the_file_system_of_a_directory_is_that_of_the_deepest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    for directory, kind in (
        ("/etc", "ext4"),
        ("/srv/shared/x", "nfs4"),
        ("/srv/shared/local/x", "ext4"),
        ("/with space/x", "tmpfs"),
    ):
        assert machine.file_system_of(Path(directory), mounts) == kind
    assert machine.file_system_of(Path("/etc"), tmp_path / "missing") is None


def test_an_embedded_database_on_a_network_disk_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert list(machine.embedded(tmp_path, kind_of=lambda path: "ext4")) == []
    tmp_path.chmod(0o755)
    network_disk, open_to_all = machine.embedded(tmp_path, kind_of=lambda path: "nfs4")
    assert "nfs4" in network_disk.what
    assert "chmod 700" in open_to_all.remedy


def test_versions_clocks_keys_pauses_and_channels() -> None:
    here = "1.4.0"
    assert list(installation.versions(here, {"a": here}, {"python/1.3.9": 2, "xxl": 1})) == []
    admins, nodes = installation.versions(here, {"a": "1.5.0"}, {"python/1.2.0": 2})
    assert "a 1.5.0" in admins.what
    assert "2 with python/1.2.0" in nodes.what
    assert list(installation.clock(-1_900)) == []
    assert "2.5 s" in next(installation.clock(2_500)).what
    assert list(installation.node_clocks({})) == []
    (off,) = installation.node_clocks({"a/x": 45_000, "a/y": -3_600_000})
    assert "a/y by 3,600 s behind, a/x by 45 s ahead." in off.what
    assert "there is no secret_key" in next(installation.secrets(["a: K"], has_key=False)).what
    paused = [PausedSince(executor=None, paused_at=0), PausedSince(executor="x", paused_at=0)]
    channels = [ChannelFailures(name="ops", failed=3, error="401")]
    found = list(installation.left_behind(paused, channels, now=3 * DAY_MS))
    assert [each.check for each in found] == ["pause.forgotten", "alarms.channel"]
    assert "3 days" in found[0].what
    assert len(list(installation.left_behind(paused, [], now=8 * DAY_MS))) == 2


def test_executors_that_do_not_answer_are_found(database: Database) -> None:
    now = 1_000_000
    lately, before = now - 5_000, now - 95_000
    addresses = {
        "http://registers": {"registered_at": lately, "error_at": lately, "error": "refused"},
        "http://by-hand": {"error_at": lately, "beat_at": before},
        "http://answers": {"registered_at": lately, "error_at": lately, "beat_at": lately},
        "http://new": {"registered_at": lately},
        "http://silent": {"registered_at": before, "error_at": lately},
        "http://left": {"registered_at": lately, "error_at": lately, "removed_at": lately},
    }
    database.run_sync(_add_addresses, addresses)
    found = database.read_sync(unreached_addresses, now=now)
    assert [each.address for each in found] == ["http://by-hand", "http://registers"]
    (finding,) = installation.reach_of_executors(found)
    assert "billing at http://registers (it registers): refused" in finding.what
    assert "billing at http://by-hand: no answer" in finding.what
    assert list(installation.reach_of_executors([])) == []


def _add_addresses(conn: sa.Connection, addresses: Mapping[str, Mapping[str, object]]) -> None:
    of_executor = {"id": 1, "name": "billing", "description": "", "token_hash": ""}
    conn.execute(sa.insert(tables.executor).values(created_at=0, deleted_at=0, **of_executor))
    for address, values in addresses.items():
        conn.execute(sa.insert(tables.xxl_address).values(executor_id=1, address=address, **values))


def test_a_proxy_that_is_not_trusted_is_found() -> None:
    direct = {"console_url": "http://a:8500", "public_url": "http://a:8500"}
    assert network.proxies(**direct, trusted=()) == []
    behind = {"console_url": "https://jobs", "public_url": "http://a:8500"}
    assert network.proxies(**behind, trusted=("10.0.0.5",)) == []
    assert len(network.proxies(**behind, trusted=())) == 1
