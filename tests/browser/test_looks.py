"""Every page, in both themes and languages, at three widths: accessible, complete, in its frame.

With TICKWHEEL_SCREENSHOTS=1 in the environment there are pictures of them in `screenshots`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import tickwheel_admin
from tests.browser.conftest import PageErrors
from tests.browser.kit.consoles import Console, set_preference, stop_time, wait_until_live
from tests.browser.kit.contrasts import Contrasts
from tests.browser.samples.declared import DECLARED
from tests.browser.samples.workflows import HANDLER, STEPS
from tests.support.nightly import IS_NIGHT
from tickwheel_admin import console as tickwheel_console
from tickwheel_admin.web.routes import tables_of

# axe looks for doubled ids only where a label needs them.
DOUBLED_IDS = """() => {
  const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
  return ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `doubled id ${id}`);
}"""
AXE = (Path(__file__).parent / "vendor/axe-4.14.1.min.js").read_text()
SCREENSHOTS = Path(__file__).parent / "screenshots"
SCREENSHOTS_WANTED = bool(os.environ.get("TICKWHEEL_SCREENSHOTS"))
STATIC = Path(tickwheel_admin.__file__).parent / "console/static"

# preload: axe would fetch style sheets by itself, which the policy of a page under test may refuse.
# iframes: no page has any.
RUN_AXE = """async ([only, part]) => {
  const all = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const options = {
    'all': {runOnly: all},
    'contrast': {runOnly: ['color-contrast']},
    'all but contrast': {runOnly: all, rules: {'color-contrast': {enabled: false}}},
  };
  // Only what is wrong is read. Selectors of what is right would take a quarter of the time.
  const told = {preload: false, resultTypes: ['violations'], selectors: false, iframes: false};
  const found = await axe.run(part ?? document, {...options[only], ...told});
  return found.violations.map(v => `${v.id}: ` + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) +
    ' | ' + (n.failureSummary ?? '').split('\\n').slice(1, 3).join(' ')).join(' ; '));
}"""

PAGES = {
    "overview": "/",
    "api-endpoint": "/api-reference/create_job",
    "api-type": "/api-reference/types/JobConfig",
    "overview-week": "/?p=7d",
    "jobs": "/jobs",
    "jobs-none": "/jobs?q=zzz",
    "jobs-unknown": "/jobs?q=group:x+state:odd",
    "jobs-changed": "/jobs?q=tag:critical&sort=-changed",
    "jobs-bulk": "/jobs/bulk?do=delete&all=yes&q=tag:critical",
    "jobs-tag": "/jobs/bulk?do=tag&job=1&job=2",
    "view-new": "/views/new?page=jobs&filter=q%3Dtag%253Acritical",
    "job": "/jobs/{job:payment-reconcile}",
    "job-runs": "/jobs/{job:payment-reconcile}/runs",
    "job-config": "/jobs/{job:invoice-close}/config",
    "job-history": "/jobs/{job:invoice-close}/history?from=1&to=4",
    "job-roll-back": "/jobs/{job:invoice-close}/history/2/roll-back",
    "job-copy": "/jobs/new?from={job:invoice-close}",
    "job-new": "/jobs/new?executor={executor:infra}",
    "job-edit": "/jobs/{job:payment-reconcile}/edit#wrong-fields",
    "job-shards": "/jobs/{job:partition-sweep}",
    "job-serial-edit": "/jobs/{job:stock-sync}/edit#overlap-fields",
    "job-weighted": "/jobs/{job:vector-refresh}",
    "job-weighted-edit": "/jobs/{job:vector-refresh}/edit#where-fields",
    "job-state": "/jobs/{job:stock-sync}",
    "job-state-edit": "/jobs/{job:stock-sync}/state",
    "job-state-clear": "/jobs/{job:stock-sync}/state/clear",
    "job-children-edit": "/jobs/{job:warm-caches}/edit#child-rows",
    "job-triggers": "/jobs/{job:fetch-statements}",
    "job-triggers-edit": "/jobs/{job:fetch-statements}/edit",
    "job-script": "/jobs/{job:report-disks}/script?from=1&to=2",
    "job-dates": "/jobs/{job:fetch-statements}/dates?date=2027-02-09",
    "job-backfills": "/jobs/{job:payment-reconcile}/backfills",
    "job-backfill": "/jobs/{job:payment-reconcile}/backfills/new"
    "?from=2027-01-01T00:00&to=2027-01-03T00:00",
    "job-coverage": "/jobs/{job:sync-salesforce}/coverage"
    "?from=2026-11-19T14:00&until=2026-11-20T13:30",
    "job-coverage-none": "/jobs/{job:features-backfill}/coverage",
    "failure": "/alarms/failures/{failure:acquirer}",
    "failures-all": "/alarms/failures?state=all",
    "trends-executor": "/trends?executor={executor:ml}&step=day",
    "trends-job": "/trends?job={job:payment-reconcile}&step=hour",
    "delays": "/executors/{executor:ml}/delays",
    "delays-none": "/executors/{executor:ml}/delays?from=2020-01-01T00:00&until=2020-01-01T05:00",
    "run-delay": "/runs/{run:delayed}/delay",
    "run-delayed": "/runs/{run:delayed}",
    "night-plan": "/night-plan?executor={executor:warehouse}&now=yes",
    "night-plan-nodes": "/night-plan?executor={executor:ml}&by=node&back=12&now=yes",
    "as-of": "/as-of",
    "as-of-job": "/as-of?job={job:payment-reconcile}",
    "proof": "/proof",
    "proof-executor": "/proof?executor={executor:ml}&hours=12",
    "backfill": "/backfills/{backfill:autumn}",
    "backfill-cancel": "/backfills/{backfill:autumn}/cancel",
    "job-run": "/jobs/{job:payment-reconcile}/run",
    "job-delete": "/jobs/{job:payment-reconcile}/delete",
    "job-by-code": "/jobs/{job:month-end}",
    "job-by-code-edit": "/jobs/{job:month-end}/edit",
    "job-by-code-delete": "/jobs/{job:month-end}/delete",
    "declared-jobs": "/executors/{executor:reports}/declared-jobs",
    "declared-jobs-none": "/executors/{executor:ml}/declared-jobs",
    "executor-by-code": "/executors/{executor:reports}",
    "job-parameters-edit": "/jobs/{job:ledger-copy}/edit",
    "job-parameters-run": "/jobs/{job:month-end}/run",
    "run-parameters-again": "/runs/{run:month-end}/retry",
    "workflow": "/jobs/{job:weekly-load}",
    "workflow-config": "/jobs/{job:weekly-load}/config",
    "workflow-edit": "/jobs/{job:weekly-load}/edit",
    "workflow-run": "/runs/{run:weekly-load}",
    "workflow-answer": "/runs/{run:weekly-load}/steps/check/answer",
    "workflow-by-hand": "/runs/{run:weekly-load}/steps/load/by-hand",
    "workflow-items": "/runs/{run:weekly-load}/steps/convert",
    "workflow-items-none": "/runs/{run:weekly-load}/steps/convert?state=lost",
    "runs": "/runs",
    "run": "/runs/{run:events-compact}",
    "run-failed": "/runs/{run:failed}",
    "run-explained": "/runs/{run:failed}/why",
    "run-waiting": "/runs/{run:waiting}",
    "run-again": "/runs/{run:failed}/retry",
    "run-parked": "/runs/{run:parked}",
    "run-still-running": "/runs/{run:still-running}",
    "run-release": "/runs/{run:still-running}/release",
    "run-shards": "/runs/{run:fire}",
    "run-shards-failed": "/runs/{run:fire-failed}",
    "run-shard": "/runs/{run:shard}",
    "run-missed": "/runs/{run:misfire}",
    "run-reasoned": "/runs/{run:reasoned}",
    "runs-filtered": "/runs?executor={executor:ml}&node=7&origin=schedule&last=24h",
    "runs-no-job": "/runs?job_name=zzz&from_local=2026-11-20T09:00",
    "runs-purge": "/runs/purge?executor={executor:ml}&age=2&age_unit=h",
    "runs-skipped": "/runs?state=skipped",
    "runs-bulk": "/runs/bulk?do=retry&all=yes&state=failed_any&executor={executor:ml}",
    "executors": "/executors",
    "executor": "/executors/{executor:ml}",
    "executor-scripts": "/executors/{executor:infra}/scripts",
    "executor-no-nodes": "/executors/{executor:archive}",
    "executor-new": "/executors/new",
    "executor-new-xxl-job": "/executors/new?protocol=xxl_job",
    "executor-xxl-job": "/executors/{executor:orders}",
    "executor-xxl-job-settings": "/executors/{executor:orders}/xxl-job",
    "job-new-xxl-job": "/jobs/new?executor={executor:orders}",
    "node-slots": "/executors/{executor:ml}/nodes/7/slots",
    "node-weight": "/executors/{executor:ml}/nodes/7/weight",
    "node": "/nodes/7",
    "node-ended": "/nodes/99",
    "token": "/executors/{executor:ml}/token",
    "token-revoke": "/executors/{executor:ml}/token/revoke",
    "executor-delete": "/executors/{executor:ml}/delete",
    "secrets": "/executors/{executor:billing}/secrets",
    "secrets-none": "/executors/{executor:ml}/secrets",
    "secret-set": "/executors/{executor:billing}/secrets/set?name=SMTP_PASSWORD",
    "secret-delete": "/executors/{executor:billing}/secrets/SMTP_PASSWORD/delete",
    "calendar": "/calendar",
    "calendars": "/calendars",
    "calendar-show": "/calendars/{calendar:cn-holidays}?year=2027",
    "calendar-edit": "/calendars/{calendar:banking-days}/edit",
    "admins": "/admins",
    "pause-everything": "/system/pause",
    "password": "/password",
    "account": "/account",
    "users": "/users",
    "users-none": "/users?q=zzz",
    "user": "/users/{user:maria}",
    "user-out": "/users/{user:jonas}",
    "user-new": "/users/new",
    "user-delete": "/users/{user:maria}/delete",
    "user-reset": "/users/{user:maria}/reset-password",
    "tokens-none": "/tokens",
    "tokens": "/tokens?of=all",
    "token-new": "/tokens/new",
    "audit": "/audit",
    "audit-none": "/audit?person=zzz&from=2026-11-01T09:00",
    "settings": "/settings",
    "about": "/about",
    "not-found": "/nothing",
}


# What runs, and a field that the form of a new job then has.
KINDS = {
    "script": "script_source",
    "command": "param.argv",
    "http": "param.headers",
    "sql": "param.statements",
    "file": "param.root",
}

# The most that people open, and the largest forms.
WEIGHED = (
    *("overview", "overview-week", "jobs", "job", "job-history", "job-new", "job-copy"),
    *("runs", "run", "executors", "executor", "calendar", "users", "user", "audit", "settings"),
)

# One of each kind: a list, a page of one thing, a form, and what draws most.
WEIGHED_BY_DAY = ("overview", "jobs", "job", "job-new", "run", "calendar")

# Pages of one route whose markup differs from that of its first page.
OF_THEIR_OWN = (
    *("workflow", "workflow-edit", "workflow-run", "run-shards", "run-waiting"),
    *("executor-xxl-job", "job-new-xxl-job", "job-triggers", "jobs-none"),
)

# Dialogs that ask one question as others do, which are looked at.
LIKE_OTHERS = (
    *("token-revoke", "executor-delete", "secret-delete", "user-delete", "job-by-code-delete"),
    *("backfill-cancel", "job-state-clear", "run-release", "node-weight", "workflow-by-hand"),
)

WIDEST = """() => [...document.querySelectorAll('main *')]
  .filter(e => e.getBoundingClientRect().right > innerWidth)
  .slice(0, 3).map(e => e.outerHTML.slice(0, 150))"""


def pages_of(console: Console) -> dict[str, str]:
    """Those of PAGES, and every page that needs no id: a new one is looked at without a line."""
    named = {
        name: re.sub(r"\{([^}]+)\}", lambda match: str(console.ids[match[1]]), path)
        for name, path in PAGES.items()
    }
    return named | {path[1:].replace("/", "-"): path for path in _other_pages(console)}


@cache
def _other_pages(console: Console) -> list[str]:
    known = {path.partition("?")[0] for path in PAGES.values()}
    return [
        route.path
        for table in tables_of(tickwheel_console)
        for route in table
        if route.method == "GET" and "{" not in route.path
        if route.path not in known and _has_frame(console, route.path)
    ]


def _has_frame(console: Console, path: str) -> bool:
    """Whether there is a whole page, and not data, a part of a page, or a way to another one."""
    cookie = {"Cookie": f"tickwheel_session={console.cookies['admin']}"}
    try:
        with urlopen(Request(console.url + path, headers=cookie)) as answer:
            is_page = answer.headers.get_content_type() == "text/html"
            return (
                is_page and answer.url == console.url + path and b"data-live-state" in answer.read()
            )
    except HTTPError:
        return False


@pytest.fixture
def reader(
    page: Page, context: BrowserContext, looked_at: Console, page_errors: PageErrors
) -> Page:
    looked_at.open_as(context)
    stop_time(page)
    page_errors.expected.append("/nothing")  # the page that is not there
    return page


def take_picture(page: Page, name: str) -> None:
    """For people to look at; no test reads it, and it takes as long as half of the tests do."""
    if SCREENSHOTS_WANTED:
        page.screenshot(path=SCREENSHOTS / f"{name}.png")


def run_axe(page: Page, only: str, part: str | None = None) -> list[str]:
    """What axe finds on the page, or in a part of it."""
    found: list[str] = page.evaluate(RUN_AXE, [only, part])
    return found


def look_at_kinds(reader: Page, console: Console, language: str) -> list[str]:
    """Each answer to "What runs?" on the page of a new job, which is not loaded again for it."""
    found = []
    for kind, field in KINDS.items():
        reader.locator(f"[name=what][value={kind}]").check()
        expect(reader.locator(f"[name='{field}']").first).to_be_attached()
        reader.evaluate(
            "() => document.getElementById('more-parameters')?.setAttribute('open', '')"
        )
        if language == "en":
            found += run_axe(reader, "all", "#parameters-field")
        elif words := english_words(reader, console):
            found.append(f"not translated: {sorted(words)}")
        reader.set_viewport_size({"width": 390, "height": 844})
        if reader.evaluate("() => document.documentElement.scrollWidth") > 390:
            found.append(f"scrolls sideways at 390: {reader.evaluate(WIDEST)}")
        take_picture(reader, f"job-new-{kind}-{language}-390")
        reader.set_viewport_size({"width": 1440, "height": 900})
    return found


# Each takes minutes, and a test that takes two of them is taken for one that hangs.
THIRDS = (0, 1, 2)


@pytest.fixture(scope="module")
def contrasts() -> Contrasts:
    """What one third has looked at, the next needs not look at again."""
    return Contrasts()


def third_of(pages: Mapping[str, str], third: int) -> dict[str, str]:
    return dict(list(pages.items())[third :: len(THIRDS)])


def looked_at_now(pages: Mapping[str, str]) -> dict[str, str]:
    """By day the first page of most routes and those opened most; by night and for pictures all."""
    if IS_NIGHT or SCREENSHOTS_WANTED:
        return dict(pages)
    first: dict[str, str] = {}
    for name, path in pages.items():
        first.setdefault(re.sub(r"\d+", "0", re.split(r"[?#]", path)[0]), name)
    chosen = {*WEIGHED, *OF_THEIR_OWN, *first.values()} - {*LIKE_OTHERS}
    return {name: path for name, path in pages.items() if name in chosen}


def look_at(
    reader: Page,
    console: Console,
    pages: Mapping[str, str],
    language: str,
    contrasts: Contrasts | None = None,
) -> dict[str, list[str]]:
    """Each of these pages in one language, in each theme and width; returns what is wrong.

    Args:
        contrasts: None: a language changes no colours, see test_a_language_changes_no_colours.
    """
    faults: dict[str, list[str]] = {}
    in_english = language == "en"
    ending = "" if in_english else "-zh"
    for name, path in pages.items():
        reader.goto(console.url + path)
        wait_until_live(reader)
        if name == "run":
            expect(reader.locator(".log-line")).not_to_have_count(0)
        take_picture(reader, f"{name}{ending}-light")
        found = reader.evaluate(DOUBLED_IDS)
        reader.evaluate(AXE)
        found += run_axe(reader, "all but contrast")
        if contrasts is not None:
            found += contrasts.faults(reader)
        # As the server sends it to who chose the dark theme; the system's own is light here.
        reader.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
        if contrasts is not None:
            # A theme changes nothing but colours.
            found += [f"dark: {fault}" for fault in contrasts.faults(reader)]
        take_picture(reader, f"{name}{ending}-dark")
        reader.evaluate("() => { delete document.documentElement.dataset.theme; }")
        if not in_english and (words := english_words(reader, console)):
            found.append(f"not translated: {sorted(words)}")
        for width in (1024, 390, 1440):
            reader.set_viewport_size({"width": width, "height": 900 if width == 1440 else 844})
            if reader.evaluate("() => document.documentElement.scrollWidth") > width:
                found.append(f"scrolls sideways at {width}: {reader.evaluate(WIDEST)}")
            if width == 390 and in_english and IS_NIGHT:  # targets for fingers, what scrolls
                found += [f"at 390: {fault}" for fault in run_axe(reader, "all but contrast")]
            if width == 390:
                take_picture(reader, f"{name}{ending}-390")
        if name == "job-new":
            found += look_at_kinds(reader, console, language)
        if found:
            faults[name] = found
    return faults


@pytest.mark.parametrize("third", THIRDS)
def test_every_page_is_accessible_and_in_its_frame(
    reader: Page, looked_at: Console, contrasts: Contrasts, third: int
) -> None:
    pages = third_of(looked_at_now(pages_of(looked_at)), third)
    faults = look_at(reader, looked_at, pages, "en", contrasts)

    assert faults == {}, json.dumps(faults, indent=1)


def test_a_text_that_is_hard_to_read_is_noticed_on_each_background(page: Page) -> None:
    page.set_content("<p>plain</p><p>plain too</p><p id=faint style='color: #ccc'>faint</p>")
    page.evaluate(AXE)
    contrasts = Contrasts()
    (on_white,) = contrasts.faults(page)
    assert "faint</p>" in on_white
    page.evaluate("() => { document.getElementById('faint').style.background = '#eee'; }")
    (on_grey,) = contrasts.faults(page)
    assert "#eeeeee" in on_grey


def test_pages_before_login_are_accessible(
    page: Page, context: BrowserContext, looked_at: Console
) -> None:
    for theme in ("light", "dark"):
        set_preference(context, looked_at, "theme", theme)
        page.goto(f"{looked_at.url}/login")
        take_picture(page, f"login-{theme}")
        page.evaluate(AXE)
        assert run_axe(page, "all") == []
    page.get_by_label("Name").fill("newcomer")
    page.get_by_label("Password").fill(looked_at.passwords["newcomer"])
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
    take_picture(page, "password-first")
    page.evaluate(AXE)
    assert run_axe(page, "all") == []


def test_dialogs_are_accessible(reader: Page, looked_at: Console) -> None:
    reader.goto(looked_at.url + "/jobs")
    reader.get_by_role("button", name="More: backup-postgres").click()
    reader.get_by_role("menuitem", name="Delete").click()
    expect(reader.get_by_role("dialog")).to_be_visible()
    reader.evaluate(AXE)
    assert run_axe(reader, "all") == []
    reader.keyboard.press("Escape")
    reader.keyboard.press("Control+k")
    reader.keyboard.type("re")
    expect(reader.locator("#palette-list li", has_text="backup-postgres")).to_be_visible()
    take_picture(reader, "palette")
    assert run_axe(reader, "all") == []


# What is never translated: names of people's own things, of the product, of units and formats.
NOT_TRANSLATED = re.compile(
    r"Tickwheel|English|Cron|JSON|YAML|OpenAPI|API|SDK|SQLite|UTC|Esc|Ctrl K|Enter|GPU"
    r"|Europe/Berlin|Asia/Shanghai|unix|quartz|spring|iCalendar|\.ics|CSV|yearly|\bSUN\b|\bLW\b"
    r"|run\.shard_(?:index|total)|run\.state|KiB|Python(?:-urllib)?|Apache-2\.0|OpenID|SSO|/api/v1"
    r"|Firefox|Safari|Linux|iOS|zone (?:not)?in \([^)]*\)|zone!?=\w+"
    # Words of XXL-JOB and Quartz, as they write them.
    r"|XXL-JOB|xxl[\w.-]+|AppName|https?://\S+|default_token|@XxlJob|Java|Go|Node|TICKWHEEL\w+"
    r"|Quartz|\bTrigger\b|DisallowConcurrentExecution|JobChainingJobListener"
    r"|misfireInstruction|子任务 ?ID"
    # Words of the ready-made handlers, of JSON, and of keyboards.
    r"|HTTP|SQL|shell|\btrue\b|tickwheel script sign|\bTab\b"
    r"|python/\S+|v\d\S*|\d+(?:\.\d+)? ?(?:ms|s|m|h|d)\b|run\.parameters|nightly-invoices|IANA"
)


LENGTHEN = """() => {
  const names = /^\\s*(ml|ml-a1|ml-b1|churn-scoring|vector-refresh|zone=us|gpu=a100)\\s*$/;
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  let changed = 0;
  while (texts.nextNode())
    if (names.test(texts.currentNode.data)) {
      texts.currentNode.data = 'scheduler-europe-west-'.repeat(9);
      changed += 1;
    }
  return changed;
}"""
CUT_OFF = """() => [...document.querySelectorAll('.table-scroll')]
  .filter(e => e.scrollWidth > e.clientWidth).length"""


@pytest.mark.parametrize("name", ["node", "executor", "runs-filtered", "run-reasoned"])
def test_long_names_push_nothing_out_of_its_place(
    reader: Page, looked_at: Console, name: str
) -> None:
    for width in (1440, 390):
        reader.set_viewport_size({"width": width, "height": 844})
        reader.goto(looked_at.url + pages_of(looked_at)[name])
        assert reader.evaluate(LENGTHEN) > 0
        assert reader.evaluate("() => document.documentElement.scrollWidth") == width
        if width == 1440:
            assert reader.evaluate(CUT_OFF) == 0


TEXTS_OF_OURS = """(page) => {
  // Without what people wrote: code, logs, messages, descriptions.
  const copy = (page ?? document).body.cloneNode(true);
  const own = 'pre, code, .mono, .log-view, .message, .items p, .name, .tag, textarea, ' +
    'template, .progress-line, datalist, #tip, .crumbs, .cut, kbd, h1, ' +
    '.table .two small, select:not([name$=unit]) option:not(:first-child), ' +
    '.lane, .description, .said, .declared h2, .admins b, optgroup, ' +
    '.parameters option, .items .strong, ' +
    '[lang=en]';  // marked as such for readers of other languages
  for (const element of copy.querySelectorAll(own)) element.remove();
  const named = [...copy.querySelectorAll('[aria-label], [placeholder], [data-tip]')];
  const texts = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) found.push(texts.currentNode.data);
  return found.join(' ') + ' ' + named.map(e => [e.getAttribute('aria-label'),
    e.getAttribute('placeholder'), e.dataset.tip].join(' ')).join(' ');
}"""


# As the server sends it, before any script: no part of it is laid out or painted.
TEXTS_OF_ANOTHER_PAGE = f"""async (path) => {{
  const answer = await fetch(path);
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  return [page.documentElement.lang, ({TEXTS_OF_OURS})(page)];
}}"""


def english_words(reader: Page, console: Console) -> set[str]:
    """Words of ours on the Chinese page that are not translated."""
    return untranslated(reader.evaluate(TEXTS_OF_OURS), console)


def untranslated(text: str, console: Console) -> set[str]:
    """English words of ours in the texts of a Chinese page."""
    own = {word for key in console.ids for word in re.findall(r"[A-Za-z]+", key)}
    own |= {"admin", "maria", "li", "wei", "jonas", "ana", "ops", "yuki", "newcomer", "viewer"}
    own |= {"prod", "eu", "old", "holidays", "command", "line", "example", "com"}
    own |= {"script", "dashboards", "deployments", "deploy", "legacy", "exporter", "checks"}
    own |= {"finance", "critical", "email", "compliance", "external", "backup", "gpu", "nightly"}
    own |= {"owner", "tag", "executor", "origin", "manual", "by", "group", "state", "failing"}
    own |= {"BANK", "SMTP", "PASSWORD", "KEY"}  # of names of secrets
    own |= {"zone", "us"}  # a label of nodes
    own |= {"shop", "exports"}  # which the node names as examples
    own |= {"running", "paused", "active", "zzz"}  # of filters
    own |= {"Webhook", "Apprise", "Lark", "Microsoft", "Slack", "Teams"}  # names of services
    own |= {word for name in DECLARED for word in name.split("-")} | {"eur"}
    own |= {word for step in STEPS for word in re.findall(r"[A-Za-z]+", step["key"])}
    own |= set(HANDLER.split("."))
    return set(re.findall(r"[A-Za-z]{2,}", NOT_TRANSLATED.sub(" ", text))) - own


def test_a_language_changes_no_colours() -> None:
    """Contrasts are looked at in English alone. Texts may be smaller where they stay legible."""
    rules = [
        line.strip()
        for sheet in sorted(STATIC.rglob("*.css"))
        for line in sheet.read_text().splitlines()
        if re.search(r":lang\(|\[lang", line)
    ]

    assert rules == [":lang(zh) { --text: 14px; }"]


def test_no_markup_needs_more_than_the_policy_allows(
    context: BrowserContext, looked_at: Console
) -> None:
    looked_at.open_as(context)
    for path in pages_of(looked_at).values():
        answer = context.request.get(looked_at.url + path)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "style-src 'self'" in policy
        assert "unsafe" not in policy
        html = answer.text()
        assert not re.search(r"<script(?![^>]*\ssrc=)", html)
        assert not re.search(r"<[^>]*\s(style|on[a-z]+)=", html), path


# Without what a live part fetches when something changes.
LOADED = """() => {
  const all = [...performance.getEntriesByType('resource'),
    ...performance.getEntriesByType('navigation')]
    .filter(entry => entry.initiatorType !== 'xmlhttprequest');
  return [all.reduce((sum, entry) => sum + entry.transferSize, 0) / 1024, all.length,
    document.querySelectorAll('*').length];
}"""


def test_pages_stay_light(browser: Browser, looked_at: Console) -> None:
    pages = pages_of(looked_at)
    too_heavy = {}
    for name in WEIGHED if IS_NIGHT else WEIGHED_BY_DAY:
        with browser.new_context() as context:
            looked_at.open_as(context)
            page = context.new_page()
            live = page.locator("[data-live-state]")
            page.goto(looked_at.url + pages[name])
            expect(live).to_have_attribute("data-state", "on")
            cold_kib, requests, elements = page.evaluate(LOADED)
            page.goto(looked_at.url + pages[name])
            expect(live).to_have_attribute("data-state", "on")
            warm_kib, _requests, _elements = page.evaluate(LOADED)
        told = f"{cold_kib:.0f} KiB cold, {warm_kib:.0f} warm, {requests} requests, {elements}"
        print(f"{name}: {told} elements")
        if cold_kib > 200 or warm_kib > 25 or requests > 16 or elements > 2_500:
            too_heavy[name] = told

    assert too_heavy == {}
