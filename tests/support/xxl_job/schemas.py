"""The tables of XXL-JOB as facts: columns, types, keys and indexes of each version.

Written from a description of the schema, not from its SQL script.
"""

from __future__ import annotations

import sqlalchemy as sa

VERSIONS = ("2.2", "2.4", "2.5", "3.1", "3.3", "3.4", "3.5")
DETECTED = {  # what the reader can tell
    "2.2": "2.2",
    "2.4": "2.3-2.4",
    "2.5": "2.5-3.1",
    "3.1": "2.5-3.1",
    "3.3": "3.2-3.3",
    "3.4": "3.4",
    "3.5": "3.5",
}


def number(version: str) -> tuple[int, int]:
    """For comparisons: "3.1" is after "2.5"."""
    major, minor = version.split(".")
    return int(major), int(minor)


def create_tables(connection: sa.Connection, version: str) -> None:
    """All eight tables, the lock's row and the first administrator."""
    for name, lines in tables_of(version).items():
        connection.exec_driver_sql(
            f"CREATE TABLE {name} ({', '.join(lines)})"
            " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci"
        )
    connection.exec_driver_sql("INSERT INTO xxl_job_lock (lock_name) VALUES ('schedule_lock')")


def tables_of(version: str) -> dict[str, list[str]]:
    """Columns, keys and indexes of each table."""
    v = number(version)
    is_35, is_34, is_32, is_25, is_23 = (
        v >= (3, 5),
        v >= (3, 4),
        v >= (3, 2),
        v >= (2, 5),
        v >= (2, 3),
    )

    def since(condition: bool, *lines: str) -> list[str]:
        return list(lines) if condition else []

    return {
        "xxl_job_group": [
            "id int(11) NOT NULL AUTO_INCREMENT",
            "app_name varchar(64) NOT NULL",
            ("name varchar(64)" if is_35 else f"title varchar({64 if is_34 else 12})")
            + " NOT NULL",
            "address_type tinyint(4) NOT NULL DEFAULT 0",
            "address_list text" if is_23 else "address_list varchar(512) DEFAULT NULL",
            *since(is_35, "access_token varchar(255) DEFAULT NULL"),
            *since(is_23, "update_time datetime DEFAULT NULL"),
            "PRIMARY KEY (id)",
            *since(is_35, "UNIQUE KEY i_app_name (app_name)"),
        ],
        "xxl_job_registry": [
            f"id {'bigint(20)' if is_34 else 'int(11)'} NOT NULL AUTO_INCREMENT",
            "registry_group varchar(50) NOT NULL",
            "registry_key varchar(255) NOT NULL",
            "registry_value varchar(255) NOT NULL",
            "update_time datetime DEFAULT NULL",
            "PRIMARY KEY (id)",
            ("UNIQUE KEY" if is_25 else "KEY")
            + " i_g_k_v (registry_group, registry_key, registry_value)",
        ],
        "xxl_job_info": [
            "id int(11) NOT NULL AUTO_INCREMENT",
            "job_group int(11) NOT NULL",
            *since(not is_23, "job_cron varchar(128) NOT NULL"),
            ("name" if is_35 else "job_desc") + " varchar(255) NOT NULL",
            "add_time datetime DEFAULT NULL",
            "update_time datetime DEFAULT NULL",
            "author varchar(64) DEFAULT NULL",
            "alarm_email varchar(255) DEFAULT NULL",
            *since(
                is_23,
                "schedule_type varchar(50) NOT NULL DEFAULT 'NONE'",
                "schedule_conf varchar(128) DEFAULT NULL",
                "misfire_strategy varchar(50) NOT NULL DEFAULT 'DO_NOTHING'",
            ),
            "executor_route_strategy varchar(50) DEFAULT NULL",
            "executor_handler varchar(255) DEFAULT NULL",
            f"executor_param {'text' if is_34 else 'varchar(512) DEFAULT NULL'}",
            "executor_block_strategy varchar(50) DEFAULT NULL",
            "executor_timeout int(11) NOT NULL DEFAULT 0",
            "executor_fail_retry_count int(11) NOT NULL DEFAULT 0",
            "glue_type varchar(50) NOT NULL",
            "glue_source mediumtext",
            "glue_remark varchar(128) DEFAULT NULL",
            "glue_updatetime datetime DEFAULT NULL",
            "child_jobid varchar(255) DEFAULT NULL",
            "trigger_status tinyint(4) NOT NULL DEFAULT 0",
            "trigger_last_time bigint(13) NOT NULL DEFAULT 0",
            "trigger_next_time bigint(13) NOT NULL DEFAULT 0",
            "PRIMARY KEY (id)",
        ],
        "xxl_job_logglue": [
            "id int(11) NOT NULL AUTO_INCREMENT",
            "job_id int(11) NOT NULL",
            "glue_type varchar(50) DEFAULT NULL",
            "glue_source mediumtext",
            "glue_remark varchar(128) NOT NULL",
            "add_time datetime DEFAULT NULL",
            "update_time datetime DEFAULT NULL",
            "PRIMARY KEY (id)",
        ],
        "xxl_job_log": [
            "id bigint(20) NOT NULL AUTO_INCREMENT",
            "job_group int(11) NOT NULL",
            "job_id int(11) NOT NULL",
            "executor_address varchar(255) DEFAULT NULL",
            "executor_handler varchar(255) DEFAULT NULL",
            f"executor_param {'text' if is_34 else 'varchar(512) DEFAULT NULL'}",
            "executor_sharding_param varchar(20) DEFAULT NULL",
            "executor_fail_retry_count int(11) NOT NULL DEFAULT 0",
            "trigger_time datetime DEFAULT NULL",
            "trigger_code int(11) NOT NULL",
            "trigger_msg text",
            "handle_time datetime DEFAULT NULL",
            "handle_code int(11) NOT NULL",
            "handle_msg text",
            "alarm_status tinyint(4) NOT NULL DEFAULT 0",
            "PRIMARY KEY (id)",
            "KEY I_trigger_time (trigger_time)",
            "KEY I_handle_code (handle_code)",
            *since(is_25, "KEY I_job_id (job_id)"),
            *since(is_34, "KEY I_job_group (job_group)"),
        ],
        "xxl_job_log_report": [
            "id int(11) NOT NULL AUTO_INCREMENT",
            "trigger_day datetime DEFAULT NULL",
            "running_count int(11) NOT NULL DEFAULT 0",
            "suc_count int(11) NOT NULL DEFAULT 0",
            "fail_count int(11) NOT NULL DEFAULT 0",
            *since(is_23, "update_time datetime DEFAULT NULL"),
            "PRIMARY KEY (id)",
            "UNIQUE KEY i_trigger_day (trigger_day)",
        ],
        "xxl_job_lock": [
            "lock_name varchar(50) NOT NULL",
            "PRIMARY KEY (lock_name)",
        ],
        "xxl_job_user": [
            "id int(11) NOT NULL AUTO_INCREMENT",
            "username varchar(50) NOT NULL",
            f"password varchar({100 if is_32 else 50}) NOT NULL",
            *since(is_32, "token varchar(100) DEFAULT NULL"),
            "role tinyint(4) NOT NULL",
            "permission varchar(255) DEFAULT NULL",
            "PRIMARY KEY (id)",
            "UNIQUE KEY i_username (username)",
        ],
    }
