"""What `top` shows at one moment, as the API tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.output.table import Item

_MOST_RUNS = 100  # of each kind; their number is counted beyond
_MOST_EXECUTORS = 10  # whose nodes are asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The installation, within the roles of the token."""

    at: datetime
    url: str
    paused_at: str | None  # since when everything is paused
    attention: Item  # `items`, `succeeded` and `failed` runs since `runs_since`, `open_alarms`
    running: Sequence[Item]
    running_count: int
    waiting: Sequence[Item]
    waiting_count: int
    executors: Sequence[Item]
    nodes: Sequence[Item]  # live ones of the first executors

    @property
    def slots(self) -> tuple[int, int]:
        """Those in use, and all of live nodes."""
        return (
            sum(each["in_use"] for each in self.executors),
            sum(each["slots"] for each in self.executors),
        )

    @property
    def live_nodes(self) -> int:
        """Of all executors."""
        return sum(each["live_nodes"] for each in self.executors)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "at": self.at.isoformat().replace("+00:00", "Z"),
            "paused_at": self.paused_at,
            "attention": self.attention,
            "running_count": self.running_count,
            "running": list(self.running),
            "waiting_count": self.waiting_count,
            "waiting": list(self.waiting),
            "executors": list(self.executors),
            "nodes": list(self.nodes),
        }


def take_snapshot(api: AdminApi) -> Snapshot:
    """Ask for everything once: about seven requests, and one for each executor with nodes."""
    executors = api.get("/executors")["items"]
    running, running_count = _runs(api, "running")
    waiting, waiting_count = _runs(api, "queued")
    with_nodes = [each for each in executors if each["live_nodes"]]
    nodes = [
        {"executor_name": each["name"], **node}
        for each in with_nodes[:_MOST_EXECUTORS]
        for node in api.get(f"/executors/{each['id']}")["nodes"]
        if node["state"] == "live"
    ]
    return Snapshot(
        at=datetime.now(UTC),
        url=api.url,
        paused_at=api.get("/system")["paused_at"],
        attention=api.get("/attention"),
        running=running,
        running_count=running_count,
        waiting=waiting,
        waiting_count=waiting_count,
        executors=executors,
        nodes=nodes,
    )


def _runs(api: AdminApi, state: str) -> tuple[list[Item], int]:
    found: list[Item] = list(api.pages("/runs", most=_MOST_RUNS, state=state))
    if len(found) < _MOST_RUNS:
        return found, len(found)
    return found, int(api.get("/runs/count", state=state)["runs"])
