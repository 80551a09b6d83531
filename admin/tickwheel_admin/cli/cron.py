"""`tickwheel cron`: when an expression fires, in words and in instants; needs no server."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tickwheel_admin.cli.cron_lines import iso, line, report
from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.schedule import parse

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

MAX_COUNT = 1_000_000
REFUSED = 2  # exit code

_EXAMPLES = """\
examples:
  tickwheel cron next '0 9 * * 1-5'
  tickwheel cron next '0 30 2 * * ?' --zone Europe/Berlin --after 2026-03-28T00:00:00+01:00 -n 3
  tickwheel cron next '0 0 12 ? * 2#1' --dialect quartz --json
  tickwheel cron describe '0 0 18 LW * ?' --lang zh
  tickwheel cron check '30 2 * * *' --zone America/New_York

Dialects: unix has 5 fields (minute, hour, day of month, month, day of week; 0 and 7 are Sunday) and
macros such as @daily; quartz has 6 or 7 (second first, year last; 1 is Sunday), also XXL-JOB's;
spring has 6 (second first; 0 and 7 are Sunday).

Exit codes: 0 done, 2 wrong usage, or the expression, zone or instant is refused; stderr says why.
"""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "cron",
        help="say when a cron expression fires",
        description="Say when a cron expression fires.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser("next", help="print the next fires")
    _add_schedule_flags(command)
    command.add_argument(
        "--after",
        metavar="INSTANT",
        help="fires strictly after this, such as 2026-03-29T00:00:00+01:00 (default: now)",
    )
    command.add_argument("-n", type=int, default=10, metavar="N", help="how many (default: 10)")
    command.add_argument("--json", action="store_true", help="print a JSON array of instants")
    command.set_defaults(run=_refusing(_next))

    command = commands.add_parser("describe", help="say it in words")
    _add_schedule_flags(command)
    command.add_argument(
        "--lang",
        choices=("en", "zh", "zh-hant"),
        default="en",
        help="English, Chinese or traditional Chinese (default: en)",
    )
    command.set_defaults(run=_refusing(_describe))

    command = commands.add_parser(
        "check", help="say whether it is valid, what it means, and what clocks do to it"
    )
    _add_schedule_flags(command)
    command.set_defaults(run=_refusing(_check))


def _add_schedule_flags(command: argparse.ArgumentParser) -> None:
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = _EXAMPLES
    command.add_argument("expression", metavar="EXPRESSION", help="quote it: '0 9 * * 1-5'")
    command.add_argument(
        "--dialect",
        choices=[each.value for each in Dialect],
        help="how it is read (default: quartz for 6 or 7 fields, else unix)",
    )
    command.add_argument("--zone", metavar="NAME", default="UTC", help="IANA name (default: UTC)")
    command.add_argument(
        "--gap",
        choices=[each.value for each in Gap],
        default=Gap.FIRE.value,
        help="what becomes of times that clocks skip (default: fire, at the end of the gap)",
    )
    command.add_argument(
        "--overlap",
        choices=[each.value for each in Overlap],
        default=Overlap.AUTO.value,
        help="when times that clocks show twice fire (default: auto; intervals both, else first)",
    )


class _BadFlag(ValueError):
    """A flag that says what cannot be done, in one sentence."""


def _refusing(run: Callable[[argparse.Namespace, CronSpec], None]) -> object:
    """A command whose schedule is parsed first; what is refused ends it with exit code 2."""

    def command(args: argparse.Namespace) -> int:
        try:
            run(args, _spec(args))
        except (ScheduleError, _BadFlag) as error:
            print(f"tickwheel: {error}", file=sys.stderr)
            return REFUSED
        return 0

    return command


def _spec(args: argparse.Namespace) -> CronSpec:
    """The trigger that the flags say, proven to be computable."""
    dialect = args.dialect
    if dialect is None:
        count = len(args.expression.split())
        dialect = Dialect.QUARTZ.value if count in (6, 7) else Dialect.UNIX.value
        if count == 6:
            print("tickwheel: read as quartz, not as spring; say --dialect", file=sys.stderr)
    spec = CronSpec(
        expression=args.expression,
        dialect=dialect,
        timezone=args.zone,
        gap=Gap(args.gap),
        overlap=Overlap(args.overlap),
    )
    parse(spec, saved_at=0)
    return spec


def _next(args: argparse.Namespace, spec: CronSpec) -> None:
    if not 0 <= args.n <= MAX_COUNT:
        raise _BadFlag(f"-n is from 0 to {MAX_COUNT:,}, not {args.n}")
    after = _now() if args.after is None else _instant(args.after)
    if args.json:
        zone = zone_of(spec.timezone)
        print(json.dumps([iso(at, zone) for at in _fires(spec, after, args.n)]))
        return
    for at in _fires(spec, after, args.n):
        print(line(spec, at))


def _fires(spec: CronSpec, after: int, count: int) -> Iterator[int]:
    schedule = parse(spec, saved_at=0)
    at = schedule.next_after(after)
    while at is not None and count > 0:
        yield at
        at, count = schedule.next_after(at), count - 1


def _instant(text: str) -> int:
    try:
        return instant_from_iso(text.strip())
    except ValueError:
        raise _BadFlag(
            f"“{text[:100]}” is not an instant; write date, time and offset from UTC, such as"
            " 2026-03-29T00:00:00+01:00 or 2026-03-28T23:00:00Z"
        ) from None


def _describe(args: argparse.Namespace, spec: CronSpec) -> None:
    text = spec.describe(_translator(args.lang))
    print(text if args.zone == "UTC" else f"{text} ({args.zone})")


def _translator(language: str) -> Callable[[str], str]:
    if language == "en":
        return str
    # Slow: only for who needs it.
    from tickwheel_admin.web.i18n import CHINESE, TRADITIONAL_CHINESE, translations

    return translations(CHINESE if language == "zh" else TRADITIONAL_CHINESE).gettext


def _check(args: argparse.Namespace, spec: CronSpec) -> None:
    for each in report(spec, now=_now()):
        print(each)


def _now() -> int:
    return time.time_ns() // 1_000_000
