"""Which other steps a step reads: those whose results or states it names."""

from __future__ import annotations

import json
from functools import lru_cache

from tickwheel_admin.domain.workflows.graph import Approval, Step, Wait
from tickwheel_shared.workflows.conditions import compile_condition
from tickwheel_shared.workflows.paths import Path, step_of
from tickwheel_shared.workflows.values import names_values, references_in

_NONE = frozenset[str]()


def steps_named(step: Step) -> frozenset[str]:
    """Keys of the steps that its condition, items, parameters, instant and question name."""
    return _steps(_paths_of(step, has_begun=False), with_results=False)


def results_named(step: Step, *, has_begun: bool) -> frozenset[str]:
    """Keys of the steps whose results it may read from now on.

    Args:
        has_begun: only items are to begin: its condition has been asked, and its list is kept.
    """
    if names_nothing(step):  # as most, and this is asked of each that begins
        return _NONE
    return _steps(_paths_of(step, has_begun=has_begun), with_results=True)


def names_nothing(step: Step) -> bool:
    """Whether it is certain that a step reads no other one."""
    return (
        step.when is None
        and step.for_each is None
        and not isinstance(step.body, Approval | Wait)
        and not names_values(step.parameters)
    )


def _paths_of(step: Step, *, has_begun: bool) -> frozenset[Path]:
    until = step.body.until if isinstance(step.body, Wait) else None
    items = None if step.for_each is None or has_begun else step.for_each.items
    asked = step.body.message if isinstance(step.body, Approval) else None
    said = (json.dumps(text) for text in (until, asked) if text)
    texts = (step.parameters, items, *said)
    found = frozenset[Path]().union(*(_paths_in(text) for text in texts if text is not None))
    if not has_begun and step.when is not None:
        found |= compile_condition(step.when).paths
    return found


@lru_cache(maxsize=10_000)
def _paths_in(text: str) -> frozenset[Path]:
    return references_in(text)


def _steps(paths: frozenset[Path], *, with_results: bool) -> frozenset[str]:
    return frozenset(
        key
        for path in paths
        if (key := step_of(path)) is not None
        and (not with_results or len(path) == 2 or path[2] == "result")
    )
