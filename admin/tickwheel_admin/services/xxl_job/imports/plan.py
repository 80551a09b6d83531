"""What an import from XXL-JOB would do, as records: executors, jobs and users with their fates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.schedule.zones import Zone


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
    # Scripts that a new job had before, as `raw` has its own, oldest first.
    earlier_scripts: tuple[Mapping[str, Any], ...] = field(repr=False, default=())
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


def kept(what: str) -> ImportNote:
    """Of what differs on both sides from what was imported."""
    return note("kept", f"{what}: changed in XXL-JOB and here, so it stays as it is here")
