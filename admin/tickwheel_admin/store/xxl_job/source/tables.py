"""Groups, jobs, GLUE history, users and registrations, by primary key in pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tickwheel_admin.domain.xxl_job.glue import BEAN
from tickwheel_admin.domain.xxl_job.records import (
    GlueVersion,
    ScheduleType,
    XxlGroup,
    XxlJob,
    XxlRegistration,
    XxlUser,
)
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_shared.protocol import MAX_SCRIPT_BYTES

PAGE = 500  # rows
PAGE_WITH_SOURCES = 50  # rows that have a source each
# Of a source: enough to see that a job's script is too large, however large the column is.
MAX_SOURCE_CHARS = MAX_SCRIPT_BYTES + 1
_SOURCE = f"LEFT(glue_source, {MAX_SOURCE_CHARS})"


def read_groups(source: Source) -> Iterator[XxlGroup]:
    """Every executor."""
    title = source.schema.first_of("xxl_job_group", "title", "name") or "app_name"
    columns = (
        "app_name",
        title,
        "address_type",
        "address_list",
        _is_set(source, "xxl_job_group", "access_token"),
        _local(source, "xxl_job_group", "update_time"),
    )
    for id_, app_name, shown, address_type, addresses, has_token, updated in _pages(
        source, "xxl_job_group", columns
    ):
        yield XxlGroup(
            id=id_,
            app_name=_text(app_name).strip(),
            title=_text(shown).strip(),
            is_manual=address_type == 1,
            addresses=_listed(addresses),
            has_access_token=bool(has_token),
            updated_local=updated,
        )


def read_group_tokens(source: Source) -> dict[int, str]:
    """Access tokens by group, of those that have one of their own; 3.5 only."""
    if not source.schema.has("xxl_job_group", "access_token"):
        return {}
    rows = _pages(source, "xxl_job_group", ("access_token",))
    return {id_: text for id_, token in rows if (text := _text(token).strip())}


def read_jobs(
    source: Source, *, with_source: bool = True, ids: Collection[int] | None = None
) -> Iterator[XxlJob]:
    """Every job.

    Args:
        with_source: read the sources of GLUE jobs as well, cut after MAX_SOURCE_CHARS; else they
            are "".
        ids: these only; None: all.
    """
    table = "xxl_job_info"
    has = source.schema.has
    columns = (
        "job_group",
        source.schema.first_of(table, "job_desc", "name") or "''",
        "author",
        "alarm_email",
        "schedule_type" if has(table, "schedule_type") else f"'{ScheduleType.CRON}'",
        source.schema.first_of(table, "schedule_conf", "job_cron") or "''",
        "misfire_strategy" if has(table, "misfire_strategy") else "''",
        "executor_route_strategy",
        "executor_handler",
        "executor_param",
        "executor_block_strategy",
        "executor_timeout",
        "executor_fail_retry_count",
        "glue_type",
        f"IF(glue_type = '{BEAN}', '', {_SOURCE})" if with_source else "''",
        "glue_remark",
        _local(source, table, "glue_updatetime"),
        "child_jobid",
        "trigger_status",
        "trigger_last_time",
        "trigger_next_time",
        _local(source, table, "add_time"),
        _local(source, table, "update_time"),
    )
    page = PAGE_WITH_SOURCES if with_source else PAGE
    for row in _pages(source, table, columns, ids=ids, page=page):
        yield XxlJob(
            id=row[0],
            group_id=row[1],
            name=_text(row[2]).strip(),
            author=_text(row[3]).strip(),
            alarm_emails=_listed(row[4]),
            schedule_type=_text(row[5]).strip().upper() or ScheduleType.NONE,
            schedule_conf=_text(row[6]).strip(),
            misfire_strategy=_text(row[7]).strip(),
            route_strategy=_text(row[8]).strip(),
            handler=_text(row[9]).strip(),
            param=_text(row[10]),
            block_strategy=_text(row[11]).strip(),
            timeout_seconds=row[12] or 0,
            retries=row[13] or 0,
            glue_type=_text(row[14]).strip(),
            glue_source=_text(row[15]),
            glue_remark=_text(row[16]),
            glue_updated_local=row[17],
            child_job_ids=_text(row[18]).strip(),
            is_running=row[19] == 1,
            last_trigger_ms=row[20] or 0,
            next_trigger_ms=row[21] or 0,
            added_local=row[22],
            updated_local=row[23],
        )


def read_glue(source: Source) -> Iterator[GlueVersion]:
    """The history of all GLUE sources, oldest first; each cut after MAX_SOURCE_CHARS."""
    table = "xxl_job_logglue"
    if not source.schema.has(table):
        return
    columns = (
        "job_id",
        "glue_type",
        _SOURCE,
        "glue_remark",
        _local(source, table, "add_time"),
        _local(source, table, "update_time"),
    )
    for id_, job_id, glue_type, text, remark, added, updated in _pages(
        source, table, columns, page=PAGE_WITH_SOURCES
    ):
        yield GlueVersion(
            id=id_,
            job_id=job_id,
            glue_type=_text(glue_type).strip(),
            source=_text(text),
            remark=_text(remark),
            added_local=added,
            updated_local=updated,
        )


def read_users(source: Source) -> Iterator[XxlUser]:
    """Everybody; the columns with password and session are left alone."""
    table = "xxl_job_user"
    if not source.schema.has(table):
        return
    for id_, username, role, permission in _pages(
        source, table, ("username", "role", "permission")
    ):
        yield XxlUser(
            id=id_,
            username=_text(username).strip(),
            is_admin=role == 1,
            group_ids=tuple(
                int(each) for each in _listed(permission) if each.isascii() and each.isdigit()
            ),
        )


def read_registrations(source: Source) -> Iterator[XxlRegistration]:
    """Executors' processes; before 2.5 the same one may be there several times."""
    table = "xxl_job_registry"
    if not source.schema.has(table):
        return
    columns = (
        "registry_group",
        "registry_key",
        "registry_value",
        _local(source, table, "update_time"),
    )
    for id_, group, key, value, beat in _pages(source, table, columns):
        if _text(group).strip() == "EXECUTOR":
            yield XxlRegistration(
                id=id_,
                app_name=_text(key).strip(),
                address=_text(value).strip(),
                beat_local=beat,
            )


def local_seconds(column: str) -> str:
    """SQL: a DATETIME as local seconds; NULL for a zero date."""
    return f"TIMESTAMPDIFF(SECOND, '1970-01-01 00:00:00', {column})"


def _pages(
    source: Source,
    table: str,
    columns: Sequence[str],
    *,
    ids: Collection[int] | None = None,
    page: int = PAGE,
) -> Iterator[tuple[Any, ...]]:
    numbers = ", ".join(str(int(each)) for each in ids or ())
    wanted = "" if ids is None else f" AND id IN ({numbers or 'NULL'})"
    statement = (
        f"SELECT id, {', '.join(columns)} FROM {table}"  # noqa: S608 - names from above
        f" WHERE id > %(after)s{wanted} ORDER BY id LIMIT {page}"
    )
    after = -1
    while rows := source.rows(statement, {"after": after}):
        yield from rows
        after = rows[-1][0]
        if len(rows) < page:
            return


def _local(source: Source, table: str, column: str) -> str:
    return local_seconds(column) if source.schema.has(table, column) else "NULL"


def _is_set(source: Source, table: str, column: str) -> str:
    return f"COALESCE({column}, '') <> ''" if source.schema.has(table, column) else "0"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(part.strip() for part in _text(value).split(",") if part.strip())
