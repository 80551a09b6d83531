"""Why a queued run did not start, by what was the case at an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tickwheel_admin.domain.as_of.nodes import NodePeriod
from tickwheel_admin.domain.as_of.runs import RunThen, StandingThen
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.policy import admits
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.self_audit.past import PausePeriod
from tickwheel_admin.domain.triggers.reason import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitedFor:
    """The first reason that held."""

    reason: Reason
    runs: tuple[int, ...] = ()  # that it waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class SituationThen:
    """What was the case at the instant for a job's executor."""

    at: int
    pauses: Sequence[PausePeriod]  # that held, of the executor and of everything
    nodes: Sequence[NodePeriod]  # that were live
    in_use: Mapping[int, int]  # slots taken, by node
    offers: Mapping[int, Node] = field(default_factory=dict)  # what each node says it can do
    live_of_job: Sequence[RunThen] = ()


def is_parked(then: RunThen, config: JobConfig | None, live_of_job: Sequence[RunThen]) -> bool:
    """Whether a queued run waited for earlier ones of its job."""
    return (
        then.standing is StandingThen.QUEUED
        and config is not None
        and config.blocking.strategy is not Blocking.PARALLEL
        and sum(each.run.id != then.run.fire_id for each in live_of_job)
        >= config.blocking.concurrency
    )


def why_it_waited(then: RunThen, config: JobConfig, situation: SituationThen) -> WaitedFor | None:
    """Why a run had not started; None: it had."""
    if then.is_live:
        return None
    if then.standing is StandingThen.PLANNED:
        return _told(
            "not_due",
            template="It was not due yet.",
        )
    if then.attempt:
        return _told(
            "retry",
            template="It waited for its next try, after try %(number)d.",
            number=then.attempt,
        )
    pause = next((e for e in situation.pauses if e.paused_at < then.run.scheduled_at), None)
    if pause is not None and then.run.trigger_id is not None and then.run.fire_id is None:
        since = instant_to_iso(pause.paused_at)
        return _told(
            "paused",
            template="Its executor, or everything, was paused since %(since)s.",
            since=since,
        )
    if then.standing is StandingThen.PARKED:
        return WaitedFor(
            reason=Reason(
                code="blocked",
                template="It waited for earlier runs of its job: %(count)d of them were live.",
                params={"count": len(situation.live_of_job)},
            ),
            runs=tuple(each.run.id for each in situation.live_of_job),
        )
    return _for_a_node(config, situation)


def _for_a_node(config: JobConfig, situation: SituationThen) -> WaitedFor:
    nodes, known = situation.nodes, situation.offers
    if not nodes:
        return _told(
            "no_live_node",
            template="No node of its executor was connected.",
        )
    offering = [
        each
        for each in nodes
        if each.node_id not in known or known[each.node_id].offers(config.handler)
    ]
    if config.script is None and config.workflow is None and not offering:
        return _told(
            "no_handler",
            template="None of the %(nodes)d nodes that were connected offered the handler"
            " “%(handler)s”.",
            nodes=len(nodes),
            handler=config.handler,
        )
    offering = offering or list(nodes)
    matching = [
        each
        for each in offering
        if each.node_id not in known
        or admits(config.routing, name=each.name, labels=known[each.node_id].labels)
    ]
    if not matching:
        return _told(
            "no_matching_node",
            template="None of the %(nodes)d nodes that were connected was one that its routing"
            " asks for.",
            nodes=len(offering),
        )
    ready = [each for each in matching if each.takes_runs]
    if not ready and any(each.cordoned for each in matching):
        return _told(
            "cordoned", template="Every node that it could run on was cordoned or shutting down."
        )
    if not ready:
        return _told(
            "draining",
            template="Every node that it could run on was shutting down.",
        )
    slots = sum(each.slots for each in ready)
    if all(situation.in_use.get(each.node_id, 0) >= each.slots for each in ready):
        return _told(
            "no_free_slot",
            template="All %(slots)d slots were taken.",
            slots=slots,
        )
    if config.pool is not None:
        return _told(
            "pool",
            template="It was about to start, or waited for a slot of the pool %(name)s: how full it"
            " was is not kept.",
            name=config.pool.name,
        )
    return _told("starting", template="It was about to start.")


def _told(code: str, *, template: str, **params: object) -> WaitedFor:
    return WaitedFor(reason=Reason(code=code, template=template, params=dict(params)))
