"""`tickwheel cron`: instants for programs, words for people, one sentence for what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime

import pytest

from tickwheel_admin.cli import main

BERLIN = ("--zone", "Europe/Berlin")


def instants(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["cron", "next", *words, "--json"]) == 0
    found: list[str] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    code: object
    try:
        code = main(["cron", *words])
    except SystemExit as end:  # argparse's own refusals
        code = end.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    return err


def test_next_is_an_array_of_instants_with_offset(capsys: pytest.CaptureFixture[str]) -> None:
    after = ("--after", "2026-03-29T00:00:00+01:00", "-n", "3")
    assert instants(capsys, "0 30 2 * * ?", "--dialect", "quartz", *BERLIN, *after) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
        "2026-03-31T02:30:00+02:00",
    ]
    assert instants(capsys, "30 2 * * *", "--gap", "skip", *BERLIN, *after)[0] == (
        "2026-03-30T02:30:00+02:00"
    )


def test_next_takes_both_passes_when_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("30 2 * * *", *BERLIN, "--after", "2026-10-24T23:00:00Z", "-n", "2")
    both = ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]
    assert instants(capsys, *words, "--overlap", "both") == both
    assert instants(capsys, *words, "--overlap", "second")[0] == both[1]
    assert instants(capsys, *words)[1] == "2026-10-26T02:30:00+01:00"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("@daily", "-n", "1"), ["2026-01-02T00:00:00+00:00"]),
        (("  0   9 * *   1-5 ", "-n", "1"), ["2026-01-01T09:00:00+00:00"]),
        (("0 0 0 1 1 ? 2027", "-n", "50"), ["2027-01-01T00:00:00+00:00"]),
        (("0 0 0 1 1 ? 2025",), []),
        (("0 9 * * *", "-n", "0"), []),
        (("0 9 * * *", "-n", "1", "--zone", "Asia/Kolkata"), ["2026-01-01T09:00:00+05:30"]),
    ],
)  # fmt: skip
def test_what_is_left_of_a_schedule(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: list[str]
) -> None:
    assert instants(capsys, *words, "--after", "2026-01-01T00:00:00Z") == expected


def test_many_fires(capsys: pytest.CaptureFixture[str]) -> None:
    found = instants(capsys, "* * * * *", "--after", "2026-01-01T00:00:00Z", "-n", "5000")
    assert len(found) == 5_000
    assert found[-1] == "2026-01-04T11:20:00+00:00"


def test_next_starts_from_now(capsys: pytest.CaptureFixture[str]) -> None:
    before = datetime.now().astimezone()
    found = datetime.fromisoformat(instants(capsys, "* * * * *", "-n", "1")[0])
    assert 0 < (found - before).total_seconds() <= 120


def test_the_dialect_is_guessed_by_the_fields_and_said_when_there_are_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    after = ("--after", "2026-01-01T00:00:00Z", "-n", "1")
    assert main(["cron", "next", "0 0 9 ? * 2", *after]) == 0
    out, err = capsys.readouterr()
    assert out == "2026-01-05T09:00:00+00:00\n"
    assert err == "tickwheel: read as quartz, not as spring; say --dialect\n"
    assert main(["cron", "next", "0 0 9 ? * 2", *after, "--dialect", "spring"]) == 0
    assert capsys.readouterr() == ("2026-01-06T09:00:00+00:00\n", "")
    assert main(["cron", "next", "0 9 * * 2", *after]) == 0
    assert capsys.readouterr().err == ""


def test_marks_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("30 2 * * *", *BERLIN, "--after", "2026-03-28T00:00:00Z", "-n", "3")
    assert main(["cron", "next", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00  moved: the clocks skip its time",
        "2026-03-30T02:30:00+02:00",
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("0 0 9 ? * 8", "--dialect", "quartz"), "did you mean 7 (Saturday)?"),
        (("0 0 30 2 *",), "February has no day 30"),
        (("",), "expression"),
        (("0 9 * *",), "5 fields"),
        (("0 9 * * *", "--zone", "europe/berlin"), "did you mean Europe/Berlin?"),
        (("0 9 * * *", "--zone", ""), "time zone"),
        (("0 9 * * *", "--after", "2026-03-29T00:00:00"), "offset from UTC"),
        (("0 9 * * *", "--after", "tomorrow"), "offset from UTC"),
        (("0 9 * * *", "-n", "-1"), "-n is from 0 to 1,000,000"),
        (("0 9 * * *", "-n", "1000001"), "-n is from 0 to 1,000,000"),
        (("0 9 * * *", "-n", "ten"), "invalid int value"),
        (("0 9 * * *", "--dialect", "cronos"), "invalid choice"),
        (("0 9 * * *", "--gap", "jump"), "invalid choice"),
        ((), "required"),
    ],
)
def test_what_is_refused_ends_with_2_and_the_reason(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], reason: str
) -> None:
    assert reason in refused(capsys, "next", *words)
    assert refused(capsys, "next", *words, "--json")


def test_every_subcommand_refuses_alike(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("next", "describe", "check"):
        assert "February has no day 30" in refused(capsys, command, "0 0 30 2 *")


def test_describe_in_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", "describe", "0 9 * * 1-5"]) == 0
    assert main(["cron", "describe", "0 9 * * 1-5", "--lang", "zh", *BERLIN]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "At 09:00, Monday to Friday",
        "星期一至星期五 09:00 (Europe/Berlin)",
    ]


def test_check_tells_what_clocks_do_and_what_croniter_thinks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cron", "check", "30 2 * * *", *BERLIN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "valid      30 2 * * *  (unix)"
    assert sum("moved: the clocks skip its time" in each for each in lines) >= 1
    assert lines[-1] == "croniter   computes the same next 50 fires"
    assert main(["cron", "check", "0 0 9 LW * ?", "--dialect", "quartz"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "croniter   cannot say this"
    assert main(["cron", "check", "* * * * * *", "--dialect", "spring", *BERLIN]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("first pass" in each for each in lines) == 5
    assert sum(each.strip() == "and more" for each in lines) == 1
    assert main(["cron", "check", "30 2 * * *", *BERLIN, "--gap", "skip"]) == 0
    assert "the skipped times do not fire" in capsys.readouterr().out


def test_the_command_needs_nothing_of_the_server() -> None:
    """Or it would start slowly, and fail where a database or its configuration is missing."""
    program = (
        "import sys; from tickwheel_admin.cli import main;"
        "main(['cron', 'next', '0 9 * * *', '--json']);"
        "print(sorted(set(sys.modules) & {'sqlalchemy', 'aiohttp', 'babel', 'croniter', 'jinja2'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "[]"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "tickwheel_admin.cli", "cron", "next", "* * * * *"]
    with subprocess.Popen(
        [*command, "-n", "1000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["cron", "--help"])
    assert end.value.code == 0
    assert "tickwheel cron next '0 9 * * 1-5'" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "say when a cron expression fires" in capsys.readouterr().out
