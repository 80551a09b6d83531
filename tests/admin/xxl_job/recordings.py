"""The recordings of real clients, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tickwheel_admin.xxl_job.dialects import Dialect

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its answer."""

    source: str  # for messages of tests: file and number
    dialect: Dialect
    step: str
    to_executor: bool
    method: str
    path: str
    headers: dict[str, str]  # of the request, in lower case
    body: bytes
    status: int | None  # None: closed unanswered
    answer: bytes

    @property
    def is_probe(self) -> bool:
        return self.step.startswith("probe")


def exchanges(*, to_executor: bool) -> Iterator[Exchange]:
    """All that were recorded in this direction."""
    for path in sorted(_DATA.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            if found["direction"].startswith("admin to executor") != to_executor:
                continue
            method, target, _ = found["request"]["line"].split(" ", 2)
            response = found["response"]
            yield Exchange(
                source=f"{path.name}:{found['n']}",
                dialect=Dialect(path.name[0]),
                step=found["step"],
                to_executor=to_executor,
                method=method,
                path=target,
                headers={name.lower(): value for name, value in found["request"]["headers"]},
                body=found["request"]["body"].encode(),
                status=int(response["line"].split(" ")[1]) if response else None,
                answer=response["body"].encode() if response else b"",
            )
