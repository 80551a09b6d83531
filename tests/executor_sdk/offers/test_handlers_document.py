"""docs/agent-handlers.md names every parameter of the ready-made handlers, and its examples run."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.executor_sdk.offers.registry import handler_of
from tickwheel_executor.handlers.signature import Signature
from tickwheel_executor.offers import Offer
from tickwheel_executor.offers.files import FileRoot, Files
from tickwheel_executor.offers.http import Http
from tickwheel_executor.offers.sql import Sql, SqlConnection

DOCUMENT = Path(__file__).parents[3] / "docs/agent-handlers.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")


def section(name: str) -> str:
    return TEXT.partition(f"\n## {name}\n")[2].partition("\n## ")[0]


def offers() -> dict[str, Offer]:
    return {
        "http": Http(),
        "sql": Sql({"shop": SqlConnection(url="sqlite:////tmp/shop.db")}),
        "file": Files({"logs": FileRoot("/tmp")}),
    }


@pytest.mark.parametrize("name", ["http", "sql", "file"])
def test_every_parameter_has_a_row_and_the_example_is_valid(name: str) -> None:
    signature = Signature(name, handler_of(offers()[name], name))
    assert signature.schema is not None
    described = json.loads(signature.schema)["properties"]
    first = section(name).partition("\n### ")[0]
    rows = re.findall(r"^\| (`.+?) \| ", first, re.MULTILINE)
    assert {each for row in rows for each in re.findall(r"`(\w+)`", row)} == set(described)
    [example] = re.findall(r"```yaml\n(.*?)```", first, re.DOTALL)
    job: dict[str, Any] = yaml.safe_load(example)
    assert job["handler"] == name
    assert signature.read(msgspec.Raw(json.dumps(job["parameters"]).encode()))


def test_the_configuration_examples_name_settings_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPORTS_PASSWORD", "x")
    examples = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    problems: list[str] = []
    for example in examples:
        table = tomllib.loads(example)
        for kind, name in ((Http, "http"), (Sql, "sql"), (Files, "file")):
            if name in table:
                kind.from_config(table[name], problems)
    missing = [each for each in problems if "cannot be read" in each or "is no folder" in each]
    assert problems == missing, "only what this machine does not have"
    assert len(examples) == 3
