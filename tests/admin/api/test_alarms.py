"""Alarms, their rules and messages by the API: what programs do with them, and who may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.served import SESSION_COOKIE, Served, everywhere, new_session, served
from tests.admin.store.alarms.test_alarms import alarm, channel
from tickwheel_admin.domain.alarms.message import Occasion
from tickwheel_admin.domain.alarms.notification import (
    Notification,
    NotificationItem,
    NotificationState,
)
from tickwheel_admin.domain.users.user import Grant, Role
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.alarms import alarms, channels, outbox
from tickwheel_admin.store.database import tables

NOW = 1_800_000_000_000


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        yield admin


class Program:
    """Calls the API with a token."""

    def __init__(self, admin: Served, headers: dict[str, str]) -> None:
        self._admin = admin
        self._headers = headers

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        response = await self._admin.client.request(
            method, f"/api/v1{path}", json=body, headers=self._headers
        )
        return response.status, await response.json() if response.status != 204 else None


async def test_rules_are_added_changed_and_deleted(admin: Served) -> None:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    program = Program(admin, await admin.token_for("root", Role.ADMIN))
    await admin.services.store.run(channels.add_channel, channel(5, name="ops"), now=NOW)
    rule = {"name": "bills fail", "kind": "failed", "scope": "executor", "channels": [5]}

    status, refused = await program.call("POST", "/alarm-rules", rule | {"channels": [5, 6]})
    assert (status, refused["error"]["problems"][0]["field"]) == (422, "executor_id")
    rule |= {"executor_id": executor.id}
    status, refused = await program.call("POST", "/alarm-rules", rule | {"channels": [5, 6]})
    assert (status, refused["error"]["problems"][0]["code"]) == (422, "channel.unknown")
    status, created = await program.call("POST", "/alarm-rules", rule)
    assert (status, created["version"]) == (201, 1)
    path = f"/alarm-rules/{created['id']}"
    status, refused = await program.call("POST", "/alarm-rules", rule)
    assert (status, refused["error"]["code"]) == (409, "alarm_rule.name_taken")

    status, shown = await program.call("GET", path)
    assert (shown["executor_name"], shown["config"]["channels"]) == ("billing", [5])
    changed = shown["config"] | {"severity": "warning", "version": 1}
    assert (await program.call("PUT", path, changed))[1]["version"] == 2
    assert (await program.call("PUT", path, changed))[1]["error"]["code"] == "alarm_rule.changed"
    moved = changed | {"kind": "lost", "version": 2}
    status, refused = await program.call("PUT", path, moved)
    assert (status, refused["error"]["problems"][0]["code"]) == (422, "alarm_rule.place_changed")
    listed = (await program.call("GET", f"/alarm-rules?executor_id={executor.id}"))[1]["items"]
    assert [each["config"]["severity"] for each in listed] == ["warning"]
    assert (await program.call("DELETE", path))[0] == 204
    assert (await program.call("GET", path))[0] == 404


async def test_a_calendar_that_a_rule_follows_is_not_deleted(admin: Served) -> None:
    program = Program(admin, await admin.token_for("root", Role.ADMIN))
    calendar = {"name": "workdays", "dates": ["2027-10-01"]}
    calendar_id = (await program.call("POST", "/calendars", calendar))[1]["id"]
    limits = {"by": "07:30", "calendar": "workdays"}
    rule = {"name": "close of day", "kind": "deadline_missed", "limits": limits}
    unknown = rule | {"limits": limits | {"calendar": "x"}}
    _, refused = await program.call("POST", "/alarm-rules", unknown)
    assert refused["error"]["problems"][0]["code"] == "calendar.unknown"
    rule_id = (await program.call("POST", "/alarm-rules", rule))[1]["id"]

    status, refusal = await program.call("DELETE", f"/calendars/{calendar_id}")
    assert (status, refusal["error"]["code"]) == (409, "calendar.in_use_by_rules")
    assert (await program.call("DELETE", f"/alarm-rules/{rule_id}"))[0] == 204
    assert (await program.call("DELETE", f"/calendars/{calendar_id}"))[0] == 204


async def test_rules_belong_to_the_developers_of_what_they_are_about(admin: Served) -> None:
    mine = await admin.services.executors.create(COMMAND_LINE, name="mine", description="")
    other = await admin.services.executors.create(COMMAND_LINE, name="other", description="")
    root = Program(admin, await admin.token_for("root", Role.ADMIN))
    dev = Program(admin, await admin.token_for("dev", {mine.id: Grant(Role.DEVELOPER)}))
    rule = {"name": "r", "kind": "failed", "scope": "executor"}
    ids = {
        name: (await root.call("POST", "/alarm-rules", rule | {"name": name} | more))[1]["id"]
        for name, more in (
            ("all", {"scope": "installation"}),
            ("other", {"executor_id": other.id}),
            ("mine", {"executor_id": mine.id}),
        )
    }
    seen = (await dev.call("GET", "/alarm-rules"))[1]["items"]
    assert [each["config"]["name"] for each in seen] == ["all", "mine"]
    assert (await dev.call("DELETE", f"/alarm-rules/{ids['all']}"))[0] == 403
    assert (await dev.call("DELETE", f"/alarm-rules/{ids['other']}"))[0] == 404
    assert (await dev.call("DELETE", f"/alarm-rules/{ids['mine']}"))[0] == 204
    for more, expected in (
        ({"executor_id": mine.id}, 201),
        ({"executor_id": other.id}, 422),
        ({"scope": "installation"}, 403),
    ):
        status, _ = await dev.call("POST", "/alarm-rules", rule | {"name": "new"} | more)
        assert status == expected


async def test_alarms_are_acknowledged_muted_assigned_and_closed(admin: Served) -> None:
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    program = Program(admin, await admin.token_for("root", Role.ADMIN))
    viewer = Program(admin, await admin.token_for("vera", {executor.id: Grant(Role.VIEWER)}))
    await admin.services.store.run(
        alarms.insert_alarms,
        [alarm(3, executor_id=executor.id), alarm(4, executor_id=executor.id + 1), alarm(5)],
    )

    assert [each["id"] for each in (await viewer.call("GET", "/alarms"))[1]["items"]] == [3]
    assert (await viewer.call("GET", "/alarms/4"))[0] == 404
    assert (await viewer.call("POST", "/alarms/3/acknowledge", {}))[0] == 403
    assert (await program.call("POST", "/alarms/3/acknowledge", {}))[0] == 204
    status, refused = await program.call("POST", "/alarms/3/acknowledge", {})
    assert (status, refused["error"]["code"]) == (409, "alarm.acknowledged")
    assert (await program.call("POST", "/alarms/3/mute", {"seconds": 3600}))[0] == 204
    assert (await program.call("POST", "/alarms/3/mute", {"seconds": 0}))[0] == 422
    assert (await program.call("POST", "/alarms/3/mute", {}))[0] == 422
    oscar = {executor.id: Grant(Role.OPERATOR)}
    operator = Program(admin, await admin.token_for("oscar", oscar))
    assert (await program.call("POST", "/alarms/3/assign", {"to": "oscar"}))[0] == 204
    assert (await operator.call("GET", "/alarms/3"))[1]["assignees"] == ["oscar", "root"]
    assert (await viewer.call("GET", "/alarms/3"))[1]["assignees"] == []
    # Whether somebody has an account is not to be found out.
    told = [
        (await operator.call("POST", "/alarms/3/assign", {"to": name}))[1]["error"]
        for name in ("vera", "nobody")
    ]
    assert (
        told[0]["problems"][0]["message"].replace("vera", "nobody")
        == (told[1]["problems"][0]["message"])
    )
    assert (await operator.call("POST", "/alarms/3/assign", {"to": None}))[0] == 204
    assert (await operator.call("POST", "/alarms/3/assign", {"to": "root"}))[0] == 204
    shown = (await program.call("GET", "/alarms/3"))[1]
    assert (shown["text"], shown["acknowledged_by"], shown["assigned_to"]) == (
        "“bills” failed.", "root", "root",
    )  # fmt: skip
    assert shown["muted_until"] is not None
    assert (await program.call("POST", "/alarms/3/mute", {"seconds": None}))[0] == 204
    assert (await program.call("GET", "/alarms/3"))[1]["muted_until"] is None
    assert (await program.call("POST", "/alarms/3/close", {}))[0] == 204
    assert (await program.call("POST", "/alarms/3/close", {}))[1]["error"]["code"] == "alarm.closed"
    assert len((await program.call("GET", "/alarms"))[1]["items"]) == 2
    first = (await program.call("GET", "/alarms?state=all&limit=2"))[1]
    rest = (await program.call("GET", f"/alarms?state=all&limit=2&cursor={first['next']}"))[1]
    assert {each["id"] for each in first["items"] + rest["items"]} == {3, 4, 5}


async def test_messages_tell_what_they_cover_and_are_sent_again(admin: Served) -> None:
    program = Program(admin, await admin.token_for("root", Role.ADMIN))
    viewer = Program(admin, await admin.token_for("vera", Role.DEVELOPER))
    dead = Notification(
        id=9,
        channel_id=5,
        executor_id=7,
        message_id="m-9",
        state=NotificationState.WAITING,
        items=2,
        due_at=NOW,
        attempts=0,
        written_at=NOW,
    )
    items = [
        NotificationItem(
            channel_id=5, alarm_id=each, occasion=Occasion.OPENED, number=0, notification_id=9
        )
        for each in (3, 4)
    ]
    store = admin.services.store
    await store.run(channels.add_channel, channel(5, name="ops"), now=NOW)
    await store.run(alarms.insert_alarms, [alarm(3)])
    await store.run(outbox.add_notifications, [dead])
    await store.run(outbox.add_items, items)

    assert (await viewer.call("GET", "/alarm-messages"))[0] == 403
    listed = (await program.call("GET", "/alarm-messages?state=waiting"))[1]["items"]
    assert [(each["channel_name"], each["alarms"]) for each in listed] == [("ops", 2)]
    assert (await program.call("GET", "/alarm-messages?state=dead"))[1]["items"] == []
    shown = (await program.call("GET", "/alarm-messages/9"))[1]
    assert [(each["alarm_id"], each["kind"]) for each in shown["covers"]] == [
        (4, None), (3, "failed"),
    ]  # fmt: skip
    first = (await program.call("GET", "/alarm-messages/9?limit=1"))[1]
    rest = (await program.call("GET", f"/alarm-messages/9?limit=1&cursor={first['next']}"))[1]
    assert [each["covers"][0]["alarm_id"] for each in (first, rest)] == [4, 3]
    assert rest["next"] is None
    status, refused = await program.call("POST", "/alarm-messages/9/send-again", {})
    assert (status, refused["error"]["code"]) == (409, "notification.not_dead")
    assert (await program.call("GET", "/alarms/3"))[1]["messages"][0]["channel_name"] == "ops"


async def test_whoever_reads_a_message_sees_the_alarms_of_their_executors_behind_its_link(
    admin: Served,
) -> None:
    mine, other = [
        (await admin.services.executors.create(COMMAND_LINE, name=name, description="")).id
        for name in ("mine", "other")
    ]
    store = admin.services.store
    message = Notification(
        id=9,
        channel_id=5,
        executor_id=0,
        message_id="m-9",
        state=NotificationState.DEAD,
        items=2,
        due_at=NOW,
        attempts=1,
        written_at=NOW,
    )
    items = [
        NotificationItem(
            channel_id=5, alarm_id=each, occasion=Occasion.OPENED, number=0, notification_id=9
        )
        for each in (3, 4)
    ]
    await store.run(channels.add_channel, channel(5, name="ops"), now=NOW)
    found = [alarm(3, executor_id=mine), alarm(4, executor_id=9_999)]
    await store.run(alarms.insert_alarms, found)
    await store.run(outbox.add_notifications, [message])
    await store.run(outbox.add_items, items)
    await store.run(
        lambda c: c.execute(sa.update(tables.notification).values(error="token of the bot")).close()
    )
    seen: dict[str, tuple[int, bool, bool, bool]] = {}
    for name, grants in (
        ("root", everywhere(Role.ADMIN)),
        ("vera", {mine: Grant(Role.VIEWER)}),
        ("otto", {other: Grant(Role.VIEWER)}),
    ):
        session = await new_session(admin.services, name, grants)
        admin.client.session.cookie_jar.update_cookies({SESSION_COOKIE: session.cookie})
        page = await admin.client.get("/alarms/messages/9")
        text = await page.text()
        has = ("/alarms/3" in text, "/alarms/4" in text, "token of the bot" in text)
        seen[name] = (page.status, *has)
    assert seen == {
        "root": (200, True, True, True),
        "vera": (200, True, False, False),
        "otto": (404, False, False, False),
    }


async def test_channels_are_listed_page_by_page(admin: Served) -> None:
    program = Program(admin, await admin.token_for("root", Role.ADMIN))
    store = admin.services.store
    for number, name in ((5, "ops"), (6, "bills"), (7, "night"), (8, "Ops")):
        await store.run(channels.add_channel, channel(number, name=name), now=NOW)
    _, whole = await program.call("GET", "/alarm-channels")
    names = [each["name"] for each in whole["items"]]
    assert (sorted(names), whole["next"]) == (["Ops", "bills", "night", "ops"], None)
    _, first = await program.call("GET", "/alarm-channels?limit=3")
    _, rest = await program.call("GET", f"/alarm-channels?limit=3&cursor={first['next']}")
    assert [each["name"] for each in first["items"] + rest["items"]] == names
    assert rest["next"] is None
    status, _ = await program.call("GET", "/alarm-channels?cursor=odd")
    assert status == 422
