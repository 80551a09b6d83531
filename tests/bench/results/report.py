"""bench.json, written after every measurement: nothing is lost when the bench ends early."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.arguments import Asked
from tests.bench.results.repeats import Figures
from tests.bench.testbed.bed import NODES, SLOTS
from tests.bench.testbed.machine import Machine
from tests.e2e.cluster import ROOT

RESULT = ROOT / "bench.json"
PREVIOUS = ROOT / "bench.previous.json"


class Report:
    """What one bench has found so far."""

    def __init__(
        self, machine: Machine, asked: Asked, *, result: Path = RESULT, previous: Path = PREVIOUS
    ) -> None:
        """The file of the bench before becomes `previous` with the first figures of this one."""
        self.machine = machine
        self.settings = {
            "size": asked.size.value,
            "nodes": NODES,
            "slots_per_node": SLOTS,
        }
        self.alone: dict[str, Figures] = {}
        self.databases: dict[str, dict[str, Figures]] = {}
        self.problems: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.is_complete = False
        self._result = result
        self._previous = previous
        self._is_new = True

    def add(self, kind: str | None, name: str, figures: Figures) -> None:
        """Take the figures of a measurement, and write all there are."""
        if kind is None:
            self.alone[name] = figures
        else:
            self.databases.setdefault(kind, {})[name] = figures
        self.write()

    def problem(self, name: str, what: str) -> None:
        """Take why a measurement failed."""
        self.problems[name] = what
        if not self.is_empty:
            self.write()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was measured."""
        return not (self.alone or self.databases)

    def finish(self) -> None:
        """All that was asked for was tried."""
        self.is_complete = not self.problems
        if not self.is_empty:  # else the result before stays where it is
            self.write()

    def as_json(self) -> dict[str, Any]:
        """What the file holds; README.md says what each key means."""
        return {
            "machine": asdict(self.machine),
            "settings": self.settings,
            "complete": self.is_complete,
            "problems": self.problems,
            "missing": self.missing,
            **self.alone,
            "databases": self.databases,
        }

    def write(self) -> None:
        """Write the file anew; a reader sees the old or the new one whole."""
        if self._is_new and self._result.exists():
            os.replace(self._result, self._previous)
        self._is_new = False
        unfinished = self._result.with_suffix(".tmp")
        unfinished.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        os.replace(unfinished, self._result)


def read_result(path: Path) -> Mapping[str, Any] | None:
    """An earlier result, or None where there is none that can be read."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
