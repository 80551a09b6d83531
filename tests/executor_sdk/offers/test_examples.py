"""Schemas have the names of connections and folders of a machine, and nothing else of them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tickwheel_executor import Executor
from tickwheel_executor.offers.files import FileRoot, Files
from tickwheel_executor.offers.sql import Sql, SqlConnection


def test_connections_and_folders_are_named_without_what_is_behind_them(tmp_path: Path) -> None:
    url = "postgresql://db.example/shop"
    executor = Executor(
        "machines",
        admins=["http://127.0.0.1:1"],
        token="t" * 40,
        offers=[
            Sql({"shop": SqlConnection(url=url, user="u", password="hunter2"), "crm": _crm()}),
            Files({"exports": FileRoot(tmp_path)}),
        ],
    )
    executor._handlers.close()
    schemas = {name: bytes(raw) for name, raw in executor._handlers.schemas.items()}
    sql, file = (msgspec.json.decode(schemas[name]) for name in ("sql", "file"))
    assert sql["properties"]["connection"]["examples"] == ["crm", "shop"]
    assert sql["required"] == ["connection"]
    assert "enum" not in sql["properties"]["connection"]  # another machine may know others
    assert file["properties"]["root"]["examples"] == ["exports"]
    for secret in (b"hunter2", b"db.example", b"/srv", bytes(tmp_path)):
        assert all(secret not in raw for raw in schemas.values())


def _crm() -> SqlConnection:
    return SqlConnection(url="sqlite:////srv/crm.db")
