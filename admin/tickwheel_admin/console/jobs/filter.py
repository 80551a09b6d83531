"""The filter of the list of jobs: from what was typed, or from an older address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.lists.filter_box import FilterBox, FilterKey, FilterTerms
from tickwheel_admin.domain.input.filter_text import MAX_CHARS
from tickwheel_admin.services.executors.service import ExecutorName
from tickwheel_admin.services.jobs.service import JobQuery, JobSort, JobView

_STATES = (JobView.FAILING, JobView.RUNNING, JobView.PAUSED, JobView.ACTIVE)
_KEYS = ("executor", "owner", "tag", "handler", "state")


def read_job_filter(
    values: Mapping[str, str], executors: Sequence[ExecutorName]
) -> tuple[FilterTerms, JobQuery]:
    """What an address asks for.

    Args:
        executors: those that the reader sees.
    """
    # Values that mean nothing are left aside: a bookmark may be older than what it filters by.
    view, sort = values.get("view", ""), values.get("sort", "")
    chosen = values.get("executor", "")
    older = {
        "state": view if view in _STATES else "",
        "executor": next((e.name for e in executors if str(e.id) == chosen), ""),
    }
    typed = FilterTerms(values.get("q", "").strip()[:MAX_CHARS], older, _KEYS)
    ids = {each.name: each.id for each in executors}
    executor = typed.word("executor", ids)
    query = JobQuery(
        text=typed.words,
        executor_id=None if executor is None else ids[executor],
        owner=typed.one("owner"),
        tags=typed.many("tag"),
        handler=typed.one("handler"),
        view=typed.word("state", _STATES) or JobView.ALL,
        sort=sort if sort in set(JobSort) else JobSort.NAME,
    )
    return typed, query


def job_filter_box(typed: FilterTerms) -> FilterBox:
    """The box that shows a filter of jobs."""
    return FilterBox(
        page="jobs",
        text=typed.text,
        problems=typed.problems,
        keys=[
            FilterKey(key="executor", what=_("Where they run")),
            FilterKey(key="owner", what=_("Who answers for them")),
            FilterKey(key="tag", what=_("What they are marked with; more than one is possible")),
            FilterKey(key="handler", what=_("What they call"), example="billing.close"),
            FilterKey(key="state", what=_("How they stand"), values=_states()),
        ],
    )


def _states() -> list[tuple[str, str]]:
    words = {
        JobView.FAILING: _("The last run that ended failed"),
        JobView.RUNNING: _("A run is going on"),
        JobView.PAUSED: _("They do not fire"),
        JobView.ACTIVE: _("They are not paused"),
    }
    return [(state.value, words[state]) for state in _STATES]
