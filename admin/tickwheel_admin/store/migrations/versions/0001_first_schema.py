"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from tickwheel_admin.store.migrations.steps import create_table

revision = "0001"
down_revision = None

# SQLite makes only an INTEGER primary key the row id itself.
Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UNFINISHED = "state IN ('dispatched', 'queued', 'running')"
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    create_table(
        "id_block",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("next_id", Id, nullable=False),
    )
    create_table(
        "setting",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", LongText, nullable=False),
    )
    create_table(
        "bucket",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("planned_at", sa.BigInteger, nullable=False),
        sa.Column("planned_by", Id, nullable=False),
    )
    create_table(
        "admin",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("url", sa.String(500), nullable=False),
        sa.Column("version", sa.String(50), nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=False),
        sa.Column("status", LongText, nullable=False),
        sa.Column("gone_at", sa.BigInteger),
        sa.Column("xxl_unreadable", LongText),
        indexes={
            "ix_admin_live": ["lease_expires_at"],
        },
    )
    create_table(
        "executor",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("description", sa.String(1000), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("old_token_hash", sa.String(64)),
        sa.Column("old_token_until", sa.BigInteger),
        sa.Column("paused_at", sa.BigInteger),
        sa.Column("code_jobs", sa.String(16), nullable=False, server_default=sa.text("'apply'")),
        sa.Column("protocol", sa.String(16), nullable=False, server_default=sa.text("'tickwheel'")),
        sa.Column("scripts", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name", "deleted_at", name="uq_executor_name"),
        sa.UniqueConstraint("token_hash", name="uq_executor_token"),
        indexes={
            "ix_executor_old_token": ["old_token_hash"],
        },
    )
    create_table(
        "node",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("node_key", sa.String(64), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("draining", sa.Boolean, nullable=False),
        sa.Column("cordoned", sa.Boolean, nullable=False),
        sa.Column("drain_wanted", sa.Boolean, nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("slots_wanted", sa.Integer),
        sa.Column("in_use", sa.Integer, nullable=False),
        sa.Column("weight", sa.Integer, nullable=False),
        sa.Column("weight_wanted", sa.Integer),
        sa.Column("handlers", LongText, nullable=False),
        sa.Column("unstoppable", LongText, nullable=False),
        sa.Column("labels", LongText, nullable=False),
        sa.Column("declared", LongText),
        sa.Column("sdk", sa.String(50), nullable=False),
        sa.Column("address", sa.String(100), nullable=False),
        sa.Column("connected_at", sa.BigInteger, nullable=False),
        sa.Column("lease_expires_at", sa.BigInteger, nullable=False),
        sa.Column("full_lease_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.UniqueConstraint("executor_id", "node_key", name="uq_node_key"),
        indexes={
            "ix_node_of_executor": ["executor_id", "state", "name"],
            "ix_node_to_expire": ["state", "lease_expires_at"],
        },
    )
    create_table(
        "node_session",
        sa.Column("node_id", Id, primary_key=True, autoincrement=False),
        sa.Column("admin_id", Id, primary_key=True, autoincrement=False),
        sa.Column("session_id", Id, nullable=False),
        sa.Column("connected_at", sa.BigInteger, nullable=False),
        indexes={
            "ix_node_session_of_admin": ["admin_id"],
        },
    )
    create_table(
        "job",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("handler", sa.String(200), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("tags", sa.String(500), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("route_cursor", sa.BigInteger, nullable=False),
        sa.Column("usual_ms", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("failure_rate", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("executor_id", "name", "deleted_at", name="uq_job_name"),
        indexes={
            "ix_job_by_name": ["deleted_at", "name", "id"],
            "ix_job_of_owner": ["deleted_at", "owner", "name", "id"],
            "ix_job_paused": ["deleted_at", "paused", "name", "id"],
            "ix_job_changed": ["deleted_at", "updated_at", "id"],
            "ix_job_usual": ["deleted_at", "usual_ms", "id"],
            "ix_job_failure_rate": ["deleted_at", "failure_rate", "id"],
            "ix_job_tags": ["deleted_at", "tags"],
        },
    )
    create_table(
        "job_node",
        sa.Column("job_id", Id, primary_key=True, autoincrement=False),
        sa.Column("node_id", Id, primary_key=True, autoincrement=False),
        sa.Column("uses", sa.BigInteger, nullable=False),
        sa.Column("last_turn", sa.BigInteger, nullable=False),
        indexes={
            "ix_job_node_of_node": ["node_id"],
        },
    )
    create_table(
        "job_state",
        sa.Column("job_id", Id, primary_key=True, autoincrement=False),
        sa.Column("state", LongText, nullable=False),
        sa.Column("run_id", Id),
        sa.Column("updated_at", sa.BigInteger),
        sa.Column("lent_run_id", Id),
        sa.Column("lent_attempt", sa.Integer),
    )
    create_table(
        "job_revision",
        sa.Column("job_id", Id, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("config", LongText, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(100), nullable=False),
    )
    create_table(
        "script_source",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("source", LongText, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    create_table(
        "handler_schema",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("handler", sa.String(200), primary_key=True),
        sa.Column("schema", LongText, nullable=False),
        sa.Column("said_by", Id, nullable=False),
        sa.Column("said_at", sa.BigInteger, nullable=False),
    )
    create_table(
        "declared_job",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("raw", LongText, nullable=False),
        sa.Column("job_id", Id),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(50)),
        sa.Column("renamed_from", sa.String(200)),
        sa.Column("problems", LongText, nullable=False),
        sa.Column("declared_by", sa.String(200), nullable=False),
        sa.Column("node_id", Id, nullable=False),
        sa.Column("declared_at", sa.BigInteger, nullable=False),
        indexes={
            "ix_declared_job_of_job": ["job_id"],
            "ix_declared_job_by_state": ["state", "executor_id"],
        },
    )
    create_table(
        "calendar",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("description", LongText, nullable=False),
        sa.Column("spec", LongText, nullable=False),
        sa.Column("base", sa.String(100)),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("name", "deleted_at", name="uq_calendar_name"),
        indexes={
            "ix_calendar_of_base": ["base"],
        },
    )
    create_table(
        "trigger",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("job_id", Id, nullable=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("spec", LongText, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(500)),
        sa.Column("next_fire_at", sa.BigInteger),
        sa.Column("last_fire_at", sa.BigInteger),
        sa.Column("fires", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("calendar", sa.String(100)),
        sa.Column("calendar_version", sa.Integer),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        indexes={
            "ix_trigger_next": ["next_fire_at"],
            "ix_trigger_of_calendar": ["calendar", "calendar_version"],
            "ix_trigger_of_job": ["job_id"],
            "ix_trigger_by_state": ["state", "id"],
            "ix_trigger_to_plan": ["bucket", "next_fire_at"],
        },
    )
    create_table(
        "run",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("job_id", Id, nullable=False),
        sa.Column("job_revision", sa.Integer, nullable=False),
        sa.Column("trigger_id", Id),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger, nullable=False),
        sa.Column("nominal_at", sa.BigInteger),
        sa.Column("shard_index", sa.Integer, nullable=False),
        sa.Column("shard_total", sa.Integer, nullable=False),
        sa.Column("fire_id", Id),
        sa.Column("pinned_node_id", Id),
        sa.Column("request_key", sa.String(100)),
        sa.Column("requested_by", sa.String(100)),
        sa.Column("retry_of", Id),
        sa.Column("parent_run_id", Id),
        sa.Column("parameters", LongText),
        sa.Column("priority", sa.SmallInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False),
        sa.Column("jitter_ms", sa.Integer),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("node_id", Id),
        sa.Column("claim_token", sa.String(32)),
        sa.Column("deadline_at", sa.BigInteger),
        sa.Column("dispatched_at", sa.BigInteger),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("cancel_requested_at", sa.BigInteger),
        sa.Column("cancel_reason", sa.String(16)),
        sa.Column("cancelled_by", sa.String(100)),
        sa.Column("blocking_key", Id),
        sa.Column("reason", sa.String(50)),
        sa.Column("message", LongText),
        sa.Column("result", LongText),
        sa.Column("progress", sa.Float),
        sa.Column("progress_text", LongText),
        sa.Column("log_lines", sa.Integer, nullable=False),
        sa.Column("choice", LongText),
        sa.Column("error_id", Id),
        sa.UniqueConstraint("trigger_id", "scheduled_at", "shard_index", name="uq_run_fires_once"),
        sa.UniqueConstraint("job_id", "request_key", name="uq_run_requested_once"),
        indexes={
            "ix_run_by_state": ["state", "scheduled_at", "id", "executor_id"],
            "ix_run_of_job": ["job_id", "scheduled_at", "id"],
            "ix_run_recent": ["scheduled_at", "id", "executor_id"],
        },
        short_indexes={
            "ix_run_due": (["executor_id", "state", "due_at"], "state = 'queued'"),
            "ix_run_to_claim": (["executor_id", "state", "priority", "due_at"], UNFINISHED),
            "ix_run_to_sweep": (["state", "deadline_at", "node_id"], UNFINISHED),
        },
        sparse_indexes={
            "ix_run_blocking": ["blocking_key", "scheduled_at", "id"],
            "ix_run_of_error": ["error_id", "scheduled_at", "id"],
            "ix_run_of_fire": ["fire_id", "shard_index"],
        },
    )
    create_table(
        "run_error",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("text", sa.String(300), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger, nullable=False),
        indexes={"ix_run_error_seen": ["first_seen_at", "id"]},
    )
    create_table(
        "run_attempt",
        sa.Column("run_id", Id, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("node_id", Id),
        sa.Column("claim_token", sa.String(32)),
        sa.Column("dispatched_at", sa.BigInteger),
        sa.Column("started_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("reason", sa.String(50)),
        sa.Column("message", LongText),
        sa.Column("log_lines", sa.Integer, nullable=False),
        sa.Column("choice", LongText),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("late_outcome", sa.String(16)),
        sa.Column("late_message", LongText),
        sa.Column("late_at", sa.BigInteger),
    )
    create_table(
        "run_retry",
        sa.Column("run_id", Id, primary_key=True, autoincrement=False),
        sa.Column("retry_id", Id, primary_key=True, autoincrement=False),
        sa.Column("scheduled_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16)),
        sa.Column("ended_at", sa.BigInteger),
        indexes={
            "ix_run_retry_ended": ["ended_at"],
            "ix_run_retry_made_good": ["state", "scheduled_at", "run_id"],
            "ix_run_retry_of_retry": ["retry_id"],
        },
    )
    create_table(
        "run_checkpoint",
        sa.Column("run_id", Id, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("data", LongText, nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
    )
    create_table(
        "run_log",
        sa.Column("run_id", Id, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("line_count", sa.Integer, nullable=False),
        sa.Column("lines", LongText, nullable=False),
    )
    create_table(
        "run_stat",
        sa.Column("hour_at", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("succeeded", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("timed_out", sa.Integer, nullable=False),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("made_good", sa.Integer, nullable=False),
        sa.Column("delays", LongText, nullable=False),
        sa.Column("counted_at", sa.BigInteger, nullable=False),
    )
    create_table(
        "job_failure",
        sa.Column("job_id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, nullable=False),
        sa.Column("scheduled_at", sa.BigInteger, nullable=False),
        indexes={"ix_job_failure_recent": ["scheduled_at", "job_id", "executor_id"]},
    )
    create_table(
        "user",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("password_hash", sa.String(200)),
        sa.Column("must_change_password", sa.Boolean, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("oidc_key", sa.String(64)),
        sa.Column("preferences", LongText, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("logged_in_at", sa.BigInteger),
        sa.UniqueConstraint("name", name="uq_user_name"),
        sa.UniqueConstraint("oidc_key", name="uq_user_oidc_key"),
    )
    create_table(
        "grant",
        sa.Column("user_id", Id, primary_key=True, autoincrement=False),
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("scripts", sa.Boolean, nullable=False),
    )
    create_table(
        "session",
        sa.Column("id_hash", sa.String(64), primary_key=True),
        sa.Column("user_id", Id, nullable=False),
        sa.Column("csrf_token", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("address", sa.String(100), nullable=False),
        sa.Column("user_agent", sa.String(300), nullable=False),
        indexes={
            "ix_session_of_user": ["user_id"],
            "ix_session_to_clean": ["seen_at"],
        },
    )
    create_table(
        "api_token",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("user_id", Id, nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16)),
        sa.Column("executors", LongText),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("used_at", sa.BigInteger),
        sa.UniqueConstraint("token_hash", name="uq_api_token"),
        sa.UniqueConstraint("user_id", "name", name="uq_api_token_name"),
    )
    create_table(
        "audit",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("user_id", Id),
        sa.Column("user_name", sa.String(100), nullable=False),
        sa.Column("address", sa.String(100), nullable=False),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("executor_id", Id),
        sa.Column("object_id", Id),
        sa.Column("detail", LongText, nullable=False),
        sa.Column("part_of", Id, nullable=False, server_default=sa.text("0")),
        indexes={
            "ix_audit_old": ["at"],
            "ix_audit_recent": ["part_of", "at", "id"],
            "ix_audit_by_person": ["user_name", "part_of", "at", "id"],
            "ix_audit_of_executor": ["executor_id", "part_of", "at", "id"],
            "ix_audit_of_object": ["object_id", "at", "id"],
        },
    )
    create_table(
        "saved_view",
        sa.Column("id", Id, primary_key=True, autoincrement=False),
        sa.Column("user_id", Id, nullable=False),
        sa.Column("page", sa.String(16), nullable=False),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("query", sa.String(2000), nullable=False),
        sa.Column("shared", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("user_id", "page", "name", name="uq_saved_view_name"),
        indexes={"ix_saved_view_shared": ["page", "shared", "name"]},
    )
    create_table(
        "secret",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("ciphertext", LongText, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.String(100), nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("updated_by", sa.String(100), nullable=False),
        sa.Column("last_used_at", sa.BigInteger),
    )
    create_table(
        "job_secret",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("job_id", Id, primary_key=True, autoincrement=False),
        indexes={"ix_job_secret_of_job": ["job_id"]},
    )
    create_table(
        "xxl_executor",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("app_name", sa.String(100), nullable=False),
        sa.Column("addresses", LongText),
        sa.Column("token", LongText, nullable=False),
        sa.UniqueConstraint("app_name", name="uq_xxl_executor_app"),
    )
    create_table(
        "xxl_address",
        sa.Column("executor_id", Id, primary_key=True, autoincrement=False),
        sa.Column("address", sa.String(300), primary_key=True),
        sa.Column("registered_at", sa.BigInteger),
        sa.Column("removed_at", sa.BigInteger),
        sa.Column("incarnation", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("node_id", Id),
        sa.Column("dialect", sa.String(1)),
        sa.Column("client", sa.String(8)),
        sa.Column("beat_at", sa.BigInteger),
        sa.Column("calls", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("errors", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("error", LongText),
        sa.Column("error_at", sa.BigInteger),
    )
    create_table(
        "xxl_log",
        sa.Column("run_id", Id, primary_key=True, autoincrement=False),
        sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("node_id", Id, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("log_id", sa.BigInteger, nullable=False),
        sa.Column("time_ms", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        indexes={
            "ix_xxl_log_of_node": ["node_id", "run_id"],
            "ix_xxl_log_created_at": ["created_at"],
        },
    )
    create_table(
        "import_record",
        sa.Column("source", sa.String(200), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("their_id", Id, primary_key=True, autoincrement=False),
        sa.Column("our_id", Id, nullable=False),
        sa.Column("content", LongText, nullable=False),
        sa.Column("imported_at", sa.BigInteger, nullable=False),
    )
    create_table(
        "xxl_take_over",
        sa.Column("source", sa.String(200), primary_key=True),
        sa.Column("their_job_id", Id, primary_key=True, autoincrement=False),
        sa.Column("job_id", Id, nullable=False),
        sa.Column("trigger_id", Id, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.Column("their_next_at", sa.BigInteger, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
    )
