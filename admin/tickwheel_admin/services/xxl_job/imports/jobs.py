"""Plans the jobs of an import, and then their children."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickwheel_admin.domain.imports.fate import Fate
from tickwheel_admin.domain.imports.merge import ImportKind, merge_fields
from tickwheel_admin.domain.imports.names import unique_name
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.child_links import link_children
from tickwheel_admin.domain.xxl_job.glue_history import earlier_scripts
from tickwheel_admin.domain.xxl_job.job_fields import fields_of_job
from tickwheel_admin.domain.xxl_job.mapping import map_job
from tickwheel_admin.domain.xxl_job.records import GlueVersion, XxlJob
from tickwheel_admin.services.xxl_job.imports.executors import ExecutorPlans
from tickwheel_admin.services.xxl_job.imports.known import KnownHere
from tickwheel_admin.services.xxl_job.imports.plan import PlannedExecutor, PlannedJob, kept
from tickwheel_admin.store.imports.records import StoredImport


class JobPlans:
    """Plans jobs whose executors are planned."""

    def __init__(
        self,
        known: KnownHere,
        executors: ExecutorPlans,
        *,
        glue: Mapping[int, Sequence[GlueVersion]],
        cron_zone: Zone,
        now: int,
    ) -> None:
        """A schedule that never fires after `now`, UTC epoch ms, is left out.

        Args:
            glue: scripts that their jobs have or had, by job, oldest first.
        """
        self._known = known
        self._executors = executors
        self._glue = glue
        self._cron_zone = cron_zone
        self._now = now

    def plan(self, job: XxlJob) -> PlannedJob:
        """Plan a job; its children are planned by `link`."""
        executor = self._executors.planned.get(job.group_id)
        stored = self._known.imports.get((ImportKind.JOB, job.id))
        mapped = map_job(
            fields_of_job(job),
            cron_zone=self._cron_zone.name,
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
        taken = self._executors.taken_names(job.group_id)
        name = unique_name(planned.name, taken, mark=job.id)
        content = {"job": dict(mapped.raw), "name": name, "children": []}
        if name != planned.name:
            told = note("name_taken", f"another job is called “{planned.name}”: named “{name}”")
            planned = replace(planned, notes=(*planned.notes, told))
        taken[name] = 0
        earlier, notes = earlier_scripts(mapped.raw, self._glue.get(job.id, ()))
        return replace(
            planned,
            name=name,
            raw={**mapped.raw, "name": name},
            content=content,
            earlier_scripts=earlier,
            notes=(*planned.notes, *notes),
        )

    def _known_job(
        self, planned: PlannedJob, stored: StoredImport, executor: PlannedExecutor
    ) -> PlannedJob:
        config, brief = self._known.configs.get(stored.our_id), self._known.brief.get(stored.our_id)
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
            taken = self._executors.taken_names(planned.group_id)
            others = {each for each, job_id in taken.items() if job_id != stored.our_id}
            name = unique_name(values["name"], others, mark=planned.their_id)
            taken[name] = stored.our_id
        values["name"] = name
        notes = planned.notes + tuple(kept(each) for each in merge.kept)
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
        known |= {
            their for our, their in self._known.their_job.items() if our in self._known.configs
        }
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
        children = self._known.configs[planned.our_id].children
        ours = tuple(self._known.their_job.get(link.job_id, -1) for link in children)
        if ours not in (before, links) or any(link.on.value != "success" for link in children):
            return replace(planned, notes=(*planned.notes, kept("children")))
        return replace(
            planned, fate=Fate.CHANGED, changes=(*planned.changes, "children"), links=links
        )


def _refused(planned: PlannedJob, code: str, text: str) -> PlannedJob:
    reason = note(code, text)
    return replace(planned, fate=Fate.CANNOT, reasons=(reason, *planned.reasons))
