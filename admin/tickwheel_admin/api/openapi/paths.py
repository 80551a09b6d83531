"""Paths of routes as OpenAPI writes them: `/jobs/{job_id:[0-9]{1,15}}` is `/jobs/{job_id}`."""

from __future__ import annotations

import re
from typing import Any

from tickwheel_admin.api.inputs import ID

_PARAMETER = re.compile(r"\{(?P<name>\w+)(?::(?P<pattern>[^{}]*(?:\{[^{}]*\}[^{}]*)*))?\}")
_IDS = 10**15 - 1  # as ID


def path_and_parameters(path: str) -> tuple[str, list[dict[str, Any]]]:
    """The path, and the parameters that stand in it."""
    parameters = [
        {
            "name": found["name"],
            "in": "path",
            "required": True,
            "schema": _schema(found["pattern"]),
        }
        for found in _PARAMETER.finditer(path)
    ]
    return _PARAMETER.sub(r"{\g<name>}", path), parameters


def _schema(pattern: str | None) -> dict[str, Any]:
    if pattern == ID:
        return {"type": "integer", "minimum": 0, "maximum": _IDS}
    if pattern is None or pattern == "[^/]+":
        return {"type": "string", "minLength": 1}
    return {"type": "string", "pattern": f"^{pattern}$"}
