"""What a job runs, as the form asks for it: a handler of a service, or one that is ready-made.

Ready-made are the handlers of agents, each known by its name. A kind that no node offers is shown
all the same, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.services.executors.service import ExecutorDetail


class JobKind(StrEnum):
    """An answer to "What runs?". All but the first are names of handlers."""

    HANDLER = "handler"
    SCRIPT = "script"
    COMMAND = "command"
    HTTP = "http"
    SQL = "sql"
    FILE = "file"


READY_MADE = frozenset(JobKind) - {JobKind.HANDLER}
_OF_XXL_JOB = frozenset({JobKind.HANDLER, JobKind.SCRIPT})


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChoice:
    """One answer as it is shown."""

    kind: JobKind
    title: str
    hint: str
    is_open: bool  # whether it can be chosen
    reason: str  # why not; "": it can, or no executor is chosen yet
    is_missing: bool  # no node offers it, but an agent would


def kind_of(handler: str) -> JobKind:
    """The kind of a job by the name of its handler."""
    return JobKind(handler) if handler in READY_MADE else JobKind.HANDLER


def handler_of(kind: str, typed: str) -> str:
    """The name of the handler that a form means."""
    return kind if kind in READY_MADE else typed.strip()


def own_handlers(executor: ExecutorDetail | None) -> list[str]:
    """Handlers that its live nodes offer besides the ready-made ones, sorted."""
    handlers = [] if executor is None else executor.handlers
    return [each for each in handlers if each not in READY_MADE]


def choices_of(executor: ExecutorDetail | None, *, may_script: bool) -> list[KindChoice]:
    """All kinds, in the order in which they are shown.

    Args:
        may_script: whether this person may edit scripts there.
    """
    offered = _offered(executor)
    found = []
    for kind, title, hint in _titles():
        reason = _reason(kind, executor, offered, may_script=may_script)
        is_missing = (
            executor is not None
            and executor.item.protocol is not Protocol.XXL_JOB
            and kind not in offered
        )
        found.append(
            KindChoice(
                kind=kind,
                title=title,
                hint=hint,
                is_open=not reason and (executor is not None or kind is JobKind.HANDLER),
                reason=reason,
                is_missing=is_missing,
            )
        )
    return found


def first_choice(choices: Sequence[KindChoice], executor: ExecutorDetail | None) -> JobKind:
    """What is chosen before anybody has: what its nodes offer, else a handler still to come."""
    if own_handlers(executor):
        return JobKind.HANDLER
    open_to = (each.kind for each in choices if each.kind in READY_MADE and each.is_open)
    return next(open_to, JobKind.HANDLER)


def _offered(executor: ExecutorDetail | None) -> Collection[str]:
    """What its nodes offer, or did when the last one was live."""
    if executor is None:
        return ()
    if executor.item.protocol is Protocol.XXL_JOB:
        return _OF_XXL_JOB
    is_live = executor.gone_at is None and executor.handlers
    return {JobKind.HANDLER, *(executor.handlers if is_live else executor.schemas)}


def _reason(
    kind: JobKind, executor: ExecutorDetail | None, offered: Collection[str], *, may_script: bool
) -> str:
    if kind is JobKind.HANDLER or executor is None:
        return ""
    if kind not in offered:
        if executor.item.protocol is Protocol.XXL_JOB:
            return _("Executors of XXL-JOB run handlers and scripts only.")
        return _("No live node offers it.")
    if kind is JobKind.SCRIPT and not executor.item.scripts:
        return _("Scripts are forbidden on this executor.")
    if kind is JobKind.SCRIPT and not may_script:
        return _("You need the right to edit scripts.")
    return ""


def _titles() -> list[tuple[JobKind, str, str]]:
    return [
        (JobKind.HANDLER, _("A handler of a service"), _("a function in your code")),
        (JobKind.SCRIPT, _("A script"), _("shell, Python and others, kept with the job")),
        (JobKind.COMMAND, _("A command"), _("a program of the machine, without a shell")),
        (JobKind.HTTP, _("An HTTP call"), _("a request, and what its answer must be")),
        (JobKind.SQL, "SQL", _("statements on a database that the machine knows")),
        (JobKind.FILE, _("Housekeeping of files"), _("delete, move or archive old files")),
    ]
