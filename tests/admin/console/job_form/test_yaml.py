"""The job form and its other view, YAML, as a browser without script uses them."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.admin.kit.served import Served, served
from tickwheel_admin.domain.input.job import job_to_raw, parse_job
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.yaml import from_yaml
from tickwheel_admin.services.users.administration import COMMAND_LINE

JOB: dict[str, Any] = {
    "name": "invoices",
    "handler": "send",
    "description": "Two lines:\n- with a # and ü",
    "parameters": {"month": "2026-01", "big": 10**25, "at": "22:30", "on": "no"},
    "tags": ["no", "2026"],
    "blocking": "serial",
    "max_waiting": 3,
    "alarms": [{"kind": "failed", "name": 'it\'s "bad"', "quiet": {"calendar": "nights"}}],
    "triggers": [
        {"kind": "daily_window", "every_seconds": 900, "from_time": "22:30", "to_time": "23:30"},
    ],
}


@dataclass
class Browser:
    """A person who is logged in, and what their last page held."""

    served: Served
    token: str = ""
    page: str = ""
    status: int = 0

    async def get(self, path: str) -> str:
        async with self.served.client.get(path) as answer:
            return await self._seen(answer)

    async def press(self, address: str, fields: dict[str, str], **button: str) -> str:
        sent = {**fields, **button, "csrf_token": self.token}
        async with self.served.client.post(address, data=sent, allow_redirects=False) as answer:
            return await self._seen(answer)

    async def _seen(self, answer: Any) -> str:
        self.status, self.page = answer.status, await answer.text()
        if found := re.search(r'name="csrf_token" value="([^"]+)"', self.page):
            self.token = found[1]
        return str(answer.headers.get("Location", ""))

    def fields(self) -> dict[str, str]:
        """What the form of the page would send, but for what has several values."""
        (form,) = re.findall(r'<form class="form-page".*?</form>', self.page, re.S)
        form = re.sub(r"<template.*?</template>", "", form, flags=re.S)
        found: dict[str, str] = {}
        for tag in re.findall(r"<input [^>]*>", form):
            values = dict(re.findall(r'([a-z-]+)="([^"]*)"', tag))
            if values.get("type") in ("radio", "checkbox") and " checked" not in tag:
                continue
            if "name" in values:
                found[values["name"]] = html.unescape(values.get("value", ""))
        for name, text in re.findall(
            r'<textarea [^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', form, re.S
        ):
            found[name] = html.unescape(text)
        for name, options in re.findall(
            r'<select [^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S
        ):
            if chosen := re.search(r'value="([^"]*)" selected', options):
                found[name] = html.unescape(chosen[1])
        return found


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with served(tmp_path) as application:
        await application.log_in("dora", Role.DEVELOPER)
        browser = Browser(served=application)
        yield browser


async def executor(browser: Browser) -> int:
    made = await browser.served.services.executors.create(
        COMMAND_LINE, name="billing", description=""
    )
    return made.id


async def new_job(browser: Browser, **changes: Any) -> int:
    services = browser.served.services
    await services.calendars.create(COMMAND_LINE, {"name": "nights", "dates": ["2027-10-01"]})
    return await services.jobs.create(COMMAND_LINE, await executor(browser), JOB | changes)


async def config_of(browser: Browser, job_id: int) -> Any:
    return (await browser.served.services.jobs.get(COMMAND_LINE, job_id)).item.job.config


async def test_a_job_is_written_in_yaml_alone(browser: Browser) -> None:
    await executor(browser)
    await browser.get("/jobs/new")
    await browser.press("/jobs/new", browser.fields(), do="as:yaml")
    fields = browser.fields()
    assert fields["yaml"].startswith("name: ''\nhandler: ''\n")

    fields["yaml"] = "# ours\r\nname: invoices\r\nhandler: send\r\nretries: 2\r\n"
    location = await browser.press("/jobs/new", fields)

    assert browser.status == 303
    config = await config_of(browser, int(location.removeprefix("/jobs/")))
    assert config == parse_job({"name": "invoices", "handler": "send", "retries": 2})


async def test_there_and_back_changes_nothing(browser: Browser) -> None:
    job_id = await new_job(browser)
    before = await config_of(browser, job_id)
    address = f"/jobs/{job_id}/edit"
    await browser.get(address)
    await browser.press(address, browser.fields() | {"name": "other"}, do="as:yaml")
    text = browser.fields()["yaml"]
    assert parse_job(from_yaml(text)) == parse_job(job_to_raw(before) | {"name": "other"})

    await browser.press(address, browser.fields(), do="as:form")
    await browser.press(address, browser.fields() | {"name": "invoices"})

    assert browser.status == 303
    assert await config_of(browser, job_id) == before


async def test_comments_and_hidden_fields_are_found_again(browser: Browser) -> None:
    job_id = await new_job(browser)
    address = f"/jobs/{job_id}/edit"
    await browser.get(address)
    # Shards mean nothing with this routing, so YAML cannot say them.
    await browser.press(address, browser.fields() | {"shards": "12"}, do="as:yaml")
    typed = browser.fields() | {"yaml": "# ask li first\r\n" + browser.fields()["yaml"]}

    await browser.press(address, typed, do="as:form")
    assert browser.fields()["shards"] == "12"
    await browser.press(address, browser.fields(), do="as:yaml")
    assert browser.fields()["yaml"].startswith("# ask li first\nname: invoices\n")

    # What was changed there counts, and not what is kept.
    changed = browser.fields()["yaml"].replace("max_waiting: 3", "max_waiting: 4")
    await browser.press(address, browser.fields() | {"yaml": changed}, do="as:form")
    assert browser.fields()["max_waiting"] == "4"


async def test_what_cannot_be_said_in_yaml_stays_in_the_form(browser: Browser) -> None:
    await executor(browser)
    await browser.get("/jobs/new")
    fields = browser.fields() | {"timeout": "soon", "parameters": "{no", "name": "x"}
    await browser.press("/jobs/new", fields, do="as:yaml")

    assert browser.status == 422
    kept = browser.fields()
    assert (kept["timeout"], kept["parameters"], kept["name"]) == ("soon", "{no", "x")
    assert 'id="f-timeout-problem"' in browser.page


async def test_a_text_that_is_no_job_stays_in_yaml_and_says_where(browser: Browser) -> None:
    job_id = await new_job(browser)
    address = f"/jobs/{job_id}/edit"
    await browser.get(address)
    await browser.press(address, browser.fields(), do="as:yaml")
    for text, words in (
        ("name: a\nhandler: b\ntimeout: 5", ["Line 3", "timeout_seconds", "timeout: 5"]),
        ("name: a\nhandler: &x b", ["Line 2, column 10", "anchors"]),
        ("name: a\nhandler: b\nname: c", ["Line 3", "already on line 1"]),
    ):
        for button in ({"do": "as:form"}, {}):
            await browser.press(address, browser.fields() | {"yaml": text}, **button)
            assert browser.status == 422
            assert browser.fields()["yaml"] == text
            assert all(word in html.unescape(browser.page) for word in words), (text, words)


async def test_without_an_executor_the_text_stays_and_is_read_as_well(browser: Browser) -> None:
    await browser.get("/jobs/new")
    await browser.press("/jobs/new", browser.fields(), do="as:yaml")
    for text, told in (
        ("name: x\nhandler: &a send", "anchors (&amp;)"),
        ("name: x\nhandler: send", ""),
    ):
        fields = {**browser.fields(), "executor_id": "", "yaml": text}
        await browser.press("/jobs/new", fields)
        assert browser.status == 422
        assert browser.page.count("Choose an executor.") == 1  # at its field, not at a line
        assert told in browser.page
        assert ("Nothing was saved yet." in browser.page) == bool(told)
        assert browser.fields()["yaml"].strip() == text


async def test_a_job_that_is_not_finished_goes_there_and_back(browser: Browser) -> None:
    await executor(browser)
    await browser.get("/jobs/new")
    await browser.press("/jobs/new", browser.fields() | {"handler": "send"}, do="as:yaml")
    text = browser.fields()["yaml"].replace("retries: 0", "retries: 4")
    await browser.press("/jobs/new", browser.fields() | {"yaml": text}, do="as:form")

    assert browser.status == 200
    fields = browser.fields()
    assert (fields["name"], fields["handler"], fields["retries"]) == ("", "send", "4")


async def test_a_copy_is_a_new_job_like_the_other(browser: Browser) -> None:
    job_id = await new_job(browser)
    await browser.get(f"/jobs/new?from={job_id}")
    assert browser.fields()["name"] == "invoices-copy"
    location = await browser.press("/jobs/new", browser.fields())

    copy = await config_of(browser, int(location.removeprefix("/jobs/")))
    assert copy == parse_job(
        job_to_raw(await config_of(browser, job_id)) | {"name": "invoices-copy"}
    )


async def test_saving_can_run_it_at_once(browser: Browser) -> None:
    job_id = await new_job(browser)
    await browser.get(f"/jobs/{job_id}/edit")
    fields = browser.fields()
    location = await browser.press(f"/jobs/{job_id}/edit", fields, then="run")

    run = await browser.served.services.runs.get(COMMAND_LINE, int(location.removeprefix("/runs/")))
    assert (run.item.run.job_id, run.item.run.requested_by) == (job_id, "dora")


async def test_all_that_is_wrong_with_a_form_is_told_at_once(browser: Browser) -> None:
    await new_job(browser)
    await browser.get("/jobs/new")
    fields = browser.fields() | {"executor_id": "", "name": "", "timeout": "soon", "retries": "-1"}
    await browser.press("/jobs/new", fields)
    for place in ("executor", "name", "handler", "timeout", "retries"):
        assert f'id="f-{place}-problem"' in browser.page, place


async def test_many_documents_make_many_jobs(browser: Browser) -> None:
    executor_id = await executor(browser)
    await browser.get("/jobs/new")
    await browser.press("/jobs/new", browser.fields(), do="as:yaml")
    text = "---\nname: a\nhandler: x\n---\nname: b\nhandlr: x\n"
    fields = browser.fields() | {"executor_id": str(executor_id)}
    await browser.press("/jobs/new", fields | {"yaml": text})
    assert browser.status == 422
    assert "Line 6" in browser.page
    location = await browser.press(
        "/jobs/new", fields | {"yaml": text.replace("handlr", "handler")}
    )
    assert location == f"/jobs?executor={executor_id}"
    assert "2" in re.findall(r"([0-9]+) jobs?", await browser_page(browser, "/jobs"))


async def browser_page(browser: Browser, path: str) -> str:
    await browser.get(path)
    return browser.page


async def test_a_job_is_a_file(browser: Browser) -> None:
    job_id = await new_job(browser)
    await browser.get(f"/jobs/{job_id}/job.yaml")

    assert parse_job(from_yaml(browser.page)) == await config_of(browser, job_id)


async def test_a_workflow_is_written_in_yaml(browser: Browser) -> None:
    await executor(browser)
    await browser.get("/jobs/new?what=workflow")
    fields = browser.fields()
    assert "    - key: extract\n" in fields["yaml"]
    fields["yaml"] = fields["yaml"].replace('name: ""', "name: load")

    location = await browser.press("/jobs/new", fields)

    assert browser.status == 303
    await browser.get(location)  # its page
    assert browser.status == 200
    await browser.get(f"{location}/config")
    assert "needs:" in browser.page
    await browser.get(f"{location}/edit")
    fields = browser.fields()
    await browser.press(f"{location}/edit", fields, do="as:form")
    assert "has no fields for the steps" in browser.page
    fields["yaml"] = fields["yaml"].replace("- extract\n", "- extrakt\n")
    await browser.press(f"{location}/edit", fields)
    assert browser.status == 422
    assert "did you mean “extract”?" in browser.page
    assert "<code>- extrakt</code>" in browser.page
    await browser.get(f"/jobs/new?from={location.removeprefix('/jobs/')}")
    assert "name: load-copy\n" in browser.fields()["yaml"]
