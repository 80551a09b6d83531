"""The graph of a workflow while it is written: drawn as far as it can be, with what is wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.users.administration import COMMAND_LINE

TEXT = """\
name: load
workflow:
  steps:
    - key: extract
      handler: extract
    # what came
    - key: convert
      handler: convert
      needs: [extract, gone]
"""


async def ask(application: Served, token: str, text: str, **more: Any) -> dict[str, Any]:
    sent = {"csrf_token": token, "view": "yaml", "yaml": text, **more}
    async with application.client.post("/jobs/workflow-draft", data=sent) as answer:
        assert answer.status == 200
        told: dict[str, Any] = await answer.json()
        return told


def nodes(told: dict[str, Any]) -> list[tuple[str, str]]:
    """(classes, what is spoken) of each node."""
    name = r'(?: role="img" aria-label="([^"]*)"| href[^>]*><title>([^<]*)</title>)'
    found = re.findall(rf'class="g-node ?([^"]*)" id="[^"]*"{name}', told["graph"])
    return [(classes, first or second) for classes, first, second in found]


async def test_a_workflow_that_is_written(tmp_path: Path) -> None:
    async with served(tmp_path) as application:
        await application.log_in("dora", Role.DEVELOPER)
        services = application.services
        executor = await services.executors.create(COMMAND_LINE, name="billing", description="")
        stored = {"name": "load", "workflow": {"steps": [
            {"key": "extract", "handler": "extract", "when": "parameters.day == 1"},
            {"key": "check", "approval": {}},
            {"key": "convert", "handler": "convert", "needs": ["check"]},
        ]}}  # fmt: skip
        job_id = await services.jobs.create(COMMAND_LINE, executor.id, stored)
        async with application.client.get(f"/jobs/{job_id}/edit") as answer:
            page = await answer.text()
        assert "data-workflow-pane" in page
        assert "data-workflow-text" in page
        found = re.search(r'name="csrf_token" value="([^"]+)"', page)
        assert found is not None
        token = found[1]
        of = {"executor_id": str(executor.id), "job_id": str(job_id)}

        told = await ask(application, token, TEXT, **of)
        assert told["text"] == TEXT
        assert nodes(told) == [
            ("", "step extract, extract"),
            ("g-wrong", "step convert, convert, something is wrong with it"),
        ]
        assert [mark["line"] for mark in told["marks"]] == [9]
        assert "gone" in told["marks"][0]["text"]
        assert 'data-goto-line="9"' in told["problems"]
        assert told["steps"] == [
            {"key": "extract", "needs": [], "line": 4},
            {"key": "convert", "needs": ["extract"], "line": 7},
        ]

        edit = {"edit": "rename", "edit_step": "convert", "edit_other": "to-parquet"}
        told = await ask(application, token, TEXT, **of, **edit)
        assert told["text"] == TEXT.replace("key: convert", "key: to-parquet")
        told = await ask(application, token, TEXT, **of, **edit | {"edit_other": "extract"})
        assert (told["text"], told["refused"]) == (TEXT, "There is a step of this key already.")

        told = await ask(application, token, "name: [", **of)
        assert told["graph"] is None
        assert [mark["line"] for mark in told["marks"]] == [2]
        # Whatever a text holds, there is an answer.
        for steps in ("7", "[7, {key: 7}]", "[{key: a, needs: [{step: [1], outcome: [2]}, 7]}]"):
            told = await ask(application, token, f"workflow: {{steps: {steps}}}")
            assert told["problems"]

        told = await ask(application, token, TEXT, **of, difference="yes")
        assert nodes(told) == [
            ("g-changed", "step extract, changed, when"),
            ("", "step convert, convert"),
            ("g-removed", "step check, removed"),
        ]
        listed = re.sub(r"<[^>]+>|\s+", " ", told["graph"].partition("</svg>")[2])
        assert "≠ Step extract changed: when" in re.sub(" +", " ", listed)
        assert "+ Link extract → convert added" in re.sub(" +", " ", listed)
        assert "− Link check → convert removed" in re.sub(" +", " ", listed)

        # And between two revisions.
        changed = {"name": "load", "workflow": {"steps": stored["workflow"]["steps"][:2]}}  # type: ignore[index]
        await services.jobs.update(COMMAND_LINE, job_id, changed, revision=1)
        async with application.client.get(f"/jobs/{job_id}/history?from=1&to=2") as answer:
            page = await answer.text()
        assert 'class="g-node g-removed" id="node-convert"' in page
        assert 'class="g-line d-removed"' in page
        assert " style=" not in page
