"""How a failure group counts, begins anew, and what state it is in."""

from __future__ import annotations

from dataclasses import replace

from tickwheel_admin.domain.failures.group import FailureGroup, GroupedFailure, GroupState, counted


def failure(run_id: int, *, at: int, job_id: int = 1, node_id: int | None = 7) -> GroupedFailure:
    return GroupedFailure(
        group_id=5,
        executor_id=1,
        text="bank-gw refused",
        run_id=run_id,
        job_id=job_id,
        revision=12,
        node_id=node_id,
        at=at,
    )


def standing() -> FailureGroup:
    return counted(None, [failure(11, at=100), failure(10, at=90, node_id=3)], new_jobs=1)


def test_a_new_group_begins_with_its_first_run() -> None:
    group = standing()
    assert (group.since, group.first_run_id, group.first_node_id, group.first_revision) == (
        90,
        10,
        3,
        12,
    )
    assert (group.last_at, group.last_run_id, group.runs, group.jobs) == (100, 11, 2, 1)
    assert (group.returns, group.version) == (0, 1)


def test_more_runs_are_added_and_its_beginning_stays() -> None:
    acknowledged = replace(standing(), acknowledged_by="ann", acknowledged_at=101, owner="ann")
    group = counted(acknowledged, [failure(12, at=110, job_id=2)], new_jobs=1)
    assert (group.since, group.last_at, group.last_run_id) == (90, 110, 12)
    assert (group.runs, group.jobs, group.acknowledged_by) == (3, 2, "ann")


def test_signals_that_come_late_do_not_set_the_last_run_back() -> None:
    group = counted(standing(), [failure(9, at=95)], new_jobs=0)
    assert (group.last_at, group.last_run_id, group.runs) == (100, 11, 3)


def test_a_resolved_group_comes_back_with_its_owner_notes_and_mute() -> None:
    resolved = replace(
        standing(),
        owner="ann",
        notes="call 4711",
        version=4,
        muted_until=900,
        acknowledged_by="ann",
        acknowledged_at=101,
        resolved_at=150,
        resolved_by="bob",
    )
    group = counted(resolved, [failure(20, at=200, job_id=3)], new_jobs=1)
    assert (group.since, group.runs, group.jobs, group.first_run_id) == (200, 1, 1, 20)
    assert (group.returns, group.owner, group.notes, group.version) == (1, "ann", "call 4711", 4)
    assert group.state(300) is GroupState.MUTED
    assert group.state(900) is GroupState.OPEN  # nobody has acknowledged it since


def test_states() -> None:
    group = standing()
    assert group.state(100) is GroupState.OPEN
    group = replace(group, acknowledged_at=100)
    assert group.state(100) is GroupState.ACKNOWLEDGED
    group = replace(group, muted_until=200)
    assert group.state(199) is GroupState.MUTED
    assert group.state(200) is GroupState.ACKNOWLEDGED  # a mute ends by itself
    assert replace(group, resolved_at=150).state(150) is GroupState.RESOLVED
