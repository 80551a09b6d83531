"""A plan as people read it: what is added, changed and deleted, with the lines that differ."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from tickwheel_admin.cli.client.output.style import Style
from tickwheel_admin.cli.client.output.words import visible
from tickwheel_admin.cli.gitops.files import Directory
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

_SIGNS = {"create": "+", "update": "~", "delete": "-", "adopt": "="}
_COLOURS = {"create": "succeeded", "update": "warning", "delete": "error", "adopt": "skipped"}
_CONTEXT = 2  # lines around those that differ
MAX_LINES = 200  # of one field


def plan_lines(plan: Mapping[str, Any], directory: Directory, style: Style) -> Iterator[str]:
    """The changes, one after the other."""
    for change in plan["changes"]:
        action = change["action"]
        name = f"{change['executor']}/{change['name']}" if change["executor"] else change["name"]
        head = f"{_SIGNS[action]} {change['type']} {visible(name)}"
        remarks = [
            each for each in (_remark(change), directory.place_of(change["document"])) if each
        ]
        tail = f"  ({'; '.join(remarks)})" if remarks else ""
        yield style.coloured(head, _COLOURS[action]) + tail
        if action == "update":
            for difference in change["differences"]:
                yield from _difference(difference, style)


def summary(plan: Mapping[str, Any], style: Style) -> Iterator[str]:
    """How many of each, and what stands against applying it."""
    counts = plan["counts"]
    yield style.strong(
        f"{counts['create']} to create, {counts['update']} to change, {counts['delete']} to delete,"
        f" {counts['unchanged']} unchanged"
        + (f", {counts['adopt']} to adopt" if counts["adopt"] else "")
        + "."
    )
    if drifted := sum(change["drift"] for change in plan["changes"]):
        yield f"{drifted} of them were edited by hand since they were applied (drift)."
    if refused := sum(not change["allowed"] for change in plan["changes"]):
        yield f"This token may not make {refused} of these changes, so it cannot apply the plan."
    elif plan["changes"] and not plan["checked"] and not plan["problems"]:
        yield "The changes were compared, not tried."


def _remark(change: Mapping[str, Any]) -> str:
    remarks = []
    if change["drift"]:
        remarks.append("drift: edited by hand since it was applied")
    if change["action"] == "adopt":
        remarks.append("gets the label of these files")
    elif change["owner"] is None and change["action"] == "update":
        remarks.append("made by hand until now")
    if not change["allowed"]:
        remarks.append(
            "no token gives roles: use `tickwheel user apply`"
            if change["type"] == "user_roles"
            else "not allowed for this token"
        )
    return ", ".join(remarks)


def _difference(difference: Mapping[str, Any], style: Style) -> Iterator[str]:
    name, before, after = difference["field"], difference["before"], difference["after"]
    if not _is_long(before) and not _is_long(after):
        yield f"    {name}: {_short(before)} → {_short(after)}"
        return
    yield f"    {name}:"
    lines = difflib.unified_diff(_yaml_lines(before), _yaml_lines(after), lineterm="", n=_CONTEXT)
    shown = 0
    for line in lines:
        if line.startswith(("---", "+++")):
            continue
        shown += 1
        if shown > MAX_LINES:
            yield "      …"
            return
        shown_line = "…" if line.startswith("@@") else f"{line[0]} {visible(line[1:])}"
        text = f"      {shown_line}"
        colour = {"+": "succeeded", "-": "error"}.get(line[0])
        yield style.coloured(text, colour) if colour else text


def _is_long(value: Any) -> bool:
    if isinstance(value, list | dict):
        return bool(value)
    return isinstance(value, str) and ("\n" in value or len(value) > 60)


def _short(value: Any) -> str:
    if value is None or value == "" or value == [] or value == {}:
        return "(none)"
    return visible(str(value) if not isinstance(value, bool) else str(value).lower())


def _yaml_lines(value: Any) -> list[str]:
    if value is None or value == [] or value == {}:
        return []
    if isinstance(value, str):
        return value.splitlines()
    text = write_yaml({"value": value})
    lines = text.splitlines()
    if lines and lines[0] == "value:":
        return [line.removeprefix("  ") for line in lines[1:]]
    return lines
