"""Lines of a crontab as script jobs."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tickwheel_admin.domain.imports.crontab.environment import JobVariables, variables_of_job
from tickwheel_admin.domain.imports.crontab.lines import (
    CrontabEntry,
    CrontabProblem,
    CrontabRemark,
)
from tickwheel_admin.domain.imports.crontab.percent import split_command
from tickwheel_admin.domain.imports.foreign import ForeignJob
from tickwheel_admin.domain.imports.names import cleaned, shortened
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.input.job import MAX_DESCRIPTION_CHARS
from tickwheel_admin.domain.jobs.secret_references import as_text
from tickwheel_admin.domain.triggers.spec import MAX_JITTER_MS

REBOOT = "@reboot"
_NAME_CHARS = 80  # of the command in the name of its job
_MISFIRE_SECONDS = 60  # cron looks once a minute
_PLAIN_SHELLS = ("/bin/sh", "/usr/bin/sh", "sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabFile:
    """A file of lines, and what is known about it beside them."""

    source: str  # names it; 1..200 characters
    label: str  # what people call it: "/etc/crontab"
    user: str = ""  # whose crontab it is; "": not known, or each line says it


@dataclass(frozen=True, slots=True, kw_only=True)
class CrontabRules:
    """What a crontab does not say."""

    timezone: str  # of the machine, in which cron reads schedules
    user_label: str | None = None  # a node must have the user as this label; None: any node
    # Names of channels by address of MAILTO; that of "" is for every other address.
    mail_channels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedCrontab:
    """The jobs of one file."""

    jobs: tuple[ForeignJob, ...]
    remarks: tuple[ImportNote, ...]  # about the file


def map_crontab(
    file: CrontabFile,
    read: Iterable[CrontabEntry | CrontabProblem | CrontabRemark],
    rules: CrontabRules,
) -> MappedCrontab:
    """A job for each line that runs something, and one that cannot be had for each other line."""
    remarks: list[ImportNote] = []
    jobs: list[ForeignJob] = []
    times: Counter[tuple[str, str]] = Counter()
    for each in read:
        if isinstance(each, CrontabRemark):
            remarks.append(note(each.code, f"{file.label}, line {each.line}: {each.text}"))
        elif isinstance(each, CrontabProblem):
            jobs.append(_unreadable(file, each))
        else:
            user = each.user or file.user
            times[user, each.command] += 1
            key = "\0".join((user, each.command, str(times[user, each.command])))
            jobs.append(_job(file, replace(each, user=user), key, rules))
    return MappedCrontab(jobs=tuple(jobs), remarks=tuple(remarks))


def _unreadable(file: CrontabFile, problem: CrontabProblem) -> ForeignJob:
    return ForeignJob(
        source=file.source,
        key=f"line {problem.line}",
        place=f"line {problem.line}",
        name="",
        reasons=(note(problem.code, problem.text),),
    )


def _job(file: CrontabFile, entry: CrontabEntry, key: str, rules: CrontabRules) -> ForeignJob:
    notes: list[ImportNote] = []
    command, stdin = split_command(entry.command)
    foreign = ForeignJob(
        source=file.source,
        key=key,
        place=f"line {entry.line}",
        name=shortened(command, _NAME_CHARS) or f"line {entry.line}",
    )
    if entry.schedule.lower() == REBOOT:
        text = (
            "@reboot is no instant: nothing here starts with a machine; start it by a systemd unit"
        )
        return replace(foreign, reasons=(note("reboot", text),))
    if not command.strip():
        return replace(foreign, reasons=(note("no_command", "it has no command"),))
    parameters: dict[str, Any] = {}
    variables = variables_of_job(entry.environment)
    if variables.parameters:
        parameters["environment"] = dict(variables.parameters)
    if stdin:
        parameters["stdin"] = stdin
    tags = ["crontab"]
    if entry.user and "," not in entry.user:
        tags.append(f"user:{shortened(entry.user, 40)}")
    raw = {
        "handler": "script",
        "script": {"language": "shell", "source": _source(command, entry, variables)},
        "description": _description(file, entry),
        "tags": tags,
        "parameters": as_text(parameters),
        "blocking": "parallel",
        "triggers": [_trigger(entry, rules, notes)],
    }
    if entry.user and rules.user_label is not None:
        raw["selector"] = f"{rules.user_label}={entry.user}"
    mailed = _mailed(entry, rules)
    if mailed.channels:
        raw["alarms"] = [{"kind": "failed", "channels": list(mailed.channels)}]
    notes += mailed.notes
    notes += _remarks(entry, rules)
    for name in variables.left_out:
        notes.append(note("variable", f"no job can set the variable {shortened(name)}: left out"))
    return replace(foreign, raw=raw, notes=tuple(notes))


def _source(command: str, entry: CrontabEntry, variables: JobVariables) -> str:
    """What the shell of the node runs; cron goes to the home directory and calls its own shell."""
    lines = list(variables.exports)
    if home := entry.environment.get("HOME"):
        lines.append(f"cd {shlex.quote(home)} || exit 1")
    shell = entry.environment.get("SHELL", "/bin/sh")
    if shell not in _PLAIN_SHELLS:
        command = f"exec {shlex.quote(shell)} -c {shlex.quote(command)}"
    return "\n".join([*lines, command]) + "\n"


def _description(file: CrontabFile, entry: CrontabEntry) -> str:
    """The comment above the line, and what of it has no place here yet."""
    lines = [entry.comment, f"From {file.label}."]
    if mail := entry.environment.get("MAILTO"):
        lines.append(f"MAILTO={cleaned(mail)}")
    return "\n".join(each for each in lines if each)[:MAX_DESCRIPTION_CHARS]


def _trigger(entry: CrontabEntry, rules: CrontabRules, notes: list[ImportNote]) -> dict[str, Any]:
    # As cron(8) of Debian: a time that the clocks skip runs at once, one that they show twice runs
    # once; a minute or hour that begins with * is no time but a rhythm, and follows the clocks.
    fields = entry.schedule.lower().split()
    rhythm = fields[0] == "@hourly" or any(each.startswith("*") for each in fields[:2])
    trigger = {
        "kind": "cron",
        "expression": entry.schedule,
        "dialect": "unix",
        "timezone": entry.environment.get("CRON_TZ") or rules.timezone,
        "gap": "skip" if rhythm else "fire",
        "overlap": "both" if rhythm else "first",
        "misfire": "skip",
        "misfire_threshold_seconds": _MISFIRE_SECONDS,
    }
    delay = entry.environment.get("RANDOM_DELAY", "")
    if delay.isascii() and delay.isdigit() and int(delay) > 0:
        longest = MAX_JITTER_MS // 60_000
        trigger["jitter_seconds"] = min(int(delay), longest) * 60
        if int(delay) > longest:
            text = f"RANDOM_DELAY={delay[:9]} is cut to {longest} minutes"
            notes.append(note("random_delay", text))
    return trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mailed:
    """What becomes of MAILTO."""

    channels: tuple[str, ...] = ()
    notes: tuple[ImportNote, ...] = ()


def _mailed(entry: CrontabEntry, rules: CrontabRules) -> _Mailed:
    """An alarm in place of mails: cron mails whatever is printed, here failures are told."""
    addresses = entry.environment.get("MAILTO", "").replace(",", " ").split()
    channels: dict[str, None] = {}  # each once, in the order of the addresses
    untold: list[str] = []
    for address in addresses:
        name = rules.mail_channels.get(address) or rules.mail_channels.get("")
        if name is None:
            untold.append(address)
        else:
            channels[name] = None
    notes: list[ImportNote] = []
    if channels:
        text = f"its failures are told in {', '.join(channels)} (MAILTO); its output is in its log"
        notes.append(note("mail_alarm", text))
    if untold:
        to = shortened(", ".join(untold))
        text = (
            f"its output is not mailed to {to} (MAILTO): see its log; --mail-channel makes alarms"
        )
        notes.append(note("mail", text))
    return _Mailed(channels=tuple(channels), notes=tuple(notes))


def _remarks(entry: CrontabEntry, rules: CrontabRules) -> Iterator[ImportNote]:
    environment = entry.environment
    if zone := environment.get("CRON_TZ"):
        text = f"CRON_TZ={shortened(zone)} is its time zone, as in cronie; Debian's cron has none"
        yield note("cron_tz", text)
    if zone := environment.get("TZ"):
        text = f"TZ={shortened(zone)} is for the command; when it runs is read in "
        yield note("tz", text + (environment.get("CRON_TZ") or rules.timezone))
    if entry.user and rules.user_label is None:
        yield note("user", f"it runs as the user of the node, not as {shortened(entry.user)}")
    if "HOME" not in environment:
        text = "it starts in a directory of its own, not in a home directory: check relative paths"
        yield note("home", text)
