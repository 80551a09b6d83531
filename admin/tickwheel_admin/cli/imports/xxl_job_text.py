"""The plan of an import and the outcome of a move, for people and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.imports.notes import ImportNote
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.records import XxlJob
from tickwheel_admin.services.xxl_job.imports.importer import Failures
from tickwheel_admin.services.xxl_job.imports.plan import (
    ImportPlan,
    PlannedExecutor,
    PlannedJob,
    PlannedUser,
)
from tickwheel_admin.services.xxl_job.moves.situation import Moved, Moving

WIDTH = 80
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIGNS = {Fate.CREATED: "+", Fate.CHANGED: "~", Fate.UNCHANGED: "=", Fate.CANNOT: "!"}
_OPEN = ("kept", "moved")  # codes of notes that ask for a decision
_KINDS = {
    ImportKind.EXECUTOR: "executors",
    ImportKind.JOB: "jobs",
    ImportKind.USER: "users",
}


# --- plans ---------------------------------------------------------------------------------------


def plan_as_text(plan: ImportPlan, failures: Failures, *, applied: bool) -> Iterator[str]:
    """In words, by executor; 80 columns where names allow it."""
    yield f"XXL-JOB at {plan.request.source}, cron in {plan.request.cron_zone.name}"
    yield ""
    yield f"{'':12}{'create':>10}{'change':>10}{'unchanged':>12}{'cannot':>10}"
    for kind, word in _KINDS.items():
        counts = plan.counts(kind)
        yield (
            f"{word:12}{counts[Fate.CREATED]:>10,}{counts[Fate.CHANGED]:>10,}"
            f"{counts[Fate.UNCHANGED]:>12,}{counts[Fate.CANNOT]:>10,}"
        )
    yield ""
    yield "+ create   ~ change   = unchanged   ! cannot"
    shared = _common_notes(plan)
    by_group: dict[int, list[PlannedJob]] = {}
    for job in plan.jobs:
        by_group.setdefault(job.group_id, []).append(job)
    for executor in plan.executors:
        yield from _executor(executor, by_group.pop(executor.their_id, []), failures, shared)
    for group_id, jobs in by_group.items():
        yield ""
        yield f"! executor {group_id}, which is gone from XXL-JOB"
        yield from _jobs(jobs, failures, shared)
    yield from _users(plan.users, failures)
    if plan.gone_jobs:
        yield ""
        yield "Imported before, gone from XXL-JOB since; they stay as they are here:"
        for their_id, name in plan.gone_jobs.items():
            yield f"  {their_id:>6} {name}"
    if shared:
        yield ""
        for text, count in shared.items():
            yield from _wrapped(f"{count:,} jobs: {text}.", "")
    yield ""
    yield from _last_words(plan, failures, applied=applied)


def _executor(
    executor: PlannedExecutor,
    jobs: Sequence[PlannedJob],
    failures: Failures,
    shared: Mapping[str, int],
) -> Iterator[str]:
    yield ""
    app = "" if executor.app_name == executor.name else f", AppName {executor.app_name}"
    where = "processes register themselves"
    if executor.addresses is not None:
        where = f"addresses set by hand: {len(executor.addresses)}"
    title = f" “{executor.title}”" if executor.title else ""
    head = f"executor {executor.name}{title}{app}; {where}"
    yield from _wrapped(f"{_SIGNS[executor.fate]} {head}", "    ")
    if executor.changes:
        yield from _wrapped(f"    changes: {', '.join(executor.changes)}", "      ")
    yield from _told(executor.notes, executor.reasons, {}, indent="    ")
    yield from _failed(failures, ImportKind.EXECUTOR, executor.their_id)
    yield from _jobs(jobs, failures, shared)


def _jobs(
    jobs: Sequence[PlannedJob], failures: Failures, shared: Mapping[str, int]
) -> Iterator[str]:
    silent = 0
    for job in jobs:
        notes = [each for each in job.notes if _is_told(job, each) and each.text not in shared]
        failed = (ImportKind.JOB, job.their_id) in failures
        if job.fate is Fate.UNCHANGED and not notes and not failed:
            silent += 1
            continue
        changes = f": {', '.join(job.changes)}" if job.changes else ""
        yield from _wrapped(f"  {_SIGNS[job.fate]} {job.their_id:>6} {job.name}{changes}", " " * 11)
        yield from _told(notes, job.reasons, shared, indent=" " * 11)
        yield from _failed(failures, ImportKind.JOB, job.their_id)
    if silent:
        yield f"  = {silent:>6,} jobs are unchanged"


def _users(users: Sequence[PlannedUser], failures: Failures) -> Iterator[str]:
    if not users:
        return
    yield ""
    yield "users; each needs a password: tickwheel user reset-password NAME"
    for user in users:
        groups = len(user.group_ids)
        rights = "admin of everything" if user.is_admin else f"developer, executors: {groups}"
        yield f"  {_SIGNS[user.fate]} {user.name:<24} {rights}"
        yield from _told(user.notes, user.reasons, {}, indent=" " * 8)
        yield from _failed(failures, ImportKind.USER, user.their_id)


def _last_words(plan: ImportPlan, failures: Failures, *, applied: bool) -> Iterator[str]:
    wanted = sum(
        plan.counts(kind)[fate] for kind in _KINDS for fate in (Fate.CREATED, Fate.CHANGED)
    )
    if applied:
        done = wanted - len(failures)
        yield f"Applied: {done:,} created or changed, {len(failures):,} refused."
        yield "Jobs are paused here and go on running in XXL-JOB; --take-over moves them."
    elif wanted:
        yield "Nothing was changed. --apply does it."
        if plan.needs_token:
            names = ", ".join(plan.needs_token)
            yield from _wrapped(f"It needs the access token of {names}.", "  ")
    else:
        yield "There is nothing to do."


def _common_notes(plan: ImportPlan) -> dict[str, int]:
    """Notes that more than ten jobs have in common: told once."""
    counts = Counter(n.text for job in plan.jobs for n in job.notes if _is_told(job, n))
    return {text: count for text, count in counts.items() if count > 5}


def _is_told(job: PlannedJob, note: ImportNote) -> bool:
    """What is different here is told when it is imported; what is to be decided, each time."""
    if job.fate is Fate.UNCHANGED:
        return note.code in _OPEN
    return job.fate is not Fate.CANNOT


def _told(
    notes: Sequence[ImportNote],
    reasons: Sequence[ImportNote],
    shared: Collection[str],
    *,
    indent: str,
) -> Iterator[str]:
    for each in (*reasons, *notes):
        if each.text not in shared:
            yield from _wrapped(indent + each.text, indent + "  ")


def _failed(failures: Failures, kind: ImportKind, their_id: int) -> Iterator[str]:
    if why := failures.get((kind, their_id)):
        yield from _wrapped(f"      refused: {why}", " " * 8)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def plan_as_json(plan: ImportPlan, failures: Failures, *, applied: bool) -> Iterator[str]:
    """For programs."""

    def told(kind: ImportKind, item: PlannedExecutor | PlannedJob | PlannedUser) -> dict[str, Any]:
        return {
            "xxl_job_id": item.their_id,
            "id": item.our_id,
            "name": item.name,
            "fate": item.fate.value,
            "notes": [{"code": each.code, "text": each.text} for each in item.notes],
            "reasons": [{"code": each.code, "text": each.text} for each in item.reasons],
            "refused": failures.get((kind, item.their_id)),
        }

    value = {
        "source": plan.request.source,
        "cron_zone": plan.request.cron_zone.name,
        "applied": applied,
        "counts": {
            word: {fate.value: plan.counts(kind)[fate] for fate in Fate}
            for kind, word in _KINDS.items()
        },
        "needs_access_token": list(plan.needs_token),
        "executors": [
            told(ImportKind.EXECUTOR, each)
            | {
                "app_name": each.app_name,
                "addresses": None if each.addresses is None else list(each.addresses),
                "changes": list(each.changes),
                "same_as": each.same_as,
            }
            for each in plan.executors
        ],
        "jobs": [
            told(ImportKind.JOB, each)
            | {"xxl_job_group": each.group_id, "changes": list(each.changes)}
            for each in plan.jobs
        ],
        "users": [
            told(ImportKind.USER, each)
            | {"admin": each.is_admin, "xxl_job_groups": list(each.group_ids)}
            for each in plan.users
        ],
        "gone_from_xxl_job": [
            {"xxl_job_id": their_id, "name": name} for their_id, name in plan.gone_jobs.items()
        ],
    }
    yield json.dumps(value, ensure_ascii=False, indent=2)


# --- moves ---------------------------------------------------------------------------------------

_NOT_IMPORTED = "it is not imported"
_CHANGED_SINCE = "it changed in XXL-JOB since it was imported: import it again first (--apply)"
_UNCHANGED = {
    "stopped_there": "it is stopped in XXL-JOB, so there is nothing to take over",
    "taken_over": "it was taken over before",
    "not_taken_over": "it is not taken over, so there is nothing to give back",
}


def moved_as_text(
    chosen: Sequence[XxlJob],
    groups: Mapping[int, str],
    known: Mapping[int, Moving],
    changed: Collection[int],
    moved: Moved,
    *,
    taken_over: bool,
    zone: Zone,
) -> Iterator[str]:
    """What was moved from which instant on, what was left alone, what was refused and why."""
    where = "here" if taken_over else "in XXL-JOB"
    by_group: dict[int, list[XxlJob]] = {}
    for job in chosen:
        by_group.setdefault(job.group_id, []).append(job)
    for group_id, jobs in by_group.items():
        yield f"executor {groups.get(group_id, group_id)}"
        for job in jobs:
            name = known[job.id].name if job.id in known else job.name
            if job.id in moved.moved:
                at = moved.moved[job.id]
                when = "stopped, as it was paused" if at is None else f"from {_local(at, zone)}"
                sign, text = ">", f"fires {where} {when}"
            else:
                sign, text = _why_not(job.id, known, changed, moved)
            yield from _wrapped(f"  {sign} {job.id:>6} {name}", " " * 11)
            yield from _wrapped(" " * 11 + text, " " * 13)
        yield ""
    refused = len(moved.refused) + len(changed)
    left = len(chosen) - len(moved.moved) - refused
    verb = "taken over" if taken_over else "given back"
    yield f"{len(moved.moved):,} {verb}, {left:,} left as they are, {refused:,} refused."


def _why_not(
    their_id: int, known: Mapping[int, Moving], changed: Collection[int], moved: Moved
) -> tuple[str, str]:
    if their_id not in known:
        return "=", _NOT_IMPORTED
    if their_id in changed:
        return "!", _CHANGED_SINCE
    if their_id in moved.refused:
        return "!", moved.refused[their_id].text
    why = moved.unchanged.get(their_id)
    return "=", _UNCHANGED.get(why.value if why else "", "it is as it should be")


def moved_as_json(
    chosen: Sequence[XxlJob],
    groups: Mapping[int, str],
    known: Mapping[int, Moving],
    changed: Collection[int],
    moved: Moved,
    *,
    taken_over: bool,
    zone: Zone,
) -> Iterator[str]:
    """For programs."""
    jobs = []
    for job in chosen:
        is_moved = job.id in moved.moved
        at = moved.moved.get(job.id)
        sign, text = (">", None) if is_moved else _why_not(job.id, known, changed, moved)
        jobs.append(
            {
                "xxl_job_id": job.id,
                "id": known[job.id].job_id if job.id in known else None,
                "name": known[job.id].name if job.id in known else job.name,
                "executor": groups.get(job.group_id),
                "outcome": {">": "moved", "=": "unchanged", "!": "refused"}[sign],
                "from": None if at is None else _local(at, zone),
                "from_ms": at,
                "why": text,
            }
        )
    value = {"moved_to": "tickwheel" if taken_over else "xxl-job", "jobs": jobs}
    yield json.dumps(value, ensure_ascii=False, indent=2)


def _local(at: int, zone: Zone) -> str:
    offset = zone.segment_at(at // 1_000).offset
    wall = _EPOCH + timedelta(seconds=at // 1_000 + offset)
    sign, minutes = ("-" if offset < 0 else "+"), abs(offset) // 60
    return f"{wall:%Y-%m-%d %H:%M:%S} {sign}{minutes // 60:02}:{minutes % 60:02}"
