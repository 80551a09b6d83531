"""Every table, each column explained where its name does not say it all.

Instants are UTC epoch milliseconds by the database's clock (`*_at`). Ids come from
`store.database.ids`: short, but not an order. There are no foreign keys: MySQL would lock parent
rows in the hot path, and a run outlives its job. Indexes are named after the query they serve.
tests/admin/store/database/test_schema.py keeps this file, the migrations and sql/*.sql equal.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData()

# SQLite makes only an INTEGER primary key the row id itself.
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Instant = sa.BigInteger()
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
OF_WORKFLOW = -1  # `deleted_at` of the hidden jobs of workflows: no list shows them
ALIVE = 0  # `deleted_at` of what is not deleted; not NULL, so that unique keys see it


def _table(name: str, *parts: sa.Column[object] | sa.Constraint | sa.Index) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        *parts,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",  # names compare the same on every database
        mariadb_engine="InnoDB",
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
    )


id_block = _table(
    "id_block",
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("next_id", Id, nullable=False),
)

setting = _table(
    "setting",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", LongText, nullable=False),
)

# Planning the triggers of a bucket locks and writes its row.
bucket = _table(
    "bucket",
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("planned_at", Instant, nullable=False),
    sa.Column("planned_by", Id, nullable=False),  # admin id
)

admin = _table(
    "admin",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("url", sa.String(500), nullable=False),  # where nodes reach it
    sa.Column("version", sa.String(50), nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("lease_expires_at", Instant, nullable=False),
    sa.Column("status", LongText, nullable=False),  # JSON of domain.admin_status
    # When its lease ended without a goodbye: it is shown for a while. NULL: it has not.
    sa.Column("gone_at", Instant),
    # JSON array: executors of the protocol xxl_job whose access token it cannot decrypt, so that
    # others must serve them. NULL: it serves none of that protocol.
    sa.Column("xxl_unreadable", LongText),
    sa.Index("ix_admin_live", "lease_expires_at"),
)

executor = _table(
    "executor",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("description", sa.String(1000), nullable=False),
    sa.Column("token_hash", sa.String(64), nullable=False),  # SHA-256 in hex
    # The token before it, which opens the door until then as well.
    sa.Column("old_token_hash", sa.String(64)),
    sa.Column("old_token_until", Instant),
    sa.Column("paused_at", Instant),  # fires after this instant do not run; NULL: not paused
    # What becomes of jobs declared in code: a domain.declared_job.CodeJobs.
    sa.Column("code_jobs", sa.String(16), nullable=False, server_default=sa.text("'apply'")),
    # How its nodes are reached: a domain.executors.executor.Protocol.
    sa.Column("protocol", sa.String(16), nullable=False, server_default=sa.text("'tickwheel'")),
    # Whether its jobs may have scripts, and their scripts be sent.
    sa.Column("scripts", sa.Boolean, nullable=False, server_default=sa.true()),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    sa.UniqueConstraint("name", "deleted_at", name="uq_executor_name"),
    sa.UniqueConstraint("token_hash", name="uq_executor_token"),
    sa.Index("ix_executor_old_token", "old_token_hash"),
)

node = _table(
    "node",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("node_key", sa.String(64), nullable=False),  # the process's own random name
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False),  # it said that it takes no new runs
    sa.Column("cordoned", sa.Boolean, nullable=False),  # an operator gives it no new runs
    sa.Column("drain_wanted", sa.Boolean, nullable=False),  # and the node is to drain
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("slots_wanted", sa.Integer),  # set by an operator; NULL: as many as it said
    sa.Column("in_use", sa.Integer, nullable=False),
    sa.Column("weight", sa.Integer, nullable=False),  # share of runs with routing `weighted`
    sa.Column("weight_wanted", sa.Integer),  # set by an operator; NULL: as much as it said
    sa.Column("handlers", LongText, nullable=False),  # JSON array of names
    sa.Column("unstoppable", LongText, nullable=False),  # JSON array: those nothing can stop
    sa.Column("labels", LongText, nullable=False),  # JSON object of strings
    # JSON array: names of the jobs declared in its code. NULL: no admin has read them yet.
    sa.Column("declared", LongText),
    sa.Column("sdk", sa.String(50), nullable=False),
    sa.Column("address", sa.String(100), nullable=False),
    sa.Column("connected_at", Instant, nullable=False),
    sa.Column("lease_expires_at", Instant, nullable=False),
    # The same, but not shortened when its sockets close. At its end the attempts are stopped.
    sa.Column("full_lease_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    # Since when it is as the row says; `node_period` tells of the time before.
    sa.Column("since_at", Instant, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("executor_id", "node_key", name="uq_node_key"),
    sa.Index("ix_node_of_executor", "executor_id", "state", "name"),
    sa.Index("ix_node_to_expire", "state", "lease_expires_at"),
)

node_session = _table(
    "node_session",
    sa.Column("node_id", Id, primary_key=True, autoincrement=False),
    sa.Column("admin_id", Id, primary_key=True, autoincrement=False),
    # Tells a socket from its successor, so that a late close does not end the new one.
    sa.Column("session_id", Id, nullable=False),
    sa.Column("connected_at", Instant, nullable=False),
    sa.Index("ix_node_session_of_admin", "admin_id"),
)

job = _table(
    "job",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("handler", sa.String(200), nullable=False),
    sa.Column("owner", sa.String(100), nullable=False),
    sa.Column("tags", sa.String(500), nullable=False),  # comma-separated
    sa.Column("revision", sa.Integer, nullable=False),  # current row of job_revision
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("route_cursor", sa.BigInteger, nullable=False),  # runs routed so far, by turns
    sa.Column("pool_id", Id),  # whose slots its runs take; NULL: of none
    # Of the last 24 runs, as the roll-up saw them: lists are sorted by these (store.job_figures).
    sa.Column("usual_ms", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("failure_rate", sa.SmallInteger, nullable=False, server_default=sa.text("0")),  # ‰
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    sa.UniqueConstraint("executor_id", "name", "deleted_at", name="uq_job_name"),
    sa.Index("ix_job_by_name", "deleted_at", "name", "id"),
    sa.Index("ix_job_of_owner", "deleted_at", "owner", "name", "id"),
    sa.Index("ix_job_paused", "deleted_at", "paused", "name", "id"),
    sa.Index("ix_job_changed", "deleted_at", "updated_at", "id"),
    sa.Index("ix_job_usual", "deleted_at", "usual_ms", "id"),
    sa.Index("ix_job_failure_rate", "deleted_at", "failure_rate", "id"),
    sa.Index("ix_job_tags", "deleted_at", "tags"),  # which there are, to suggest them
    sa.Index("ix_job_of_pool", "pool_id", "deleted_at", "name"),
)

# How often and how lately a node was given runs of a job whose routing asks for that.
job_node = _table(
    "job_node",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("node_id", Id, primary_key=True, autoincrement=False),
    sa.Column("uses", sa.BigInteger, nullable=False),
    sa.Column("last_turn", sa.BigInteger, nullable=False),  # of job.route_cursor
    sa.Index("ix_job_node_of_node", "node_id"),
)

# What a job whose runs go one after another keeps from run to run.
job_state = _table(
    "job_state",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("state", LongText, nullable=False),  # JSON object
    sa.Column("run_id", Id),  # whose end wrote it; NULL: a person did, or nobody yet
    sa.Column("updated_at", Instant),  # NULL: it is unwritten
    # The attempt it was given to last, which alone may write it; NULL: a person wrote it since.
    sa.Column("lent_run_id", Id),
    sa.Column("lent_attempt", sa.Integer),
)

job_revision = _table(
    "job_revision",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("config", LongText, nullable=False),  # JSON of domain.job.JobConfig
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", sa.String(100), nullable=False),
    sa.Column("script_sha256", sa.String(64)),  # of its script; NULL: it has none
    sa.Index(
        "ix_job_revision_of_script",
        "script_sha256",
        postgresql_where=sa.text("script_sha256 IS NOT NULL"),
        sqlite_where=sa.text("script_sha256 IS NOT NULL"),
    ),
)

# Sources of scripts, which revisions of jobs name by their hashes; they go when none does any more.
script_source = _table(
    "script_source",
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("source", LongText, nullable=False),
    sa.Column("given_at", Instant, nullable=False),  # by whoever saved or tried it last
)

# What a handler takes, as the process that started last says.
handler_schema = _table(
    "handler_schema",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("handler", sa.String(200), primary_key=True),
    sa.Column("schema", LongText, nullable=False),  # JSON Schema of its parameters
    sa.Column("said_by", Id, nullable=False),  # node id
    sa.Column("said_at", Instant, nullable=False),  # when that node connected
)

# A job that code declares, as the process that started last says, and what became of it.
declared_job = _table(
    "declared_job",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("raw", LongText, nullable=False),  # JSON object as declared
    sa.Column("job_id", Id),  # the job that code manages by it; NULL: none
    sa.Column("state", sa.String(16), nullable=False),  # a domain.declared_job.DeclaredState
    sa.Column("reason", sa.String(50)),
    sa.Column("renamed_from", sa.String(200)),  # the declared job that this may be a new name of
    sa.Column("problems", LongText, nullable=False),  # JSON array of domain.errors.Problem
    sa.Column("declared_by", sa.String(200), nullable=False),  # the node's name
    sa.Column("node_id", Id, nullable=False),
    sa.Column("declared_at", Instant, nullable=False),  # when that node connected
    sa.Index("ix_declared_job_of_job", "job_id"),
    sa.Index("ix_declared_job_by_state", "state", "executor_id"),
)

# What a directory of files once applied, and so may change and delete: services.gitops.
managed_object = _table(
    "managed_object",
    sa.Column("type", sa.String(20), primary_key=True),  # of documents: "job", "calendar"
    sa.Column("object_id", Id, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(100), nullable=False),  # the name of the directory
    # The object as it was applied: its revision or version, or a hash of what it said.
    sa.Column("mark", sa.String(64), nullable=False),
    sa.Column("applied_at", Instant, nullable=False),
    sa.Column("applied_by", sa.String(100), nullable=False),
    sa.Index("ix_managed_object_by_owner", "owner", "type", "object_id"),
)

calendar = _table(
    "calendar",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),  # triggers and calendars name it
    sa.Column("description", LongText, nullable=False),
    sa.Column("spec", LongText, nullable=False),  # JSON of domain.calendar.CalendarSpec
    sa.Column("base", sa.String(100)),  # the one that its spec names
    sa.Column("version", sa.Integer, nullable=False),  # rises with those it is based on, too
    sa.Column("changed_at", Instant, nullable=False),  # when this version came to be
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    sa.UniqueConstraint("name", "deleted_at", name="uq_calendar_name"),
    sa.Index("ix_calendar_of_base", "base"),
)

# A limit across jobs: its slots are shared by all runs of the jobs that name it.
pool = _table(
    "pool",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),  # 0: of the installation
    sa.Column("name", sa.String(100), nullable=False),  # jobs name it
    sa.Column("description", sa.String(1000), nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),  # 0: closed
    sa.Column("version", sa.Integer, nullable=False),  # rises with each edit
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    # Claims lock the row, and write this, so that the lock holds on clusters too.
    sa.Column("claims", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    # The first run in line, for which slots are kept: domain.pools.ledger.Reservation. NULL: none.
    sa.Column("reserved_run_id", Id),
    sa.Column("reserved_rank", sa.BigInteger),
    sa.Column("reserved_slots", sa.Integer),
    sa.Column("reserved_until", Instant),
    sa.UniqueConstraint("executor_id", "name", "deleted_at", name="uq_pool_name"),
    sa.Index("ix_pool_by_name", "deleted_at", "name", "executor_id"),
)

# The slots of pools that live runs hold: written by the claim, deleted by `move_runs` with the
# move that ends the attempt. Runs of jobs without a pool have no row.
pool_use = _table(
    "pool_use",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("pool_id", Id, nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Index("ix_pool_use_of_pool", "pool_id", "since", "run_id"),
)

trigger = _table(
    "trigger",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("bucket", sa.Integer, nullable=False),
    sa.Column("spec", LongText, nullable=False),  # JSON of domain.trigger.TriggerSpec
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(500)),
    sa.Column("next_fire_at", Instant),  # NULL: nothing to plan
    sa.Column("last_fire_at", Instant),
    # Runs planned so far; summaries of missed fires are none.
    sa.Column("fires", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("calendar", sa.String(100)),  # the one that its spec names
    sa.Column("calendar_version", sa.Integer),  # with which next_fire_at was computed
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    # Instants after this one are planned as the row says; `trigger_period` tells of those before.
    sa.Column("since_at", Instant, nullable=False, server_default=sa.text("0")),
    # Of those whose start the engine chooses: when it looks at them again.
    sa.Column("place_at", Instant),
    sa.Index("ix_trigger_to_place", "place_at"),
    sa.Index("ix_trigger_of_calendar", "calendar", "calendar_version"),
    sa.Index("ix_trigger_to_plan", "bucket", "next_fire_at"),
    sa.Index("ix_trigger_of_job", "job_id"),
    sa.Index("ix_trigger_by_state", "state", "id"),
    sa.Index("ix_trigger_next", "next_fire_at"),  # "what fires next" on the overview
)

# A trigger as it stood until an edit, a pause, a resume or its deletion: the self-audit asks what
# it should have done. Written by those edits, and by nothing that plans.
trigger_period = _table(
    "trigger_period",
    sa.Column("trigger_id", Id, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("spec", LongText, nullable=False),
    sa.Column("saved_at", Instant, nullable=False),  # trigger.created_at
    sa.Column("since_at", Instant, nullable=False),
    sa.Column("until_at", Instant, nullable=False),  # when the edit came
    sa.Column("planned_to", Instant, nullable=False),  # all fires up to here were written
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("next_fire_at", Instant),
    sa.Column("last_fire_at", Instant),
    sa.Index("ix_trigger_period_ended", "until_at", "trigger_id"),
    sa.Index("ix_trigger_period_of_job", "job_id", "until_at", "trigger_id"),
)

# Pauses of executors, and of everything (0), that are over.
pause_period = _table(
    "pause_period",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("paused_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("resumed_at", Instant, nullable=False),
    sa.Index("ix_pause_period_over", "resumed_at"),
)

# A live node as it was until its slots or its readiness changed, or it went or died.
node_period = _table(
    "node_period",
    sa.Column("node_id", Id, primary_key=True, autoincrement=False),
    sa.Column("from_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("until_at", Instant, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False),
    sa.Column("cordoned", sa.Boolean, nullable=False),
    sa.Column("end", sa.String(16), nullable=False),  # a domain.as_of.nodes.PeriodEnd
    sa.Index("ix_node_period_over", "until_at", "from_at", "executor_id"),
)

# What a calendar said before it was changed or deleted, without those it was based on.
calendar_period = _table(
    "calendar_period",
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("until_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("spec", LongText, nullable=False),  # JSON of domain.calendar.CalendarSpec
    sa.Index("ix_calendar_period_ended", "until_at"),
)

# Between which instants a step of a purge deleted runs of a job.
run_purge = _table(
    "run_purge",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("from_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("to_at", Instant, primary_key=True, autoincrement=False),
    sa.Index("ix_run_purge_to", "to_at"),
)

# What the self-audit counted in an hour of an executor, or of all of them (0).
self_audit_hour = _table(
    "self_audit_hour",
    sa.Column("hour_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("expected", sa.BigInteger, nullable=False),
    sa.Column("happened", sa.BigInteger, nullable=False),
    sa.Column("explained", LongText, nullable=False),  # JSON object: reason, number
    sa.Column("fires", sa.BigInteger, nullable=False),  # runs that the ledger had
    sa.Column("absent", LongText, nullable=False),  # JSON, as `explained`: those without a run
    sa.Column("missing", sa.BigInteger, nullable=False),
    sa.Column("doubled", sa.BigInteger, nullable=False),
    sa.Column("late", sa.BigInteger, nullable=False),
    sa.Column("unexplained", sa.BigInteger, nullable=False),
    sa.Column("triggers", sa.Integer, nullable=False),  # that there were
    sa.Column("audited", sa.Integer, nullable=False),  # of these: fewer when there were too many
    sa.Column("audited_at", Instant, nullable=False),
)

# How the ledger differs from what should have happened.
self_audit_difference = _table(
    "self_audit_difference",
    sa.Column("hour_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("trigger_id", Id, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, primary_key=True, autoincrement=False),  # the instant of the fire
    sa.Column("what", sa.String(16), primary_key=True),  # a domain.self_audit.Difference
    sa.Column("job_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("found_at", Instant, nullable=False),
    sa.Column("closed_at", Instant),  # when it was found no more; NULL: it stands
    # Who closed its alarm, and when: it stands, and nobody need be told any more.
    sa.Column("seen_at", Instant),
    sa.Column("seen_by", sa.String(100)),
    sa.Index("ix_self_audit_difference_open", "closed_at", "found_at"),
)

# The instants of an hour that brought no run, those of one trigger with one reason in one row.
self_audit_absence = _table(
    "self_audit_absence",
    sa.Column("hour_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("trigger_id", Id, primary_key=True, autoincrement=False),
    # A domain.self_audit.AuditReason, or "missing".
    sa.Column("reason", sa.String(16), primary_key=True),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    # JSON: [ms after the hour's beginning, ms from one to the next, how many], ...
    sa.Column("instants", LongText, nullable=False),
)

run = _table(
    "run",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("job_revision", sa.Integer, nullable=False),
    sa.Column("trigger_id", Id),
    sa.Column("origin", sa.String(16), nullable=False),
    sa.Column("scheduled_at", Instant, nullable=False),
    sa.Column("interval_start", Instant),  # the instant before it by the schedule; NULL: none
    sa.Column("nominal_at", Instant),  # of retries: the instant of what they do again
    # Of a fixed delay: the instant of the fire whose end brought this one; the self-audit asks.
    sa.Column("follows_at", Instant),
    # -1: the fire that its shards make up; -2: a workflow's
    sa.Column("shard_index", sa.Integer, nullable=False),
    sa.Column("shard_total", sa.Integer, nullable=False),
    sa.Column("fire_id", Id),  # of a shard: the run of the whole fire
    # Another run tells of it, or none: a shard, a step, a try of a script. Figures and failures are
    # of the others, which the index by state tells apart.
    sa.Column("is_part", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("pinned_node_id", Id),  # runs nowhere else
    sa.Column("request_key", sa.String(100)),
    sa.Column("requested_by", sa.String(100)),
    sa.Column("retry_of", Id),
    sa.Column("parent_run_id", Id),  # the run whose end asked for this one
    sa.Column("parameters", LongText),
    sa.Column("priority", sa.SmallInteger, nullable=False),
    # Whose slots it takes; 0: it is a workflow's, which takes none at all, not even of a node.
    # NULL: it is in no pool. The claim reads the three apart, so that none hides another.
    sa.Column("pool_id", Id),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("due_at", Instant, nullable=False),
    sa.Column("jitter_ms", sa.Integer),  # first due so long after scheduled_at; NULL: at it
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("node_id", Id),
    sa.Column("claim_token", sa.String(32)),
    sa.Column("deadline_at", Instant),
    sa.Column("dispatched_at", Instant),
    sa.Column("started_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("cancel_requested_at", Instant),
    sa.Column("cancel_reason", sa.String(16)),
    sa.Column("cancelled_by", sa.String(100)),  # the person or token that asked for the end
    # While a run of a job that is not parallel has not ended: job id * 2, and 1 more while live.
    # NULL for all others, so that the index costs parallel runs nothing.
    sa.Column("blocking_key", Id),
    sa.Column("reason", sa.String(50)),
    sa.Column("message", LongText),
    sa.Column("result", LongText),
    sa.Column("progress", sa.Float),  # 0..1 of the current attempt
    sa.Column("progress_text", LongText),
    sa.Column("log_lines", sa.Integer, nullable=False),
    # Why the last attempt's node was chosen: JSON of domain.routing.choice.Choice.
    sa.Column("choice", LongText),
    sa.Column("error_id", Id),  # of `run_error`, of a run that has failed
    # The trace that it is part of: `domain.runs.trace.stored`. NULL: none, which costs one bit.
    sa.Column("trace", sa.String(600)),
    # The state as far as indexes need it. An index of the state itself has to be changed by each
    # move; these change when a run is claimed, and when it ends. The database computes them.
    sa.Column(  # its executor; NULL when it does not wait
        "queued_for",
        Id,
        sa.Computed("CASE WHEN state = 'queued' THEN executor_id END", persisted=True),
    ),
    sa.Column(  # how it ended; `OPEN` until then
        "listed_as",
        sa.String(16),
        sa.Computed(
            "CASE WHEN state IN ('dispatched', 'queued', 'running') THEN 'open' ELSE state END",
            persisted=True,
        ),
    ),
    sa.UniqueConstraint("trigger_id", "scheduled_at", "shard_index", name="uq_run_fires_once"),
    # PostgreSQL rewrites a row's entries in all indexes with each move, so these hold only runs
    # that were asked for, wait, or have not ended (store.database.run_conditions).
    sa.Index(
        "uq_run_requested_once",
        "job_id",
        "request_key",
        unique=True,
        postgresql_where=sa.text("request_key IS NOT NULL"),
        sqlite_where=sa.text("request_key IS NOT NULL"),
    ),
    sa.Index(
        "ix_run_to_claim",
        "queued_for",
        "pool_id",
        "priority",
        "due_at",
        postgresql_where=sa.text("queued_for IS NOT NULL"),
        sqlite_where=sa.text("queued_for IS NOT NULL"),
    ),
    sa.Index(
        "ix_run_due",
        "queued_for",
        "due_at",
        "pool_id",
        postgresql_where=sa.text("queued_for IS NOT NULL"),
        sqlite_where=sa.text("queued_for IS NOT NULL"),
    ),
    # Also what is live, of an executor or as a list: no more than there are slots.
    sa.Index(
        "ix_run_to_sweep",
        "state",
        "deadline_at",
        "node_id",
        "executor_id",
        "scheduled_at",
        postgresql_where=sa.text("state IN ('dispatched', 'queued', 'running')"),
    ),
    sa.Index("ix_run_recent", "scheduled_at", "id", "executor_id"),
    sa.Index("ix_run_by_state", "listed_as", "scheduled_at", "id", "executor_id", "is_part"),
    sa.Index("ix_run_of_job", "job_id", "scheduled_at", "id"),
    sa.Index(
        "ix_run_blocking",
        "blocking_key",
        "scheduled_at",
        "id",
        postgresql_where=sa.text("blocking_key IS NOT NULL"),
        sqlite_where=sa.text("blocking_key IS NOT NULL"),
    ),
    sa.Index(
        "ix_run_of_fire",
        "fire_id",
        "shard_index",
        postgresql_where=sa.text("fire_id IS NOT NULL"),
        sqlite_where=sa.text("fire_id IS NOT NULL"),
    ),
    sa.Index(
        "ix_run_of_error",
        "error_id",
        "scheduled_at",
        "id",
        postgresql_where=sa.text("error_id IS NOT NULL"),
        sqlite_where=sa.text("error_id IS NOT NULL"),
    ),
)

# Ended runs that were there outside of the minutes behind their instant: what was live at some
# past instant is found by it (store.as_of.runs). Most runs have no row here.
run_span = _table(
    "run_span",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    # How long it was there, as a power: each span of time is read as far as it can reach.
    sa.Column("length", sa.SmallInteger, nullable=False),
    sa.Column("from_at", Instant, nullable=False),  # run.created_at
    sa.Column("ended_at", Instant, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Index(
        "ix_run_span_over", "length", "ended_at", "from_at", "executor_id", "job_id", "run_id"
    ),
    sa.Index("ix_run_span_old", "ended_at"),
)

# A job's fires over a range of past instants, which are run as slots allow (domain.backfills).
backfill = _table(
    "backfill",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("trigger_id", Id, nullable=False),
    sa.Column("spec", LongText, nullable=False),  # of the trigger when it was asked for
    sa.Column("saved_at", Instant, nullable=False),  # trigger.created_at
    sa.Column("from_at", Instant, nullable=False),
    sa.Column("to_at", Instant, nullable=False),  # the first instant that is not in it
    sa.Column("newest_first", sa.Boolean, nullable=False),
    # Failed instants are run too, and what other runs have covered is not.
    sa.Column("only_holes", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("parallel", sa.Integer, nullable=False),  # most runs that have not ended
    sa.Column("parameters", LongText),  # JSON object over those of job and trigger; NULL: nothing
    sa.Column("requested_by", sa.String(100), nullable=False),
    sa.Column("request_key", sa.String(100)),
    sa.Column("total", sa.Integer, nullable=False),  # instants when it was asked for
    sa.Column("state", sa.String(16), nullable=False),  # a domain.backfills.BackfillState
    sa.Column("reason", sa.String(500)),  # why it ended before its last instant
    sa.Column("cursor_at", Instant),  # instants up to here are written; NULL: none is
    sa.Column("version", sa.Integer, nullable=False),  # rises with each change of the row
    # By outcome; those that are open are the rest of `written`.
    sa.Column("written", sa.Integer, nullable=False),  # runs
    sa.Column("existing", sa.Integer, nullable=False),  # instants that had a run already
    sa.Column("succeeded", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("timed_out", sa.Integer, nullable=False),
    sa.Column("lost", sa.Integer, nullable=False),
    sa.Column("cancelled", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Integer, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),  # when its last run had ended; NULL: it has not ended
    sa.Column("resting", sa.Boolean, nullable=False),  # paused with no open run: passed over
    sa.UniqueConstraint("job_id", "request_key", name="uq_backfill_requested_once"),
    sa.Index("ix_backfill_open", "ended_at", "resting", "id"),
    sa.Index("ix_backfill_open_of_job", "job_id", "ended_at"),
    sa.Index("ix_backfill_of_job", "job_id", "id"),
    sa.Index("ix_backfill_of_executor", "executor_id", "id"),
)

# What became of each instant of a backfill.
backfill_run = _table(
    "backfill_run",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, primary_key=True, autoincrement=False),
    sa.Column("backfill_id", Id, primary_key=True, autoincrement=False),
    sa.Column("trigger_id", Id, nullable=False),
    sa.Column("run_id", Id, nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),  # a domain.backfills.FillOutcome
    sa.Index("ix_backfill_run_of", "backfill_id", "outcome", "at"),
)

# The steps of a workflow's run (domain.workflows.states.StepStatus), written by the claim and by
# whatever ends a run of a step, under the lock of the workflow's run.
workflow_step = _table(
    "workflow_step",
    sa.Column("workflow_run_id", Id, primary_key=True, autoincrement=False),
    # In the graph of the run's revision.
    sa.Column("step_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),  # a domain.workflows.states.StepState
    sa.Column("reason", sa.String(50)),
    sa.Column("message", LongText),
    sa.Column("run_id", Id),  # NULL: it has none, or one for each item
    sa.Column("since", Instant, nullable=False),  # when it came to this state
    sa.Column("started_at", Instant),  # when it first was more than waiting
    sa.Column("due_at", Instant),  # when it goes on by itself; NULL: it does not
    sa.Column("decided_by", sa.String(100)),  # the person who let it go on, or did not
    sa.Column("taken_from", Id),  # the run of the workflow that did it; NULL: this one
    sa.Column("items", sa.Integer),  # of a for_each; NULL: it is none, or has not started
    sa.Column("next_item", sa.Integer, nullable=False),  # items before this one have begun
    sa.Column("items_started", sa.Integer, nullable=False),
    sa.Column("items_succeeded", sa.Integer, nullable=False),
    sa.Column("items_failed", sa.Integer, nullable=False),
    sa.Column("items_skipped", sa.Integer, nullable=False),
)

# The runs of the items of a for_each.
workflow_item = _table(
    "workflow_item",
    sa.Column("workflow_run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("step_index", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("item_index", sa.Integer, primary_key=True, autoincrement=False),  # in its list
    sa.Column("run_id", Id, nullable=False),
)

# What the run of a workflow's step has spawned, in the transaction that recorded its result; and
# the list of a step with for_each that was made of results of others, if items are to begin later.
spawned_items = _table(
    "spawned_items",
    sa.Column("workflow_run_id", Id, primary_key=True, autoincrement=False),
    # That spawned them; of a list -1 minus the index of its step.
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("item_count", sa.Integer, nullable=False),
    sa.Column("item_list", LongText, nullable=False),  # JSON
)

# First lines of what runs failed with, one row for all that are alike (domain.run_error).
run_error = _table(
    "run_error",
    sa.Column("id", Id, primary_key=True, autoincrement=False),  # the fingerprint
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("text", sa.String(300), nullable=False),
    sa.Column("first_seen_at", Instant, nullable=False),
    sa.Index("ix_run_error_seen", "first_seen_at", "id"),
)

# Runs of an executor that failed alike: counted by the evaluator of alarms, treated by people.
failure_group = _table(
    "failure_group",
    sa.Column("id", Id, primary_key=True, autoincrement=False),  # of `run_error`
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("text", sa.String(300), nullable=False),  # kept when no run of it is any more
    sa.Column("since", Instant, nullable=False),  # the first failure since it was resolved last
    sa.Column("last_at", Instant, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),  # since then, as are the jobs
    sa.Column("jobs", sa.Integer, nullable=False),
    sa.Column("first_run_id", Id, nullable=False),
    sa.Column("first_job_id", Id, nullable=False),
    sa.Column("first_revision", sa.Integer, nullable=False),
    sa.Column("first_node_id", Id),
    sa.Column("last_run_id", Id, nullable=False),
    sa.Column("returns", sa.Integer, nullable=False),  # how often it came back
    sa.Column("owner", sa.String(100)),
    sa.Column("notes", LongText, nullable=False),
    sa.Column("acknowledged_by", sa.String(100)),
    sa.Column("acknowledged_at", Instant),
    sa.Column("muted_until", Instant),
    sa.Column("resolved_at", Instant),
    sa.Column("resolved_by", sa.String(100)),  # NULL: its jobs succeeded
    sa.Column("is_resolved", sa.Boolean, nullable=False),  # `resolved_at` is not NULL
    sa.Column("version", sa.Integer, nullable=False),  # rises with each edit of owner and notes
    sa.Index("ix_failure_group_standing", "is_resolved", "last_at", "id", "executor_id"),
    sa.Index("ix_failure_group_recent", "last_at", "id", "executor_id"),
    sa.Index("ix_failure_group_of_executor", "executor_id", "is_resolved", "last_at", "id"),
)

# The jobs of a failure group, since it was resolved last.
failure_group_job = _table(
    "failure_group_job",
    sa.Column("group_id", Id, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("last_run_id", Id, nullable=False),
    sa.Column("last_at", Instant, nullable=False),
    sa.Column("is_over", sa.Boolean, nullable=False),  # it has succeeded since, or is gone
    sa.Index("ix_failure_group_job_standing", "is_over", "group_id", "job_id"),
    sa.Index("ix_failure_group_job_recent", "group_id", "last_at", "job_id"),
)

# Canary retries: the runs of a failure group are done again in growing waves.
failure_canary = _table(
    "failure_canary",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("group_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(16)),  # why it was stopped
    sa.Column("user_id", Id, nullable=False),  # who began it; 0: nobody with an account
    sa.Column("started_by", sa.String(100), nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("since", Instant, nullable=False),  # runs that failed before are not its own
    sa.Column("before_at", Instant, nullable=False),  # it has come up to this run, newest first
    sa.Column("before_id", Id, nullable=False),
    sa.Column("wave", sa.Integer, nullable=False),  # runs of the last one
    sa.Column("open_runs", LongText, nullable=False),  # JSON: of the last wave
    sa.Column("retried", sa.Integer, nullable=False),
    sa.Column("succeeded", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),
    sa.Column("left_out", sa.Integer, nullable=False),
    sa.Column("stopped_by", sa.String(100)),
    sa.Column("ended_at", Instant),
    sa.Column("closed_key", Id, nullable=False),  # 0 while it goes on, then its id
    sa.Column("version", sa.Integer, nullable=False),  # rises with each step
    sa.UniqueConstraint("group_id", "closed_key", name="uq_failure_canary_open"),
    sa.Index("ix_failure_canary_open", "closed_key", "id"),
    sa.Index("ix_failure_canary_of_group", "group_id", "started_at"),
)

# What happened to runs, for `GET /api/v1/events`: one row for what a transaction did at
# once, written in that transaction while somebody wants it (store.runs.events).
run_event_batch = _table(
    "run_event_batch",
    # Rises from a transaction to those that saw it; what is not committed yet may come below.
    sa.Column("id", Id, primary_key=True, autoincrement=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("events", sa.Integer, nullable=False),  # how many
    sa.Column("data", LongText, nullable=False),  # JSON of domain.runs.events.RunEvent
    # Number of the last of its events. NULL: it was not seen as committed yet.
    sa.Column("last_seq", Id),
    sa.Index("ix_run_event_batch_seq", "last_seq", "id"),
)

# One row: who numbers the events locks it.
run_event_feed = _table(
    "run_event_feed",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("last_seq", Id, nullable=False),
    # Every later event is there. NULL: not every admin writes them yet.
    sa.Column("complete_after", Id),
    sa.Column("ready_at", Instant, nullable=False),  # from then on every admin writes them
    sa.Column("wanted_until", Instant, nullable=False),
)

run_attempt = _table(
    "run_attempt",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("node_id", Id),
    sa.Column("claim_token", sa.String(32)),
    sa.Column("dispatched_at", Instant),
    sa.Column("started_at", Instant),
    sa.Column("ended_at", Instant),
    sa.Column("reason", sa.String(50)),
    sa.Column("message", LongText),
    sa.Column("log_lines", sa.Integer, nullable=False),
    sa.Column("choice", LongText),
    sa.Column("due_at", Instant),  # when it was due to start
    # What its node said after another attempt had begun: kept for people, and decides nothing.
    sa.Column("late_outcome", sa.String(16)),
    sa.Column("late_message", LongText),
    sa.Column("late_at", Instant),
)

# A run, and a retry by hand of it or of one of its retries; of a whole fire its failed shards, too.
run_retry = _table(
    "run_retry",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("retry_id", Id, primary_key=True, autoincrement=False),
    sa.Column("scheduled_at", Instant, nullable=False),  # of `run_id`
    sa.Column("state", sa.String(16)),  # how the retry ended; NULL: it has not
    sa.Column("ended_at", Instant),
    sa.Index("ix_run_retry_of_retry", "retry_id"),
    sa.Index("ix_run_retry_made_good", "state", "scheduled_at", "run_id"),
    sa.Index("ix_run_retry_ended", "ended_at"),
)

# What an attempt left for the next try of the same run.
run_checkpoint = _table(
    "run_checkpoint",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, nullable=False),  # that left it
    sa.Column("seq", sa.Integer, nullable=False),  # the newest of an attempt has the highest
    sa.Column("data", LongText, nullable=False),  # JSON
    sa.Column("saved_at", Instant, nullable=False),
)

run_log = _table(
    "run_log",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("first_seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("line_count", sa.Integer, nullable=False),
    sa.Column("lines", LongText, nullable=False),  # JSON array of [at, level, text]
)

# Ended runs of one executor that were scheduled within one hour, counted after it: what charts of
# days and weeks read, and what is left of runs that retention has deleted.
run_stat = _table(
    "run_stat",
    sa.Column("hour_at", Instant, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("succeeded", sa.Integer, nullable=False),
    sa.Column("failed", sa.Integer, nullable=False),  # lost ones are counted here, too
    sa.Column("timed_out", sa.Integer, nullable=False),
    sa.Column("cancelled", sa.Integer, nullable=False),
    # Failures whose work a retry by hand did after all; they are counted nowhere else.
    sa.Column("made_good", sa.Integer, nullable=False),
    # Of a sample: how late they started, and how long they took (domain.runs.time_histogram).
    sa.Column("delays", LongText, nullable=False),
    sa.Column("durations", LongText, nullable=False),
    sa.Column("counted_at", Instant, nullable=False),
)

# Jobs that failed, each with its newest failed run, noted when hours are counted: a nightly job's
# failure is found here among a million others. It goes when a later run of the job succeeds.
job_failure = _table(
    "job_failure",
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("scheduled_at", Instant, nullable=False),  # of that run
    sa.Index("ix_job_failure_recent", "scheduled_at", "job_id", "executor_id"),
)

user = _table(
    "user",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("password_hash", sa.String(200)),  # argon2id; NULL: no login by password
    sa.Column("must_change_password", sa.Boolean, nullable=False),
    sa.Column("disabled", sa.Boolean, nullable=False),
    # SHA-256 of issuer and subject at the OpenID provider; NULL: never logged in there.
    sa.Column("oidc_key", sa.String(64)),
    sa.Column("preferences", LongText, nullable=False),  # JSON of domain.preferences.Preferences
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("logged_in_at", Instant),  # last login; NULL: never
    sa.UniqueConstraint("name", name="uq_user_name"),
    sa.UniqueConstraint("oidc_key", name="uq_user_oidc_key"),
)

grant = _table(
    "grant",
    sa.Column("user_id", Id, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),  # 0: all executors
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("scripts", sa.Boolean, nullable=False),  # may also edit what nodes run as scripts
    sa.Index("ix_grant_on_executor", "executor_id", "role"),
)

session = _table(
    "session",
    sa.Column("id_hash", sa.String(64), primary_key=True),  # SHA-256 of the cookie
    sa.Column("user_id", Id, nullable=False),
    sa.Column("csrf_token", sa.String(64), nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
    sa.Column("address", sa.String(100), nullable=False),
    sa.Column("user_agent", sa.String(300), nullable=False),
    sa.Index("ix_session_of_user", "user_id"),
    sa.Index("ix_session_to_clean", "seen_at"),
)

api_token = _table(
    "api_token",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("user_id", Id, nullable=False),  # acts with this person's grants, or less
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("token_hash", sa.String(64), nullable=False),
    sa.Column("role", sa.String(16)),  # at most this one; NULL: as the person
    sa.Column("executors", LongText),  # JSON array of ids, only on these; NULL: as the person
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant),
    sa.Column("used_at", Instant),  # last request, to about a minute; NULL: never
    sa.UniqueConstraint("token_hash", name="uq_api_token"),
    sa.UniqueConstraint("user_id", "name", name="uq_api_token_name"),
)

audit = _table(
    "audit",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("user_id", Id),
    sa.Column("user_name", sa.String(100), nullable=False),
    sa.Column("address", sa.String(100), nullable=False),
    sa.Column("action", sa.String(50), nullable=False),  # "job.updated"
    sa.Column("executor_id", Id),
    sa.Column("object_id", Id),
    sa.Column("detail", LongText, nullable=False),  # JSON object
    # The entry of the bulk action that this was part of; 0: it is an entry by itself.
    sa.Column("part_of", Id, nullable=False, server_default=sa.text("0")),
    sa.Index("ix_audit_old", "at"),
    sa.Index("ix_audit_recent", "part_of", "at", "id"),
    sa.Index("ix_audit_by_person", "user_name", "part_of", "at", "id"),
    sa.Index("ix_audit_of_executor", "executor_id", "part_of", "at", "id"),
    sa.Index("ix_audit_of_object", "object_id", "at", "id"),
)

# A filter of a list that a person saved under a name.
saved_view = _table(
    "saved_view",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("user_id", Id, nullable=False),  # whose it is
    sa.Column("page", sa.String(16), nullable=False),  # a domain.saved_view.ListPage
    sa.Column("name", sa.String(60), nullable=False),
    sa.Column("query", sa.String(2000), nullable=False),  # of the page's address
    sa.Column("shared", sa.Boolean, nullable=False),  # everybody sees it, its owner alone edits it
    sa.Column("created_at", Instant, nullable=False),
    sa.UniqueConstraint("user_id", "page", "name", name="uq_saved_view_name"),
    sa.Index("ix_saved_view_shared", "page", "shared", "name"),
)

# Named values that the jobs of an executor use; the rows are deleted with the executor.
secret = _table(
    "secret",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("ciphertext", LongText, nullable=False),  # services.secrets.cipher
    sa.Column("version", sa.Integer, nullable=False),  # rises each time that a value is set
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("created_by", sa.String(100), nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("updated_by", sa.String(100), nullable=False),
    sa.Column("last_used_at", Instant),  # to the hour; NULL: no run was given it yet
)

# The secrets that the current revisions of jobs name, whether they exist or not.
job_secret = _table(
    "job_secret",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Index("ix_job_secret_of_job", "job_id"),
)

# What an executor of the protocol `xxl_job` has besides; the row is deleted with the executor.
xxl_executor = _table(
    "xxl_executor",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    sa.Column("app_name", sa.String(100), nullable=False),  # by which its processes register
    # JSON array of the URLs that a person set. NULL: its processes register themselves.
    sa.Column("addresses", LongText),
    sa.Column("token", LongText, nullable=False),  # encrypted (services.secrets.cipher)
    sa.UniqueConstraint("app_name", name="uq_xxl_executor_app"),
)

# Where the processes of such an executor listen.
xxl_address = _table(
    "xxl_address",
    sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
    # Normalised URL without a slash at the end.
    sa.Column("address", sa.String(300), primary_key=True),
    sa.Column("registered_at", Instant),  # last registration; NULL: a person set the address
    sa.Column("removed_at", Instant),  # it took itself out; NULL: it has not
    # Raised when its process was found gone: the next process there is another node.
    sa.Column("incarnation", sa.Integer, nullable=False, server_default=sa.text("0")),
    # Raised each time that an admin begins to serve it: tells apart who tells runs there to end.
    sa.Column("turns", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("node_id", Id),  # of that process; NULL: none was reached yet
    sa.Column("dialect", sa.String(1)),  # A, B or C; NULL: not seen yet
    sa.Column("client", sa.String(8)),  # java, go, python, node; NULL: not seen yet
    sa.Column("beat_at", Instant),  # last beat that was answered; NULL: none yet
    sa.Column("calls", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("errors", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("error", LongText),  # the last one
    sa.Column("error_at", Instant),
)

# Attempts whose log is still to be read from the process that ran them.
xxl_log = _table(
    "xxl_log",
    sa.Column("run_id", Id, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("node_id", Id, nullable=False),
    sa.Column("token", sa.String(32), nullable=False),  # of the claim
    # By which its executor knows the log: the number and the time of the call that started it.
    sa.Column("log_id", sa.BigInteger, nullable=False),
    sa.Column("time_ms", Instant, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Index("ix_xxl_log_of_node", "node_id", "run_id"),
    sa.Index("ix_xxl_log_created_at", "created_at"),  # those that nobody could read
)

# What was imported from other schedulers, so that a second import finds it again, whatever its name
# is now.
import_record = _table(
    "import_record",
    sa.Column("source", sa.String(200), primary_key=True),  # names the installation
    sa.Column("kind", sa.String(16), primary_key=True),  # a domain.imports.merge.ImportKind
    sa.Column("their_id", Id, primary_key=True, autoincrement=False),
    sa.Column("our_id", Id, nullable=False),  # of the executor, job, calendar or user
    sa.Column("content", LongText, nullable=False),  # JSON: what was imported last
    sa.Column("imported_at", Instant, nullable=False),
)

# The latest move of a job from XXL-JOB or back; domain.xxl_job.take_over explains it.
xxl_take_over = _table(
    "xxl_take_over",
    sa.Column("source", sa.String(200), primary_key=True),
    sa.Column("their_job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("trigger_id", Id, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # a domain.xxl_job.take_over.MoveState
    sa.Column("next_at", Instant, nullable=False),  # from when on the other side fires it
    # What XXL-JOB's row says as long as nobody but us touched it.
    sa.Column("their_next_at", Instant, nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),  # of the step that wrote this row
    sa.Column("changed_at", Instant, nullable=False),
)

# A way to tell people of alarms (domain.alarms.channel).
alarm_channel = _table(
    "alarm_channel",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("language", sa.String(16), nullable=False),  # of its messages
    sa.Column("time_zone", sa.String(100), nullable=False),  # in which they tell instants
    sa.Column("settings", LongText, nullable=False),  # JSON object of strings
    # Ciphertext of a JSON object of strings (services.secrets.cipher); NULL: it has no secrets.
    sa.Column("secrets", LongText),
    sa.Column("per_minute", sa.Integer, nullable=False),  # most messages in a minute
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),  # rises with each edit
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    # How far ahead of its rate it has sent (domain.alarms.pace): the claim locks and writes it.
    sa.Column("paced_to", Instant, nullable=False, server_default=sa.text("0")),
    # The provider wants no message before that; 0: it did not say so.
    sa.Column("held_until", Instant, nullable=False, server_default=sa.text("0")),
    sa.UniqueConstraint("name", "deleted_at", name="uq_alarm_channel_name"),
)

# When somebody is told, and by which channels (domain.alarms.rule).
alarm_rule = _table(
    "alarm_rule",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("kind", sa.String(24), nullable=False),
    sa.Column("scope", sa.String(16), nullable=False),
    sa.Column("executor_id", Id),  # scope executor; scope tag: only of this one, NULL: of all
    sa.Column("job_id", Id),  # scope job
    # 0: of no job. Names are unique among the rules of a job, and among all others.
    sa.Column("name_of", Id, nullable=False),
    sa.Column("tag", sa.String(50)),  # scope tag
    sa.Column("additional", sa.Boolean, nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("channels", LongText, nullable=False),  # JSON array of ids
    sa.Column("limits", LongText, nullable=False),  # JSON of domain.alarms.rule.RuleLimits
    sa.Column("own_text", LongText, nullable=False),
    sa.Column("quiet", LongText),  # JSON of domain.alarms.rule.QuietHours; NULL: none
    sa.Column("repeat_every_s", sa.Integer),
    sa.Column("escalate_after_s", sa.Integer),
    sa.Column("escalate_to", LongText, nullable=False),  # JSON array of ids of channels
    sa.Column("tell_recovery", sa.Boolean, nullable=False),
    sa.Column("group_window_s", sa.Integer, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),  # rises with each edit
    # The next deadline that is to be looked at; NULL: of a rule without deadlines.
    sa.Column("next_at", Instant),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("updated_at", Instant, nullable=False),
    sa.Column("deleted_at", Instant, nullable=False),
    sa.UniqueConstraint("name_of", "name", "deleted_at", name="uq_alarm_rule_name"),
    sa.Index("ix_alarm_rule_of_job", "job_id", "deleted_at"),
    sa.Index("ix_alarm_rule_of_executor", "executor_id", "deleted_at"),
    sa.Index("ix_alarm_rule_by_scope", "scope", "deleted_at", "tag"),
    sa.Index("ix_alarm_rule_by_kind", "kind", "deleted_at", "id"),
    sa.Index("ix_alarm_rule_next", "next_at"),
)

# Triggers whose coverage is watched for rules of the kind coverage_gap, and the holes they have.
coverage_watch = _table(
    "coverage_watch",
    sa.Column("trigger_id", Id, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),
    # The shortest of the rules about it: so long after its end an interval must be processed.
    sa.Column("limit_ms", sa.BigInteger, nullable=False),
    sa.Column("look_at", Instant, nullable=False),  # when it is looked at again
    sa.Column("known_to", Instant),  # nothing changes before it any more; NULL: nobody has looked
    sa.Column("holes", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("first_hole_at", Instant),  # the end of the oldest; NULL: there is none
    sa.Index("ix_coverage_watch_look", "look_at"),
    sa.Index("ix_coverage_watch_holes", "first_hole_at", "executor_id"),
)

# What was foretold of deadlines, and what became of them (domain.forecast.deadline_record).
deadline_forecast = _table(
    "deadline_forecast",
    sa.Column("rule_id", Id, primary_key=True, autoincrement=False),
    sa.Column("job_id", Id, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, primary_key=True, autoincrement=False),
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("since", Instant, nullable=False),  # successes count from here on
    sa.Column("made_at", Instant, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),  # a domain.forecast DeadlineVerdict
    sa.Column("miss_percent", sa.SmallInteger, nullable=False),
    sa.Column("end_at", Instant),  # NULL: not within the forecast
    sa.Column("slow_end_at", Instant),
    sa.Column("warned_since", Instant),  # NULL: no warning stands
    # As it was half an hour before; NULL: nothing was foretold then.
    sa.Column("early_warned", sa.Boolean),
    sa.Column("early_end_at", Instant),
    sa.Column("outcome", sa.String(8)),  # met or missed; NULL: nobody has looked yet
    sa.Column("succeeded_at", Instant),
    sa.Column("look_at", Instant),  # when to look at what became of it; NULL: all is known
    sa.Index("ix_deadline_forecast_of_executor", "executor_id", "at"),
    sa.Index("ix_deadline_forecast_at", "at"),
    sa.Index("ix_deadline_forecast_look", "look_at"),
)

# What alarms are made of, written by the transaction that makes it true. The evaluator of alarms
# deletes what it has taken.
alarm_signal = _table(
    "alarm_signal",
    sa.Column("kind", sa.String(24), primary_key=True),  # a domain.alarms.kind.AlarmKind
    # The run, trigger, node or admin that it is about.
    sa.Column("subject_id", Id, primary_key=True, autoincrement=False),
    # Tells signals of one subject apart: the attempt of a run, the version of a trigger.
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", Instant, nullable=False),
    sa.Column("executor_id", Id),
    sa.Column("job_id", Id),
    sa.Column("text", sa.String(500)),  # a name or a reason; NULL: the subject's row tells it
    sa.Index("ix_alarm_signal_oldest", "at"),
)

# What is or was the matter, once for each rule and subject while it lasts.
alarm = _table(
    "alarm",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("rule_id", Id, nullable=False),
    sa.Column("subject", sa.String(64), nullable=False),  # "job:17"
    # 0 while it is open, then its id: one open alarm for each rule and subject.
    sa.Column("closed_key", Id, nullable=False),
    sa.Column("kind", sa.String(24), nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("executor_id", Id),
    sa.Column("job_id", Id),
    sa.Column("run_id", Id),  # the newest one that it is about
    sa.Column("told", LongText, nullable=False),  # JSON of template and params
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("since", Instant, nullable=False),  # when it began
    sa.Column("last_at", Instant, nullable=False),  # when it happened last
    sa.Column("opened_at", Instant, nullable=False),  # when this row was written
    sa.Column("acknowledged_by", sa.String(100)),
    sa.Column("acknowledged_at", Instant),
    sa.Column("assigned_to", sa.String(100)),
    sa.Column("muted_until", Instant),
    sa.Column("repeats", sa.Integer, nullable=False),  # how often it was told again
    sa.Column("repeat_at", Instant),  # NULL: it is not told again
    sa.Column("escalate_at", Instant),  # NULL: it is not escalated, or was
    # The earlier of the two while nobody has acknowledged it; NULL: neither.
    sa.Column("next_at", Instant),
    sa.Column("escalated_at", Instant),
    sa.Column("closed_at", Instant),
    sa.Column("closed_by", sa.String(100)),  # NULL: it recovered, or its rule is gone
    sa.UniqueConstraint("rule_id", "subject", "closed_key", name="uq_alarm_open"),
    sa.Index("ix_alarm_open", "closed_key", "last_at", "id", "executor_id"),
    sa.Index("ix_alarm_open_by_kind", "closed_key", "kind", "executor_id", "last_at", "severity"),
    sa.Index("ix_alarm_recent", "last_at", "id", "executor_id"),
    sa.Index("ix_alarm_of_job", "job_id", "closed_key", "last_at"),
    sa.Index("ix_alarm_of_executor", "executor_id", "closed_key", "last_at", "id"),
    sa.Index("ix_alarm_recent_of_executor", "executor_id", "last_at", "id"),
    sa.Index("ix_alarm_next", "next_at"),
    sa.Index("ix_alarm_closed", "closed_at"),
)

# The outbox: a message to a channel, delivered by any admin under a lease.
notification = _table(
    "notification",
    sa.Column("id", Id, primary_key=True, autoincrement=False),
    sa.Column("channel_id", Id, nullable=False),
    sa.Column("executor_id", Id, nullable=False),  # whose alarms are grouped; 0: of no executor
    sa.Column("message_id", sa.String(64), nullable=False),  # the same at each attempt
    sa.Column("state", sa.String(16), nullable=False),  # a domain.alarms.notification state
    sa.Column("items", sa.Integer, nullable=False),  # rows of notification_item
    sa.Column("due_at", Instant, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("lease_until", Instant),
    sa.Column("claimed_by", Id),  # admin id
    sa.Column("claim_token", sa.String(32)),
    sa.Column("written_at", Instant, nullable=False),
    sa.Column("first_at", Instant),  # of the first attempt
    sa.Column("ended_at", Instant),  # when it was delivered or given up
    sa.Column("answer", sa.String(500)),  # of the provider
    sa.Column("error", sa.String(500)),  # of the last attempt
    sa.Index("ix_notification_due", "state", "due_at"),
    sa.Index("ix_notification_group", "channel_id", "executor_id", "due_at"),
    sa.Index("ix_notification_of_channel", "channel_id", "state", "due_at"),
    sa.Index("ix_notification_leased", "state", "lease_until"),
    sa.Index("ix_notification_recent", "written_at", "id"),
)

# Which alarm a message tells of, and why: nothing is told twice by one channel.
notification_item = _table(
    "notification_item",
    sa.Column("channel_id", Id, primary_key=True, autoincrement=False),
    sa.Column("alarm_id", Id, primary_key=True, autoincrement=False),
    sa.Column("occasion", sa.String(16), primary_key=True),  # a domain.alarms.message.Occasion
    # Counts repeats; 0 of all else.
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("notification_id", Id, nullable=False),
    sa.Index("ix_notification_item_of", "notification_id", "alarm_id"),
    sa.Index("ix_notification_item_of_alarm", "alarm_id"),
)
