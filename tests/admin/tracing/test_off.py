"""An admin that does not trace imports nothing of OpenTelemetry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# In a process of its own, because other tests of this one import it.
_ADMIN = """
import asyncio, json, socket, sys
from tickwheel_admin.app.admin import Admin
from tickwheel_admin.cli import serve
from tickwheel_admin.config import load_config
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import ensure_buckets

async def main():
    config = load_config({"data_dir": sys.argv[1]}, environment={})
    database = Database(config.database_url)
    await database.run(tables.metadata.create_all)
    await database.run(ensure_buckets)
    stop = asyncio.Event()
    async def ready():
        stop.set()
    admin = Admin(config, database)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        await admin.run([listening], stop=stop, ready=ready)
    await admin.close()

asyncio.run(main())
print(json.dumps([name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]))
"""


def test_an_admin_that_does_not_trace_starts_and_stops_without_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ADMIN, str(tmp_path)]
    environment = os.environ | {"OTEL_TRACES_EXPORTER": "otlp"}  # the setting alone decides
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment)
    assert json.loads(done.stdout.splitlines()[-1]) == []
