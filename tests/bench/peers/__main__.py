"""Measure Tickwheel beside other schedulers: python -m tests.bench.peers; README.md says how."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import asdict

from tests.bench.peers.figures import RUNS, peer_figures
from tests.bench.testbed.bed import KINDS
from tests.e2e.cluster import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    parser.add_argument("--database", choices=KINDS, default="mariadb")
    parser.add_argument("--runs", type=int, default=RUNS, help="due at one instant")
    parser.add_argument("--quick", action="store_true", help="a rough look in two minutes")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="a further peer: a command that keeps to the contract in README.md",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    asked = parser.parse_args()
    commands = {}
    for given in asked.peer:
        name, separator, command = given.partition("=")
        if not (name and separator and shlex.split(command)):
            parser.error(f"--peer {given}: NAME=COMMAND, please")
        commands[name] = shlex.split(command)
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    figures = peer_figures(
        asked.database, runs=asked.runs, quick=asked.quick, commands=commands, only=asked.only
    )
    (ROOT / "bench-peers.json").write_text(
        json.dumps({asked.database: [asdict(each) for each in figures]}, indent=2) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
