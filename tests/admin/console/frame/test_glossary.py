"""Words of other schedulers lead to what does it here, for whoever may use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.documents import sections as written
from tickwheel_admin.console.frame.i18n import LANGUAGE
from tickwheel_admin.console.help import glossary
from tickwheel_admin.console.help.documents import sections
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role

TEMPLATES = ROOT / "admin/tickwheel_admin/console/templates"


def actor(role: Role) -> Actor:
    return Actor(user_id=1, name="one", grants={ALL_EXECUTORS: role})


def first(text: str, role: Role = Role.ADMIN) -> str:
    ((concept, _name),) = glossary.search(actor(role), text, most=1)
    return concept.address(actor(role))


@pytest.mark.parametrize(
    ("text", "href"),
    [
        ("报警", "/"),
        ("子任务", "/jobs/new#child-rows"),
        ("阻塞处理策略", "/jobs/new#overlap-fields"),
        ("丢弃后续调度", "/jobs/new#overlap-fields"),
        ("discard later", "/jobs/new#overlap-fields"),
        ("DisallowConcurrentExecution", "/jobs/new#overlap-fields"),
        ("misfire", "/jobs/new#when-fields"),
        ("调度过期", "/jobs/new#when-fields"),
        ("GLUE", "/jobs/new#f-handler"),
        ("执行器", "/executors"),
        ("调度日志", "/runs"),
        ("JobDetail", "/jobs"),
        ("Trigger", "/jobs/new#when-fields"),
        ("jobdatamap", "/jobs/new#parameters-field"),
        ("路由策略", "/jobs/new#where-fields"),
        ("失败重试次数", "/jobs/new#f-retries"),
        ("HolidayCalendar", "/calendars"),
    ],
)
@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_words_of_xxl_job_and_quartz_lead_somewhere(text: str, href: str, language: str) -> None:
    token = LANGUAGE.set(language)
    try:
        assert first(text) == href
    finally:
        LANGUAGE.reset(token)


def test_who_may_not_use_a_field_gets_its_explanation() -> None:
    assert first("阻塞处理策略", Role.VIEWER) == "/help#overlap"
    assert first("用户管理", Role.DEVELOPER) == "/help#users"
    of_one = Actor(user_id=1, name="one", grants={7: Role.ADMIN})
    ((users, _name),) = glossary.search(of_one, "用户管理", most=1)
    assert users.address(of_one) == "/help#users"
    assert first("用户管理") == "/users"
    assert first("阻塞处理策略", Role.DEVELOPER) == "/jobs/new#overlap-fields"
    assert glossary.search(actor(Role.ADMIN), " ", most=5) == []
    assert len(glossary.search(actor(Role.ADMIN), "e", most=5)) == 5


def test_every_field_and_every_heading_is_there() -> None:
    ids = {
        found
        for path in Path(TEMPLATES).rglob("*.html")
        for found in re.findall(r'id="([a-z0-9-]+)"', path.read_text(encoding="utf-8"))
    }
    headings = {(each["file"], each["heading"]) for each in written()}
    keys = [concept.key for concept in glossary.CONCEPTS]
    assert len(keys) == len(set(keys))
    for concept in glossary.CONCEPTS:
        anchor = concept.href.partition("#")[2]
        assert not anchor or anchor in ids, concept.key
        file, _, heading = concept.document.partition("#")
        assert (file, heading) in headings, concept.key


def test_headings_that_the_palette_finds_are_those_of_the_documents() -> None:
    """Of the first order in the index; `python -m tests.support.documents` writes it anew."""
    known = {(each["file"], each["heading"]) for each in written()}
    gone = [each for each in sections() if (each.file, each.heading) not in known]
    assert gone == []
    anchors = [each.anchor for each in sections()]
    assert len(anchors) == len(set(anchors))
