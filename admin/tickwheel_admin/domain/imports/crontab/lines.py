"""The lines of a crontab: variables, comments, and what runs when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.imports.crontab.environment import read_variable, sets_to_nothing

MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_LINE_CHARS = 60_000
_FIELDS = 5
_BLANKS = " \t"
_SPLIT = re.compile(r"[ \t]+")
# A line that was switched off, or says what the columns are, describes nothing.
_NO_DESCRIPTION = re.compile(
    r"\s*(?:@[a-z]+|[0-9*/,-]+(?:\s+[A-Za-z0-9*/,-]+){4})\s+\S|\s*m\s+h\s+dom\b|.*\buser-name\b",
)


class Layout(StrEnum):
    """What stands between the schedule and the command."""

    USER = "user"  # nothing: `crontab -e`, /var/spool/cron/crontabs
    SYSTEM = "system"  # the user that it runs as: /etc/crontab, /etc/cron.d


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabEntry:
    """A line that runs something."""

    line: int  # from 1
    schedule: str  # its fields, or "@daily"
    user: str  # "": not said
    command: str  # as it stands there, percent signs included
    environment: Mapping[str, str]  # what the lines above it set
    comment: str  # the lines right above it


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabProblem:
    """A line that cannot be read, as a sentence."""

    line: int
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabRemark(CrontabProblem):
    """Something to know about the file."""


def read_crontab(
    content: bytes, layout: Layout
) -> Iterator[CrontabEntry | CrontabProblem | CrontabRemark]:
    """What a file says, line by line."""
    environment: Mapping[str, str] = {}
    comment: list[str] = []
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1]:
        text = "its last line has no line end: cron ignores the whole file"
        yield CrontabRemark(line=len(lines), code="no_line_end", text=text)
    if b"\r" in content:
        text = "it has line ends of Windows, which cron gives to the commands; they are left out"
        yield CrontabRemark(line=1, code="windows_line_ends", text=text)
    for number, raw in enumerate(lines, start=1):
        try:
            line = raw.decode().rstrip("\r").lstrip(_BLANKS)
        except UnicodeDecodeError as error:
            if not raw.lstrip().startswith(b"#"):
                text = f"byte {error.start + 1} is no UTF-8; convert the file with iconv"
                yield CrontabProblem(line=number, code="not_utf8", text=text)
            comment = []
            continue
        if line.startswith("#"):
            comment.append(line.lstrip("#"))
            continue
        if line and (problem := _unreadable(line)) is not None:
            yield CrontabProblem(line=number, code=problem[0], text=problem[1])
        elif (variable := read_variable(line)) is not None:
            environment = {**environment, variable[0]: variable[1]}
        elif line.strip():
            yield _entry(number, line, layout, environment, _described(comment))
        comment = []


def _unreadable(line: str) -> tuple[str, str] | None:
    if len(line) > MAX_LINE_CHARS:
        return "too_long", f"it has more than {MAX_LINE_CHARS:,} characters"
    if not is_clean(line.replace("\t", " ")):
        return "control_characters", "it has control characters; take them out"
    return None


def _entry(
    number: int, line: str, layout: Layout, environment: Mapping[str, str], comment: str
) -> CrontabEntry | CrontabProblem:
    count = 1 if line.startswith("@") else _FIELDS
    if line.startswith("-"):
        line = line[1:]  # of cronie and SUSE: the run is not logged
    parts = _SPLIT.split(line, maxsplit=count)
    if sets_to_nothing(line):
        name = line.partition("=")[0].strip()
        text = (
            f"“{line[:40].rstrip()}” sets no variable: cron wants quotes around an empty value, as"
            f' in {name[:40]}=""; without them it ignores the whole file'
        )
        return CrontabProblem(line=number, code="no_value", text=text)
    if len(parts) <= count or not parts[count].strip():
        text = f"“{line[:40].rstrip()}” has no command: a line is a schedule of 5 fields or such as"
        return CrontabProblem(
            line=number, code="no_command", text=f"{text} @daily, then the command"
        )
    user, command = "", parts[count].rstrip(_BLANKS)
    if layout is Layout.SYSTEM:
        user, _, command = command.replace("\t", " ", 1).partition(" ")
        command = command.strip(_BLANKS)
        if not command:
            text = (
                f"behind the schedule stands only “{user[:40]}”; this layout has a user there, then"
                " the command; a crontab without users is read with --user"
            )
            return CrontabProblem(line=number, code="no_command", text=text)
    return CrontabEntry(
        line=number,
        schedule=" ".join(parts[:count]),
        user=user,
        command=command,
        environment=environment,
        comment=comment,
    )


def _described(comment: list[str]) -> str:
    if any(_NO_DESCRIPTION.match(each) for each in comment):
        return ""
    lines = [each.strip() for each in comment]
    return "\n".join(each for each in lines if is_clean(each)).strip()
