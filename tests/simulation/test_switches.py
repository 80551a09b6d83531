"""Each mechanism that the seeds of `make test` do not switch off has a test that misses it.

What the seeds notice (test_simulation.py) and what only locks of a real server show
(tests/interleavings/test_switches.py) is not repeated here.
"""

from __future__ import annotations

import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.simulation.backfills.test_backfills import TESTED_BACKFILL_MUTATIONS
from tests.simulation.canaries.test_canaries import TESTED_CANARY_MUTATIONS
from tests.simulation.mutations import MUTATIONS
from tests.simulation.pools.test_pools import TESTED_POOL_MUTATIONS
from tests.simulation.search import forks
from tests.simulation.test_alarms import TESTED_ALARM_MUTATIONS
from tests.simulation.test_simulation import (
    STORIES_OF_XXL_MUTATIONS,
    TESTED_MUTATIONS,
    TESTED_XXL_MUTATIONS,
)
from tests.simulation.workflows.test_workflows import TESTED_WORKFLOW_MUTATIONS

ROOT = Path(__file__).parents[2]
ADMIN = "tests/admin"
SDK = "tests/executor_sdk"
# They take longer to load than the tests take.
UNUSED_PLUGINS = (
    "anyio", "cacheprovider", "hypothesispytest", "playwright", "schemathesis", "xdist"
)  # fmt: skip
AUDITED_NIGHT = (
    ADMIN,
    "engine/maintenance/test_audited_planning.py",
    "test_a_night_with_everything_in_it_leaves_nothing_unexplained",
)
AUDITED_LEDGER = (
    ADMIN,
    "engine/maintenance/test_self_audit.py",
    "test_what_sql_does_to_the_ledger_is_told_and_over_when_it_is_undone[sqlite]",
)

# Directory, file, test; in the order of mutations.py.
MISSED_BY = {
    "planner_ignores_edits": (
        ADMIN,
        "engine/planner/test_planner.py",
        "test_an_edit_in_between_makes_the_plan_void[sqlite]",
    ),
    "any_token_proves": (
        ADMIN,
        "engine/recorder/test_run_ways.py",
        "test_wrong_token_attempt_and_executor_change_nothing[sqlite]",
    ),
    "old_attempts_prove": (
        ADMIN,
        "engine/recorder/test_run_ways.py",
        "test_a_late_result_after_the_retry_was_claimed_is_refused[sqlite]",
    ),
    "results_are_not_spooled": (
        SDK,
        "spool/test_delivery.py",
        "test_a_successor_delivers_the_results_of_a_crashed_node",
    ),
    "spool_is_not_synced": (
        SDK,
        "spool/test_file_spool.py",
        "test_file_and_directory_are_synced_before_write_returns",
    ),
    "spool_is_cleared_before_the_receipt": (
        SDK,
        "spool/test_delivery.py",
        "test_a_result_is_sent_only_when_it_is_safe_and_removed_on_its_receipt",
    ),
    "nodes_run_on_when_they_are_cut_off": (
        SDK,
        "attempts/test_cut_off.py",
        "test_it_is_stopped_four_fifths_of_a_lease_after_what_was_acknowledged_last",
    ),
    "places_are_not_held": (
        ADMIN,
        "store/executors/test_cut_off.py",
        "test_what_its_node_stops_is_lost_when_the_full_lease_is_over",
    ),
    "nobody_expires_nodes": (
        ADMIN,
        "store/executors/test_cut_off.py",
        "test_no_admin_expires_nodes_before_it_trusts_its_view",
    ),
    "unconfirmed_runs_are_queued_again": (
        ADMIN,
        "engine/recorder/test_run_ways.py",
        "test_an_unconfirmed_dispatch_is_asked_about[sqlite]",
    ),
    "claims_ignore_slots": (
        ADMIN,
        "engine/dispatcher/test_blocking.py",
        "test_a_run_that_expires_at_its_turn_passes_it_on",
    ),
    "claims_come_early": (
        ADMIN,
        "engine/dispatcher/test_blocking.py",
        "test_as_many_run_at_once_as_the_job_says[sqlite]",
    ),
    "refusals_cost_a_try": (
        ADMIN,
        "engine/dispatcher/test_blocking.py",
        "test_a_refused_run_keeps_its_turn",
    ),
    "backoff_is_forgotten": (
        ADMIN,
        "engine/recorder/test_run_ways.py",
        "test_retries_wait_and_then_end[sqlite]",
    ),
    "planner_starts_from_now": (
        ADMIN,
        "engine/planner/test_planner.py",
        "test_misfires[sqlite-fire_once-1-True]",
    ),
    "receipts_before_the_commit": (
        ADMIN,
        "links/test_links.py",
        "test_a_result_has_a_receipt_only_when_it_is_committed",
    ),
    "edits_leave_fires_that_are_planned": (
        ADMIN,
        "services/jobs/test_jobs.py",
        "test_an_edit_takes_back_what_nobody_claimed_and_plans_it_anew[sqlite]",
    ),
    "pauses_do_not_hold_back": (
        ADMIN,
        "engine/dispatcher/test_pauses.py",
        "test_a_pause_skips_what_was_planned_and_plans_nothing_more[executor]",
    ),
    "cancel_is_told_once": (
        ADMIN,
        "store/executors/test_cut_off.py",
        "test_a_parallel_run_past_its_timeout_ends_at_once",
    ),
    "nodes_ignore_their_lease": (
        SDK,
        "link/test_links.py",
        "test_a_node_whose_lease_is_over_breaks_off_every_socket",
    ),
    "one_bad_row_fails_its_batch": (
        ADMIN,
        "engine/recorder/test_recorder.py",
        "test_a_result_that_the_database_refuses_costs_no_other_of_its_batch",
    ),
    "children_are_forgotten": (
        ADMIN,
        "engine/recorder/test_children.py",
        "test_children_follow_the_ends_they_wait_for[sqlite]",
    ),
    "nothing_is_unparked": (
        ADMIN,
        "store/executors/test_cut_off.py",
        "test_what_its_node_stops_is_lost_when_the_full_lease_is_over",
    ),
    "fixed_delays_are_not_armed": (
        ADMIN,
        "engine/dispatcher/test_pauses.py",
        "test_a_fixed_delay_waits_for_the_end_of_the_pause",
    ),
    "fires_do_not_end": (
        ADMIN,
        "engine/dispatcher/test_shards.py",
        "test_a_broadcast_runs_once_on_every_node[sqlite]",
    ),
    "states_are_written_by_failures": (
        ADMIN,
        "engine/recorder/test_handoff.py",
        "test_a_covered_run_leaves_no_state",
    ),
    "busy_nodes_are_not_seen": (
        ADMIN,
        "engine/dispatcher/test_routed_runs.py",
        "test_busy_nodes_are_passed_over_by_all_admins[sqlite]",
    ),
    "uses_are_not_kept": (
        ADMIN,
        "engine/dispatcher/test_routed_runs.py",
        "test_turns_and_uses_survive_a_restart_and_are_one_for_all_admins[sqlite]",
    ),
    "alarm_signals_come_after_the_commit": (
        ADMIN,
        "engine/alarms/test_signals.py",
        "test_ends_of_runs[sqlite]",
    ),
    "starts_and_ends_are_not_measured": (
        ADMIN,
        "engine/alarms/test_late_and_slow.py",
        "test_between_two_looks[sqlite-slow]",
    ),
    "looks_forget_since_when": (
        ADMIN,
        "engine/alarms/test_conditions.py",
        "test_a_restart_does_not_forget_since_when",
    ),
    "planner_skips_instants": AUDITED_NIGHT,
    "planner_plans_instants_twice": AUDITED_NIGHT,
    "edits_lose_an_instant": AUDITED_NIGHT,
    "clock_changes_lose_fires": AUDITED_NIGHT,
    "retention_deletes_too_early": AUDITED_NIGHT,
    "purges_leave_no_trace": AUDITED_NIGHT,
    "edits_leave_no_trace": AUDITED_NIGHT,
    "fixed_delays_follow_nothing": (
        ADMIN,
        "engine/maintenance/test_audited_planning.py",
        "test_a_fixed_delay_misses_the_run_that_was_deleted",
    ),
    "audit_explains_everything": AUDITED_LEDGER,
    "audit_believes_every_run": AUDITED_LEDGER,
    "audit_tells_nobody": AUDITED_LEDGER,
    "audit_looks_once": (
        ADMIN,
        "engine/maintenance/test_self_audit.py",
        "test_an_hour_is_looked_at_again",
    ),
    "backfills_are_written_unlocked": (
        ADMIN,
        "engine/backfills/test_backfiller.py",
        "test_a_slice_that_was_read_before_a_pause_is_not_written[sqlite]",
    ),
    "xxl_reports_are_answered_before_the_commit": (
        ADMIN,
        "xxl_job/test_reports.py",
        "test_a_report_is_answered_when_it_is_recorded",
    ),
    "xxl_wire_jobs_are_shared": (
        ADMIN,
        "xxl_job/test_uncertain_runs.py",
        "test_runs_of_one_job_have_wire_jobs_of_their_own",
    ),
    "xxl_calls_are_made_however_late": (
        ADMIN,
        "xxl_job/test_uncertain_runs.py",
        "test_a_call_is_not_made_long_after_the_claim",
    ),
    "xxl_log_ids_carry_no_attempt": (
        ADMIN,
        "xxl_job/test_reports.py",
        "test_a_report_counts_for_the_attempt_that_its_log_id_names[1-first]",
    ),
    "xxl_owners_are_missed_late": (
        ADMIN,
        "store/xxl_job/test_addresses.py",
        "test_an_admin_that_died_is_missed_before_its_nodes_are_dead[sqlite]",
    ),
    "xxl_denials_count_while_calls_are_on_their_way": (
        ADMIN,
        "xxl_job/test_uncertain_runs.py",
        "test_a_run_that_was_taken_over_is_denied_only_when_no_call_can_be_on_its_way",
    ),
    "xxl_one_denial_is_enough": (
        ADMIN,
        "xxl_job/test_uncertain_runs.py",
        "test_a_run_without_a_log_is_not_denied_while_its_job_is_busy",
    ),
    "xxl_takeovers_share_wire_jobs": (
        ADMIN,
        "xxl_job/test_uncertain_runs.py",
        "test_runs_after_a_takeover_have_wire_jobs_that_nobody_else_kills",
    ),
    "xxl_fetched_lines_are_stored_as_they_come": (
        ADMIN,
        "services/runs/test_log.py",
        "test_lines_that_two_admins_fetch_are_stored_once[sqlite]",
    ),
    "skips_are_not_passed_on": (
        ADMIN,
        "engine/workflows/test_interventions.py",
        "test_a_failed_step_is_skipped[sqlite]",
    ),
    "workflows_do_not_go_on": (
        ADMIN,
        "engine/workflows/test_ends.py",
        "test_a_run_waits_for_the_workflow_before_it",
    ),
    "items_begin_all_at_once": (
        ADMIN,
        "engine/workflows/test_bounds.py",
        "test_all_steps_of_a_run_share_one_budget_of_live_items",
    ),
    "tolerance_is_one_too_many": (
        ADMIN,
        "engine/workflows/test_bounds.py",
        "test_a_late_result_counts_while_nothing_has_followed_from_the_loss[sqlite]",
    ),
    "silence_is_for_ever": (
        ADMIN,
        "engine/workflows/test_answers.py",
        "test_silence_means_what_the_step_says[decline-ask failed declined]",
    ),
    "waits_end_when_anything_happens": (
        ADMIN,
        "engine/workflows/test_answers.py",
        "test_a_step_waits_for_an_answer[sqlite]",
    ),
    "cancelled_workflows_go_on": (
        ADMIN,
        "engine/workflows/test_ends.py",
        "test_a_cancel_stops_all_steps[sqlite]",
    ),
    "spawned_items_are_lost": (
        ADMIN,
        "engine/workflows/test_spawn.py",
        "test_items_follow_their_root_and_their_results_are_those_of_the_step[sqlite]",
    ),
    "spawned_items_are_not_linked": (
        ADMIN,
        "engine/workflows/test_spawn.py",
        "test_items_follow_their_root_and_their_results_are_those_of_the_step[sqlite]",
    ),
    "ended_runs_keep_their_slots": (
        ADMIN,
        "engine/dispatcher/test_pools.py",
        "test_runs_of_two_executors_share_the_slots_of_a_pool[sqlite]",
    ),
    "heavy_runs_are_overtaken": (
        ADMIN,
        "engine/dispatcher/test_pools.py",
        "test_the_run_that_is_first_in_line_comes_first_whichever_executor_asks",
    ),
    "executors_do_not_know_who_is_first": (
        ADMIN,
        "engine/dispatcher/test_pools.py",
        "test_the_run_that_is_first_in_line_comes_first_whichever_executor_asks",
    ),
    "lines_begin_with_the_newest": (
        ADMIN,
        "engine/dispatcher/test_pools.py",
        "test_runs_of_two_executors_share_the_slots_of_a_pool[sqlite]",
    ),
}


def test_every_mechanism_is_switched_off_somewhere() -> None:
    in_worlds = {
        *TESTED_MUTATIONS,
        *TESTED_ALARM_MUTATIONS,
        *TESTED_BACKFILL_MUTATIONS,
        *TESTED_XXL_MUTATIONS,
        *TESTED_WORKFLOW_MUTATIONS,
        *TESTED_POOL_MUTATIONS,
        *TESTED_CANARY_MUTATIONS,
        *STORIES_OF_XXL_MUTATIONS,
    }
    assert {*in_worlds, *MISSED_BY} == set(MUTATIONS)


def test_what_is_switched_off_is_missed(tmp_path: Path) -> None:
    with ProcessPoolExecutor(
        len(os.sched_getaffinity(0)), mp_context=forks(), max_tasks_per_child=1
    ) as pool:
        codes = list(pool.map(_without, MISSED_BY, itertools.repeat(tmp_path)))
    told = {name: (tmp_path / name).read_text() for name in MISSED_BY}
    unnoticed = {
        name: told[name][-2000:]
        for name, code in zip(MISSED_BY, codes, strict=True)
        # 1 means that a test failed; a test that is not there, or does not start, is another code.
        if code != pytest.ExitCode.TESTS_FAILED or "1 failed" not in told[name]
    }
    assert not unnoticed


def _without(mutation: str, outputs: Path) -> int:
    """The exit code of pytest; it runs in a process of its own, which ends with it."""
    with (outputs / mutation).open("wb") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
    os.chdir(ROOT)
    MUTATIONS[mutation]()
    directory, file, test = MISSED_BY[mutation]
    code = pytest.main(
        [
            *("--quiet", "--no-header", "--tb=line"),
            *(f"-pno:{plugin}" for plugin in UNUSED_PLUGINS),
            *(f"--basetemp={outputs / mutation}.temp", f"{directory}/{file}::{test}"),
        ]
    )
    sys.stdout.flush()
    return int(code)
