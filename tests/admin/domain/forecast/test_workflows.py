"""Workflows in forecasts: which steps run when, what they take, and what is known of their lists,
conditions and approvals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.admin.domain.forecast.situations import DAY_MS, HOUR_MS, NOW, cron, job, node, situation
from tests.admin.kit.workflows import step
from tickwheel_admin.domain.forecast.changes import JobEdit
from tickwheel_admin.domain.forecast.comparison import compare
from tickwheel_admin.domain.forecast.critical_path import WaitReason
from tickwheel_admin.domain.forecast.journal import Journal, JournalRun
from tickwheel_admin.domain.forecast.night_plan import (
    DeadlineVerdict,
    PlanDeadline,
    PlanRequest,
    answer_plan,
    plan_night,
)
from tickwheel_admin.domain.forecast.simulation import Simulation
from tickwheel_admin.domain.forecast.situation import (
    ForecastJob,
    ForecastSituation,
    MeasuredRun,
    MeasuredStep,
    OpenRun,
    OpenStep,
)
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    Approval,
    ForEach,
    InlineJob,
    JobStep,
    Silence,
    Step,
    SubWorkflow,
    Tolerance,
    Wait,
    Workflow,
)
from tickwheel_admin.domain.workflows.states import StepState

MINUTE_MS = 60_000
ONE = cron("0 1 * * *")
WORKFLOW = 1
MEASURED = MeasuredStep(wanted=True, items=None, waited_ms=0, succeeded=True)


def workflow(
    *steps: Step,
    minutes: Mapping[str, int | None] | None = None,
    number: int = WORKFLOW,
    specs: tuple[Any, ...] = (ONE,),
    graphs: tuple[dict[str, MeasuredStep], ...] = (),
    **config: Any,
) -> list[ForecastJob]:
    """It and its hidden jobs, number * 10 and what follows; a step takes ten minutes.

    Args:
        minutes: of steps that take another time; None: the step fails after ten.
    """
    found, inline = [], []
    for place, each in enumerate(steps):
        if not hasattr(each.body, "handler"):
            continue
        hidden = number * 10 + place
        lasts = (minutes or {}).get(each.key, 10)
        state = RunState.FAILED if lasts is None else RunState.SUCCEEDED
        measured = (MeasuredRun(state, (lasts or 10) * MINUTE_MS, 1),)
        found.append(
            replace(job(hidden, measured=measured, name=f"flow/{each.key}"), is_hidden=True)
        )
        inline.append(InlineJob(step=each.key, job_id=hidden, revision=1))
    graph = Workflow(steps=steps, inline=tuple(inline))
    whole = job(number, *specs, handler=HANDLER, workflow=graph, **config)
    return [replace(whole, graphs=graphs), *found]


def simulated(found: ForecastSituation, hours: int = 12, **changes: Any) -> list[JournalRun]:
    journal = Journal()
    Simulation(found, end=NOW + hours * HOUR_MS, journal=journal, **changes).run()
    return list(journal.runs.values())


def told(runs: list[JournalRun]) -> dict[int, list[tuple[float | None, float | None]]]:
    """Starts and ends by job, in minutes since 01:00."""
    found: dict[int, list[tuple[float | None, float | None]]] = {}
    for run in runs:
        found.setdefault(run.job_id, []).append((since_one(run.start_at), since_one(run.end_at)))
    return found


def since_one(at: int | None) -> float | None:
    return None if at is None else (at - NOW - HOUR_MS) / MINUTE_MS


def state_of(runs: list[JournalRun], job_id: int = WORKFLOW) -> RunState:
    [found] = [run for run in runs if run.job_id == job_id]
    return found.state


def test_steps_begin_by_their_needs_and_the_workflow_ends_with_the_last() -> None:
    jobs = workflow(step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"),
                    minutes={"c": 30})  # fmt: skip
    runs = simulated(situation(*jobs))
    assert told(runs) == {1: [(0, 50)], 10: [(0, 10)], 11: [(10, 20)], 12: [(10, 40)],
                          13: [(40, 50)]}  # fmt: skip
    assert state_of(runs) is RunState.SUCCEEDED


def test_steps_take_slots_and_wait_for_them() -> None:
    """Three at once on two slots; the workflow itself takes none."""
    jobs = workflow(step("a"), step("b"), step("c"))
    found = Simulation(situation(*jobs), end=NOW + 3 * HOUR_MS).run()
    assert sum(found.minutes) == 3 * 10 * MINUTE_MS
    assert told(simulated(situation(*jobs)))[12] == [(10, 20)]


def test_a_failure_skips_what_needs_success_and_begins_what_needs_it() -> None:
    steps = (step("a"), step("b", "a"), step("c", "b"), step("mend", "a:failed"))
    runs = simulated(situation(*workflow(*steps, minutes={"a": None})))
    assert sorted(told(runs)) == [1, 10, 13], "b and c are skipped"
    assert state_of(runs) is RunState.SUCCEEDED, "somebody handles the failure"
    alone = simulated(situation(*workflow(*steps[:3], minutes={"a": None})))
    assert state_of(alone) is RunState.FAILED


@pytest.mark.parametrize("held", [True, False, None])
def test_conditions_hold_as_in_a_run_that_was_measured(held: bool | None) -> None:
    steps = (step("a"), step("b", "a", when="parameters.x"), step("c", "b:ended"))
    graphs = () if held is None else ({"b": MEASURED._replace(wanted=held)},)
    runs = told(simulated(situation(*workflow(*steps, graphs=graphs))))
    assert (11 in runs) is (held is not False), "of nothing is known that it does not hold"
    assert runs[12] == [(10, 20) if held is False else (20, 30)]


def test_lists_have_as_many_items_as_they_had_or_as_are_written() -> None:
    measured = ({"a": MEASURED._replace(items=3)},)
    of_results = step("a", for_each=ForEach(items='"${parameters.files}"', max_parallel=1))
    runs = simulated(situation(*workflow(of_results, step("b", "a"), graphs=measured)))
    assert told(runs)[10] == [(0, 10), (10, 20), (20, 30)]
    assert told(runs)[11] == [(30, 40)]
    unknown = simulated(situation(*workflow(of_results)))
    assert len(told(unknown)[10]) == 1
    written = simulated(situation(*workflow(step("a", for_each=ForEach(items="[1, 2, 3, 4]")))))
    assert told(written)[10] == [(0, 10), (0, 10), (10, 20), (10, 20)]


def test_failed_items_are_tolerated_as_far_as_the_step_says() -> None:
    for tolerance, state, begun in (
        (Tolerance(percent=100), RunState.SUCCEEDED, 4),
        (Tolerance(count=1), RunState.FAILED, 2),
    ):
        each = ForEach(items="[1, 2, 3, 4]", max_parallel=1, tolerance=tolerance)
        runs = simulated(situation(*workflow(step("a", for_each=each), minutes={"a": None})))
        assert (state_of(runs), len(told(runs)[10])) == (state, begun)


def test_what_a_run_spawned_it_spawns_again() -> None:
    graphs = ({"a": MEASURED._replace(items=2)},)
    runs = told(simulated(situation(*workflow(step("a"), step("b", "a"), graphs=graphs))))
    assert runs[10] == [(0, 10), (10, 20), (10, 20)]
    assert runs[11] == [(20, 30)]


def test_waits_and_approvals_take_their_time_and_no_slot() -> None:
    steps = (
        step("ask", body=Approval()),
        step("wait", "ask", body=Wait(duration_ms=20 * MINUTE_MS)),
        step("a", "wait"),
    )
    measured = ({"ask": MEASURED._replace(waited_ms=HOUR_MS)},)
    assert told(simulated(situation(*workflow(*steps, graphs=measured))))[12] == [(80, 90)]
    assert told(simulated(situation(*workflow(*steps))))[12] == [(20, 30)]
    declined = ({"ask": MEASURED._replace(succeeded=False)},)
    assert state_of(simulated(situation(*workflow(*steps, graphs=declined)))) is RunState.FAILED


def test_steps_run_jobs_and_other_workflows() -> None:
    inner = workflow(step("x"), number=2, specs=())
    outer = workflow(
        step("a", body=JobStep(job_id=7)),
        step("b", "a", body=SubWorkflow(job_id=2)),
        step("c", "b"),
    )
    runs = told(simulated(situation(*outer, *inner, job(7, lasts_ms=5 * MINUTE_MS))))
    assert runs == {1: [(0, 25)], 7: [(0, 5)], 2: [(5, 15)], 20: [(5, 15)], 12: [(15, 25)]}


def test_a_step_whose_job_is_not_known_takes_the_usual_time() -> None:
    jobs = workflow(step("a", body=JobStep(job_id=99)), step("b", "a"))
    assert told(simulated(situation(*jobs)))[11] == [(10, 20)]


def test_a_timeout_and_a_newer_run_stop_the_steps() -> None:
    late = workflow(step("a", "b:ended"), step("b"), minutes={"b": 90}, timeout_ms=HOUR_MS)
    runs = simulated(situation(*late))
    assert told(runs) == {1: [(0, 60)], 11: [(0, 60)]}, "what waits does not begin"
    assert state_of(runs) is RunState.TIMED_OUT
    covered = workflow(
        step("a"), minutes={"a": 90}, specs=(cron("0,30 1 * * *"),),
        blocking=BlockingPolicy(strategy=Blocking.COVER_EARLY),
    )  # fmt: skip
    assert told(simulated(situation(*covered)))[10] == [(0, 30), (30, 120)]


def open_run(number: int, job_id: int, **changes: Any) -> OpenRun:
    values: dict[str, Any] = {
        "id": number, "job_id": job_id, "trigger_id": None, "origin": Origin.API,
        "scheduled_at": NOW - HOUR_MS, "due_at": NOW - HOUR_MS, "first_due_at": NOW - HOUR_MS,
        "priority": 5, "started_at": NOW - HOUR_MS, "tries": 1,
    }  # fmt: skip
    return OpenRun(**(values | changes))


def open_step(key: str, state: StepState, **changes: Any) -> OpenStep:
    values = {"since": NOW - HOUR_MS, "due_at": None, "items": None, "next_item": 0}
    return OpenStep(key=key, state=state, **(values | {"items_failed": 0} | changes))


def test_a_workflow_that_runs_goes_on_where_it_stands() -> None:
    jobs = workflow(step("a"), step("b", "a"), step("c", "b"), minutes={"b": 90}, specs=())
    running = (
        open_run(
            90, WORKFLOW, is_workflow=True,
            steps=(open_step("a", StepState.SUCCEEDED), open_step("b", StepState.RUNNING)),
        ),
        open_run(91, 11, origin=Origin.STEP, parent_run_id=90, step="b", node_id=1),
    )  # fmt: skip
    runs = simulated(situation(*jobs, open_runs=running))
    assert told(runs) == {1: [(-120, -20)], 11: [(-120, -30)], 12: [(-30, -20)]}
    assert {run.run_id for run in runs} == {90, 91, None}
    asked = PlanRequest(
        situation=situation(*jobs, open_runs=running), until=NOW + HOUR_MS, end=NOW + HOUR_MS,
        executor_id=1,
    )  # fmt: skip
    assert {bar.run_id: bar.is_running for bar in plan_night(asked).bars} == {
        90: True, 91: True, None: False,
    }  # fmt: skip


def test_lists_and_approvals_that_are_open_go_on() -> None:
    each = step("a", for_each=ForEach(items="[1, 2, 3, 4]", max_parallel=1))
    ask = step("ask", body=Approval(silence=Silence.DECLINE))
    jobs = workflow(each, ask, step("c", "ask"), specs=())
    running = (
        open_run(
            90, WORKFLOW, is_workflow=True,
            steps=(
                open_step("a", StepState.RUNNING, items=4, next_item=3),
                open_step("ask", StepState.READY, due_at=NOW - 1),
            ),
        ),
        open_run(91, 10, origin=Origin.STEP, parent_run_id=90, step="a", is_item=True, node_id=1,
                 started_at=NOW - 4 * MINUTE_MS),
    )  # fmt: skip
    runs = simulated(situation(*jobs, open_runs=running))
    assert told(runs)[10] == [(-64, -54), (-54, -44)], "the third item, and the last"
    assert 12 not in told(runs), "nobody answered in time"
    assert state_of(runs) is RunState.FAILED


def test_a_deadline_of_a_workflow_is_explained_by_its_steps() -> None:
    jobs = workflow(step("a"), step("b", "a"), minutes={"b": 60})
    crowd = [job(n, cron("5 1 * * *"), lasts_ms=40 * MINUTE_MS, priority=1) for n in (6, 7)]
    found = situation(*jobs, *crowd)
    plan = plan_night(
        PlanRequest(
            situation=found, until=NOW + 6 * HOUR_MS, end=NOW + 6 * HOUR_MS, executor_id=1,
            deadlines=[PlanDeadline(rule_id=1, job_id=WORKFLOW, at=NOW + 2 * HOUR_MS, since=NOW)],
        )
    )  # fmt: skip
    [deadline] = plan.deadlines
    assert deadline.verdict is DeadlineVerdict.MISSED
    assert since_one(deadline.end_at) == 105
    assert [each.job_id for each in deadline.path] == [WORKFLOW, 10, 11]
    assert deadline.path[2].waits_for is WaitReason.SLOT
    assert {each.job_id for each in deadline.path[2].holders} == {6, 7}
    assert {each.job_id for each in plan.bars} == {1, 6, 7, 10, 11}
    assert plan.basis.workflows == 1
    assert plan.basis.jobs == 3, "steps are no jobs"


def test_an_edit_of_a_workflow_brings_its_steps() -> None:
    before, *hidden = workflow(step("a"))
    graph = Workflow(steps=(step("a"), step("new", "a")))
    edit = JobEdit(job_id=WORKFLOW, config=replace(before.config, workflow=graph))
    found = compare(situation(before, *hidden), [edit], end=NOW + DAY_MS)
    assert (found.before.runs, found.after.runs) == (2, 3)
    assert [each.job_id for each in found.jobs] == [WORKFLOW], "only what is saved is told"


def test_a_workflow_is_the_same_in_json() -> None:
    """As the process that plans reads it."""
    steps = (
        step("a", for_each=ForEach(items='"${parameters.x}"')),
        step("b", "a", body=Approval()),
    )
    graphs = ({"a": MEASURED._replace(items=2), "b": MEASURED._replace(waited_ms=5)},)
    asked = PlanRequest(
        situation=situation(*workflow(*steps, graphs=graphs), nodes=(node(slots=1),)),
        until=NOW + 6 * HOUR_MS, end=NOW + 6 * HOUR_MS, executor_id=1,
    )  # fmt: skip
    told_by_json = answer_plan(msgspec.json.encode(asked))
    assert told_by_json == msgspec.json.encode(plan_night(asked))
    assert len(plan_night(asked).bars) == 3
