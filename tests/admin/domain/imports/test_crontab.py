"""Lines of crontabs, read as Debian's cron 3.0pl1 reads them; it printed what is expected here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tickwheel_admin.domain.imports.crontab.environment import OF_SCRIPT, read_variable
from tickwheel_admin.domain.imports.crontab.jobs import (
    CrontabFile,
    CrontabRules,
    map_crontab,
)
from tickwheel_admin.domain.imports.crontab.lines import Layout, read_crontab
from tickwheel_admin.domain.imports.crontab.percent import split_command
from tickwheel_admin.domain.imports.foreign import ForeignJob
from tickwheel_admin.domain.input.job import read_job
from tickwheel_admin.domain.jobs.secret_references import references_of, resolve
from tickwheel_executor.offers.children.environment import REFUSED, check_job_environment

FILE = CrontabFile(source="crontab:test", label="/etc/crontab")
RULES = CrontabRules(timezone="Europe/Berlin")


def jobs(text: str | bytes, layout: Layout = Layout.USER, **rules: Any) -> list[ForeignJob]:
    content = text.encode() if isinstance(text, str) else text
    mapped = map_crontab(
        FILE,
        read_crontab(content, layout),
        RULES if not rules else CrontabRules(timezone="UTC", **rules),
    )
    return list(mapped.jobs)


def job(text: str, layout: Layout = Layout.USER) -> ForeignJob:
    (found,) = jobs(text + "\n", layout)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('A = "  x y "  ', ("A", "  x y ")),
        ("E=a b  c   ", ("E", "a b  c")),
        ("F = $HOME ~ 'x'", ("F", "$HOME ~ 'x'")),
        ("'C D' = 1", ("C D", "1")),
        ("EMPTY=''", ("EMPTY", "")),
        ("G=", None),
        ("B='q' junk", None),
        ("@daily FOO=bar command", None),
        ("0 3 * * * A=1 command", None),
    ],
)
def test_a_line_sets_a_variable_or_does_not(line: str, expected: tuple[str, str] | None) -> None:
    assert read_variable(line) == expected


@pytest.mark.parametrize(
    ("written", "command", "stdin"),
    [
        (r"date +\%F", "date +%F", ""),
        (r"printf 'a\\b' 'c\nd' 'e\\\%f'", r"printf 'a\b' 'c\nd' 'e\%f'", ""),
        ("cat %line 1%line\\%2\\\\%3%%end\\", "cat ", "line 1\nline%2\\%3\n\nend\\\n"),
        ("mail a@b%Dear team,%", "mail a@b", "Dear team,\n"),
        ("cat %", "cat ", ""),
    ],
)
def test_a_percent_sign_begins_the_input(written: str, command: str, stdin: str) -> None:
    assert split_command(written) == (command, stdin)


def test_a_line_becomes_a_script_job() -> None:
    found = job(
        "MAILTO=ops@example.com\nPATH=/opt/bin:/bin\n\n# not this\n\n# Nightly backup\n# of all\n"
        "30 2 * * 1-5 /opt/backup.sh --full%yes"
    )
    config, problems = read_job({"name": found.name, **found.raw})
    assert not problems
    assert config.script is not None
    assert config.script.source == "export PATH=/opt/bin:/bin\n/opt/backup.sh --full\n"
    assert found.raw["parameters"] == {"stdin": "yes\n"}
    assert config.description.startswith("Nightly backup\nof all\n")
    assert "MAILTO=ops@example.com" in config.description
    assert found.place == "line 8"
    assert found.raw["triggers"][0] == {
        "kind": "cron",
        "expression": "30 2 * * 1-5",
        "dialect": "unix",
        "timezone": "Europe/Berlin",
        "gap": "fire",
        "overlap": "first",
        "misfire": "skip",
        "misfire_threshold_seconds": 60,
    }
    assert {each.code for each in found.notes} == {"mail", "home"}


@pytest.mark.parametrize(
    ("schedule", "gap", "overlap"),
    [
        ("30 2 * * *", "fire", "first"),  # a time: once, at once after the gap
        ("0 1-23/2 * * *", "fire", "first"),
        ("*/30 2 * * *", "skip", "both"),  # a rhythm: as the clocks show it
        ("15 * * * *", "skip", "both"),
        ("@hourly", "skip", "both"),
        ("@weekly", "fire", "first"),
    ],
)
def test_clocks_change_as_for_cron(schedule: str, gap: str, overlap: str) -> None:
    (trigger,) = job(f"{schedule} true").raw["triggers"]
    assert (trigger["gap"], trigger["overlap"]) == (gap, overlap)


def test_mailto_becomes_an_alarm_where_a_channel_is_named() -> None:
    text = (
        "MAILTO=ops@example.com, night@example.com\n0 1 * * * one\n"
        "MAILTO=root\n0 2 * * * two\n"
        'MAILTO=""\n0 3 * * * three\n'
    )
    named = {"ops@example.com": "ops", "night@example.com": "ops"}

    def alarms(**rules: Any) -> list[list[str] | None]:
        told = [found.raw.get("alarms") for found in jobs(text, **rules)]
        return [None if each is None else each[0]["channels"] for each in told]

    assert alarms() == [None, None, None]
    assert alarms(mail_channels=named) == [["ops"], None, None]
    both = named | {"": "team"}
    assert alarms(mail_channels=both) == [["ops"], ["team"], None]
    assert alarms(mail_channels={"": "team"}) == [["team"], ["team"], None]
    first, second, third = jobs(text, mail_channels=named)
    assert first.raw["alarms"] == [{"kind": "failed", "channels": ["ops"]}]
    assert not read_job({"name": first.name, **first.raw})[1]
    assert {each.code for each in first.notes} == {"mail_alarm", "home"}
    assert {each.code for each in second.notes} == {"mail", "home"}
    assert {each.code for each in third.notes} == {"home"}


def test_what_looks_like_a_secret_is_text() -> None:
    found = job("KEY=${secret.MAIL}\nTWICE=$${secret.MAIL}\n@daily mail a%x ${secret.MAIL}")
    config, problems = read_job({"name": found.name, **found.raw})
    assert not problems
    assert references_of(config) == []
    said = json.loads(resolve(config, None, {"MAIL": "geheim"}))
    assert said == {
        "environment": {"KEY": "${secret.MAIL}", "TWICE": "$${secret.MAIL}"},
        "stdin": "x ${secret.MAIL}\n",
    }


def test_variables_hold_for_the_lines_below() -> None:
    first, second = jobs(
        "@daily one\nA=1\nSHELL=/bin/bash\nHOME=/srv/my app\nCRON_TZ=Asia/Shanghai\n"
        "RANDOM_DELAY=90\nTZ=UTC\n@daily source 'x y' && two\n"
    )
    assert first.raw["parameters"] == {}
    assert second.raw["parameters"]["environment"] == {"A": "1", "TZ": "UTC"}
    assert second.raw["script"]["source"] == (
        "export HOME='/srv/my app'\n"
        "cd '/srv/my app' || exit 1\n"
        """exec /bin/bash -c 'source '"'"'x y'"'"' && two'\n"""
    )
    (trigger,) = second.raw["triggers"]
    assert trigger["timezone"] == "Asia/Shanghai"
    assert trigger["jitter_seconds"] == 3_600
    assert {each.code for each in second.notes} == {"cron_tz", "random_delay", "tz"}


def test_variables_that_an_agent_refuses_are_set_by_the_script() -> None:
    handled = {*OF_SCRIPT, "IFS", "SHELL", "USER", "LOGNAME"}
    assert handled == set(REFUSED), "the agent's list has changed"
    found = job(
        "PATH=/opt/it's/bin:/bin\nLD_PRELOAD=x.so\nIFS=:\n'C D'=1\nTICKWHEEL_X=1\nBASHOPTS=x\n"
        "LANG=C\n@daily a"
    )
    check_job_environment(found.raw["parameters"]["environment"], ())
    assert found.raw["parameters"] == {"environment": {"LANG": "C"}}
    assert found.raw["script"]["source"] == (
        """export PATH='/opt/it'"'"'s/bin:/bin'\nexport LD_PRELOAD=x.so\na\n"""
    )
    told = [each.text for each in found.notes if each.code == "variable"]
    assert told == [
        f"no job can set the variable {name}: left out"
        for name in ("C D", "TICKWHEEL_X", "BASHOPTS")
    ]


def test_a_system_crontab_names_users() -> None:
    found = job("17 *\t* * *\troot  cd / && run-parts /etc/cron.hourly", Layout.SYSTEM)
    assert found.raw["tags"] == ["crontab", "user:root"]
    assert found.raw["script"]["source"] == "cd / && run-parts /etc/cron.hourly\n"
    (labelled,) = jobs("@daily www-data true\n", Layout.SYSTEM, user_label="run_as")
    assert labelled.raw["selector"] == "run_as=www-data"


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        (b"* * * *", "no_command", "5 fields"),
        (b"0 3 * * * ", "no_command", "5 fields"),
        (b"@reboot start", "reboot", "systemd"),
        (b"0 3 * * * caf\xe9", "not_utf8", "byte 14"),
        (b"0 3 * * * a\x07b", "control_characters", "control"),
        (b"G=", "no_value", "“G=”"),
        (b"MAILTO = ", "no_value", 'MAILTO=""'),
    ],
)
def test_what_cannot_be_imported_names_its_line(line: bytes, code: str, part: str) -> None:
    first, bad, last = jobs(b"@daily one\n\n" + line + b"\n@daily two\n")
    assert (first.reasons, last.reasons) == ((), ())
    (reason,) = bad.reasons
    assert bad.place == "line 3"
    assert reason.code == code
    assert part in reason.text


def test_files_of_windows_and_without_a_last_line_end() -> None:
    content = b"\xef\xbb\xbf# caf\xe9\r\n0 3 * * * one\r\n@daily two"
    mapped = map_crontab(FILE, read_crontab(content, Layout.USER), RULES)
    assert [each.raw["script"]["source"] for each in mapped.jobs] == ["one\n", "two\n"]
    assert [each.code for each in mapped.remarks] == ["no_line_end", "windows_line_ends"]


def test_the_same_command_twice_is_two_jobs_and_a_new_time_is_none() -> None:
    before = jobs("0 3 * * * a\n0 4 * * * a\n0 5 * * * b\n")
    after = jobs("0 5 * * * b\n# moved\n7 3 * * * a\n7 4 * * * a\n")
    assert len({each.key for each in before}) == 3
    assert {each.key for each in before} == {each.key for each in after}
