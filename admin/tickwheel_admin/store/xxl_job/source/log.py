"""`xxl_job_log` by its primary key: at any size, a page in memory at a time.

Only the primary key is relied upon: which other indexes there are depends on the version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tickwheel_admin.domain.xxl_job.records import LogRow
from tickwheel_admin.store.xxl_job.source.connection import Source
from tickwheel_admin.store.xxl_job.source.tables import local_seconds

PAGE = 5_000  # rows
SPAN = 100_000  # ids that one query looks at when few of the rows are wanted
COUNT_SPAN = 1_000_000  # ids that one query counts
_HEAD = 120  # characters of `trigger_msg`; its first line is far shorter
# What only the texts of failed runs tell. Executors write the first one in English, whatever the
# language of the admin; the other one is short, and comes ten minutes after the start at least.
_MARK = (
    "CASE WHEN trigger_code NOT IN (0, 200) AND"
    " LOCATE('block strategy effect', CONVERT(trigger_msg USING utf8mb4)) > 0 THEN 1"
    " WHEN handle_code = 500 AND CHAR_LENGTH(handle_msg) <= 80"
    " AND handle_time >= trigger_time + INTERVAL 10 MINUTE"
    " AND CONVERT(handle_msg USING utf8mb4) REGEXP '丢失|丟失|lost' THEN 2 ELSE 0 END"
)
_DISCARDED, _GIVEN_UP = "1", "2"
_SEPARATOR = "\x1f"
# One column: PyMySQL needs a microsecond for each of every row.
_COLUMNS = (
    f"id, CONCAT_WS('{_SEPARATOR}', job_id, COALESCE({local_seconds('trigger_time')}, ''),"
    " COALESCE(trigger_code, 0), COALESCE(handle_code, 0),"
    f" COALESCE(executor_fail_retry_count, 0), {_MARK},"
    # Columns of a schema that was changed by hand may have sets of characters that do not mix.
    " COALESCE(CONVERT(executor_sharding_param USING utf8mb4), ''),"
    f" COALESCE(SUBSTRING_INDEX(CONVERT(LEFT(trigger_msg, {_HEAD}) USING utf8mb4), '<br', 1), ''))"
)


def log_limits(source: Source) -> tuple[int, int] | None:
    """The lowest and the highest id; None when the log is empty."""
    low, high = source.rows("SELECT MIN(id), MAX(id) FROM xxl_job_log")[0]
    return None if low is None else (low, high)


def first_log_id(source: Source, *, since_local: int) -> int | None:
    """The first row that was triggered at a local second or later; None when there is none.

    Found by bisection over the primary key, as ids and times grow together. Rows of several admins
    are out of order by seconds: ask for a time some minutes earlier.
    """
    limits = log_limits(source)
    if limits is None:
        return None
    low, high = limits
    statement = (
        f"SELECT id, {local_seconds('trigger_time')} FROM xxl_job_log"  # noqa: S608 - ours
        " WHERE id >= %(id)s AND trigger_time IS NOT NULL ORDER BY id LIMIT 1"
    )
    found = None
    while low <= high:
        middle = (low + high) // 2
        rows = source.rows(statement, {"id": middle})
        if not rows:
            high = middle - 1
        elif rows[0][1] is not None and rows[0][1] >= since_local:
            found = rows[0][0]
            high = middle - 1
        else:
            low = rows[0][0] + 1
    return found


def read_log(
    source: Source, *, from_id: int, to_id: int, job_ids: Collection[int] | None = None
) -> Iterator[list[LogRow]]:
    """Rows from one id to another, both included, in pages that may be empty.

    Args:
        job_ids: rows of these jobs only; None: of all.
    """
    if job_ids is None:
        statement = (
            f"SELECT {_COLUMNS} FROM xxl_job_log"  # noqa: S608 - ours
            f" WHERE id BETWEEN %(first)s AND %(last)s ORDER BY id LIMIT {PAGE}"
        )
        first = from_id
        while rows := source.rows(statement, {"first": first, "last": to_id}):
            yield [*map(_row, rows)]
            first = rows[-1][0] + 1
        return
    # With few rows wanted a LIMIT would let one query read the whole table: ids bound it instead.
    wanted = ", ".join(str(int(each)) for each in sorted(job_ids)) or "NULL"
    statement = (
        f"SELECT {_COLUMNS} FROM xxl_job_log FORCE INDEX (PRIMARY)"  # noqa: S608 - ours
        f" WHERE id BETWEEN %(first)s AND %(last)s AND job_id IN ({wanted}) ORDER BY id"
    )
    for first in range(from_id, to_id + 1, SPAN):
        last = min(first + SPAN - 1, to_id)
        yield [*map(_row, source.rows(statement, {"first": first, "last": last}))]


def _row(row: tuple[int, str]) -> LogRow:
    job_id, at, trigger_code, handle_code, left, mark, shard, head = row[1].split(_SEPARATOR, 7)
    return LogRow(
        row[0],
        int(job_id),
        int(at) if at else None,
        int(trigger_code),
        int(handle_code),
        int(left),
        mark == _DISCARDED,
        mark == _GIVEN_UP,
        shard,
        head,
    )


def count_log(source: Source, *, from_id: int, to_id: int) -> int:
    """How many rows there are from one id to another, both included."""
    count = 0
    for first in range(from_id, to_id + 1, COUNT_SPAN):
        last = min(first + COUNT_SPAN - 1, to_id)
        count += source.scalar(
            "SELECT COUNT(*) FROM xxl_job_log FORCE INDEX (PRIMARY)"
            " WHERE id BETWEEN %(first)s AND %(last)s",
            {"first": first, "last": last},
        )
    return count
