"""Alarm rules that a job's configuration holds: their rows, who may write them, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import NIGHTLY, Code
from tests.admin.kit.served import SECRET_KEY
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.admin.store.alarms.test_alarms import channel
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleScope
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.input.alarm_rule import alarm_rule_to_raw
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.alarms.channels import AlarmChannels
from tickwheel_admin.services.alarms.rules import AlarmRules
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.imports import JobImport
from tickwheel_admin.services.jobs.yaml import from_yaml, to_yaml
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.store.alarms import channels
from tickwheel_admin.store.alarms.rules import rules_of_jobs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

FAILED = {"kind": "failed", "channels": ["ops"]}
BREAKFAST = {"kind": "deadline_missed", "name": "breakfast", "limits": {"by": "07:30"}}


@pytest.fixture
async def alarm_rules(world: World) -> AlarmRules:
    for number, name in ((5, "ops"), (6, "on call")):
        await world.database.run(channels.add_channel, channel(number, name=name), now=world.now)
    return AlarmRules(world.database, Ids(world.database), world.events)


async def rows(world: World, job_id: int) -> list[AlarmRule]:
    return (await world.database.read(rules_of_jobs, [job_id])).get(job_id, [])


async def raw_of(world: World, job_id: int) -> dict[str, Any]:
    return job_to_raw((await world.jobs.get(ADMIN, job_id)).item.job.config)


@pytest.mark.every_database
async def test_rows_follow_what_the_job_says(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"alarms": [FAILED, BREAKFAST]})
    failed, breakfast = await rows(world, job_id)
    assert (failed.scope, failed.job_id, failed.channels) == (RuleScope.JOB, job_id, (5,))
    assert (failed.name, breakfast.name, breakfast.limits.by) == ("failed", "breakfast", "07:30:00")
    # The same names at another job, and at a rule of no job, are other rules.
    await world.jobs.create(ADMIN, executor_id, JOB | {"name": "b", "alarms": [FAILED]})
    await alarm_rules.create(ADMIN, {"name": "failed", "kind": "failed"})

    later = FAILED | {"name": "to on call", "channels": ["on call"], "severity": "warning"}
    assert await world.jobs.update(ADMIN, job_id, JOB | {"alarms": [later]}, revision=1) == 2
    (changed,) = await rows(world, job_id)
    assert (changed.id, changed.version, changed.channels) == (failed.id, 2, (6,))
    updated = sa.select(tables.audit.c.detail).where(tables.audit.c.action == "job.updated")
    assert json.loads(world.rows(updated)[0].detail)["alarms"] == {
        "changed": ["to on call"],
        "removed": ["breakfast"],
    }
    assert await world.jobs.update(ADMIN, job_id, JOB | {"alarms": [later]}, revision=2) == 2
    history = JobHistory(world.database, Ids(world.database), world.events)
    assert await history.roll_back(ADMIN, job_id, 1, expected_revision=2) == 3
    assert [each.name for each in await rows(world, job_id)] == ["failed", "breakfast"]
    await world.jobs.delete(ADMIN, job_id)
    assert await rows(world, job_id) == []


async def test_an_export_makes_the_same_rules_and_changes_nothing_where_it_came_from(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    full = FAILED | {"escalate_after_seconds": 600, "escalate_to": ["on call"]}
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"alarms": [full, BREAKFAST]})
    text = to_yaml(await raw_of(world, job_id))
    assert await world.jobs.update(ADMIN, job_id, from_yaml(text), revision=1) == 1
    (copy,) = await JobImport(world.jobs).add(ADMIN, await world.executor("other"), text)
    assert to_yaml(await raw_of(world, copy)) == text
    said = [
        [alarm_rule_to_raw(each) | {"job_id": None} for each in await rows(world, some)]
        for some in (job_id, copy)
    ]
    assert said[0] == said[1]


async def test_a_channel_that_is_not_there_is_told_with_its_line(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    text = to_yaml(JOB | {"alarms": [FAILED | {"channels": ["ops", "opps"]}]})
    with pytest.raises(InvalidInput) as caught:
        await JobImport(world.jobs).add(ADMIN, executor_id, text)
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("alarms[0].channels[1]", "channel.unknown")
    assert text.splitlines()[problem.params["line"] - 1].strip() == "- opps"
    assert problem.message == "There is no channel named “opps”; did you mean “ops”?"
    unknown = JOB | {"alarms": [BREAKFAST | {"quiet": {"calendar": "nights"}}]}
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(ADMIN, executor_id, unknown)
    assert caught.value.problems[0].field == "alarms[0].quiet.calendar"


async def test_a_channel_that_was_renamed_or_deleted_since_does_not_hold_up_other_edits(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"alarms": [FAILED]})
    await world.database.run(channels.delete_channel, 5, now=world.now)
    raw = await raw_of(world, job_id)
    raw["alarms"][0]["severity"] = "warning"
    assert await world.jobs.update(ADMIN, job_id, raw, revision=1) == 2
    assert [each.channels for each in await rows(world, job_id)] == [(5,)]
    with pytest.raises(InvalidInput):
        await world.jobs.create(ADMIN, executor_id, raw | {"name": "b"})


async def test_a_rule_about_a_job_is_part_of_the_job_wherever_it_is_written(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    rule = {"name": "slow", "kind": "slow", "scope": "job", "job_id": job_id, "channels": [6]}
    rule["limits"] = {"factor": 2}
    rule_id = await alarm_rules.create(ADMIN, rule)
    with pytest.raises(Conflict) as caught:
        await alarm_rules.create(ADMIN, rule)
    assert caught.value.code == "alarm_rule.name_taken"
    (alarm,) = (await raw_of(world, job_id))["alarms"]
    assert (alarm["name"], alarm["channels"], alarm["limits"]["factor"]) == ("slow", ["on call"], 2)

    changed = rule | {"name": "very slow", "limits": {"factor": 5}}
    assert await alarm_rules.update(ADMIN, rule_id, changed, version=1) == 2
    assert await alarm_rules.update(ADMIN, rule_id, changed, version=2) == 2
    with pytest.raises(Conflict):
        await alarm_rules.update(ADMIN, rule_id, rule, version=1)
    await alarm_rules.set_enabled(ADMIN, rule_id, enabled=False)
    (alarm,) = (await raw_of(world, job_id))["alarms"]
    assert (alarm["name"], alarm["enabled"]) == ("very slow", False)
    assert (await alarm_rules.get(ADMIN, rule_id)).rule.version == 3
    await alarm_rules.delete(ADMIN, rule_id)
    assert (await raw_of(world, job_id))["alarms"] == []
    assert await rows(world, job_id) == []


async def test_only_developers_of_the_executor_edit_them(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    wanted = JOB | {"alarms": [FAILED]}
    operator = actor_with(Role.OPERATOR, executor_id)
    with pytest.raises(NotAllowed):
        await world.jobs.update(operator, job_id, wanted, revision=1)
    developer = actor_with(Role.DEVELOPER, executor_id)
    assert await world.jobs.update(developer, job_id, wanted, revision=1) == 2


@pytest.mark.usefixtures("alarm_rules")
async def test_a_channel_that_jobs_name_keeps_its_name(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"alarms": [FAILED]})
    service = AlarmChannels(
        world.database, Ids(world.database), world.events, Cipher([SECRET_KEY]), languages=("en",)
    )
    ops = await service.get(ADMIN, 5)
    raw = {"kind": ops.kind.value, "language": ops.language, "settings": dict(ops.settings)}
    with pytest.raises(Conflict) as caught:
        await service.update(ADMIN, 5, raw | {"name": "operators"}, version=ops.version)
    assert caught.value.code == "alarm_channel.named_by_jobs"
    assert "“failed”" in str(caught.value)
    await world.jobs.update(ADMIN, job_id, JOB, revision=1)
    await service.update(ADMIN, 5, raw | {"name": "operators"}, version=ops.version)
    assert (await service.get(ADMIN, 5)).name == "operators"


@pytest.mark.every_database
async def test_code_declares_alarms_and_takes_them_back(
    world: World, alarm_rules: AlarmRules, executor_id: int
) -> None:
    code = Code(world)
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    told = await code.start(executor_id, NIGHTLY | {"alarms": [FAILED | {"channels": ["opps"]}]})
    assert "did you mean “ops”" in " ".join(told)
    await code.start(executor_id, NIGHTLY | {"alarms": [FAILED]}, name="node-2")
    (item,) = await declared.list(ADMIN, executor_id)
    assert item.job_id is not None
    (rule,) = await rows(world, item.job_id)
    assert (rule.name, rule.channels) == ("failed", (5,))
    shown = await alarm_rules.get(ADMIN, rule.id)
    assert (shown.is_managed, shown.may_edit) == (True, False)

    with pytest.raises(Conflict) as caught:
        await alarm_rules.delete(ADMIN, rule.id)
    assert caught.value.code == "job.managed_by_code"
    other = {"name": "x", "kind": "lost", "scope": "job", "job_id": item.job_id}
    with pytest.raises(Conflict):
        await alarm_rules.create(ADMIN, other)

    await declared.set_policy(ADMIN, executor_id, "ask")
    await code.start(executor_id, NIGHTLY | {"alarms": [FAILED, BREAKFAST]}, name="node-3")
    (item,) = await declared.list(ADMIN, executor_id)
    (difference,) = item.differences
    assert (difference.field, len(difference.before), len(difference.after)) == ("alarms", 1, 2)
    await declared.set_policy(ADMIN, executor_id, "apply")
    await code.start(executor_id, NIGHTLY, name="node-4")
    assert await rows(world, item.job_id or 0) == []
