"""`tickwheel audit xxl-job` on real databases: planted faults are found, and none else."""

from __future__ import annotations

import csv
import json
import resource
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.processes import free_port
from tests.support.xxl_job.history import PlannedJob, log_rows, wall
from tests.support.xxl_job.installation import Installation, installation
from tickwheel_admin.cli import audit as command
from tickwheel_admin.cli import main
from tickwheel_admin.cli.xxl_job_source import PASSWORD_VARIABLE

DAY = 86_400
START = int(datetime.fromisoformat("2026-01-05T00:00:00+00:00").timestamp())
END = START + 3 * DAY
SHANGHAI = "Asia/Shanghai"


def run(*arguments: str) -> int:
    return main(["audit", "xxl-job", *arguments])


def audit(url: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit code and the JSON."""
    code = run("--from", url, "--format", "json", *arguments)
    said = capsys.readouterr()
    assert code in (0, 1), said.err
    return code, json.loads(said.out)


def counts(figures: dict[str, Any]) -> dict[str, int]:
    names = (
        "lost",
        "doubled",
        "late",
        "missing_shards",
        "not_sent",
        "no_result",
        "failed",
        "timed_out",
        "unknown",
        "unseen",
    )
    return {name: figures[name] for name in names if figures.get(name)}


PLANNED = (
    PlannedJob(
        id=1,
        cron="0 * * * * ?",
        lost=frozenset({500, 501, 3_000}),
        doubled=frozenset({800}),
        late={1_000: 30, 1_500: 6, 2_000: 5},
        special={
            100: {"trigger_code": 500, "handle_code": 0},
            101: {"handle_code": 500},
            102: {"handle_code": 502},
            103: {"handle_code": 0},
        },
    ),
    PlannedJob(id=2, cron="0 30 2 * * ?", lost=frozenset({1})),
    PlannedJob(id=3, every_seconds=45, lost=frozenset({77}), doubled=frozenset({99})),
    PlannedJob(id=4, cron="0 0/10 * * * ?", shards=3, doubled=frozenset({20})),
    PlannedJob(id=5, cron="0 15 9-17 ? * MON-FRI"),
)


def fill(
    made: Installation,
    *,
    planned: tuple[PlannedJob, ...] = PLANNED,
    cron_zone: str = SHANGHAI,
    stored_zone: str = SHANGHAI,
) -> None:
    """An installation that ran for three days."""
    made.add_group()
    made.add_group("reports", "Reports")
    for job in planned:
        instants = job.instants(END - 2 * DAY, END + 8 * DAY, cron_zone)
        made.add_job(
            id=job.id,
            group=2 if job.id == 2 else 1,
            cron=job.cron,
            every_seconds=job.every_seconds,
            name=f"job {job.id}",
            executor_route_strategy="SHARDING_BROADCAST" if job.shards else "FIRST",
            trigger_last_time=max(at for at in instants if at <= END) * 1_000,
            trigger_next_time=min(at for at in instants if at > END) * 1_000,
        )
    made.add_job(id=8, name="by hand only")
    made.add_job(id=9, cron="0 0 * * * ?", name="stopped", trigger_status=0)
    others = [(START + 1_234 + 60 * n, 1, "manual") for n in range(7)]
    others += [(START + 7_200, 1, "retry"), (START + 9_000, 8, "api"), (START + 9_000, 77, "api")]
    made.add_logs(
        log_rows(
            planned,
            start=START,
            end=END,
            cron_zone=cron_zone,
            stored_zone=stored_zone,
            others=others,
        )
    )


@pytest.mark.parametrize("version", ["2.4", "3.1", "3.5"])
def test_planted_faults_are_found_and_none_else(
    version: str, mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, version) as made:
        fill(made)

    code, found = audit(mariadb_url, capsys)

    assert code == 1
    jobs = {job["id"]: job for job in found["jobs"]}
    assert counts(jobs[1]) == {
        "lost": 3,
        "doubled": 1,
        "late": 2,
        "not_sent": 1,
        "failed": 1,
        "timed_out": 1,
        "no_result": 1,
    }
    assert counts(jobs[2]) == {"lost": 1}
    assert counts(jobs[3]) == {"lost": 1, "doubled": 1}
    assert counts(jobs[4]) == {"doubled": 1}
    assert counts(jobs[5]) == counts(jobs[8]) == counts(jobs[9]) == {}
    assert jobs[8]["not_judged"] == "has no schedule"
    assert jobs[9]["not_judged"] == "is stopped"
    assert jobs[1]["runs_by_origin"]["manual"] == 7
    assert jobs[1]["max_seconds"] == 30
    # The first minute of the log, and the last one, are not judged.
    assert jobs[1]["expected"] == 3 * 24 * 60 - 2
    assert found["window"]["deleted_job_rows"] == 1
    assert found["cron_zone"]["name"] == found["stored_zone"]["name"] == SHANGHAI
    lost_hours = {each["hour"]: each["lost"] for each in jobs[1]["hours"] if each["lost"]}
    assert lost_hours == {"2026-01-05T16:00:00+08:00": 2, "2026-01-07T10:00:00+08:00": 1}


@pytest.mark.parametrize(
    ("cron_zone", "stored_zone"),
    [("UTC", SHANGHAI), (SHANGHAI, "UTC"), ("Europe/Berlin", "America/New_York")],
)
def test_zones_are_found_by_the_data(
    cron_zone: str, stored_zone: str, mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = (
        PlannedJob(id=1, cron="0 0 2 * * ?"),
        PlannedJob(id=2, cron="0 0/30 8-18 * * ?"),
        PlannedJob(id=3, cron="0 0/5 * * * ?"),
    )
    with installation(mariadb_url, "3.1") as made:
        fill(made, planned=sound, cron_zone=cron_zone, stored_zone=stored_zone)

    code, found = audit(mariadb_url, capsys)

    assert (found["cron_zone"]["name"], found["stored_zone"]["name"]) == (cron_zone, stored_zone)
    assert code == 0, counts(found["total"])
    assert counts(found["total"]) == {}
    assert found["total"]["found"] == found["total"]["expected"] > 900

    code, wrong = audit(mariadb_url, capsys, "--cron-zone", "Pacific/Auckland")
    assert code == 1
    assert wrong["cron_zone"]["better"] == cron_zone


def test_the_nights_in_which_clocks_change(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two zones with changes in the window: 25 October in Berlin, 1 November in New York."""
    start = int(datetime.fromisoformat("2026-10-23T00:00:00+00:00").timestamp())
    end = start + 12 * DAY
    planned = (
        PlannedJob(id=1, cron="0 0/10 * * * ?"),
        PlannedJob(id=2, cron="0 30 2 * * ?"),
        PlannedJob(id=3, cron="0 0 * * * ?", lost=frozenset({100})),
    )
    with installation(mariadb_url, "3.1") as made:
        made.add_group()
        for job in planned:
            made.add_job(id=job.id, cron=job.cron)
        made.add_logs(
            log_rows(
                planned,
                start=start,
                end=end,
                cron_zone="Europe/Berlin",
                stored_zone="America/New_York",
            )
        )

    code, found = audit(
        mariadb_url, capsys, "--zone", "America/New_York", "--cron-zone", "Europe/Berlin"
    )

    assert code == 1
    assert counts(found["total"]) == {"lost": 1}


def test_jobs_and_executors_are_picked(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "2.4") as made:
        fill(made)

    _, everything = audit(mariadb_url, capsys)
    whole = {job["id"]: job for job in everything["jobs"]}
    for arguments, ids in {
        ("--job", "2", "--job", "3"): {2, 3},
        ("--group", "reports"): {2},
        ("--group", "Reports", "--job", "5"): {2, 5},
    }.items():
        _, found = audit(mariadb_url, capsys, *arguments)
        assert {job["id"] for job in found["jobs"]} == ids
        for job in found["jobs"]:
            assert job == whole[job["id"]]


def test_a_window_shorter_than_the_log(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.5") as made:
        fill(made)
    _, found = audit(mariadb_url, capsys, "--days", "1")
    jobs = {job["id"]: job for job in found["jobs"]}
    assert jobs[1]["expected"] == 24 * 60 - 1
    assert counts(jobs[1]) == {"lost": 1}
    assert counts(jobs[3]) == {}
    assert found["window"]["from"] == "2026-01-07T08:00:00+08:00"


def test_jobs_that_were_changed_and_rows_that_were_deleted(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed_at = START + DAY + 30
    planned = [PlannedJob(id=number, cron="0 * * * * ?") for number in (1, 2, 3, 4)]
    rows = log_rows(planned, start=START, end=END, cron_zone=SHANGHAI, stored_zone=SHANGHAI)
    for number, row in enumerate(rows, start=1):
        row["id"] = number
    kept = [
        row
        for number, row in enumerate(rows)
        if (row["job_id"] != 2 or number >= len(rows) // 2)  # somebody emptied the log of 2
        and (row["job_id"] != 3 or row["trigger_time"] < wall(START + 2 * DAY, SHANGHAI))
        and (row["job_id"] != 1 or row["trigger_time"] > wall(changed_at, SHANGHAI))
    ]
    with installation(mariadb_url, "3.1") as made:
        made.add_group()
        made.add_job(id=1, cron="0 * * * * ?", update_time=wall(changed_at, SHANGHAI))
        made.add_job(id=2, cron="0 * * * * ?")
        made.add_job(id=3, cron="0 * * * * ?", trigger_status=0)  # by itself: see update_time
        made.add_job(id=4, cron="0 * * * * ?")
        made.add_logs(kept)

    code, found = audit(mariadb_url, capsys)

    jobs = {job["id"]: job for job in found["jobs"]}
    assert code == 1
    assert counts(jobs[1]) == counts(jobs[3]) == counts(jobs[4]) == {}
    assert counts(jobs[2]) == {"unseen": 3 * 12 * 60 - 2}
    assert jobs[1]["judged_from"] == "2026-01-06T08:00:36+08:00"
    assert jobs[3]["stopped_by_itself_after"] == "2026-01-07T07:59:00+08:00"
    assert jobs[3]["fires_since_stop"] == 24 * 60

    assert run("--from", mariadb_url) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "1 job stopped without anybody's doing: 3." in text
    assert "stopped by itself after 2026-01-07 07:59:00; 1,440 fires since" in text
    assert "lost, or their rows were deleted" in text


def test_the_table_begins_with_the_summary_and_fits_a_terminal(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made)
        made.connection.exec_driver_sql(
            "UPDATE xxl_job_info SET job_desc = %(name)s WHERE id = 1",
            {"name": "每分钟执行的一个名字很长的任务\x1b[31m"},
        )

    assert run("--from", mariadb_url) == 1
    said = capsys.readouterr()

    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].startswith("3 days, ")
    assert "lost 5" in said.out
    assert "ran 3 twice" in said.out
    assert "started 2 late by more than 5 s" in said.out.replace("\n", " ")
    assert "Worst job: 1," in said.out
    assert "\x1b" not in said.out
    assert all(len(line) <= 80 for line in lines)
    assert "found: fits 2 of 2 next triggers" in said.out.replace("\n           ", " ")


def test_a_sound_installation_is_said_to_be_sound(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made, planned=(PlannedJob(id=1, cron="0 * * * * ?"),))
    assert run("--from", mariadb_url) == 0
    assert capsys.readouterr().out.startswith("Nothing lost, nothing doubled, nothing late")


def test_an_empty_log_and_no_jobs(mariadb_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with installation(mariadb_url, "3.5") as made:
        made.add_group()
    assert run("--from", mariadb_url) == 0
    assert "The log is empty" in capsys.readouterr().out


def test_a_terminal_sees_how_far_it_is(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made)
    monkeypatch.setattr(command, "_EVERY_SECONDS", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("--from", mariadb_url) == 1
    said = capsys.readouterr().err
    assert "5,000 rows, 4" in said
    assert said.endswith(command._CLEARED)


def test_csv_has_sums_jobs_and_hours(
    mariadb_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made)
        made.connection.exec_driver_sql("UPDATE xxl_job_info SET job_desc = '=1+1' WHERE id = 1")
    file = tmp_path / "audit.csv"

    assert run("--from", mariadb_url, "--format", "csv", "--output", str(file)) == 1
    assert capsys.readouterr().out == ""

    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["scope"] for row in rows].count("total") == 1
    assert [row["job"] for row in rows if row["scope"] == "job"] == [
        "1",
        "3",
        "2",
        "4",
        "5",
        "8",
        "9",
    ]
    assert rows[0]["lost"] == "5"
    assert rows[1]["name"] == "'=1+1"
    for scope in ("job", "hour", "job_hour"):
        assert sum(int(row["lost"]) for row in rows if row["scope"] == scope) == 5

    missing = tmp_path / "no" / "audit.csv"
    assert run("--from", mariadb_url, "--output", str(missing)) == 2
    assert "cannot write" in capsys.readouterr().err


def test_what_cannot_be_done_is_a_sentence(
    mariadb_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with installation(mariadb_url, "3.1") as made:
        fill(made, planned=())
    nowhere = f"mysql+pymysql://someone:s3cret@127.0.0.1:{free_port()}/xxl_job"
    for arguments, words in {
        ("--from", nowhere): "cannot be reached",
        ("--from", mariadb_url, "--job", "4711"): "there is no job 4711",
        ("--from", mariadb_url, "--group", "nobody"): "no executor called nobody",
        ("--from", mariadb_url, "--zone", "Mars"): "is not a time zone",
        ("--from", mariadb_url, "--days", "0"): "--days is from 1",
        ("--from", mariadb_url, "--late-after", "0"): "--late-after is from 1",
    }.items():
        assert run(*arguments) == 2
        said = capsys.readouterr()
        assert words in said.err
        assert "s3cret" not in said.err
        assert said.out == ""

    url = sa.make_url(mariadb_url)
    assert url.password is not None
    monkeypatch.setenv(PASSWORD_VARIABLE, url.password)
    bare = url.set(password=None).render_as_string(hide_password=False)
    assert run("--from", bare) == 0


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(
    mariadb_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """150,000 rows would take more than 50 MiB."""
    with installation(mariadb_url, "3.1") as made:
        made.add_group()
        for number in range(1, 18):
            made.add_job(id=number, cron="0/15 * * * * ?")
        made.add_even_logs(150_000, jobs=17, every_seconds=15, since="2026-01-05 00:00:00")

    audit(mariadb_url, capsys, "--days", "1")
    before = _peak_kib()
    code, found = audit(mariadb_url, capsys)
    grown = _peak_kib() - before

    assert code == 0
    assert found["window"]["rows"] > 145_000
    assert grown < 15 * 1_024


def _peak_kib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1_024 if sys.platform == "darwin" else peak
