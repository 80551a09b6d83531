"""What may be the matter: the kinds that "Needs attention", alarms and their rules share."""

from __future__ import annotations

from enum import StrEnum


class AlarmKind(StrEnum):
    """What is the matter. The values are stored, and part of the API."""

    # A run or a job.
    FAILED = "failed"  # a run failed, after its last try
    TRY_FAILED = "try_failed"  # a try of a run failed, and it is tried again
    TIMED_OUT = "timed_out"  # a run took longer than its timeout
    LOST = "lost"  # nobody knows how a run ended
    SKIPPED = "skipped"  # a fire did not run: misfire, expired, no node
    STARTED_LATE = "started_late"  # a run started later than it should
    SLOW = "slow"  # a run takes much longer than usual, or than a limit
    DEADLINE_MISSED = "deadline_missed"  # a job has not succeeded by an instant of the day
    DEADLINE_WARNING = "deadline_warning"  # the forecast says that a deadline will be missed
    COVERAGE_GAP = "coverage_gap"  # intervals of data were not processed in time
    FAILING_STREAK = "failing_streak"  # the last runs of a job all failed
    RETRY_FAILED = "retry_failed"  # a run was retried by hand, and that failed as well
    LAST_FAILED = "last_failed"  # the last run of a job failed, and it does not run again soon
    FAILURE_RATE = "failure_rate"  # runs of a job fail more often than usual
    TRIGGER_ERROR = "trigger_error"  # a schedule cannot be computed
    APPROVAL_WAITS = "approval_waits"  # a step of a workflow waits for somebody's answer
    # An executor.
    LOW_SUCCESS = "low_success"  # of an executor, or of all, more runs fail than should
    NODES_LOST = "nodes_lost"  # nodes died within the hour
    NO_NODES = "no_nodes"  # an executor has jobs and no live node
    FULL = "full"  # runs wait because every slot is taken
    DECLARED_WAITING = "declared_waiting"  # jobs declared in code wait for somebody's decision
    DECLARED_BROKEN = "declared_broken"  # no job can be made of what code declares
    # The installation.
    LATE = "late"  # what is due does not start, or is not even planned
    ADMIN_BEHIND = "admin_behind"  # an admin does not keep up
    ADMIN_GONE = "admin_gone"  # an admin ended without saying so
    DATABASE_SLOW = "database_slow"  # small transactions take longer than they should
    LEDGER_DIFFERENCE = "ledger_difference"  # the self-audit found what the ledger cannot explain


# Ends of runs, which may be told of together when runs of several jobs failed alike.
OF_GROUPS = (AlarmKind.FAILED, AlarmKind.TIMED_OUT, AlarmKind.LOST)


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"  # something does not happen that should
    WARNING = "warning"
