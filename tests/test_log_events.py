"""docs/log-events.md names every event that an admin logs, with its level, and no other."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADMIN = ROOT / "admin/tickwheel_admin"
LOG = re.compile(r"\blog\b")
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
}


def test_every_log_event_is_documented_with_its_level() -> None:
    documented = {
        name: set(levels.split(", "))
        for name, levels in re.findall(
            r"^\| `([a-z_]+\.[a-z_]+)` \| ([a-z, ]+) \|",
            (ROOT / "docs/log-events.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    logged: defaultdict[str, set[str]] = defaultdict(set)
    texts = [path.read_text() for path in ADMIN.rglob("*.py")]
    logging = [ast.parse(text) for text in texts if LOG.search(text)]
    passed_on = {name: levels for tree in logging for name, levels in passing_on(tree)}
    handing = re.compile(rf"\b({'|'.join(passed_on)})\b")
    others = [ast.parse(text) for text in texts if not LOG.search(text) and handing.search(text)]
    for tree in logging + others:
        for call, levels in calls(tree, passed_on):
            if isinstance(event := call.args[0], ast.Constant):
                logged[event.value] |= levels

    assert documented == logged


def calls(tree: ast.AST, passed_on: dict[str, set[str]]) -> Iterator[tuple[ast.Call, set[str]]]:
    """Calls that log, with their levels: `log.info(…)`, and what hands its event to that."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        if level := level_of(node.func):
            yield node, {level}
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in passed_on:
            yield node, passed_on[name]


def passing_on(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Functions that log an event which they are given, and names given to log functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = {each.arg for each in node.args.args}
            for call, levels in calls(node, {}):
                if isinstance(event := call.args[0], ast.Name):
                    assert event.id in arguments, f"{ast.unparse(call)}: name the event literally"
                    yield node.name, levels
        if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            levels = {level for each in ast.walk(node.value) if (level := level_of(each))}
            if levels and not isinstance(node.value, ast.Call):
                yield target.id, levels


def level_of(node: ast.AST) -> str | None:
    """The level of `log.warning` and the like."""
    is_log = (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "log"
    )
    return LEVELS.get(node.attr) if is_log and isinstance(node, ast.Attribute) else None
