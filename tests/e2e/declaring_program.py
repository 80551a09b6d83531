"""A node that declares jobs in its code, in one of several versions of its program.

python declaring_program.py --version v2 --name node-1 --spool spool
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from tickwheel_executor import Executor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--spool", type=Path, required=True)
    for ignored in ("--journal", "--slots", "--grace"):
        parser.add_argument(ignored)
    given = parser.parse_args()
    executor = Executor(name=given.name, spool_dir=given.spool)
    versions = {"v1": version_1, "v2": version_2, "renamed": renamed}
    versions[given.version](executor)
    executor.run()


def version_1(executor: Executor) -> None:
    @executor.handler("nightly", cron="0 0 3 * * ?", timezone="Asia/Shanghai", retries=2)
    async def nightly(month: str = "current") -> str:
        return month

    @executor.handler("tick", every=timedelta(days=300))
    def tick() -> None:
        pass


def version_2(executor: Executor) -> None:
    @executor.handler(
        "nightly",
        cron="0 0 4 * * ?",
        timezone="Asia/Shanghai",
        retries=2,
        parameters={"copies": 2},
    )
    async def nightly(month: str = "current", *, copies: int) -> list[object]:
        return [month, copies]

    @executor.handler("tick")
    def tick() -> None:
        pass

    executor.job("broken", handler="tick", cron="61 * * * *")


def renamed(executor: Executor) -> None:
    @executor.handler("nightly", job="every night", cron="0 0 4 * * ?", timezone="Asia/Shanghai")
    async def nightly() -> None:
        pass


if __name__ == "__main__":
    main()
