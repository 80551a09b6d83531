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
)

# Sources of scripts, which revisions of jobs and runs name by their hashes.
script_source = _table(
    "script_source",
    sa.Column("sha256", sa.String(64), primary_key=True),
    sa.Column("source", LongText, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
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
    sa.Index("ix_trigger_of_calendar", "calendar", "calendar_version"),
    sa.Index("ix_trigger_to_plan", "bucket", "next_fire_at"),
    sa.Index("ix_trigger_of_job", "job_id"),
    sa.Index("ix_trigger_by_state", "state", "id"),
    sa.Index("ix_trigger_next", "next_fire_at"),  # "what fires next" on the overview
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
    sa.Column("nominal_at", Instant),  # of retries: the instant of what they do again
    sa.Column("shard_index", sa.Integer, nullable=False),  # -1: the fire that its shards make up
    sa.Column("shard_total", sa.Integer, nullable=False),
    sa.Column("fire_id", Id),  # of a shard: the run of the whole fire
    sa.Column("pinned_node_id", Id),  # runs nowhere else
    sa.Column("request_key", sa.String(100)),
    sa.Column("requested_by", sa.String(100)),
    sa.Column("retry_of", Id),
    sa.Column("parent_run_id", Id),  # the run whose end asked for this one
    sa.Column("parameters", LongText),
    sa.Column("priority", sa.SmallInteger, nullable=False),
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
    sa.UniqueConstraint("trigger_id", "scheduled_at", "shard_index", name="uq_run_fires_once"),
    sa.UniqueConstraint("job_id", "request_key", name="uq_run_requested_once"),
    # PostgreSQL rewrites a row's entries in all indexes with each move, so these hold only runs
    # that have not ended (conditions that use them: store.database.run_conditions).
    sa.Index(
        "ix_run_to_claim",
        "executor_id",
        "state",
        "priority",
        "due_at",
        postgresql_where=sa.text("state IN ('dispatched', 'queued', 'running')"),
    ),
    sa.Index(
        "ix_run_due",
        "executor_id",
        "state",
        "due_at",
        postgresql_where=sa.text("state = 'queued'"),
    ),
    sa.Index(
        "ix_run_to_sweep",
        "state",
        "deadline_at",
        "node_id",
        postgresql_where=sa.text("state IN ('dispatched', 'queued', 'running')"),
    ),
    sa.Index("ix_run_recent", "scheduled_at", "id", "executor_id"),
    sa.Index("ix_run_by_state", "state", "scheduled_at", "id", "executor_id"),
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

# First lines of what runs failed with, one row for all that are alike (domain.run_error).
run_error = _table(
    "run_error",
    sa.Column("id", Id, primary_key=True, autoincrement=False),  # the fingerprint
    sa.Column("executor_id", Id, nullable=False),
    sa.Column("text", sa.String(300), nullable=False),
    sa.Column("first_seen_at", Instant, nullable=False),
    sa.Index("ix_run_error_seen", "first_seen_at", "id"),
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
    sa.Column("delays", LongText, nullable=False),  # JSON of domain.start_delays.StartDelays
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
