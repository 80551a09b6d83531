"""Channels, messages and names that are hostile, for tests of everything that is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.alarms.message import AlarmEntry, AlarmMessage, Occasion
from tickwheel_admin.domain.network_guard import AddressGuard, alarm_guard

NOW = 1_774_746_000_000  # 2026-03-29 01:00:00 UTC, when clocks of Berlin go forward
BASE = "https://jobs.example"
HERE: AddressGuard = alarm_guard(["127.0.0.0/8"])
SECRET = "canary-5f3b9c1e7a"

# Each as a job, an executor, an owner and an error line. None may become anything but text.
HOSTILE = (
    "**x** <script>alert(1)</script>",
    "[a](http://evil.example)",
    "![i](http://evil.example/x.png)",
    "@all @everyone <@all> <at id=all></at> <at user_id=\"all\">x</at>",
    "<!channel> <!here> <@U123> <http://evil.example|click>",
    "a\r\nBcc: victim@evil.example\r\n\r\nbody",
    "line\n# heading\n- item\n> quote\n---\n1. one",
    "\u202eevil\u202c \u2066x\u2069 \u05e9\u05dc\u05d5\u05dd",
    "`code` ~~strike~~ _em_ __strong__ | table | nightly_report",
    "&lt;b&gt; &amp; \\* {{7*7}} ${jndi:x} %(name)s %s",
    "<font color=\"warning\">x</font><a href='javascript:x'>y</a>",
    "\x00\x1b[31mred\u200b\ufeff\U000e0041",
    "http://evil.example/login",
    "好" * 500,
)  # fmt: skip


def channel(kind: ChannelKind, **changes: Any) -> Channel:
    """A channel whose settings and secrets are what a test says, and else plausible."""
    known: Mapping[ChannelKind, tuple[dict[str, str], dict[str, str]]] = {
        ChannelKind.EMAIL: (
            {"host": "mail.example", "sender": "tickwheel@jobs.example",
             "recipients": "ops@example.com\nboss@example.com"}, {},
        ),
        ChannelKind.WEBHOOK: ({"url": "https://hook.example/alarms"}, {}),
    }  # fmt: skip
    settings, secrets = known.get(kind, ({}, {"url": f"https://bot.example/send?key={SECRET}"}))
    given: dict[str, Any] = {
        "id": 1,
        "name": "ops",
        "kind": kind,
        "language": "en",
        "time_zone": "Europe/Berlin",
        "settings": settings,
        "secrets": secrets,
    }
    return Channel(**{**given, **changes})


def entry(**changes: Any) -> AlarmEntry:
    """A run that failed."""
    given: dict[str, Any] = {
        "alarm_id": 12,
        "occasion": Occasion.OPENED,
        "kind": AlarmKind.FAILED,
        "severity": Severity.ERROR,
        "template": "Run #%(run)s failed",
        "params": {"run": 77},
        "since": NOW - 3_600_000,
        "last_at": NOW,
        "count": 3,
        "rule_name": "All failures",
        "executor_name": "billing",
        "job_name": "nightly-report",
        "owner": "ann",
        "run_id": 77,
        "error_line": "ValueError: no such order",
        "next_fire_at": NOW + 86_400_000,
        "links": {
            name: f"{BASE}/{path}"
            for name, path in (
                ("run", "runs/77"), ("log", "runs/77/log"), ("retry", "runs/77/retry"),
                ("job", "jobs/5"), ("alarm", "alarms/12"),
            )
        },
    }  # fmt: skip
    return AlarmEntry(**{**given, **changes})


def message(*entries: AlarmEntry, **changes: Any) -> AlarmMessage:
    """A message about one failed run, unless entries are given."""
    shown = entries or (entry(),)
    given: dict[str, Any] = {
        "id": "0b9f3c52-message",
        "written_at": NOW,
        "installation": "prod-eu",
        "entries": shown,
        "covered": len(shown),
        "link": f"{BASE}/alarms",
    }
    return AlarmMessage(**{**given, **changes})


def hostile_message(text: str) -> AlarmMessage:
    """A message in which everything from outside is this text."""
    bad = entry(
        template="Fails since %(run)s: %(name)s",
        params={"run": 77, "name": text},
        rule_name=text,
        own_text=text,
        executor_name=text,
        job_name=text,
        owner=text,
        error_line=text,
        before_template="Before: %(name)s",
        before_params={"name": text},
        links={"run": f"{BASE}/runs/77", "log": "javascript:alert(1)"},
    )
    return message(bad, dataclasses.replace(bad, alarm_id=13), installation=text)
