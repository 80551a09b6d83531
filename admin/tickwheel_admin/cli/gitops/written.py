"""Documents as files, one for each object, in a directory that Git may keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

_UNSAFE = re.compile(r"[^\w.-]+")
_FOLDERS = {
    "calendar": "calendars",
    "pool": "pools",
    "user_roles": "user_roles",
    "alarm_channel": "alarm_channels",
    "alarm_rule": "alarm_rules",
    "job": "jobs",
}


def write_files(documents: Iterable[Mapping[str, Any]], directory: Path) -> int:
    """Write a file for each document over one of its name; returns how many. Others stay."""
    taken: set[str] = set()
    count = 0
    for document in documents:
        file = directory / _path_of(document, taken)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(write_yaml(document), encoding="utf-8")
        except OSError as error:
            raise Failure(f"cannot write to {file}: {error.strerror}") from None
        count += 1
    return count


def _path_of(document: Mapping[str, Any], taken: set[str]) -> str:
    kind, executor = document["type"], document.get("executor")
    if kind == "executor":
        return f"executors/{_safe(document['name'])}/executor.yaml"
    folder = _FOLDERS.get(kind, kind)
    if executor:
        folder = f"executors/{_safe(executor)}/{folder}"
    path, number = f"{folder}/{_safe(document['name'])}", 1
    wanted = path
    while wanted.lower() in taken:  # some file systems do not tell Upper and lower case apart
        number += 1
        wanted = f"{path}~{number}"
    taken.add(wanted.lower())
    return f"{wanted}.yaml"


def _safe(name: str) -> str:
    return _UNSAFE.sub("-", name).strip(".-")[:100] or "unnamed"
