"""`tickwheel plan`, `apply`, `export` and `schema`: files and their places, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.admin.cli.client.scripted import Scripted, error
from tickwheel_admin.cli import main

JOBS = """\
# the first one
name: nightly
handler: h
triggers:
- kind: cron
  expression: 0 3 * * *
---
type: calendar
name: holidays
"""
COUNTS = {"create": 0, "update": 0, "delete": 0, "adopt": 0, "unchanged": 0}


def plan(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    counts = dict(COUNTS)
    for each in changes:
        counts[each["action"]] += 1
    return {
        "owner": "team", "changes": list(changes), "counts": counts, "checked": True,
        "allowed": True, "problems": [], "fingerprint": "f1", **more,
    }  # fmt: skip


def change(action: str, name: str, document: int | None, **more: Any) -> dict[str, Any]:
    return {
        "action": action, "type": "job", "executor": "billing", "name": name, "id": 1,
        "document": document, "owner": "team", "drift": False, "allowed": True, "differences": [],
        **more,
    }  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "jobs"
    (directory / ".hidden").mkdir(parents=True)
    (directory / "tickwheel.yaml").write_text("owner: team\nexecutor: billing\n")
    (directory / "a.yaml").write_text(JOBS)
    (directory / "b.yml").write_text("# nothing yet\n")
    (directory / ".hidden/c.yaml").write_text("{")
    return directory


def test_the_documents_are_sent_with_what_the_settings_say(admin: Scripted, files: Path) -> None:
    admin.will((200, plan()))
    assert main(["plan", "-f", "jobs"]) == 0
    (asked,) = admin.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/plan")
    assert asked.body["owner"] == "team"
    assert [(d.get("type"), d.get("executor"), d["name"]) for d in asked.body["documents"]] == [
        (None, "billing", "nightly"),
        ("calendar", None, "holidays"),
    ]


def test_problems_are_told_at_file_line_and_field(
    admin: Scripted, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        {"field": "documents[0].triggers[0].expression", "code": "x", "message": "No."},
        {"field": "documents[1].base", "code": "x", "message": "Unknown."},
        {"field": "", "code": "x", "message": "Too many."},
    ]
    admin.will((200, plan(problems=found, fingerprint=None)))
    assert main(["plan", "-f", "jobs"]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        "  jobs/a.yaml:6: document 1, triggers[0].expression: No.",
        "  jobs/a.yaml:8: document 2, base: Unknown.",
        "  Too many.",
    ]


def test_broken_files_are_told_all_at_once_and_nothing_is_sent(
    admin: Scripted, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "d.yaml").write_text("a: 1\na: 2\n")
    (files / "tickwheel.yaml").write_text("ower: x\n")
    assert main(["plan", "-f", "jobs"]) == 1
    told = capsys.readouterr().err
    assert "jobs/d.yaml: Line 2" in told
    assert "jobs/tickwheel.yaml:1: ower" in told
    assert main(["plan", "-f", "nowhere"]) == 2
    assert admin.asked == []


def test_a_plan_reads_as_a_difference(
    admin: Scripted, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    differences = [
        {"field": "priority", "before": 2, "after": 5},
        {"field": "tags", "before": ["a", "b"], "after": ["a"]},
    ]
    changes = [
        change("update", "nightly", 0, drift=True, differences=differences),
        change("delete", "old\x1b[31m", None, allowed=False),
    ]
    admin.will((200, plan(*changes)))
    assert main(["plan", "-f", "jobs", "--detailed-exitcode"]) == 2
    told = capsys.readouterr().out
    assert "~ job billing/nightly  (drift: edited by hand since it was applied; jobs/a.yaml:2)" in (
        told
    )
    assert "    priority: 2 → 5\n" in told
    assert "      - - b\n" in told
    assert "- job billing/old" in told
    assert "\x1b" not in told
    assert "0 to create, 1 to change, 1 to delete, 0 unchanged." in told
    assert "may not make 1 of these changes" in told


def test_what_is_applied_is_the_plan_that_was_shown(
    admin: Scripted, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan(change("create", "nightly", 0, id=None))
    admin.will((200, made))
    assert main(["apply", "-f", "jobs"]) == 2  # nobody can be asked
    admin.will((200, made), (200, made))
    assert main(["apply", "-f", "jobs", "--yes", "--prune"]) == 0
    assert admin.asked[-1].path == "/api/v1/apply"
    assert (admin.asked[-1].body["fingerprint"], admin.asked[-1].body["prune"]) == ("f1", True)
    admin.will((200, made), (409, error("gitops.plan_changed")))
    assert main(["apply", "-f", "jobs", "--yes", "--fingerprint", "f0"]) == 1
    assert admin.asked[-1].body["fingerprint"] == "f0"
    assert "1 created" in capsys.readouterr().out


def test_an_export_is_a_file_for_each_object(admin: Scripted, tmp_path: Path) -> None:
    documents = [
        {"type": "executor", "name": "billing"},
        {"type": "job", "executor": "billing", "name": "../a b", "handler": "h"},
        {"type": "job", "executor": "billing", "name": "A B", "handler": "h"},
        {"type": "job", "executor": "billing", "name": "a-b", "handler": "h"},
        {"type": "calendar", "name": "节假日"},
    ]
    admin.will((200, "".join(json.dumps(each) + "\n" for each in documents)))
    target = tmp_path / "out"
    assert main(["export", "-f", str(target), "--executor", "billing"]) == 0
    assert admin.asked[-1].path == "/api/v1/export?executor=billing"
    written = sorted(str(path.relative_to(target)) for path in target.rglob("*.yaml"))
    assert written == [
        "calendars/节假日.yaml",
        "executors/billing/executor.yaml",
        "executors/billing/jobs/A-B~2.yaml",
        "executors/billing/jobs/a-b.yaml",
        "executors/billing/jobs/a-b~3.yaml",
    ]
    assert all(path.resolve().is_relative_to(target) for path in target.rglob("*"))


def test_the_schema_needs_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["type"]["enum"][0] == "job"


def test_handlers_of_a_new_version_are_checked(
    admin: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "handlers.json"
    file.write_text(json.dumps({"handlers": {"a": None}}))
    problem = {"field": "handler", "code": "handler.gone", "message": "Gone."}
    broken = {"what": "run", "job_id": 1, "job_name": "b", "run_id": 7, "problem": problem}
    found = {"jobs": 1, "steps": 0, "runs": 1, "breaks": [broken]}
    executors = {"items": [{"id": 3, "name": "billing"}]}
    admin.will((200, executors), (200, found), (200, executors), (200, found | {"breaks": []}))
    words = ["check-handlers", str(file), "--executor", "billing"]
    assert main(words) == 1
    assert admin.asked[-1].path == "/api/v1/executors/3/check-handlers"
    assert admin.asked[-1].body == {"handlers": {"a": None}}
    assert "run 7 of b: handler: Gone." in capsys.readouterr().out
    assert main(words) == 0
    file.write_text("[]")
    assert main(words) == 2


SERVICE = """\
import os
from tickwheel_executor import Executor

print("imported", os.environ.get("TICKWHEEL_API_TOKEN"))
executor = Executor()


@executor.handler("mail")
def mail(to: str) -> None: ...
"""


def test_handlers_of_a_service_are_read_from_its_module(
    admin: Scripted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "service.py").write_text(SERVICE)
    found = {"jobs": 1, "steps": 0, "runs": 1, "breaks": []}
    admin.will((200, {"items": [{"id": 3, "name": "billing"}]}), (200, found))
    assert main(["check-handlers", "service:executor", "--executor", "billing"]) == 0
    (handler,) = admin.asked[-1].body["handlers"].items()
    assert (handler[0], handler[1]["required"]) == ("mail", ["to"])
    told = capsys.readouterr()
    assert "0 problem(s)" in told.out
    assert "imported None" in told.err  # it has no use for the token

    for app, why in (
        ("service:mail", "service has no Executor that is called mail"),
        ("nowhere:executor", "imported: No module named 'nowhere' in"),
        ("service.json", "cannot be read"),
    ):
        assert main(["check-handlers", app, "--executor", "billing"]) == 2
        assert why in capsys.readouterr().err
    missing = ["--python", str(tmp_path / "python")]
    assert main(["check-handlers", "service:executor", "--executor", "billing", *missing]) == 2
    assert "cannot be run" in capsys.readouterr().err
