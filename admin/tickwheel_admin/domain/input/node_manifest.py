"""What a node says of its code when it says hello, as far as it can be used.

A node is never refused for it: what cannot be used is left out, and the node is told why.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_shared.portable_json import MAX_DEPTH, has_huge_number, is_within
from tickwheel_shared.protocol import (
    MAX_DECLARED_BYTES,
    MAX_DECLARED_JOBS,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMAS_BYTES,
)

MAX_SCHEMA_DEPTH = 50
UNUSABLE = "is no JSON object, is nested too deeply, or holds a number beyond ±1.8e308"
MAX_JOB_DEPTH = MAX_DEPTH + 10  # parameters lie some levels below their job


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The process that says something of its code."""

    executor_id: int
    node_id: int
    name: str
    connected_at: int  # of its first hello
    address: str

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among the processes of the executor: the last one has the last word.

        Ids are no order, but any will do between processes that came in the same millisecond.
        """
        return self.connected_at, self.node_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeManifest:
    """The handlers' schemas and the declared jobs of one process."""

    handlers: frozenset[str]
    schemas: Mapping[str, str]  # JSON Schema by handler
    jobs: Mapping[str, str]  # JSON object with the fields of the API's job, by name
    faults: tuple[str, ...] = ()  # what cannot be used, in English


def read_node_manifest(
    *,
    handlers: Collection[str],
    schemas: Mapping[str, bytes | memoryview],
    jobs: Sequence[bytes | memoryview],
) -> NodeManifest:
    """What can be used of a hello; schemas and jobs are JSON."""
    faults: list[str] = []
    offered = frozenset(handlers)
    return NodeManifest(
        handlers=offered,
        schemas=_read_schemas(schemas, offered, faults),
        jobs=_read_jobs(jobs, faults),
        faults=tuple(faults),
    )


def _read_schemas(
    schemas: Mapping[str, bytes | memoryview], handlers: frozenset[str], faults: list[str]
) -> dict[str, str]:
    if sum(map(len, schemas.values())) > MAX_SCHEMAS_BYTES:
        faults.append(
            f"the schemas of its handlers have more than {MAX_SCHEMAS_BYTES // 1024} KiB together,"
            " so none is used"
        )
        return {}
    found = {}
    for handler, raw in schemas.items():
        if len(raw) > MAX_SCHEMA_BYTES:
            faults.append(
                f"the schema of the handler {handler[:MAX_NAME_CHARS]!r} has more than"
                f" {MAX_SCHEMA_BYTES // 1024} KiB and is not used"
            )
        elif handler not in handlers:
            faults.append(
                f"there is a schema for {handler[:MAX_NAME_CHARS]!r}, but no such handler"
            )
        elif (text := _text_of_object(raw, max_depth=MAX_SCHEMA_DEPTH)) is None:
            faults.append(f"the schema of the handler {handler!r} {UNUSABLE}")
        else:
            found[handler] = text
    return found


def _read_jobs(jobs: Sequence[bytes | memoryview], faults: list[str]) -> dict[str, str]:
    if len(jobs) > MAX_DECLARED_JOBS or sum(map(len, jobs)) > MAX_DECLARED_BYTES:
        faults.append(
            f"more than {MAX_DECLARED_JOBS} jobs, or {MAX_DECLARED_BYTES // 1024} KiB of them, are"
            " declared in its code, so none is looked at"
        )
        return {}
    found: dict[str, str] = {}
    for number, raw in enumerate(jobs, start=1):
        text = _text_of_object(raw, max_depth=MAX_JOB_DEPTH)
        if text is None:
            faults.append(f"declared job {number} {UNUSABLE}")
            continue
        problems: list[Problem] = []
        name = Fields(json.loads(text), "", problems).text(
            "name", max_chars=MAX_NAME_CHARS, required=True, is_name=True
        )
        if problems:
            faults.append(f"declared job {number}: name: {problems[0].message}")
        elif name in found:
            faults.append(f"the job {name!r} is declared twice; the first counts")
        else:
            found[name] = text
    return found


def _text_of_object(raw: bytes | memoryview, *, max_depth: int) -> str | None:
    """Its one compact form; None when it is no JSON object, is deeper than that, or holds a number
    that cannot be held.
    """
    try:
        value = msgspec.json.decode(raw)
        if not is_within(value, max_depth) or has_huge_number(value):
            return None
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return text if isinstance(value, dict) else None
