"""Lets Quartz itself write its tables and say when it fires.

`python -m tests.interop.quartz_tables` writes `tests/support/quartz/tables.json` anew, with the
version of Quartz that most installations have.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from tests.interop import builds
from tests.support.availability import unavailable
from tests.support.databases import fresh_database, running
from tests.support.quartz import FILE
from tests.support.servers import MariaDB

RECORDED = "2.3.2"
NEWEST = "2.5.0"
RUN_SECONDS = 120
_TABLES = (
    *("JOB_DETAILS", "TRIGGERS", "SIMPLE_TRIGGERS", "CRON_TRIGGERS", "SIMPROP_TRIGGERS"),
    *("CALENDARS", "PAUSED_TRIGGER_GRPS"),
)
_UNUSED = ("DEC_PROP_1", "DEC_PROP_2")


def fill_tables(url: str, version: str) -> dict[str, list[int]]:
    """Fill an empty MariaDB; returns the next 50 fires of each trigger of “billing”, in ms."""
    if shutil.which("mvn") is None or shutil.which("java") is None:
        unavailable("Maven or Java is not installed")
    sources = builds.SOURCES / "quartz"
    built = builds.cached("quartz", sources, builds.quartz(version), key=version)
    theirs = sa.make_url(url)
    login = f"user={theirs.username}&password={theirs.password}"
    jdbc = f"jdbc:mariadb://{theirs.host}:{theirs.port}/{theirs.database}?{login}"
    done = subprocess.run(
        ["java", "-cp", f"{built}/classes:{built}/lib/*", "interop.Tables", jdbc],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    fires: dict[str, list[int]] = json.loads(done.stdout)
    return fires


def main() -> None:
    with running(MariaDB) as server, fresh_database(server) as url:
        fires = fill_tables(url, RECORDED)
        tables = _dumped(url)
    blocks = []
    for name, (columns, rows) in tables.items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        blocks.append(f'"{name}": {{"columns": {json.dumps(columns)}, "rows": [\n{lines}\n]}}')
    steps = ",\n".join(
        f'"{name}": {json.dumps(_steps(each), separators=(",", ":"))}'
        for name, each in sorted(fires.items())
    )
    text = '{"tables": {\n' + ",\n".join(blocks) + '},\n"fires": {\n' + steps + "\n}}\n"
    FILE.write_text(text, encoding="utf-8")


def _steps(fires: list[int]) -> list[int]:
    """The first one, then how long after the one before each of them is."""
    return fires[:1] + [b - a for a, b in pairwise(fires)]


def _dumped(url: str) -> dict[str, tuple[list[str], list[list[Any]]]]:
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    found = {}
    with engine.connect() as connection:
        for name in _TABLES:
            result = connection.exec_driver_sql(f"SELECT * FROM QRTZ_{name}")
            kept = [each for each in result.keys() if each not in _UNUSED]  # noqa: SIM118
            rows = [[_plain(row[each]) for each in kept] for row in result.mappings()]
            found[f"QRTZ_{name}"] = kept, rows
    engine.dispose()
    return found


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


if __name__ == "__main__":
    main()
