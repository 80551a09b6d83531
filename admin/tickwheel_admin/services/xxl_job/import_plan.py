"""What an import from XXL-JOB would do: worked out from both sides, changing nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.executors.executor import MAX_DESCRIPTION_CHARS
from tickwheel_admin.domain.executors.xxl_job import normal_address, read_settings
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind, merge_fields
from tickwheel_admin.domain.imports.names import unique_name
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role
from tickwheel_admin.domain.xxl_job.mapping import (
    fields_of_job,
    link_children,
    map_job,
)
from tickwheel_admin.domain.xxl_job.records import ScheduleType, XxlGroup, XxlJob, XxlUser
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.executors import executor_name_is_taken
from tickwheel_admin.store.imports.records import Imports, StoredImport, read_imports
from tickwheel_admin.store.jobs import jobs as store_jobs
from tickwheel_admin.store.users.grants import grants_of
from tickwheel_admin.store.users.users import find_user, get_user
from tickwheel_admin.store.xxl_job.executors import StoredXxlExecutor, read_xxl_executors
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_admin.store.xxl_job.source.tables import (
    read_group_tokens,
    read_groups,
    read_jobs,
    read_users,
)

_CONFIGS_AT_ONCE = 500
_USER_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")


class NothingToImport(ValueError):
    """The filter leaves nothing, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlInstallation:
    """What is read of theirs."""

    groups: Sequence[XxlGroup]
    jobs: Sequence[XxlJob]
    users: Sequence[XxlUser]
    tokens: Mapping[int, str] = field(repr=False)  # by group


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """What is asked."""

    source: str  # names the installation
    cron_zone: Zone
    groups: Collection[str] = ()  # these only, by app name or title
    job_ids: Collection[int] = ()  # these only

    @property
    def is_whole(self) -> bool:
        return not self.groups and not self.job_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedExecutor:
    """A group of theirs."""

    their_id: int
    name: str  # here
    fate: Fate
    our_id: int | None = None  # None: it is to be created
    app_name: str = ""
    title: str = ""
    addresses: tuple[str, ...] | None = None
    content: Mapping[str, Any] = field(default_factory=dict)  # what counts as imported
    changes: tuple[str, ...] = ()
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()
    same_as: int | None = None  # the group whose executor it shares


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """A job of theirs."""

    their_id: int
    group_id: int
    name: str  # here
    fate: Fate
    our_id: int | None = None
    revision: int = 0  # of ours, from which a change is made
    raw: Mapping[str, Any] = field(default_factory=dict)  # as it shall be here, without children
    content: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    is_rebased: bool = False  # what counts as imported changes, and nothing else
    links: tuple[int, ...] | None = None  # XXL-JOB's ids of its children to be; None: as they are
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUser:
    """A person of theirs."""

    their_id: int
    name: str
    fate: Fate
    our_id: int | None = None
    is_admin: bool = False
    group_ids: tuple[int, ...] = ()
    notes: tuple[ImportNote, ...] = ()
    reasons: tuple[ImportNote, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What an import would do."""

    request: ImportRequest
    executors: Sequence[PlannedExecutor]
    jobs: Sequence[PlannedJob]
    users: Sequence[PlannedUser]
    gone_jobs: Mapping[int, str]  # imported before, XXL-JOB has them no more: our names
    needs_token: tuple[str, ...]  # app names of executors to be created without a token of theirs

    def counts(self, kind: ImportKind) -> Counter[Fate]:
        """How many of a kind have which fate."""
        items: Mapping[ImportKind, Sequence[PlannedExecutor | PlannedJob | PlannedUser]] = {
            ImportKind.EXECUTOR: self.executors,
            ImportKind.JOB: self.jobs,
            ImportKind.USER: self.users,
        }
        return Counter(each.fate for each in items.get(kind, ()))


def read_installation(source: Source) -> XxlInstallation:
    """Groups, jobs and users; raises SourceError."""
    return XxlInstallation(
        groups=list(read_groups(source)),
        jobs=list(read_jobs(source, with_source=True)),
        users=list(read_users(source)),
        tokens=read_group_tokens(source),
    )


def chosen_jobs(
    theirs: XxlInstallation, *, groups: Collection[str], job_ids: Collection[int]
) -> list[XxlJob]:
    """Those that the filter leaves.

    Raises:
        NothingToImport: a name or an id is nowhere.
    """
    wanted = [group for group in theirs.groups if {group.app_name, group.title} & set(groups)]
    for name in groups:
        if all(name not in (group.app_name, group.title) for group in wanted):
            raise NothingToImport(f"there is no executor “{name}” in XXL-JOB")
    known = {job.id for job in theirs.jobs}
    for job_id in job_ids:
        if job_id not in known:
            raise NothingToImport(f"there is no job {job_id} in XXL-JOB")
    group_ids = {group.id for group in wanted}
    return [
        job
        for job in theirs.jobs
        if (not groups or job.group_id in group_ids) and (not job_ids or job.id in job_ids)
    ]


def needs_cron_zone(jobs: Iterable[XxlJob]) -> bool:
    """Whether any of them has a schedule that a zone decides about."""
    return any(job.schedule_type == ScheduleType.CRON for job in jobs)


def plan_import(conn: sa.Connection, theirs: XxlInstallation, request: ImportRequest) -> ImportPlan:
    """Work out the plan.

    Raises:
        NothingToImport: the filter names what is not there.
    """
    jobs = chosen_jobs(theirs, groups=request.groups, job_ids=request.job_ids)
    planning = _Planning(conn, theirs, request)
    concerned = {job.group_id for job in jobs}
    for group in theirs.groups:
        named = {group.app_name, group.title} & set(request.groups)
        if request.is_whole or group.id in concerned or (named and not request.job_ids):
            planning.add_executor(group)
    planned = planning.link([planning.job(job) for job in jobs])
    users = [planning.user(each) for each in theirs.users] if request.is_whole else []
    alive = {job.id for job in theirs.jobs}
    return ImportPlan(
        request=request,
        executors=list(planning.executors.values()),
        jobs=planned,
        users=users,
        gone_jobs={
            their_id: planning.configs[stored.our_id].name
            for (kind, their_id), stored in planning.imports.items()
            if kind is ImportKind.JOB and their_id not in alive
            if stored.our_id in planning.configs and request.is_whole
        },
        needs_token=tuple(
            each.app_name
            for each in planning.executors.values()
            if each.fate is Fate.CREATED and each.our_id is None and each.same_as is None
            if not theirs.tokens.get(each.their_id)
        ),
    )


class _Planning:
    """Both sides, and what is planned so far."""

    def __init__(
        self, conn: sa.Connection, theirs: XxlInstallation, request: ImportRequest
    ) -> None:
        self._conn = conn
        self._request = request
        self._now = now_ms(conn)
        self.imports: Imports = read_imports(conn, request.source)
        self.configs: dict[int, JobConfig] = {}
        stored = [s.our_id for (kind, _), s in self.imports.items() if kind is ImportKind.JOB]
        self._brief = store_jobs.brief_jobs(conn, stored)
        for start in range(0, len(stored), _CONFIGS_AT_ONCE):
            some = stored[start : start + _CONFIGS_AT_ONCE]
            self.configs |= store_jobs.current_configs(conn, some)
        self._their_job = {
            s.our_id: their_id for (k, their_id), s in self.imports.items() if k is ImportKind.JOB
        }
        self._ours: dict[int, StoredXxlExecutor] = {
            each.executor_id: each for each in read_xxl_executors(conn)
        }
        self._by_app = {each.app_name: each for each in self._ours.values()}
        self._planned_apps: dict[str, PlannedExecutor] = {}
        self._names: set[str] = set()
        self._taken: dict[int, dict[str, int]] = {}  # job names, by group of the executor
        self.executors: dict[int, PlannedExecutor] = {}
        names: dict[int, set[str]] = {}
        for job in theirs.jobs:
            names.setdefault(job.group_id, set()).add(job.name)
        self._job_names = names

    # --- executors -------------------------------------------------------------------------------

    def add_executor(self, group: XxlGroup) -> None:
        """Plan a group."""
        planned = self._executor(group)
        self.executors[group.id] = planned
        if planned.fate is Fate.CANNOT:
            return
        if planned.same_as is None:
            self._planned_apps[planned.app_name] = planned
        self._taken[group.id] = self._taken_names(planned)

    def _executor(self, group: XxlGroup) -> PlannedExecutor:
        addresses, notes = _addresses(group)
        title = _title(group.title)
        settings, problems = read_settings(
            app_name=group.app_name, token=None, addresses=addresses or None
        )
        content = {
            "app_name": settings.app_name,
            "addresses": None if settings.addresses is None else list(settings.addresses),
        }
        planned = PlannedExecutor(
            their_id=group.id,
            name=group.app_name,
            fate=Fate.CREATED,
            app_name=settings.app_name,
            title=title,
            addresses=settings.addresses,
            content=content,
            notes=tuple(notes),
        )
        if problems:
            reasons = tuple(note("app_name", f"AppName: {each.message}") for each in problems)
            return replace(planned, fate=Fate.CANNOT, reasons=reasons)
        stored = self.imports.get((ImportKind.EXECUTOR, group.id))
        first = self._planned_apps.get(planned.app_name)
        if stored is not None:
            return self._known_executor(planned, stored, first)
        if first is not None:
            text = f"has the AppName of executor {first.their_id}: its jobs go to that one"
            return replace(
                planned,
                name=first.name,
                fate=Fate.UNCHANGED,
                our_id=first.our_id,
                same_as=first.their_id,
                notes=(*notes, note("same_app_name", text)),
            )
        if (ours := self._by_app.get(planned.app_name)) is not None:
            return replace(
                planned,
                name=ours.name,
                fate=Fate.UNCHANGED,
                our_id=ours.executor_id,
                notes=(*notes, note("exists", "is here already: its jobs are added to it")),
            )
        return replace(planned, name=self._free_name(planned.app_name, group.id))

    def _known_executor(
        self, planned: PlannedExecutor, stored: StoredImport, first: PlannedExecutor | None
    ) -> PlannedExecutor:
        ours = self._ours.get(stored.our_id)
        if ours is None:
            reason = note("deleted_here", "was imported, and deleted here since")
            return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
        planned = replace(planned, name=ours.name, our_id=ours.executor_id)
        if first is not None:
            told = note("same_app_name", f"shares the executor of {first.their_id}")
            return replace(
                planned,
                fate=Fate.UNCHANGED,
                same_as=first.their_id,
                notes=(*planned.notes, told),
            )
        mine = {
            "app_name": ours.app_name,
            "addresses": None if ours.addresses is None else list(ours.addresses),
        }
        merge = merge_fields(stored.content, planned.content, mine)
        notes = planned.notes + tuple(_kept(each) for each in merge.kept)
        addresses = merge.values["addresses"]
        return replace(
            planned,
            fate=Fate.CHANGED if merge.changed else Fate.UNCHANGED,
            app_name=merge.values["app_name"],
            addresses=None if addresses is None else tuple(addresses),
            content=merge.base,
            changes=merge.changed,
            notes=notes,
        )

    def _free_name(self, app_name: str, their_id: int) -> str:
        base = re.sub(r"[^a-z0-9._-]+", "-", app_name.lower()).strip("._-")[:90]
        base = base or f"xxl-job-{their_id}"
        for name in (base, f"{base}-xxl-job", f"{base}-{their_id}", f"xxl-job-{their_id}-{base}"):
            if name not in self._names and not executor_name_is_taken(self._conn, name):
                break
        self._names.add(name)
        return name

    def _taken_names(self, planned: PlannedExecutor) -> dict[str, int]:
        """Names of jobs that the executor has here, by the id of the job; 0: a planned one."""
        if planned.same_as is not None and planned.same_as in self._taken:
            taken = self._taken[planned.same_as]
        else:
            taken = {}
        if planned.our_id is not None:
            names = self._job_names.get(planned.their_id, ())
            taken |= _jobs_named(self._conn, planned.our_id, names)
        for brief in self._brief.values():
            if brief.executor_id == planned.our_id:
                taken[brief.name] = brief.id
        return taken

    # --- jobs ------------------------------------------------------------------------------------

    def job(self, job: XxlJob) -> PlannedJob:
        """Plan a job; its children are planned by `link`."""
        executor = self.executors.get(job.group_id)
        stored = self.imports.get((ImportKind.JOB, job.id))
        mapped = map_job(
            fields_of_job(job),
            cron_zone=self._request.cron_zone.name,
            their_id=job.id,
            now=self._now,
        )
        planned = PlannedJob(
            their_id=job.id,
            group_id=job.group_id,
            name=str(mapped.raw["name"]),
            fate=Fate.CREATED,
            raw=mapped.raw,
            links=mapped.children,
            notes=mapped.notes,
            reasons=mapped.reasons,
        )
        if executor is None:
            return _refused(planned, "executor_gone", "its executor is gone from XXL-JOB")
        if executor.fate is Fate.CANNOT:
            return _refused(planned, "executor", "its executor cannot be imported")
        if planned.reasons:
            return replace(planned, fate=Fate.CANNOT)
        if stored is not None:
            return self._known_job(planned, stored, executor)
        taken = self._taken[job.group_id]
        name = unique_name(planned.name, taken, mark=job.id)
        content = {"job": dict(mapped.raw), "name": name, "children": []}
        if name != planned.name:
            told = note("name_taken", f"another job is called “{planned.name}”: named “{name}”")
            planned = replace(planned, notes=(*planned.notes, told))
        taken[name] = 0
        return replace(planned, name=name, raw={**mapped.raw, "name": name}, content=content)

    def _known_job(
        self, planned: PlannedJob, stored: StoredImport, executor: PlannedExecutor
    ) -> PlannedJob:
        config, brief = self.configs.get(stored.our_id), self._brief.get(stored.our_id)
        if config is None or brief is None:
            return _refused(planned, "deleted_here", "was imported, and deleted here since")
        base: dict[str, Any] = dict(stored.content["job"])
        mine = job_to_raw(config)
        mine.pop("children")
        # The name that it got here may differ from theirs, and is no edit.
        named = mine["name"] == stored.content["name"]
        merge = merge_fields(base, planned.raw, mine | ({"name": base["name"]} if named else {}))
        values = {**merge.values}
        name = config.name
        if "name" in merge.changed:
            taken = self._taken[planned.group_id]
            others = {each for each, job_id in taken.items() if job_id != stored.our_id}
            name = unique_name(values["name"], others, mark=planned.their_id)
            taken[name] = stored.our_id
        values["name"] = name
        notes = planned.notes + tuple(_kept(each) for each in merge.kept)
        if executor.our_id != brief.executor_id:
            text = f"belongs to “{executor.name}” in XXL-JOB now; here it stays where it is"
            notes = (*notes, note("moved", text))
        return replace(
            planned,
            name=name,
            fate=Fate.CHANGED if merge.changed else Fate.UNCHANGED,
            our_id=stored.our_id,
            revision=brief.revision,
            raw=values,
            content={
                "job": dict(merge.base),
                "name": name if named else stored.content["name"],
                "children": list(stored.content["children"]),
            },
            changes=merge.changed,
            is_rebased=merge.base != base,
            notes=notes,
        )

    def link(self, planned: Sequence[PlannedJob]) -> list[PlannedJob]:
        """Plan the children of all jobs."""
        known = {each.their_id for each in planned if each.fate is not Fate.CANNOT}
        known |= {their for our, their in self._their_job.items() if our in self.configs}
        wanted = {each.their_id: each.links or () for each in planned if each.their_id in known}
        linked = link_children(wanted, known)
        return [
            self._linked(
                each,
                linked.links.get(each.their_id, ()),
                linked.notes.get(each.their_id, ()),
            )
            for each in planned
        ]

    def _linked(
        self, planned: PlannedJob, links: tuple[int, ...], notes: Sequence[ImportNote]
    ) -> PlannedJob:
        planned = replace(planned, notes=(*planned.notes, *notes), links=None)
        if planned.fate is Fate.CANNOT:
            return planned
        if planned.our_id is None:
            return replace(planned, links=links or None)
        before = tuple(planned.content["children"])
        if links == before:
            return planned
        children = self.configs[planned.our_id].children
        ours = tuple(self._their_job.get(link.job_id, -1) for link in children)
        if ours not in (before, links) or any(link.on.value != "success" for link in children):
            return replace(planned, notes=(*planned.notes, _kept("children")))
        return replace(
            planned, fate=Fate.CHANGED, changes=(*planned.changes, "children"), links=links
        )

    # --- users -----------------------------------------------------------------------------------

    def user(self, user: XxlUser) -> PlannedUser:
        """Plan a person."""
        name = user.username.lower()
        usable = {each.their_id for each in self.executors.values() if each.fate != Fate.CANNOT}
        planned = PlannedUser(
            their_id=user.id,
            name=name,
            fate=Fate.CREATED,
            is_admin=user.is_admin,
            group_ids=() if user.is_admin else tuple(sorted(usable & set(user.group_ids))),
        )
        if not _USER_NAME.fullmatch(name):
            reason = note("user_name", "names here have a-z, 0-9 and . _ @ - only")
            return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
        stored = self.imports.get((ImportKind.USER, user.id))
        if stored is None:
            if (found := find_user(self._conn, name)) is None:
                return planned
            told = note("exists", "is here already: left as it is")
            return replace(planned, fate=Fate.UNCHANGED, our_id=found.id, notes=(told,))
        known = get_user(self._conn, stored.our_id)
        if known is None:
            reason = note("deleted_here", "was imported, and deleted here since")
            return replace(planned, fate=Fate.CANNOT, reasons=(reason,))
        planned = replace(planned, name=known.name, our_id=known.id, fate=Fate.UNCHANGED)
        if user_content(planned) == stored.content:
            return planned
        ours = grants_of(self._conn, known.id)
        executors = {each.their_id: each.our_id for each in self.executors.values()}
        if ours != grants_of_content(stored.content, executors):
            return replace(planned, notes=(_kept("rights"),))
        return replace(planned, fate=Fate.CHANGED)


def user_content(user: PlannedUser) -> dict[str, Any]:
    """What is kept of a person."""
    return {"is_admin": user.is_admin, "groups": list(user.group_ids)}


def grants_of_content(
    content: Mapping[str, Any], executors: Mapping[int, int | None]
) -> dict[int, Grant]:
    """The grants of a person; those who may use a group in XXL-JOB edit its jobs there.

    Args:
        executors: ours by their groups.
    """
    if content["is_admin"]:
        return {ALL_EXECUTORS: Grant(Role.ADMIN)}
    found = (executors.get(each) for each in content["groups"])
    return {each: Grant(Role.DEVELOPER) for each in found if each is not None}


def zone_imported(imports: Imports) -> str | None:
    """The zone of cron of an earlier import; None: there was none."""
    zones = Counter(
        trigger["timezone"]
        for (kind, _), stored in imports.items()
        if kind is ImportKind.JOB
        for trigger in stored.content["job"]["triggers"]
        if trigger["kind"] == "cron"
    )
    return zones.most_common(1)[0][0] if zones else None


# --- helpers -------------------------------------------------------------------------------------


def _addresses(group: XxlGroup) -> tuple[list[str], list[ImportNote]]:
    """Those that a person typed in; none: its processes register themselves."""
    if not group.is_manual:
        return [], []
    good = [each for each in group.addresses if normal_address(each) is not None]
    notes = [
        note("address", f"address “{each[:60]}” is none, left out")
        for each in group.addresses
        if each not in good
    ]
    if not good:
        notes.append(note("no_addresses", "has no address: its processes register themselves"))
    return good, notes


def _title(text: str) -> str:
    return text[:MAX_DESCRIPTION_CHARS] if is_clean(text) else ""


def _jobs_named(conn: sa.Connection, executor_id: int, names: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    ordered = sorted(names)
    for start in range(0, len(ordered), _CONFIGS_AT_ONCE):
        some = ordered[start : start + _CONFIGS_AT_ONCE]
        found |= store_jobs.jobs_named(conn, executor_id, some)
    return found


def _refused(planned: PlannedJob, code: str, text: str) -> PlannedJob:
    reason = note(code, text)
    return replace(planned, fate=Fate.CANNOT, reasons=(reason, *planned.reasons))


def _kept(what: str) -> ImportNote:
    return note("kept", f"{what}: changed in XXL-JOB and here, so it stays as it is here")
