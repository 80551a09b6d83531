"""Jobs of XXL-JOB in our form: every value of every field, and what cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.domain.xxl_job.audit.kit import make_job, utc
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.imports.names import unique_name
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.xxl_job.child_links import link_children
from tickwheel_admin.domain.xxl_job.job_fields import XxlJobFields, fields_of_job, fields_of_request
from tickwheel_admin.domain.xxl_job.mapping import MappedJob, map_job

SHANGHAI = "Asia/Shanghai"


def fields(**values: Any) -> XxlJobFields:
    return XxlJobFields(
        **{
            "name": "Send invoices",
            "handler": "sendInvoices",
            "route_strategy": "FIRST",
            "block_strategy": "SERIAL_EXECUTION",
        }
        | values
    )


def mapped(**values: Any) -> MappedJob:
    return map_job(fields(**values), cron_zone=SHANGHAI, their_id=17)


def good(**values: Any) -> dict[str, Any]:
    """The raw form of a job of which nothing is told."""
    found = mapped(**values)
    assert (found.notes, found.reasons) == ((), ())
    assert parse_job(found.raw, Protocol.XXL_JOB)
    return dict(found.raw)


def told(found: MappedJob) -> list[str]:
    return [each.code for each in found.notes]


def refused(**values: Any) -> list[str]:
    return [each.code for each in mapped(**values).reasons]


def test_a_plain_job() -> None:
    raw = good(author="olga", param="a=1\n b")
    assert raw["name"] == "Send invoices"
    assert raw["handler"] == "sendInvoices"
    assert raw["owner"] == "olga"
    assert raw["tags"] == ["xxl-job:17"]
    assert raw["parameters"] == {"param": "a=1\n b"}
    assert raw["triggers"] == []
    assert raw["retries"] == 0
    assert raw["timeout_seconds"] is None
    assert "children" not in raw


def test_no_parameter_is_no_member() -> None:
    assert good()["parameters"] == {}


def test_a_job_of_a_request_has_no_trace_of_an_id() -> None:
    assert map_job(fields(), cron_zone="UTC").raw["tags"] == []


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("FIRST", "first"),
        ("LAST", "last"),
        ("ROUND", "round_robin"),
        ("RANDOM", "random"),
        ("CONSISTENT_HASH", "consistent_hash"),
        ("LEAST_FREQUENTLY_USED", "least_frequently_used"),
        ("LEAST_RECENTLY_USED", "least_recently_used"),
        ("FAILOVER", "failover"),
        ("BUSYOVER", "busy_over"),
        ("SHARDING_BROADCAST", "broadcast"),
    ],
)
def test_route_strategies(theirs: str, ours: str) -> None:
    assert good(route_strategy=theirs)["routing"] == ours


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("SERIAL_EXECUTION", "serial"),
        ("DISCARD_LATER", "discard_later"),
        ("COVER_EARLY", "cover_early"),
    ],
)
def test_block_strategies(theirs: str, ours: str) -> None:
    raw = good(block_strategy=theirs)
    assert raw["blocking"] == ours
    assert raw["when_cut_off"] == "continue"


def test_unknown_strategies() -> None:
    assert refused(route_strategy="NEAREST") == ["route_strategy"]
    found = mapped(
        block_strategy="CONCURRENT",
        schedule_type="FIX_RATE",
        schedule_conf="60",
        misfire_strategy="TWICE",
    )
    assert told(found) == ["block_strategy", "misfire_strategy"]
    assert found.raw["blocking"] == "serial"
    assert found.raw["triggers"][0]["misfire"] == "skip"


@pytest.mark.parametrize(
    ("theirs", "ours"), [("DO_NOTHING", "skip"), ("FIRE_ONCE_NOW", "fire_once"), ("", "skip")]
)
def test_cron(theirs: str, ours: str) -> None:
    raw = good(schedule_type="CRON", schedule_conf="0 0 9 ? * MON-FRI", misfire_strategy=theirs)
    (trigger,) = raw["triggers"]
    assert trigger["kind"] == "cron"
    assert trigger["expression"] == "0 0 9 ? * MON-FRI"
    assert (trigger["dialect"], trigger["timezone"]) == ("quartz", SHANGHAI)
    assert trigger["misfire"] == ours


def test_fixed_rate_has_no_anchor_so_that_the_take_over_can_set_it() -> None:
    (trigger,) = good(schedule_type="FIX_RATE", schedule_conf="45")["triggers"]
    assert (trigger["kind"], trigger["every_seconds"]) == ("fixed_rate", 45)
    assert trigger["anchor_at"] is None


@pytest.mark.parametrize(
    ("kind", "conf", "code"),
    [
        ("CRON", "not cron", "cron.invalid"),
        ("CRON", "", "required"),
        ("CRON", "0 0 0 30 2 ?", "cron.invalid"),
        ("FIX_RATE", "1h", "fix_rate"),
        ("FIX_RATE", "", "fix_rate"),
        ("FIX_RATE", "0", "out_of_range"),
        ("FIX_RATE", "99999999999", "fix_rate"),
        ("FIX_DELAY", "60", "schedule_type"),
    ],
)
def test_schedules_that_cannot_be_had(kind: str, conf: str, code: str) -> None:
    assert refused(schedule_type=kind, schedule_conf=conf) == [code]


def test_a_schedule_that_is_over_leaves_a_job_without_trigger() -> None:
    over = fields(schedule_type="CRON", schedule_conf="0 0 0 1 1 ? 2020")
    found = map_job(over, cron_zone="UTC", now=utc("2026-01-01 00:00:00") * 1_000)
    assert told(found) == ["never_fires"]
    assert not found.reasons
    assert found.raw["triggers"] == []


def test_timeouts_and_retries() -> None:
    raw = good(timeout_seconds=30, retries=3)
    assert (raw["timeout_seconds"], raw["retries"], raw["retry_backoff"]) == (30, 3, "fixed")
    raw = good(timeout_seconds=-1, retries=-1)
    assert (raw["timeout_seconds"], raw["retries"]) == (None, 0)
    found = mapped(timeout_seconds=10_000_000, retries=1_000)
    assert told(found) == ["timeout_cut", "retries_cut"]
    assert (found.raw["timeout_seconds"], found.raw["retries"]) == (604_800, 100)


@pytest.mark.parametrize(
    ("glue", "language"),
    [
        ("GLUE_GROOVY", "groovy"),
        ("GLUE_SHELL", "shell"),
        ("GLUE_PYTHON", "python"),
        ("GLUE_PHP", "php"),
        ("GLUE_NODEJS", "node"),
        ("GLUE_POWERSHELL", "powershell"),
    ],
)
def test_scripts_become_script_jobs(glue: str, language: str) -> None:
    found = mapped(glue_type=glue, handler="", glue_source="echo 1\n", glue_remark="first")
    assert (found.raw["handler"], told(found)) == ("script", ["script"])
    script = found.raw["script"]
    assert (script["language"], script["source"]) == (language, "echo 1\n")
    assert script["remark"] == "first"


def test_some_scripts_cannot_be_had() -> None:
    for glue in ("GLUE_RUBY", ""):
        assert refused(glue_type=glue, handler="", glue_source="puts 1") == ["glue"]
    assert refused(glue_type="GLUE_SHELL", handler="") == ["glue"]  # by the job API
    assert refused(glue_type="GLUE_SHELL", handler="", glue_source="") == ["required"]


def test_a_handler_must_be_named() -> None:
    assert refused(handler="") == ["no_handler"]
    assert refused(handler="h" * 201) == ["too_long"]
    assert refused(handler="a\u200bb") == ["invisible_character"]


def test_a_parameter_may_be_too_long() -> None:
    assert refused(param="x" * 70_000) == ["json.too_large"]


def test_names() -> None:
    assert told(mapped(name="")) == ["no_name"]
    assert mapped(name="").raw["name"] == "XXL-JOB 17"
    long = mapped(name="n" * 255)
    assert told(long) == ["name_cut"]
    assert len(long.raw["name"]) == 200
    hidden = mapped(name="pay\u200b\x07\tit")
    assert told(hidden) == ["name_cleaned"]
    assert hidden.raw["name"] == "pay it"
    assert told(mapped(author="a" * 101)) == ["author_cut"]


def test_a_taken_name_gets_the_id() -> None:
    assert unique_name("a", {"b"}, mark=17) == "a"
    assert unique_name("a", {"a"}, mark=17) == "a (17)"
    assert len(unique_name("n" * 200, {"n" * 200}, mark=17)) == 200


def test_alarm_mails_are_told() -> None:
    found = mapped(alarm_emails=("olga@example.org",))
    assert told(found) == ["alarm_mail"]
    assert "olga@example.org" in found.notes[0].text


def test_children() -> None:
    found = mapped(child_job_ids="18, 19,x,,18")
    assert found.children == (18, 19)
    assert told(found) == ["child_unknown"]


def test_links_that_lead_nowhere_or_in_circles_are_left_out() -> None:
    found = link_children({1: (2, 1, 99), 2: (3,), 3: (1, 4)}, {1, 2, 3, 4})
    assert found.links == {1: (2,), 2: (3,), 3: (4,)}
    codes = {parent: [each.code for each in notes] for parent, notes in found.notes.items()}
    assert codes == {1: ["child_self", "child_unknown"], 3: ["child_circle"]}


def test_long_chains_and_many_children_are_cut() -> None:
    chain = link_children({each: (each + 1,) for each in range(1, 30)}, range(1, 31))
    assert len(chain.links) == 28  # 20 jobs, a gap, and the other ten
    many = link_children({1: range(2, 30)}, range(1, 31))
    assert len(many.links[1]) == 20
    assert {each.code for each in many.notes[1]} == {"child_too_many"}


def test_a_row_and_a_request_say_the_same() -> None:
    row = make_job(
        name="a job",
        author="olga",
        alarm_emails=("a@example.org", "b@example.org"),
        misfire_strategy="FIRE_ONCE_NOW",
        handler="h",
        param="p",
        block_strategy="COVER_EARLY",
        timeout_seconds=5,
        retries=2,
        child_job_ids="4",
    )
    body = {
        "jobGroup": 1,
        "name": "a job",
        "author": "olga",
        "alarmEmail": "a@example.org, b@example.org",
        "scheduleType": "CRON",
        "scheduleConf": "0 * * * * ?",
        "misfireStrategy": "FIRE_ONCE_NOW",
        "executorRouteStrategy": "FIRST",
        "executorHandler": "h",
        "executorParam": "p",
        "executorBlockStrategy": "COVER_EARLY",
        "executorTimeout": 5,
        "executorFailRetryCount": "2",
        "childJobId": 4,
        "glueType": "BEAN",
    }
    assert fields_of_request(body) == fields_of_job(row)


def test_requests_of_before_3_5_and_empty_ones() -> None:
    assert fields_of_request({"jobDesc": " a "}).name == "a"
    assert fields_of_request({}) == XxlJobFields(name="")


@pytest.mark.parametrize(
    "body", [{"name": ["a"]}, {"executorTimeout": 1.5}, {"executorTimeout": True}]
)
def test_requests_of_wrong_types(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        fields_of_request(body)
