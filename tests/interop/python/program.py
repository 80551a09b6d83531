"""An executor with the handlers that every client of these tests offers; see ../README.md.

It runs in an environment of its own, without Tickwheel.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pyxxl import ExecutorConfig, PyxxlRunner  # type: ignore[import-not-found]
from pyxxl.ctx import g  # type: ignore[import-not-found]


def setting(name: str) -> str:
    return os.environ[f"INTEROP_{name}"]


async def succeed() -> str:
    g.logger.info("first line: %s", g.xxl_run_data.executorParams)
    g.logger.info("second line: %s", g.xxl_run_data.executorParams)
    return "succeeded"


async def fail() -> str:
    g.logger.info("about to fail")
    raise RuntimeError("failed on purpose")


async def slow() -> str:
    end = time.monotonic() + float(g.xxl_run_data.executorParams)
    line = 0
    while time.monotonic() < end:
        line += 1
        g.logger.info("line %s", line)
        await asyncio.sleep(0.2)
    return "slept"


async def shard() -> str:
    data = g.xxl_run_data
    g.logger.info("shard %s of %s", data.broadcastIndex, data.broadcastTotal)
    return ""


async def echo() -> str:
    return str(g.xxl_run_data.executorParams)


async def file() -> str:
    return ""


def recorded(body: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
    async def run() -> str:
        record("start", body.__name__)
        outcome = "stop"
        try:
            message = await body()
            outcome = "end"
            return message
        finally:
            record(outcome, body.__name__)

    return run


def record(event: str, handler: str) -> None:
    if "INTEROP_RECORD" in os.environ:
        data = g.xxl_run_data
        with Path(setting("RECORD")).open("a") as out:
            out.write(f"{event} {data.logId} {handler} {data.executorParams}\n")


def main() -> None:
    admin = setting("ADMINS").split(",")[0]  # it knows one admin only
    runner = PyxxlRunner(
        ExecutorConfig(
            xxl_admin_baseurl=f"{admin}/api/",
            executor_app_name=setting("APP"),
            access_token=setting("TOKEN"),
            executor_listen_host=setting("HOST"),
            executor_listen_port=int(setting("PORT")),
            executor_log_path=f"{setting('LOGS')}/pyxxl.log",
            log_local_dir=setting("LOGS"),
        )
    )
    for body in (succeed, fail, slow, shard, echo, file):
        runner.handler.register(name=body.__name__)(recorded(body))
    print("interop ready", flush=True)
    runner.run_executor()


if __name__ == "__main__":
    main()
