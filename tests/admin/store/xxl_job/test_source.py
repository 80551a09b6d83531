"""XXL-JOB databases of all versions are read into one form, and never written."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from tests.support.processes import free_port
from tests.support.xxl_job.installation import Installation, installation, trigger_message
from tests.support.xxl_job.schemas import DETECTED, VERSIONS
from tickwheel_admin.store.imports.source import SourceError
from tickwheel_admin.store.xxl_job.source import log
from tickwheel_admin.store.xxl_job.source.connection import open_source
from tickwheel_admin.store.xxl_job.source.log import first_log_id, log_limits, read_log
from tickwheel_admin.store.xxl_job.source.tables import (
    MAX_SOURCE_CHARS,
    read_glue,
    read_groups,
    read_jobs,
    read_registrations,
    read_users,
)

NEW_YEAR = 1_767_225_600  # 2026-01-01 00:00:00 in local seconds


def fill(made: Installation) -> None:
    made.add_group()
    made.add_group("reports", "Reports", address_type=1, address_list=" http://a/ ,", id=7)
    made.add_job(cron="0 0 2 * * ?", name="nightly", executor_timeout=30)
    made.add_job(group=7, every_seconds=30, name="often", trigger_status=0, id=40)
    made.add_job(glue_type="GLUE_SHELL", glue_source="echo 你好", child_jobid="1, 40,x")
    made.add_glue(41, "echo 1")
    made.add_glue(41, "echo 2")
    made.add_user("admin", role=1)
    made.add_user("paul", permission="1,7,old")
    made.add_registration("billing", "http://10.0.0.1:9999/")
    made.add_registration("admins", "http://10.0.0.9/", registry_group="ADMIN")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_read_into_the_same_form(version: str, mariadb_url: str) -> None:
    with installation(mariadb_url, version) as made:
        fill(made)

    with open_source(mariadb_url) as source:
        assert source.schema.version == DETECTED[version]
        groups = list(read_groups(source))
        jobs = list(read_jobs(source))
        glue = list(read_glue(source))
        users = list(read_users(source))
        registrations = list(read_registrations(source))

    assert [(each.id, each.app_name, each.title, each.is_manual) for each in groups] == [
        (1, "billing", "Billing", False),
        (7, "reports", "Reports", True),
    ]
    assert groups[1].addresses == ("http://a/",)
    assert groups[0].updated_local == (None if version == "2.2" else NEW_YEAR)
    assert groups[0].has_access_token == (version == "3.5")

    assert [(each.id, each.group_id, each.name) for each in jobs] == [
        (1, 1, "nightly"),
        (40, 7, "often"),
        (41, 1, "a job"),
    ]
    nightly, often, script = jobs
    assert (nightly.schedule_type, nightly.schedule_conf) == ("CRON", "0 0 2 * * ?")
    assert nightly.is_running
    assert nightly.timeout_seconds == 30
    assert nightly.alarm_emails == ("olga@example.org", "paul@example.org")
    assert nightly.updated_local == nightly.added_local == NEW_YEAR
    assert not often.is_running
    if version != "2.2":  # which has no rates
        assert (often.schedule_type, often.schedule_conf) == ("FIX_RATE", "30")
        assert script.schedule_type == "NONE"
    assert script.glue_source == "echo 你好"
    assert script.child_job_ids == "1, 40,x"

    assert [(each.job_id, each.source) for each in glue] == [(41, "echo 1"), (41, "echo 2")]
    assert [(each.username, each.is_admin, each.group_ids) for each in users] == [
        ("admin", True, ()),
        ("paul", False, (1, 7)),
    ]
    assert [(each.app_name, each.address) for each in registrations] == [
        ("billing", "http://10.0.0.1:9999/")
    ]
    assert "secret" not in repr((groups, users))


def test_sources_are_read_only_when_asked_for(mariadb_url: str) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made)
    with open_source(mariadb_url) as source:
        (script,) = read_jobs(source, with_source=False, ids=[41])
        assert list(read_jobs(source, ids=[])) == []
    assert script.glue_source == ""


def test_no_source_is_read_whole_that_is_too_large_for_a_script(mariadb_url: str) -> None:
    with installation(mariadb_url, "3.5") as made:
        fill(made)
        made.connection.execute(
            sa.text("UPDATE xxl_job_info SET glue_source = REPEAT('x', 1000000)")
        )
        made.connection.execute(
            sa.text("UPDATE xxl_job_logglue SET glue_source = REPEAT('x', 1000000)")
        )
    with open_source(mariadb_url) as source:
        jobs, glue = list(read_jobs(source)), list(read_glue(source))
    # A job that runs a handler may have kept the script that it had before.
    assert [len(each.glue_source) for each in jobs] == [0, 0, MAX_SOURCE_CHARS]
    assert [len(each.source) for each in glue] == 2 * [MAX_SOURCE_CHARS]


def test_the_log_is_read_in_pages(mariadb_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "SPAN", 4)
    with installation(mariadb_url, "2.4") as made:
        made.add_logs(
            {
                "id": 10 + 3 * minute,
                "job_id": minute % 2 + 1,
                "trigger_time": f"2026-01-01 00:{minute:02}:00",
                "trigger_msg": trigger_message("manual", language=0),
            }
            for minute in range(20)
        )
        made.add_logs([{"job_id": 3, "trigger_time": None, "trigger_code": 0, "trigger_msg": None}])

    with open_source(mariadb_url) as source:
        limits = log_limits(source)
        assert limits == (10, 68)
        rows = [row for page in read_log(source, from_id=13, to_id=66) for row in page]
        some = [
            row for page in read_log(source, from_id=10, to_id=68, job_ids=[2, 3]) for row in page
        ]
        found = [
            first_log_id(source, since_local=NEW_YEAR + seconds)
            for seconds in (-1, 0, 1, 60, 19 * 60, 19 * 60 + 1)
        ]

    assert [row.id for row in rows] == list(range(13, 67, 3))
    assert rows[0].triggered_local == NEW_YEAR + 60
    assert rows[0].trigger_head == "Trigger Type：Manual trigger"
    assert [row.job_id for row in some] == [2] * 10 + [3]
    assert (some[-1].triggered_local, some[-1].trigger_head) == (None, "")
    assert found == [10, 10, 13, 13, 67, None]


def test_texts_of_failed_runs_tell_what_happened(mariadb_url: str) -> None:
    blocked = trigger_message() + "<br>msg：block strategy effect：Discard Later"
    at, later = "2026-01-01 00:00:00", "2026-01-01 00:11:00"
    with installation(mariadb_url, "3.1") as made:
        made.add_logs(
            {"job_id": 1, "trigger_time": at} | each
            for each in (
                {},
                {"trigger_code": 500, "handle_code": 0, "trigger_msg": blocked},
                {"trigger_code": 500, "handle_code": 0},
                {"handle_code": 500, "handle_time": later, "handle_msg": "任务结果丢失，标记失败"},
                {"handle_code": 500, "handle_time": later, "handle_msg": "result lost"},
                {"handle_code": 500, "handle_time": at, "handle_msg": "result lost"},
                {"handle_code": 500, "handle_time": later, "handle_msg": "lost it" + " " * 100},
            )
        )
        made.connection.exec_driver_sql(
            "ALTER TABLE xxl_job_log"
            " MODIFY executor_sharding_param varchar(20) CHARACTER SET latin1"
        )
    with open_source(mariadb_url) as source:
        rows = [row for page in read_log(source, from_id=1, to_id=9) for row in page]
    assert [row.is_discarded for row in rows] == [False, True] + [False] * 5
    assert [row.is_given_up for row in rows] == [False] * 3 + [True] * 2 + [False] * 2
    assert {row.trigger_head for row in rows} == {"任务触发类型：Cron触发"}


def test_an_empty_log(mariadb_url: str) -> None:
    with installation(mariadb_url, "3.5"):
        pass
    with open_source(mariadb_url) as source:
        assert log_limits(source) is None
        assert first_log_id(source, since_local=0) is None


def test_nothing_can_be_written(mariadb_url: str) -> None:
    with installation(mariadb_url, "3.1"):
        pass
    with (
        open_source(mariadb_url) as source,
        pytest.raises(SourceError, match="READ ONLY"),
    ):
        source.rows("DELETE FROM xxl_job_lock")


def test_what_is_no_xxl_job_database_is_told(mariadb_url: str) -> None:
    with pytest.raises(SourceError, match="not an XXL-JOB database"), open_source(mariadb_url):
        pass
    with installation(mariadb_url, "3.1") as made:
        made.connection.exec_driver_sql("DROP TABLE xxl_job_info, xxl_job_log")
    with (
        pytest.raises(SourceError, match="has no xxl_job_info, xxl_job_log"),
        open_source(mariadb_url),
    ):
        pass


def test_tables_that_are_not_needed_may_be_missing(mariadb_url: str) -> None:
    with installation(mariadb_url, "3.1") as made:
        made.connection.exec_driver_sql(
            "DROP TABLE xxl_job_user, xxl_job_logglue, xxl_job_registry"
        )
    with open_source(mariadb_url) as source:
        assert not [*read_users(source), *read_glue(source), *read_registrations(source)]


def test_failures_are_sentences_without_the_password(mariadb_url: str) -> None:
    url = sa.make_url(mariadb_url)
    unreachable = f"mysql+pymysql://someone:s3cret@127.0.0.1:{free_port()}/xxl_job"
    wrong_password = url.set(password="s3cret").render_as_string(hide_password=False)
    no_database = url.set(database="tickwheel_no").render_as_string(hide_password=False)
    for wrong, words in {
        unreachable: "cannot be reached",
        wrong_password: "refuses this user or password",
        no_database: "no such database",
        "postgresql://x:s3cret@h/d": "not from postgresql",
        "jdbc:mysql://h:3306/xxl_job?password=s3cret": "URL that Java uses",
        f"{mariadb_url}&useSSL=false": "leave out those of the JDBC URL",
        "s3cret": "not a database URL",
        "mysql://u:s3cret@h": "names no database",
    }.items():
        with pytest.raises(SourceError, match=re.escape(words)) as caught, open_source(wrong):
            pass
        assert "s3cret" not in str(caught.value)
        assert str(url.password) not in str(caught.value)
