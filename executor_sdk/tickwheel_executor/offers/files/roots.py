"""Folders whose files jobs may tidy up, and what they may do there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tickwheel_executor.offers.config import ConfigTable

DELETE, MOVE, ARCHIVE, RECEIVE = "delete", "move", "archive", "receive"
ACTIONS = (DELETE, MOVE, ARCHIVE, RECEIVE)


@dataclass(frozen=True, slots=True)
class FileRoot:
    """One folder, with everything below it."""

    path: str | os.PathLike[str]
    # What may be done with its files: delete, move (out of it or inside), archive; and receive:
    # moved files and archives may be put here.
    actions: tuple[str, ...] = ACTIONS


def problem_of(root: FileRoot) -> tuple[str, str] | None:
    """The field that is wrong, and what; None: it can be used."""
    if unknown := [action for action in root.actions if action not in ACTIONS]:
        return "actions", f"{unknown[0]!r} is none; write of {', '.join(ACTIONS)}"
    path = Path(root.path)
    if not path.is_absolute():
        return "path", f"{path} is relative; write the whole path, from / on"
    if path == Path(path.anchor):
        return "path", "this is the whole machine; name a folder in it"
    if not path.is_dir():
        return "path", f"{path} is no folder, or this user may not see it"
    return None


def roots_of(config: ConfigTable, table: Mapping[str, Any]) -> dict[str, FileRoot]:
    """From [file.roots]: `name = "/path"`, or a table with path and actions."""
    found: dict[str, FileRoot] = {}
    given = table.get("roots", {})
    if not config.has("roots") or not isinstance(given, Mapping) or not given:
        config.problem("roots", 'there is none; write a table: [file.roots] and name = "/path"')
        return found
    for name, value in given.items():
        inner = {"path": value} if isinstance(value, str) else value
        own = ConfigTable(f"{config.name}.roots.{name}", inner, config.problems)
        root = FileRoot(own.text("path"), own.texts("actions", ACTIONS))
        if own.is_good and (problem := problem_of(root)) is not None:
            own.problem(*problem)
        if own.finish():
            found[name] = root
    return found
