"""What the API tells of executors and nodes."""

from __future__ import annotations

import json

from tickwheel_admin.api.answers import instant
from tickwheel_admin.api.executors.shapes import (
    CallsJson,
    ExecutorDetailJson,
    ExecutorJson,
    NewExecutorJson,
    NodeDetailJson,
    NodeItemJson,
    NodeJson,
)
from tickwheel_admin.api.runs.views import run_summary_view, run_view
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.services.executors.nodes import NodeDetail, NodeItem
from tickwheel_admin.services.executors.service import (
    ExecutorDetail,
    ExecutorItem,
    NewExecutor,
    NodeView,
    StoredXxlAddress,
)


def executor_view(item: ExecutorItem) -> ExecutorJson:
    return {
        "id": item.id,
        "name": item.name,
        "description": item.description,
        "protocol": item.protocol,
        "live_nodes": item.live_nodes,
        "slots": item.slots,
        "in_use": item.in_use,
        "jobs": item.jobs,
        "waiting": item.waiting,
        "waiting_since": instant(item.waiting_since),
        "paused_at": instant(item.paused_at),
        "old_token_until": instant(item.old_token_until),
        "code_jobs": item.code_jobs,
        "scripts": item.scripts,
        "declared_waiting": item.declared_waiting,
        "created_at": instant(item.created_at),
    }


def executor_detail_view(detail: ExecutorDetail) -> ExecutorDetailJson:
    return {
        **executor_view(detail.item),  # type: ignore[typeddict-item]  # it has no xxl_job
        "handlers": list(detail.handlers),
        "schemas": {
            handler: json.loads(text)
            for handler, text in detail.schemas.items()
            if handler != ANY_HANDLER
        },
        "nodes": [
            {**node_view(each), "running": [run_summary_view(mark) for mark in each.running]}
            for each in detail.nodes
        ],
    }


def new_executor_view(new: NewExecutor) -> NewExecutorJson:
    return {"id": new.id, "name": new.name, "token": new.token}


def node_view(view: NodeView) -> NodeJson:
    node = view.node
    return {
        "id": node.id,
        "name": node.name,
        "state": node.state,
        "draining": node.draining,
        "cordoned": node.cordoned,
        "drain_wanted": node.drain_wanted,
        "safe_to_stop": node.is_safe_to_stop,
        "slots": node.slots,
        "slots_wanted": view.slots_wanted,
        "in_use": node.in_use,
        "weight": view.weight,
        "weight_wanted": view.weight_wanted,
        "handlers": sorted(node.named_handlers),
        "unstoppable": sorted(node.unstoppable - {ANY_HANDLER}),
        "labels": dict(node.labels),
        "sdk": node.sdk,
        "address": view.address,
        "connected_at": instant(node.connected_at),
        "seen_at": instant(view.seen_at),
        "lease_expires_at": instant(node.lease_expires_at),
        "ended_at": instant(node.ended_at),
        **_calls_view(view.xxl_address),
    }


def node_item_view(item: NodeItem) -> NodeItemJson:
    return {
        **node_view(item.view),
        "executor_id": item.executor_id,
        "executor_name": item.executor_name,
    }


def _calls_view(called: StoredXxlAddress | None) -> CallsJson:
    """How an admin gets on with a node that it calls; nothing of nodes that connect."""
    if called is None:
        return {}
    return {
        "dialect": called.dialect,
        "last_beat_at": instant(called.beat_at),
        "calls": called.calls,
        "errors": called.errors,
        "last_error": called.error,
    }


def node_detail_view(detail: NodeDetail) -> NodeDetailJson:
    return {
        **node_view(detail.view),
        "executor_id": detail.node.executor_id,
        "executor_name": detail.executor_name,
        "running": [run_view(item) for item in detail.running],
        "heard_by": [
            {
                "admin_id": each.admin_id,
                "admin_name": each.admin_name,
                "connected_at": instant(each.connected_at),
            }
            for each in detail.heard_by
        ],
    }
