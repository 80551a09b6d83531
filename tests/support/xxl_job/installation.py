"""An XXL-JOB database with rows: groups, jobs of every kind, GLUE, users and logs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from tests.support.xxl_job.schemas import create_tables, number, tables_of

TRIGGER_TYPES = {  # as admins in English, simplified and traditional Chinese write them
    "cron": ("Cron trigger", "Cron触发", "Cron觸發"),
    "manual": ("Manual trigger", "手动触发", "手動觸發"),
    "parent": ("Parent job trigger", "父任务触发", "父任務觸發"),
    "api": ("Api trigger", "API触发", "API觸發"),
    "retry": ("Fail retry trigger", "失败重试触发", "失敗重試觸發"),
    "misfire": ("Misfire compensation trigger", "调度过期补偿", "調度過期補償"),
}
_LABELS = ("Trigger Type", "任务触发类型", "任務觸發類型")


def trigger_message(kind: str = "cron", *, language: int = 1) -> str:
    """The HTML of `trigger_msg`; language 0 English, 1 simplified, 2 traditional Chinese."""
    return (
        f"{_LABELS[language]}：{TRIGGER_TYPES[kind][language]}<br>127.0.0.1<br>BEAN<br>"
        '<br><span style="color:#00c0ef;"> &gt;&gt; </span><br>code：200'
    )


class Installation:
    """A database of one version; rows get the columns that this version has."""

    def __init__(self, connection: sa.Connection, version: str) -> None:
        self.connection = connection
        self.version = version
        self._columns = {
            table: {line.split()[0] for line in lines}
            for table, lines in tables_of(version).items()
        }

    def add_group(self, app_name: str = "billing", title: str = "Billing", **columns: Any) -> int:
        values = {
            "app_name": app_name,
            "title": title,
            "name": title,
            "address_type": 0,
            "address_list": "http://10.0.0.1:9999/,http://10.0.0.2:9999/",
            "access_token": "group-secret",
            "update_time": "2026-01-01 00:00:00",
        }
        return self._insert("xxl_job_group", values | columns)

    def add_job(
        self,
        *,
        group: int = 1,
        cron: str = "",
        every_seconds: int = 0,
        name: str = "a job",
        **columns: Any,
    ) -> int:
        """A running BEAN job; without cron and rate it is of schedule type NONE."""
        kind = "CRON" if cron else "FIX_RATE" if every_seconds else "NONE"
        values = {
            "job_group": group,
            "job_cron": cron,
            "job_desc": name,
            "name": name,
            "add_time": "2026-01-01 00:00:00",
            "update_time": "2026-01-01 00:00:00",
            "author": "olga",
            "alarm_email": "olga@example.org, paul@example.org",
            "schedule_type": kind,
            "schedule_conf": cron or (str(every_seconds) if every_seconds else ""),
            "misfire_strategy": "DO_NOTHING",
            "executor_route_strategy": "FIRST",
            "executor_handler": "demoJobHandler",
            "executor_param": "",
            "executor_block_strategy": "SERIAL_EXECUTION",
            "glue_type": "BEAN",
            "glue_source": "",
            "glue_remark": "",
            "glue_updatetime": "2026-01-01 00:00:00",
            "child_jobid": "",
            "trigger_status": 1,
        }
        return self._insert("xxl_job_info", values | columns)

    def add_glue(self, job: int, source: str, **columns: Any) -> int:
        values = {
            "job_id": job,
            "glue_type": "GLUE_SHELL",
            "glue_source": source,
            "glue_remark": "a change",
            "add_time": "2026-01-01 00:00:00",
            "update_time": "2026-01-01 00:00:00",
        }
        return self._insert("xxl_job_logglue", values | columns)

    def add_user(self, username: str, *, role: int = 0, permission: str = "") -> int:
        digest = hashlib.sha256 if number(self.version) >= (3, 2) else hashlib.md5
        values = {
            "username": username,
            "password": digest(b"123456").hexdigest(),
            "token": "session-secret",
            "role": role,
            "permission": permission,
        }
        return self._insert("xxl_job_user", values)

    def add_registration(self, app_name: str, address: str, **columns: Any) -> int:
        values = {
            "registry_group": "EXECUTOR",
            "registry_key": app_name,
            "registry_value": address,
            "update_time": "2026-01-01 00:00:00",
        }
        return self._insert("xxl_job_registry", values | columns)

    def add_logs(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows of `xxl_job_log`: job_id and trigger_time, and what differs from a success."""
        defaults = {
            "job_group": 1,
            "executor_address": "http://10.0.0.1:9999/",
            "executor_handler": "demoJobHandler",
            "executor_param": "",
            "executor_sharding_param": None,
            "executor_fail_retry_count": 0,
            "trigger_code": 200,
            "trigger_msg": trigger_message(),
            "handle_code": 200,
            "handle_msg": "",
            "alarm_status": 0,
        }
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(defaults | dict(row))
            if len(batch) == 5_000:
                self._insert_many("xxl_job_log", batch)
                batch = []
        if batch:
            self._insert_many("xxl_job_log", batch)

    def add_even_logs(self, count: int, *, jobs: int, every_seconds: int, since: str) -> None:
        """Many successes by schedule of the jobs 1 to `jobs`, made by the server."""
        self.connection.exec_driver_sql(
            "INSERT INTO xxl_job_log (job_group, job_id, executor_address, executor_handler,"
            " trigger_time, trigger_code, trigger_msg, handle_time, handle_code)"
            " SELECT 1, MOD(seq, %(jobs)s) + 1, 'http://10.0.0.1:9999/', 'demoJobHandler',"
            " %(since)s + INTERVAL (seq DIV %(jobs)s * %(every)s) SECOND, 200, %(message)s,"
            " %(since)s + INTERVAL (seq DIV %(jobs)s * %(every)s) SECOND, 200"
            f" FROM seq_0_to_{count - 1}",
            {"jobs": jobs, "every": every_seconds, "since": since, "message": trigger_message()},
        )

    def _insert(self, table: str, values: Mapping[str, Any]) -> int:
        known = {name: value for name, value in values.items() if name in self._columns[table]}
        result = self.connection.exec_driver_sql(
            f"INSERT INTO {table} ({', '.join(known)})"
            f" VALUES ({', '.join(f'%({name})s' for name in known)})",
            known,
        )
        return int(result.lastrowid)

    def _insert_many(self, table: str, rows: list[dict[str, Any]]) -> None:
        names = sorted(rows[0].keys() | {name for row in rows for name in row})
        self.connection.exec_driver_sql(
            f"INSERT INTO {table} ({', '.join(names)})"
            f" VALUES ({', '.join(f'%({name})s' for name in names)})",
            [{name: row.get(name) for name in names} for row in rows],
        )


@contextmanager
def installation(url: str, version: str) -> Iterator[Installation]:
    """A new XXL-JOB in an empty database; what was added is committed at the end."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.begin() as connection:
        create_tables(connection, version)
        yield Installation(connection, version)
    engine.dispose()
