"""Whether the database keeps what it has confirmed, has room for all, and answers quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tickwheel_admin.cli.doctor.finding import Finding, error, warning
from tickwheel_admin.store.doctor.server_settings import TableSize

CONNECTIONS_OF_ADMIN = 12  # threads of the engine, and of people's requests
SPARE_CONNECTIONS = 10  # for commands, people and tools
MIN_PACKET_BYTES = 16 * 1024 * 1024  # results and logs travel in large statements
SLOW_ROUND_TRIP_MS = 20.0
MANY_ROWS = 50_000
_DURABILITY = "database.durability"
_SETTINGS = "database.settings"
_OFF = ("0", "off", "no")


def durability(kind: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Whether a commit survives a crash of the server, by the settings of its kind.

    Args:
        kind: sqlite, mysql, mariadb or postgresql.
    """
    if kind == "sqlite":
        yield from _sqlite(settings)
    elif kind == "postgresql":
        yield from _postgresql(settings)
    else:
        yield from _mysql(settings)


def _sqlite(settings: Mapping[str, str]) -> Iterator[Finding]:
    if settings.get("journal_mode", "wal").lower() != "wal":
        yield error(
            _DURABILITY,
            f"SQLite's journal_mode is {settings['journal_mode']}: its file system cannot share"
            " memory between processes, as those of networks cannot.",
            "Put the data directory on a local disk (TICKWHEEL_DATA_DIR), or move to a server with"
            " `tickwheel backup --move-to`.",
        )


def _postgresql(settings: Mapping[str, str]) -> Iterator[Finding]:
    for name in ("fsync", "full_page_writes"):
        if settings.get(name, "on") == "off":
            yield error(
                _DURABILITY,
                f"PostgreSQL has {name} = off: a power failure can destroy the database.",
                f"Set {name} = on in postgresql.conf and reload the server.",
            )
    if settings.get("synchronous_commit", "on") == "off":
        yield error(
            _DURABILITY,
            "PostgreSQL has synchronous_commit = off: the results of the last moments are lost in a"
            " crash, after nodes were told that they are safe.",
            "Set synchronous_commit = on for the database or the user of Tickwheel.",
        )
    if settings.get("autovacuum", "on") == "off" or settings.get("track_counts", "on") == "off":
        yield error(
            _SETTINGS,
            "PostgreSQL's autovacuum does not run: tables and indexes grow, and plans get worse.",
            "Set autovacuum = on and track_counts = on, and reload the server.",
        )


def _mysql(settings: Mapping[str, str]) -> Iterator[Finding]:
    if (flush := settings.get("innodb_flush_log_at_trx_commit", "1")) != "1":
        yield error(
            _DURABILITY,
            f"innodb_flush_log_at_trx_commit is {flush}: the results of the last second are lost in"
            " a crash, after nodes were told that they are safe.",
            "Set innodb_flush_log_at_trx_commit = 1 (SET GLOBAL, and in the server's file).",
        )
    has_binlog = settings.get("log_bin", "off").lower() not in _OFF
    if has_binlog and settings.get("sync_binlog", "1") != "1":
        yield error(
            _DURABILITY,
            f"sync_binlog is {settings['sync_binlog']}: after a crash, a replica may not have what"
            " the primary confirmed.",
            "Set sync_binlog = 1 (SET GLOBAL, and in the server's file).",
        )
    if has_binlog and settings.get("binlog_format", "row").lower() == "statement":
        yield error(
            _SETTINGS,
            "binlog_format is STATEMENT, with which InnoDB refuses writes at READ COMMITTED.",
            "Set binlog_format = ROW, or MIXED.",
        )
    if settings.get("innodb_doublewrite", "on").lower() in _OFF:
        yield error(
            _DURABILITY,
            "innodb_doublewrite is off: a power failure can destroy pages of the database.",
            "Switch it on, unless the file system writes pages whole.",
        )
    if int(settings.get("max_allowed_packet", MIN_PACKET_BYTES)) < MIN_PACKET_BYTES:
        yield warning(
            _SETTINGS,
            f"max_allowed_packet is {int(settings['max_allowed_packet']):,} bytes: large results"
            " and logs are refused.",
            "Set max_allowed_packet to 16M or more.",
        )


def room(settings: Mapping[str, str], *, admins: int) -> Iterator[Finding]:
    """Whether the server takes writes, and the connections of so many admins."""
    if settings.get("read_only", "off").lower() not in _OFF:
        yield error(
            _SETTINGS,
            "The server takes no writes: it is a standby, or read_only is set.",
            "Let TICKWHEEL_DATABASE_URL name the primary.",
        )
    if "max_connections" not in settings:
        return
    needed = max(admins, 1) * CONNECTIONS_OF_ADMIN + SPARE_CONNECTIONS
    if int(settings["max_connections"]) < needed:
        yield warning(
            _SETTINGS,
            f"max_connections is {settings['max_connections']}; {max(admins, 1)} admins with"
            f" {CONNECTIONS_OF_ADMIN} connections each, and {SPARE_CONNECTIONS} spare ones, need"
            f" {needed}.",
            f"Set max_connections to {needed} or more.",
        )


def tables(settings: Mapping[str, str], sizes: Sequence[TableSize]) -> Iterator[Finding]:
    """Whether large tables are known to the planner, cleaned up, and fit into memory."""
    never = [each.name for each in sizes if each.rows > MANY_ROWS and not each.was_analyzed]
    if never:
        yield warning(
            "database.statistics",
            f"PostgreSQL has never analysed {', '.join(never)}: it guesses its plans.",
            f"Run ANALYZE {', '.join(never)}; and see why autovacuum does not do it.",
        )
    for each in sizes:
        if each.dead_rows > max(MANY_ROWS, 2 * each.rows):
            yield warning(
                "database.statistics",
                f"The table {each.name} has {each.dead_rows:,} dead rows beside {each.rows:,}.",
                f"Run VACUUM {each.name}; look for a transaction or a replication slot that has"
                " been open for long.",
            )
    size, buffer = (
        sum(each.bytes for each in sizes),
        int(settings.get("innodb_buffer_pool_size", 0)),
    )
    if buffer and size > 2 * buffer:
        yield warning(
            "database.memory",
            f"The tables take {_mib(size)}, and InnoDB keeps {_mib(buffer)} of them in memory.",
            "Raise innodb_buffer_pool_size, or keep fewer runs (retention_days).",
        )


def round_trip(ms: float) -> Iterator[Finding]:
    """Whether a small question is answered quickly from here."""
    if ms > SLOW_ROUND_TRIP_MS:
        yield warning(
            "database.latency",
            f"A question without work takes {ms:.0f} ms: every fire waits for several.",
            "Run the admins in the same data centre as the database; look at its load.",
        )


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:,.0f} MiB"
