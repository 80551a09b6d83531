"""A workflow that cannot be decided about does not stop the others of its transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import structlog

from tickwheel_admin.domain.errors import DEFECTS
from tickwheel_admin.domain.runs.run import Run

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Defects:
    """The workflows that are set aside, and what each raised."""

    def __init__(self) -> None:
        self.raised: dict[int, Exception] = {}  # by run
        self.runs: dict[int, Run] = {}  # the same runs

    def guard(
        self, run: Run, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Do it, unless the workflow is set aside; sets it aside for what only defects raise."""
        if run.id in self.raised:
            return None
        try:
            return work(*args, **kwargs)
        except DEFECTS as error:
            log.exception("workflow.not_advanced", run_id=run.id, job_id=run.job_id)
            self.raised[run.id] = error
            self.runs[run.id] = run
            return None
