"""Child jobs in the job form: found by what was typed, and named for people.

An id, as "#12", is how the form keeps a child that its reader may not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel_admin.console.job_form.form import ChildRow
from tickwheel_admin.console.lists.job_names import JobNames, unclear
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.jobs.children import ChildLink


async def rows_of(names: JobNames, links: Sequence[ChildLink]) -> list[ChildRow]:
    """A stored job's children as the form shows them."""
    return [ChildRow(job=await names.text_of_id(link.job_id), on=link.on.value) for link in links]


async def find_children(
    names: JobNames, rows: Sequence[ChildRow]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """The raw children that the rows name, and what is wrong with the others."""
    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for index, row in enumerate(rows):
        ids = await names.ids_of(row.job)
        if len(ids) != 1:
            problems.append(unclear(f"children[{index}].job", ids, code="child.unknown"))
        found.append({"job": ids[0] if ids else 1, "on": row.on})
    return found, problems
