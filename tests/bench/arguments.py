"""What the bench is asked for on its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.bench.testbed.bed import CHOICES, KINDS


class Size(StrEnum):
    """How long and how much is measured."""

    QUICK = "quick"  # a rough look
    USUAL = "usual"
    FULL = "full"  # what takes an hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line, read."""

    size: Size
    kinds: tuple[str, ...]  # databases, in the order of their measuring
    only: tuple[str, ...]  # names of measurements; none: those that belong to the size
    lists: bool  # only say what can be measured
    compare: Path | None  # the result to compare with; None: the last one
    show: Path | None  # only print the table of that result


def read(argv: Sequence[str], *, names: Sequence[str]) -> Asked:
    """Read the command line; ends the process with what is wrong.

    Args:
        names: of all measurements.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure lateness, runs per second, and what they cost, on real processes.",
    )
    parser.add_argument(
        "--database",
        action="append",
        choices=CHOICES,
        help="may be given several times; default: all but mariadb+mysqldb",
    )
    parser.add_argument("--only", metavar="NAME[,NAME]", help="measure only these; see --list")
    parser.add_argument("--list", action="store_true", help="say what can be measured, and end")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a rough look, in a few minutes")
    size.add_argument("--full", action="store_true", help="everything, with 10 million old runs")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="default: the last result")
    parser.add_argument(
        "--show", type=Path, metavar="FILE", help="print the table of that result as Markdown"
    )
    given = parser.parse_args(argv)
    only = tuple(name.strip() for name in (given.only or "").split(",") if name.strip())
    if unknown := [name for name in only if name not in names]:
        parser.error(f"--only: no {', '.join(unknown)}; there are {', '.join(names)}")
    for flag in ("compare", "show"):
        file = getattr(given, flag)
        if file is not None and not file.is_file():
            parser.error(f"--{flag}: there is no file {file}")
    return Asked(
        size=Size.QUICK if given.quick else Size.FULL if given.full else Size.USUAL,
        kinds=tuple(dict.fromkeys(given.database or KINDS)),
        only=only,
        lists=given.list,
        compare=given.compare,
        show=given.show,
    )
