"""What may bring an end forward: changes that somebody could make now, to be simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from msgspec import structs

from tickwheel_admin.domain.forecast.critical_path import PathStep, WaitReason
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    workflows_of_steps,
)

FIRST_PRIORITY = 1
SKIPPED_ALONE = 2  # of the jobs that hold slots, those that hold most are left out one by one
SKIPPED_TOGETHER = 5


class RemedyKind(StrEnum):
    """What is done. The values are part of the API."""

    PRIORITY = "priority"  # the jobs get priority 1
    SLOTS = "slots"  # each node of the executor gets so many slots more
    SKIP = "skip"  # what the jobs have running, queued and planned is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something that may help."""

    kind: RemedyKind
    job_ids: tuple[int, ...] = ()
    executor_id: int = 0  # of SLOTS
    slots: int = 0  # of SLOTS: more for each node


def remedies_for(
    path: Sequence[PathStep], situation: ForecastSituation, *, job_id: int
) -> list[Remedy]:
    """What could help the last run of a path; without waits for slots there is nothing."""
    waits = [step for step in path if step.waits_for in (WaitReason.SLOT, WaitReason.POOL)]
    if not waits:
        return []
    jobs = {job.id: job for job in situation.jobs}
    # What holds slots for a workflow can be left out with the whole of it only.
    workflows = workflows_of_steps(situation.jobs)
    held: Counter[int] = Counter()
    for step in waits:
        for holder in step.holders:
            held[workflows.get(holder.job_id, holder.job_id)] += holder.held_ms
    # To leave out those whose ends ask for its run would leave it out.
    chain = {job_id, *(step.job_id for step in path)}
    chain |= {workflows[each] for each in chain if each in workflows}
    found = []
    waiting = tuple(sorted({step.job_id for step in waits} | {job_id}))
    if any(_has_room_above(jobs[each]) for each in waiting):
        found.append(Remedy(kind=RemedyKind.PRIORITY, job_ids=waiting))
    if any(step.waits_for is WaitReason.SLOT for step in waits):
        executor_id = jobs[job_id].executor_id
        found += [
            Remedy(kind=RemedyKind.SLOTS, executor_id=executor_id, slots=more) for more in (1, 2)
        ]
    ahead = [each for each, _ in held.most_common() if each not in chain]
    found += [Remedy(kind=RemedyKind.SKIP, job_ids=(each,)) for each in ahead[:SKIPPED_ALONE]]
    if len(ahead) > 1:
        together = tuple(sorted(ahead[:SKIPPED_TOGETHER]))
        found.append(Remedy(kind=RemedyKind.SKIP, job_ids=together))
    return found


def _has_room_above(job: ForecastJob) -> bool:
    priorities = [job.config.priority, *(trigger.spec.priority for trigger in job.triggers)]
    return any(each is not None and each > FIRST_PRIORITY for each in priorities)


def with_remedy(situation: ForecastSituation, remedy: Remedy) -> ForecastSituation:
    """The situation as it would be; runs that are queued keep their priority, as in an edit."""
    match remedy.kind:
        case RemedyKind.PRIORITY:
            jobs = tuple(_first(job) if job.id in remedy.job_ids else job for job in situation.jobs)
            return replace(situation, jobs=jobs)
        case RemedyKind.SLOTS:
            nodes = tuple(
                structs.replace(node, slots=node.slots + remedy.slots)
                if node.executor_id == remedy.executor_id and node.takes_runs
                else node
                for node in situation.nodes
            )
            return replace(situation, nodes=nodes)
        case RemedyKind.SKIP:
            return _without(situation, remedy.job_ids)


def _first(job: ForecastJob) -> ForecastJob:
    triggers = tuple(
        replace(trigger, spec=structs.replace(trigger.spec, priority=None))
        for trigger in job.triggers
    )
    return replace(job, config=replace(job.config, priority=FIRST_PRIORITY), triggers=triggers)


def _without(situation: ForecastSituation, job_ids: Collection[int]) -> ForecastSituation:
    workflows = workflows_of_steps(situation.jobs)
    left_out = {*job_ids, *(step for step, job_id in workflows.items() if job_id in job_ids)}
    return replace(
        situation,
        jobs=tuple(
            replace(job, paused=True) if job.id in job_ids else job for job in situation.jobs
        ),
        open_runs=tuple(run for run in situation.open_runs if run.job_id not in left_out),
    )
