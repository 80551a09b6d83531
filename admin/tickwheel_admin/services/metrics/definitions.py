"""Every metric: name, labels, meaning and scope. docs/metrics.md lists the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

OTHERS = "(other)"  # value of the label `executor`; no executor can be called so


class Kind(StrEnum):
    """How Prometheus reads it."""

    COUNTER = "counter"  # of what happened since this admin started
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Scope(StrEnum):
    """What it is about."""

    ADMIN = "admin"  # this admin alone: add it up over all admins
    INSTALLATION = "installation"  # the same on all admins: never add it up


@dataclass(frozen=True, slots=True)
class Metric:
    """One family of series."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        """Told by the name, so that a query shows when it adds up the wrong ones."""
        of_all = self.name.startswith("tickwheel_installation_")
        return Scope.INSTALLATION if of_all else Scope.ADMIN


_BY_EXECUTOR = ("executor",)

# --- runs ------------------------------------------------------------------------------------

FIRES_PLANNED = Metric(
    "tickwheel_fires_planned_total",
    Kind.COUNTER,
    "Fires of triggers that were written to the ledger, missed ones among them",
    _BY_EXECUTOR,
)
RUNS_CLAIMED = Metric(
    "tickwheel_runs_claimed_total",
    Kind.COUNTER,
    "Runs that were given to a node; each try and each shard counts",
    _BY_EXECUTOR,
)
RUNS_ENDED = Metric(
    "tickwheel_runs_ended_total",
    Kind.COUNTER,
    "Runs that ended, after their last try; a fire with shards is one",
    ("executor", "outcome"),
)
START_DELAY = Metric(
    "tickwheel_start_delay_seconds",
    Kind.HISTOGRAM,
    "From when a run was due to when its first try started",
    _BY_EXECUTOR,
)
RUN_DURATION = Metric(
    "tickwheel_run_duration_seconds",
    Kind.HISTOGRAM,
    "How long the last try of an ended run took",
    _BY_EXECUTOR,
)
# The label is not `job`: with that one Prometheus says what it scrapes.
JOB_RUNS_ENDED = Metric(
    "tickwheel_job_runs_ended_total",
    Kind.COUNTER,
    "The same as tickwheel_runs_ended_total, of the jobs named in metrics_jobs",
    ("executor", "job_name", "outcome"),
)
JOB_LAST_SUCCESS = Metric(
    "tickwheel_job_last_success_timestamp_seconds",
    Kind.GAUGE,
    "When a run of a job named in metrics_jobs succeeded last, as recorded by this admin",
    ("executor", "job_name"),
)

# --- this admin ------------------------------------------------------------------------------

BUILD_INFO = Metric(
    "tickwheel_build_info", Kind.GAUGE, "Always 1", ("version", "admin", "database")
)
LOOP_AGE = Metric(
    "tickwheel_loop_age_seconds",
    Kind.GAUGE,
    "Since a background loop last did its work without an error",
    ("loop",),
)
LOOP_INTERVAL = Metric(
    "tickwheel_loop_interval_seconds",
    Kind.GAUGE,
    "How often a background loop does its work when nothing wakes it",
    ("loop",),
)
LOOP_FAILING = Metric(
    "tickwheel_loop_failing", Kind.GAUGE, "1 while a background loop fails", ("loop",)
)
EVENT_LOOP_STALLS = Metric(
    "tickwheel_event_loop_stalls_total",
    Kind.COUNTER,
    "Times of more than 0.1 s in which this admin did one thing and nothing else",
)
EVENT_LOOP_STALLED = Metric(
    "tickwheel_event_loop_stalled_seconds_total",
    Kind.COUNTER,
    "How long these times were together",
)
NODE_SESSIONS = Metric(
    "tickwheel_node_sessions", Kind.GAUGE, "Nodes that this admin can send runs to"
)
UNRECORDED = Metric(
    "tickwheel_unrecorded_messages", Kind.GAUGE, "Messages of nodes that wait to be recorded"
)
CLOCK_OFFSET = Metric(
    "tickwheel_clock_offset_seconds",
    Kind.GAUGE,
    "The database's clock less this admin's; schedules go by the database's",
)
CERTIFICATE_EXPIRES = Metric(
    "tickwheel_tls_certificate_expires_timestamp_seconds",
    Kind.GAUGE,
    "When the certificate that this admin shows expires; only with `tls_cert`",
)
LOG_BYTES = Metric(
    "tickwheel_log_stored_bytes_total", Kind.COUNTER, "Log lines of runs that were stored"
)
DELIVERY_ATTEMPTS = Metric(
    "tickwheel_delivery_attempts_total",
    Kind.COUNTER,
    "Attempts to deliver a message of alarms",
    ("outcome",),
)

# --- the database, as this admin sees it -----------------------------------------------------

DATABASE_UP = Metric(
    "tickwheel_database_up",
    Kind.GAUGE,
    "Whether the database answered; 0: the figures of the installation are left out",
)
TRANSACTION_SECONDS = Metric(
    "tickwheel_transaction_duration_seconds",
    Kind.HISTOGRAM,
    "How long a transaction took, with its repeats",
    ("kind",),
)
TRANSACTIONS_FAILED = Metric(
    "tickwheel_transactions_failed_total",
    Kind.COUNTER,
    "Transactions that failed for good, refused ones and those that met an outage",
    ("kind",),
)
TRANSACTION_REPEATS = Metric(
    "tickwheel_transaction_repeats_total",
    Kind.COUNTER,
    "Repeats of transactions, which are normal while admins compete",
    ("cause",),
)
BATCH_SIZE = Metric(
    "tickwheel_batch_size",
    Kind.HISTOGRAM,
    "Triggers planned, runs claimed, messages recorded in one transaction",
    ("step",),
)

# --- the installation ------------------------------------------------------------------------

QUEUED_RUNS = Metric(
    "tickwheel_installation_queued_runs",
    Kind.GAUGE,
    "Runs that are due and wait for a node; at most 1,000 are counted for each executor",
    _BY_EXECUTOR,
)
QUEUE_AGE = Metric(
    "tickwheel_installation_queue_age_seconds",
    Kind.GAUGE,
    "How long the first of these runs has been due; 0: none waits",
    _BY_EXECUTOR,
)
NODES = Metric(
    "tickwheel_installation_nodes",
    Kind.GAUGE,
    "Live nodes; those that are ready take new runs",
    ("executor", "state"),
)
SLOTS = Metric("tickwheel_installation_slots", Kind.GAUGE, "Slots of ready nodes", _BY_EXECUTOR)
SLOTS_USED = Metric(
    "tickwheel_installation_slots_used", Kind.GAUGE, "Those of them that are taken", _BY_EXECUTOR
)
POOL_SLOTS = Metric(
    "tickwheel_installation_pool_slots",
    Kind.GAUGE,
    "Slots of pools; of the 100 oldest pools",
    ("pool",),
)
POOL_SLOTS_USED = Metric(
    "tickwheel_installation_pool_slots_used",
    Kind.GAUGE,
    "Those of them that live runs hold; more than there are when they were made fewer",
    ("pool",),
)
OVERDUE_TRIGGERS = Metric(
    "tickwheel_installation_overdue_triggers",
    Kind.GAUGE,
    "Triggers that should have been planned 5 s ago; at most 1,000 are counted, and while executors"
    " are paused those among the oldest 5,000 that are not theirs",
)
ADMINS = Metric(
    "tickwheel_installation_admins",
    Kind.GAUGE,
    "Admins that are up, and those gone without a goodbye in the last hour and not replaced",
    ("state",),
)
OPEN_ALARMS = Metric(
    "tickwheel_installation_open_alarms",
    Kind.GAUGE,
    "Open alarms; at most 10,000 are counted",
    ("severity",),
)
MESSAGES = Metric(
    "tickwheel_installation_undelivered_messages",
    Kind.GAUGE,
    "Messages of alarms that wait, are being sent, or were given up (dead); at most 10,000 of each",
    ("state",),
)
MESSAGE_AGE = Metric(
    "tickwheel_installation_message_age_seconds",
    Kind.GAUGE,
    "How long the first message that waits has been due; 0: none is",
)
AUDIT_DIFFERENCES = Metric(
    "tickwheel_installation_self_audit_differences",
    Kind.GAUGE,
    "Differences between ledger and schedules that stand unseen; at most 10,000 are counted",
    ("kind",),
)
AUDITED = Metric(
    "tickwheel_installation_self_audited_timestamp_seconds",
    Kind.GAUGE,
    "The end of the newest hour that the self-audit has looked at",
)

METRICS = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
