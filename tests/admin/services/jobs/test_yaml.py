"""Jobs as YAML: what is written reads as the same job; what is no plain data is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import yaml

from tests.admin.domain.input.test_job_input import FULL
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.job import job_to_raw, parse_job
from tickwheel_admin.services.jobs import yaml as job_yaml
from tickwheel_admin.services.jobs.yaml import from_yaml, to_yaml
from tickwheel_admin.services.jobs.yaml_reader import MAX_YAML_BYTES, read_yaml

# Texts that YAML readers take for something else, or lose parts of, unless they are quoted well.
TRICKY = (
    "", "yes", "no", "on", "off", "null", "~", "true", "2026-01-01", "22:30", "1:30:45", "0x1f",
    "0o17", "012", "1_000", "1e5", ".5", "5.", "+1", ".inf", "NaN", "<<", "=", "- a", "a: b", "#x",
    "a #b", "*a", "&a", "!a", "%a", "@a", "`a", "'", '"', "  x", "x  ", "\n", "a\n", "a\n\n",
    "a\n b", "\na", "\ta", "a\t\nb", "---", "...", "a\n---\nb", "a\r\nb", "\x00", "\x1b[1m",
    "\x85", "\u2028", "\ufeff", "对账", "\U0001f600", "x" * 300, "word " * 60,
)  # fmt: skip

NAMES = [text for text in TRICKY if text.strip() and text.isprintable() and len(text) <= 200]


def some_value(chance: random.Random, depth: int = 0) -> Any:
    match chance.randrange(8 if depth < 4 else 5):
        case 0 | 1 | 2:
            return chance.choice(TRICKY)
        case 3:
            return chance.choice([None, True, False, 0, -7, 2**64 + 1, 10**30, 0.25, 1e300, -1e-9])
        case 4:
            return "".join(chance.choices("ab 01:#-'\"\n\\{}[],é对\x85\U0001f600", k=12))
        case 5:
            return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {
                chance.choice(TRICKY): some_value(chance, depth + 1)
                for _ in range(chance.randrange(4))
            }


def some_alarm(chance: random.Random, number: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [
        {"kind": "failed"},
        {"kind": "failing_streak", "limits": {"count": 4}},
        {"kind": "slow", "limits": {"factor": 2.5, "seconds": 60}},
        {"kind": "deadline_missed", "limits": {"by": "07:30", "timezone": "Asia/Shanghai"}},
    ]
    escalation = {"escalate_after_seconds": 600, "escalate_to": chance.sample(NAMES, 2)}
    return {
        **chance.choice(kinds),
        "name": f"{number} {chance.choice(NAMES)}"[:100],
        "channels": chance.sample(NAMES, chance.randrange(3)),
        "severity": chance.choice(["error", "warning"]),
        "own_text": chance.choice(["", "{{ job }}: call 1:30\n\n- {{ error|default('no') }}"]),
        "quiet": chance.choice([None, {"from_time": "22:00", "to_time": "6:00"}]),
        "repeat_every_seconds": chance.choice([None, 60]),
        "tell_recovery": chance.random() < 0.5,
        "enabled": chance.random() < 0.5,
        **(escalation if chance.random() < 0.3 else {}),
    }


def some_job(chance: random.Random) -> dict[str, Any]:
    """A job that `parse_job` takes, with every kind of trigger and policy among many of them."""
    triggers = [
        {"kind": "cron", "expression": "0 9 * * 1-5", "timezone": "Asia/Shanghai"},
        {"kind": "fixed_rate", "every_seconds": 0.5 + chance.randrange(1, 9)},
        {"kind": "once", "at": "2026-03-01T08:00:00Z"},
        {"kind": "fixed_delay", "every_seconds": 30, "initial_delay_seconds": 0},
        {"kind": "calendar_interval", "unit": "month", "start_date": "2026-01-31"},
        {"kind": "daily_window", "every_seconds": 900, "from_time": "22:30", "to_time": "23:10"},
        {"kind": "window", "from_time": "22:30", "to_time": "03:00", "done_by": "06:00"},
    ]
    chosen = chance.sample(triggers, chance.randrange(4))
    for trigger in chosen:
        if chance.random() < 0.5:
            trigger["parameters"] = {"k": some_value(chance)}
    return {
        "name": chance.choice(NAMES),
        "handler": "h",
        "description": chance.choice(["", "One line.", "Two\nlines: - here\n\n# and a hash"]),
        "tags": chance.sample(["no", "2026", "a b", "0x1"], chance.randrange(4)),
        "parameters": {chance.choice(TRICKY): some_value(chance) for _ in range(3)},
        "priority": chance.randrange(1, 10),
        "timeout_seconds": chance.choice([None, 1, 5.001]),
        "retries": chance.randrange(5),
        "retry_jitter": chance.choice([0, 0.1, 1]),
        "children": [{"job": 7, "on": "failure"}][: chance.randrange(2)],
        "alarms": [some_alarm(chance, n) for n in range(chance.randrange(3))],
        "selector": chance.choice(["", "zone in (a,b),!spot"]),
        **chance.choice(
            [{}, {"blocking": "serial", "max_waiting": 3}, {"blocking": "discard_later"}]
        ),
        "triggers": chosen,
    }


def test_any_job_is_the_same_after_it_was_written_and_read() -> None:
    chance = random.Random(20260711)
    for _ in range(300):
        config = parse_job(some_job(chance))
        text = to_yaml(job_to_raw(config))

        assert parse_job(from_yaml(text)) == config, text
        assert parse_job(from_yaml(text.encode())) == config


def test_a_full_job_is_written_for_people_and_for_other_readers_of_yaml() -> None:
    text = to_yaml(FULL)

    assert parse_job(from_yaml(text)) == parse_job(FULL)
    assert text.startswith("name: Invoices 发票\nhandler: send-invoices\n")
    assert "description: |-\n  Sends them.\n  Every month.\n" in text
    assert "123456789012345678901234567890" in text
    assert "null" not in text.replace("month: null", "")
    assert parse_job(yaml.safe_load(text)) == parse_job(FULL)


def test_texts_mean_the_same_to_every_reader() -> None:
    written = to_yaml({"name": "a", "handler": "b", "parameters": {"t": list(TRICKY)}})

    assert yaml.safe_load(written)["parameters"]["t"] == list(TRICKY)


def test_a_job_that_is_not_finished_shows_where_it_begins() -> None:
    assert to_yaml({"name": "", "handler": None}) == "name: ''\nhandler: ''\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("22:30", "22:30"),
        ("yes", "yes"),
        ("0x1f", "0x1f"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("2026", 2026),
        ("1e3", 1000.0),
        ("-0.5", -0.5),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ('"\\u0007"', "\x07"),
    ],
)
def test_only_what_json_can_say_is_more_than_text(text: str, value: object) -> None:
    read = read_yaml(f"a: {text}").value["a"]

    assert (read, type(read)) == (value, type(value))


REFUSED = {
    "a: !!python/object/apply:os.system ['id']": ("yaml.tag", 1),
    "a: !!str 5": ("yaml.tag", 1),
    "a: !x b": ("yaml.tag", 1),
    "a: !!binary aGk=": ("yaml.tag", 1),
    "a: 1\nb: &b [1]": ("yaml.alias", 2),
    "a: *b": ("yaml.alias", 1),
    "&a x: 1": ("yaml.alias", 1),
    "a: 1\nb:\n  <<: {c: 1}": ("yaml.alias", 3),
    "a: 1\nb: 2\na: 3": ("yaml.doubled_key", 3),
    "p: {a: 1, 'a': 2}": ("yaml.doubled_key", 1),
    "a: " + "[" * 5_000: ("yaml.too_deep", 1),
    "a:\n" + "".join(" " * n + "b:\n" for n in range(1, 200)): ("yaml.too_deep", 104),
    "a: " + "9" * 5_000: ("yaml.huge_number", 1),
    "a: 1e400": ("yaml.huge_number", 1),
    "a: b\nc: \x00": ("yaml.control_character", 2),
    "a: \x1b[31m": ("yaml.control_character", 1),
    "a: \x9b": ("yaml.control_character", 1),
    "a: 1\rb: 2": ("yaml.control_character", 1),
    b"a: \xff\xfe": ("yaml.not_utf8", None),
    "a: 1".encode("utf-16"): ("yaml.not_utf8", None),
    "a: \ud800": ("yaml.not_utf8", None),
    "a:\n" + "- b\n" * 50_000: ("yaml.too_many_values", 49_999),
    "a" * (MAX_YAML_BYTES + 1): ("yaml.too_large", None),
    "a: 1\n---\nb: 2": ("yaml.several_documents", 2),
    "": ("yaml.not_a_mapping", 1),
    "# only a comment": ("yaml.not_a_mapping", 1),
    "- a\n- b": ("yaml.not_a_mapping", 1),
    "just text": ("yaml.not_a_mapping", 1),
    "? [a]\n: b": ("yaml.key", 1),
    "? {a: 1}\n: b": ("yaml.key", 1),
    "a: b: c": ("yaml.invalid", 1),
    "a:\n\t- b": ("yaml.invalid", 2),
    "a: 'b": ("yaml.invalid", 1),
    "%TAG ! tag:x,2000:\n---\na: !y b": ("yaml.tag", 3),
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text)[:40])
def test_what_is_no_plain_data_is_refused_with_its_line(text: str | bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_yaml(text)

    (problem,) = refused.value.problems
    code, line = REFUSED[text]
    assert (problem.field, problem.code, problem.params.get("line")) == ("yaml", code, line)
    assert "%" not in problem.message.replace("%TAG", "")


def test_a_long_key_is_not_copied_for_each_of_its_values() -> None:
    text = f"name: a\n? {'k' * 200_000}\n: {{x: [{'1,' * 40_000}1]}}\nretries: 1"

    read = read_yaml(text)

    assert len(read.value["k" * 200_000]) == 1
    assert sum(map(len, read.places)) < 50_000
    assert read.place_of("retries").line == 4


def test_a_field_that_no_job_has_is_refused_with_what_was_meant() -> None:
    with pytest.raises(InvalidInput) as refused:
        from_yaml("name: a\nhandlr: b\nretries: 1\nowners: c")

    assert [(p.field, p.code, p.params["line"]) for p in refused.value.problems] == [
        ("handlr", "unknown_field", 2),
        ("owners", "unknown_field", 4),
    ]
    assert "did you mean “handler”" in refused.value.problems[0].message


def test_rules_of_jobs_are_told_with_the_line_that_breaks_them() -> None:
    text = read_yaml(
        "name: a\nhandler: b\ntimeout: 5\ntriggers:\n- kind: cron\n  expression: '* * *'\n"
        "- kind: cron\n  expresion: '* * * * *'\nparameters: {a: 1}\n"
    )
    with pytest.raises(InvalidInput) as refused:
        parse_job(text.value)
    placed = job_yaml.placed(refused.value.problems, text)

    assert [(p.field, p.params["line"]) for p in placed] == [
        ("timeout", 3),
        ("triggers[0].expression", 6),
        ("triggers[1].expression", 7),
        ("triggers[1].expresion", 8),
    ]
    assert "did you mean “timeout_seconds”" in placed[0].message


def test_a_place_within_something_is_where_that_is_when_it_is_not_written() -> None:
    text = read_yaml("a: 1\ntriggers:\n- kind: once\n")

    assert text.place_of("triggers[0].parameters.x").line == 3
    assert text.place_of("missing").line == 1
    assert job_yaml.placed([Problem(field="", code="c", template="t")], text)[0].params == {
        "line": 1,
        "column": 1,
    }


def test_an_astral_character_stays_readable() -> None:
    text = to_yaml({"name": "a", "handler": "b", "description": "\U0001f680 go"})

    assert "\U0001f680 go" in text
    assert json.dumps(from_yaml(text)["description"]) == '"\\ud83d\\ude80 go"'
