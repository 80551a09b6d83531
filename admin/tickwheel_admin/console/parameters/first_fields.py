"""Which parameters of the ready-made handlers a form shows first; the others are folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FIRST_FIELDS: Mapping[str, Sequence[str]] = {
    "script": ("arguments", "environment"),
    "command": ("argv", "environment", "cwd"),
    "http": ("method", "url", "headers", "json", "expected_status"),
    "sql": ("connection", "statement", "values", "rows"),
    "file": ("action", "root", "glob", "older_than", "to", "dry_run"),
}
