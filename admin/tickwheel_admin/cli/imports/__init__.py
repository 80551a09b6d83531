"""`tickwheel import`: what other schedulers have, brought here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tickwheel_admin.cli.imports import crontab, quartz, xxl_job

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "import",
        help="bring the jobs of another scheduler here: XXL-JOB, crontab, Quartz",
        epilog="`tickwheel import crontab --help`, and that of the others, has examples.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (xxl_job, crontab, quartz):
        module.register(commands)
