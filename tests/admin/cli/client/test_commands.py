"""Every group of commands against a whole admin, without its background loops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.admin.cli.client.conftest import Command
from tests.admin.kit.served import Served
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes
from tickwheel_admin.store.failures.groups import insert_groups

JOBS = """\
name: report
handler: report
tags: [monthly]
description: Der Bericht – 月报
triggers:
  - {kind: cron, expression: 0 7 * * 1-5, timezone: Europe/Berlin}
  - {kind: fixed_rate, every_seconds: 600}
---
name: figures
workflow:
  output: sum
  steps:
    - {key: fetch, handler: report}
    - {key: check, approval: {}, needs: [fetch]}
    - {key: sum, handler: report, needs: [check]}
"""
CALENDAR = "name: closed\nyearly: ['12-25']\ndates: [2027-03-26]\n"


async def add_node(admin: Served, executor_id: int) -> None:
    arrival = Arrival(
        executor_id=executor_id,
        node_key="key",
        name="host-1",
        sdk="python/1",
        slots=4,
        handlers=["report"],
        unstoppable=[],
        labels={"zone": "eu", "gpu": ""},
        weight=1,
        address="192.0.2.9",
    )
    await admin.services.store.run(admit_nodes, [arrival], new_ids=[7], session_ids=[1], admin_id=1)


async def add_failure(admin: Served, group_id: int, executor_id: int) -> None:
    group = FailureGroup(
        id=group_id,
        executor_id=executor_id,
        text="bank-gw refused",
        since=1,
        last_at=1,
        runs=1,
        jobs=1,
        first_run_id=5,
        first_job_id=6,
        first_revision=12,
        first_node_id=7,
        last_run_id=5,
    )
    await admin.services.store.run(insert_groups, [group])


def _taken_away(file: str) -> str:
    text = Path(file).read_text()
    Path(file).unlink()
    return text


async def test_an_installation_is_set_up_and_looked_at(command: Command) -> None:
    made = json.loads(await command("executor create billing -o json"))
    assert made["token"].startswith("tw")
    assert made["token"] != (await command("executor token rotate billing --overlap 1h")).strip()
    await command("executor token end-old billing")
    assert "Executor billing is paused." in await command("executor pause billing")
    assert "paused since" in await command("executor show billing")
    await command("executor resume billing")
    await add_node(command.admin, made["id"])  # type: ignore[attr-defined]

    assert "gpu,zone=eu" in (await command("node list")).replace("zone=eu,gpu", "gpu,zone=eu")
    assert "host-1" in await command("node list --version PYTHON/1 --executor billing")
    assert "no such node" in await command("node list --version 2.0")
    assert "no such node" in await command("node list --state dead")
    await command("node cordon host-1")
    assert "cordoned" in await command("node list --executor billing")
    await command("node drain billing/host-1")
    assert "safe to stop" in await command("node show host-1")
    await command("node resume 7")
    await command("node slots host-1 9")
    await command("node weight host-1 own")
    assert json.loads(await command("node show 7 -o json"))["slots_wanted"] == 9

    assert "Secret KEY is set." in await command("secret set billing KEY", stdin="hush-hush\n")
    assert "hush" not in await command("secret list billing -o yaml")
    await command("secret delete billing KEY --yes")
    assert await command("secret list billing") == "It has no secrets.\n"

    added = await command("calendar create -f -", stdin=CALENDAR)
    assert "Calendar" in added
    shown = yaml.safe_load(await command("calendar show closed -o yaml"))
    assert shown["config"]["dates"] == ["2027-03-26"]
    await command("calendar edit closed -f -", stdin=CALENDAR + "description: holidays\n")
    assert "holidays" in await command("calendar list")
    await command("calendar delete closed --yes")

    assert await command("pool list") == "There is no such pool.\n"
    assert await command("alarm list") == "There is no alarm.\n"
    assert await command("failure list") == "There is no failure.\n"
    await add_failure(command.admin, 77, made["id"])  # type: ignore[attr-defined]
    assert "bank-gw refused" in await command("failure list --executor billing")
    await command("failure note 77 --notes dns")
    assert "Owner and notes" in await command("failure note 77 --owner ann")
    shown = json.loads(await command("failure show 77 -o json"))
    assert (shown["owner"], shown["notes"], shown["version"]) == ("ann", "dns", 3)
    assert "run 5 of #6, revision 12, on host-1" in await command("failure show 77")
    assert "retried, one first" in await command("failure retry 77")
    assert "running by" in await command("failure show 77")
    assert "No further runs" in await command("failure retry 77 --stop")
    assert "stopped, by_hand" in await command("failure show 77")
    await command("failure resolve 77")
    assert await command("failure list") == "There is no failure.\n"
    assert "Executor billing is deleted." in await command("executor delete billing --yes")


async def test_jobs_are_added_changed_run_and_deleted(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await command("executor create billing")
    assert "Added: job" in await command("job create --executor billing -f -", stdin=JOBS)
    listed = await command("job list")
    assert "cron 0 7 * * 1-5, every 600 s" in listed
    assert "月报" in await command("job show report")
    exported = await command("job export --tag monthly")
    assert yaml.safe_load(exported)["name"] == "report"
    assert [each["name"] for each in yaml.safe_load_all(await command("job export"))] == [
        "figures",
        "report",
    ]

    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/月报/年报/; s/retries: 0/retries: $RETRIES/" "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.setenv("RETRIES", "3")
    assert "revision 2 now" in await command("job edit billing/report")
    assert await command("job edit report") == "Nothing was changed.\n"
    monkeypatch.setenv("RETRIES", "1000")
    await command("job roll-back report 1")
    refused = await command("job edit report", code=1)
    assert "  retries: " in refused
    assert "retries: 1000" in _taken_away(refused.split("Your text is in ")[1].split(":")[0])
    await command("job edit report --revision 1 -f -", stdin="name: report\nhandler: x\n", code=1)
    history = await command("job history report")
    assert "retries: 0 → 3" in history

    assert "is paused" in await command("job pause report figures")
    assert "is resumed" in await command("job resume report")
    started = json.loads(await command("job run report -p month=3 -p note=x --key k1 -o json"))
    again = await command("run start billing/report -p month=3 -p note=x --key k1 -o json")
    assert json.loads(again) == started
    run = json.loads(await command("run show billing/report -o json"))
    assert (run["id"], run["parameters"]) == (started["run_id"], {"month": 3, "note": "x"})
    assert "no node" in (await command("run show report")).lower()
    assert "report" in await command("run list --job report --state queued --since 1d")
    assert await command("run logs report") == ""
    admin = command.admin  # type: ignore[attr-defined]
    admin.services.run_events.ready_ms = 0
    async with admin.services.run_events.listening():
        await wait_until_async(lambda: admin.services.run_events.place() is not None)
        start = admin.services.run_events.place()
        assert "asked to stop" in await command("run cancel", str(run["id"]))
        told = await command(f"run events --job report --after {start} --count 1")
        assert f"run {run['id']}  billing/report  cancelled" in told
        event = json.loads(await command(f"run events --after {start} --count 1 -o json"))
        assert (event["run_id"], event["seq"]) == (run["id"], start + 1)
    assert "events.gone" in await command("run events --after 5", code=1)
    assert "Waiting for run" in await command("run wait report", code=12)
    retried = json.loads(await command("run retry", str(run["id"]), "-o", "json"))
    assert retried["run_id"] != run["id"]
    assert "Delete report? Give --yes" in await command("job delete report", code=2)
    assert "Job report is deleted." in await command("job delete report --yes")


async def test_all_jobs_that_match_are_changed_at_once(command: Command) -> None:
    await command("executor create billing")
    jobs = "---\n".join(f"name: job-{n}\nhandler: x\ntags: [t{n % 2}]\n" for n in range(60))
    await command("job create --executor billing -f -", stdin=jobs)

    assert "--all-matching" in await command("job pause --tag t1", code=2)
    assert "name jobs, or say" in await command("job pause", code=2)
    assert "not both" in await command("job pause job-1 --tag t1", code=2)
    would = json.loads(await command("job pause --tag t1 --dry-run -o json"))
    assert {each["config"]["tags"][0] for each in would} == {"t1"}
    assert (len(would), any(each["paused"] for each in would)) == (30, False)
    refused = await command("job pause --tag t1 --all-matching", code=2)
    assert "Pause all jobs that match (30)? Give --yes" in refused
    assert await command("job pause --tag t1 --all-matching --yes") == "30 jobs are paused.\n"
    assert await command("job pause --tag t1 --dry-run") == "No job would be paused.\n"
    assert "job-1" in await command("job resume job-1 job-2 --dry-run")
    assert len(json.loads(await command("job list --view paused -o json"))) == 30

    resumed = json.loads(await command("job resume --view paused --all-matching --yes -o json"))
    assert (resumed["done"], len(resumed["jobs"]), resumed["skipped"]) == (30, 30, {})
    assert "60 jobs are deleted" in await command("job delete --all-matching --yes")
    assert await command("job delete --all-matching") == "0 jobs are deleted.\n"


async def test_what_a_token_may_not_change_is_left_alone_and_told(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {}
    for name in ("billing", "orders"):
        ids[name] = json.loads(await command(f"executor create {name} -o json"))["id"]
        await command(f"job create --executor {name} -f -", stdin="name: report\nhandler: x\n")
    grants = {ids["billing"]: Grant(Role.DEVELOPER), ids["orders"]: Grant(Role.VIEWER)}
    headers = await command.admin.token_for("olga", grants)  # type: ignore[attr-defined]
    monkeypatch.setenv("TICKWHEEL_API_TOKEN", headers["Authorization"].split()[1])
    await command("job delete --text report --all-matching --yes", code=1)
    left = json.loads(await command("job list -o json"))
    assert [each["executor_name"] for each in left] == ["orders"]


async def test_workflows_are_shown_with_their_steps(command: Command) -> None:
    await command("executor create billing")
    await command("job create --executor billing -f -", stdin=JOBS)
    assert "billing/figures" in await command("workflow list")
    graph = await command("workflow show figures")
    assert "check  approval" in graph
    await command("run start figures")
    refused = await command("workflow approve figures check --message yes", code=1)
    assert "(run.not_begun)" in refused or "(step.not_waiting)" in refused
    assert "run" in await command("workflow steps figures -o json")


async def test_names_are_told_when_they_are_not_clear(command: Command) -> None:
    for executor in ("billing", "orders"):
        await command("executor create", executor)
        await command("job create -f - --executor", executor, stdin="name: a/b\nhandler: x\n")
    assert "could be several: billing/a/b, orders/a/b" in await command("job show a/b", code=2)
    assert "orders" in await command("job show orders/a/b")
    for words in (
        "job show nothing",
        "run show 12345",
        "node show nothing",
        "executor show nothing",
        "calendar show nothing",
        "pool show nothing",
        "pool change nothing --slots 1",
        "backfill show 12345",
        "backfill list --job nothing",
    ):
        assert "tickwheel: " in await command(words, code=5)


async def test_who_may_not_is_told_so(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = await command.admin.token_for("guest", Role.VIEWER)  # type: ignore[attr-defined]
    await command("executor create billing")
    monkeypatch.setenv("TICKWHEEL_API_TOKEN", headers["Authorization"].split()[1])
    assert "(not_allowed)" in await command("executor pause billing", code=4)
    monkeypatch.setenv("TICKWHEEL_API_TOKEN", "twa_unknown")
    assert "(login.required)" in await command("job list", code=4)


async def test_trends_of_all_of_an_executor_and_of_a_job(command: Command) -> None:
    await command("executor create billing")
    await command("job create --executor billing -f -", stdin="name: report\nhandler: x\n")
    for words in ("", "--executor billing", "--job billing/report --timezone Asia/Shanghai"):
        assert "START DELAY P50" in await command(f"trends --step day {words}")
    assert len(json.loads(await command("trends -o json"))) == 13
    assert "either --executor or --job" in await command("trends --executor a --job b", code=2)
    assert "timezone" in await command("trends --timezone Mars", code=1)


async def test_pools_are_added_changed_and_deleted(command: Command) -> None:
    await command("executor create billing")
    assert "Pool db is added." in await command("pool create db --slots 4 --description postgres")
    await command("pool create licences --slots 2 --executor billing")
    assert "billing" in await command("pool show billing/licences")
    assert "(pool.name_taken)" in await command("pool create db --slots 1", code=1)
    assert "slots" in await command("pool create other --slots -1", code=1)

    assert "version 2" in await command("pool change db --slots 0")
    assert "(pool.changed)" in await command("pool change db --slots 9 --version 1", code=1)
    assert "say what to change" in await command("pool change db", code=2)
    await command("pool change db --description", "the warehouse")
    pool = json.loads(await command("pool show db -o json"))
    assert (pool["slots"], pool["description"], pool["executor"]) == (0, "the warehouse", None)

    uses = "name: load\nhandler: x\npool: db\n"
    await command("job create --executor billing -f -", stdin=uses)
    assert "billing/load" in await command("pool show db")
    assert "(pool.in_use)" in await command("pool delete db --yes", code=1)
    assert "Give --yes" in await command("pool delete licences", code=2)
    assert "Pool licences is deleted." in await command("pool delete licences --yes")


async def test_coverage_fails_while_there_are_holes(command: Command) -> None:
    await command("executor create billing")
    daily = "name: report\nhandler: x\ntriggers: [{kind: cron, expression: 0 3 * * *}]\n"
    await command("job create --executor billing -f -", stdin=daily)
    march = "--from 2026-03-01T00:00Z --until 2026-03-04T00:00Z"
    told = await command(f"job coverage billing/report {march}", code=1)
    assert "no run" in told
    found = json.loads(await command(f"job coverage report {march} -o json", code=1))
    assert (found["is_whole"], found["holes"], found["counts"]["no_run"]) == (False, 3, 3)
    assert [each["intervals"] for each in found["segments"]] == [3]
    empty = "--from 2026-03-01T04:00Z --until 2026-03-01T05:00Z"
    assert json.loads(await command(f"job coverage report {empty} -o json"))["is_whole"]
    range_ = "--from 2026-03-01T00:00Z --to 2026-03-04T00:00Z"
    asked = f"backfill start billing/report {range_} --only-holes"
    backfill = json.loads(await command(f"{asked} -o json"))["id"]
    assert json.loads(await command(f"backfill show {backfill} -o json"))["only_holes"]


async def test_a_backfill_from_its_preview_to_its_cancel(command: Command) -> None:
    march = "--from 2026-03-01T00:00Z --to 2026-04-01T00:00Z"
    await command("executor create billing")
    daily = "name: report\nhandler: x\ntriggers: [{kind: cron, expression: 0 3 * * *}]\n"
    await command("job create --executor billing -f -", stdin=daily)

    assert await command("backfill list") == "There is no such backfill.\n"
    seen = json.loads(await command(f"backfill preview report {march} -o json"))
    assert (seen["total"], seen["existing"], seen["new"]) == (31, 0, 31)
    asked = f"backfill start billing/report {march} --parallel 4 --newest-first -p x=1 --key k"
    backfill = json.loads(await command(f"{asked} -o json"))["id"]
    assert json.loads(await command(f"{asked} -o json"))["id"] == backfill
    assert "0/31" in await command("backfill list --job report --executor billing")
    shown = json.loads(await command(f"backfill show {backfill} -o json"))
    assert (shown["order"], shown["parameters"], shown["total"]) == ("newest_first", {"x": 1}, 31)
    assert "It has no such instant." in await command(f"backfill instants {backfill}")

    assert "is paused" in await command(f"backfill pause {backfill}")
    assert "goes on" in await command(f"backfill resume {backfill}")
    assert "is cancelled" in await command(f"backfill cancel {backfill}")
    assert "(backfill.ended)" in await command(f"backfill cancel {backfill}", code=1)
    assert "left               31" in await command(f"backfill show {backfill}")

    none = "--from 2026-03-01T00:30Z --to 2026-03-01T00:31Z"
    assert "no instant in this time" in await command(f"backfill preview report {none}")
    assert "no instant" in await command(f"backfill start report {none}", code=1)
    assert "parallel" in await command(f"backfill start report {march} --parallel 101", code=1)


async def test_night_plan(command: Command, tmp_path: Path) -> None:
    await command("executor create billing")
    file = tmp_path / "job.yaml"
    file.write_text(
        'name: report\nhandler: h\ntriggers: [{kind: cron, expression: "0 * * * *"}]\n'
        'alarms: [{kind: deadline_missed, limits: {by: "06:00"}}]\n'
    )
    await command("job create --executor billing -f", str(file))

    told = await command("night-plan billing --hours 24", code=1)
    assert "report will miss" in told
    assert "no success is in sight" in told
    assert "for a slot; end: not in sight" in told
    assert "Nothing that was tried helps." in told
    found = json.loads(await command("night-plan billing --hours 24 -o json", code=1))
    assert [each["verdict"] for each in found["deadlines"]] == ["missed"]
    await command("night-plan nobody", code=5)


async def test_what_if(command: Command, tmp_path: Path) -> None:
    await command("executor create billing")
    file = tmp_path / "job.yaml"
    file.write_text('name: report\nhandler: h\ntriggers: [{kind: cron, expression: "0 * * * *"}]\n')
    await command("job create --executor billing -f", str(file))

    told = await command("what-if --pause billing/report --hours 5")
    assert "With this, 4 fires go and 0 come." in told
    assert "1 jobs without history are taken to last 10.0s" in told
    found = json.loads(await command("what-if --pause-executor billing --hours 5 -o json"))
    assert (found["before"]["fires"], found["after"]["fires"]) == (4, 0)
    file.write_text(file.read_text().replace("0 *", "*/30 *"))
    told = await command("what-if --hours 5 --job", f"billing/report={file}")
    assert "0 fires go and 5 come" in told
    assert "4 → 9" in told
    file.write_text(file.read_text().replace("report", "export"))
    await command("pool create warehouse --slots 2")
    told = await command("what-if --hours 5 --pool warehouse=0 --new-job", f"billing={file}")
    assert "0 fires go and 9 come" in told
    assert "new export" in " ".join(told.split())
    await command("what-if --pool warehouse=many", code=2)
    await command("what-if", code=2)
    await command("what-if --slots node-1", code=2)
