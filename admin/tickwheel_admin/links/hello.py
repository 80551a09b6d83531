"""The hello of a node: when it is refused, and what is stored of it."""

from __future__ import annotations

import re

from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.input.node_manifest import NodeManifest, read_node_manifest
from tickwheel_admin.domain.names import normal_name, unseen_character
from tickwheel_admin.engine.ports import Arrival
from tickwheel_shared.protocol import (
    SPOKEN_VERSIONS,
    FrameError,
    Hello,
    Rejected,
    agree_version,
)

MAX_SLOTS = 10_000
MAX_HANDLERS = 2_000
MAX_LABELS = 100
MAX_NAME_CHARS = 200
_NODE_KEY = re.compile(r"[0-9a-f]{32}")


def refusal_of(hello: Hello, *, executor_name: str) -> Rejected | None:
    """Why this node cannot be served, however often it connects; None: it can."""
    if agree_version(hello.versions) is None:
        newest = max(hello.versions, default=0)
        older = "the SDK" if newest < min(SPOKEN_VERSIONS) else "the admin"
        return Rejected(
            code="version",
            message=f"no common protocol version: the node speaks {hello.versions}, this admin"
            f" {', '.join(map(str, SPOKEN_VERSIONS))}; upgrade {older}",
            fatal=True,
        )
    if hello.executor != executor_name:
        return Rejected(
            code="wrong_executor",
            message=f"the token belongs to the executor “{executor_name}”,"
            f" not to “{hello.executor[:MAX_NAME_CHARS]}”",
            fatal=True,
        )
    return None


def arrival_of(hello: Hello, *, executor_id: int, address: str) -> Arrival:
    """What is stored of a hello.

    Raises:
        FrameError: a field is outside of its bounds; the message names it.
    """
    if not _NODE_KEY.fullmatch(hello.node_key):
        raise FrameError("hello: node_key must be 32 hex digits")
    if not 1 <= hello.slots <= MAX_SLOTS:
        raise FrameError(f"hello: slots must be 1 to {MAX_SLOTS}")
    _check_names("handlers", hello.handlers, limit=MAX_HANDLERS)
    if ANY_HANDLER in hello.handlers or ANY_HANDLER in hello.unstoppable:
        raise FrameError(f"hello: a handler cannot be named “{ANY_HANDLER}”")
    _check_names("unstoppable", hello.unstoppable, limit=MAX_HANDLERS)
    _check_names("labels", [*hello.labels, *hello.labels.values()], limit=2 * MAX_LABELS)
    _check_names("name", [hello.name], limit=1)
    _check_names("sdk", [hello.sdk], limit=1)
    return Arrival(
        executor_id=executor_id,
        node_key=hello.node_key,
        name=normal_name(hello.name),
        sdk=hello.sdk[:50],
        slots=hello.slots,
        handlers=hello.handlers,
        unstoppable=hello.unstoppable,
        labels=hello.labels,
        weight=hello.weight,
        address=address[:100],
        has_code=bool(hello.schemas or hello.jobs),
        clock=hello.clock,
    )


def manifest_of(hello: Hello) -> NodeManifest:
    """What the node says of its code, as far as it can be used."""
    return read_node_manifest(
        handlers=hello.handlers,
        schemas={name: bytes(raw) for name, raw in hello.schemas.items()},
        jobs=[bytes(raw) for raw in hello.jobs],
    )


def _check_names(field: str, names: list[str], *, limit: int) -> None:
    if len(names) > limit:
        raise FrameError(f"hello: {field} holds more than {limit} names")
    for name in names:
        if (unseen := unseen_character(name)) is not None:
            raise FrameError(f"hello: a name in {field} holds a character nobody sees: {unseen}")
        if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
            raise FrameError(
                f"hello: a name in {field} is empty, longer than {MAX_NAME_CHARS} characters"
                " or not printable"
            )
