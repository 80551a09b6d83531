"""The list of nodes of all executors that somebody may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.fields import CONTROL_CHARACTERS, is_clean
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.executors.lists import NodeView, node_view_of
from tickwheel_admin.services.lists.paging import (
    Number,
    Page,
    bad_cursor,
    check_limit,
    decode_cursor,
    encode_cursor,
)
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import StoredNode, executors_by_id
from tickwheel_admin.store.executors.node_pages import NodeKey, page_nodes
from tickwheel_admin.store.xxl_job.executors import read_xxl_addresses

MAX_TEXT_CHARS = 200


class _Key(NamedTuple):
    """The place behind which a page begins, as its cursor says it."""

    executor_id: Number
    name: str
    id: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuery:
    """Which nodes are wanted."""

    executor_id: int | None = None
    state: NodeState | None = None
    text: str = ""  # a part of the name
    version: str = ""  # a part of what it says of its SDK


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeItem:
    """A node in the list; it does not say what it runs."""

    view: NodeView
    executor_id: int
    executor_name: str


def read_page(
    conn: sa.Connection, actor: Actor, query: NodeQuery, *, cursor: str | None, limit: int
) -> Page[NodeItem]:
    """By executor, name and id.

    Raises:
        InvalidInput: with the field that breaks a rule.
    """
    for field, text in (("text", query.text), ("version", query.version)):
        if not is_clean(text):
            raise InvalidInput.one(field, "control_characters", CONTROL_CHARACTERS)
    after = decode_cursor(cursor, _Key)
    if after is not None and not is_clean(after.name):
        raise bad_cursor()
    limit = check_limit(limit)
    found = page_nodes(
        conn,
        scope=visible_executors(actor, query.executor_id),
        state=query.state,
        text=query.text.strip()[:MAX_TEXT_CHARS],
        version=query.version.strip()[:MAX_TEXT_CHARS],
        after=None if after is None else NodeKey(*after),
        limit=limit + 1,
    )
    shown = found[:limit]
    following = None
    if len(found) > limit:
        last = shown[-1].node
        following = encode_cursor(NodeKey(last.executor_id, last.name, last.id))
    return Page(items=_items(conn, shown), next=following)


def _items(conn: sa.Connection, shown: list[StoredNode]) -> list[NodeItem]:
    executors = executors_by_id(conn, {each.node.executor_id for each in shown})
    called = [each.id for each in executors.values() if each.protocol is Protocol.XXL_JOB]
    addresses = read_xxl_addresses(conn, called) if called else []
    called_at = {each.node_id: each for each in addresses if each.node_id is not None}
    now = now_ms(conn)
    return [
        NodeItem(
            view=node_view_of(each, {}, now=now, called_at=called_at),
            executor_id=each.node.executor_id,
            executor_name=executors[each.node.executor_id].name,
        )
        for each in shown
        if each.node.executor_id in executors  # it may be deleted meanwhile
    ]
