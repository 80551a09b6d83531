"""An example service with handlers of every kind; `make demo` starts two of them.

Run it with TICKWHEEL_ADMINS and TICKWHEEL_TOKEN set:

    python demo_executor.py --name node-1
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import socket
import time
from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from tickwheel_executor import ConfigurationError, Executor, Retry, Run, Skip, Workflow

logger = logging.getLogger("demo.shop")

CUSTOMERS = (
    "Nordwind AG",
    "Café Müller",
    "上海东方贸易有限公司",
    "Okafor & Sons",
    "Lindqvist Byggvaror",
)
GREEN, YELLOW, BOLD, RESET = "\x1b[32m", "\x1b[33m", "\x1b[1m", "\x1b[0m"


async def quick(run: Run) -> dict[str, bool]:
    """The shortest useful handler: one log line and a result."""
    run.log.info("heartbeat of the shop: %d orders in the queue", random.randint(0, 40))
    return {"ok": True}


async def slow_report(run: Run) -> dict[str, object]:
    """About 20 s of work with progress, log lines of several levels and a little colour."""
    month = run.parameters.get("month", "2024-02")
    seconds = float(run.parameters.get("seconds", 20))
    steps = 40
    revenue = 0.0
    run.log.info("%sMonthly report for %s%s", BOLD, month, RESET)
    for step in range(1, steps + 1):
        await asyncio.sleep(seconds / steps)
        customer = CUSTOMERS[step % len(CUSTOMERS)]
        amount = round(random.uniform(80, 4_000), 2)
        revenue += amount
        run.log.debug("SELECT … WHERE customer = %r took %d ms", customer, random.randint(2, 90))
        run.log.info("%s: %s%.2f €%s", customer, GREEN, amount, RESET)
        if step == 13:
            run.log.warning("%scustomer 4711 has no VAT number, taken as private%s", YELLOW, RESET)
        if step == 24:
            run.log.info("正在汇总第 %d 批订单", step)
        if step == 31:
            run.log.error("mail server did not answer, report will be shown here only")
        run.progress(step / steps, f"{step} of {steps} batches")
    run.log.info("done: %.2f € revenue", revenue)
    return {"month": month, "revenue": round(revenue, 2), "batches": steps}


async def flaky(run: Run) -> str:
    """Fails about two times in five, like an unreliable partner; retries succeed."""
    run.log.info("asking the payment provider, try %d of %d", run.try_number, run.max_tries)
    await asyncio.sleep(random.uniform(0.2, 1.5))
    if random.random() < 0.4:
        raise ConnectionError(
            "payments.example.com: 503 Service Unavailable (upstream request timed out)"
        )
    run.log.info("12 payments confirmed")
    return "confirmed"


async def minutely_cleanup() -> dict[str, int]:
    """Takes no arguments; what it logs with `logging` is in the run's log too."""
    removed = random.randint(0, 25)
    logger.info("removing expired baskets")
    await asyncio.sleep(0.3)
    logger.info("%d baskets removed; 清理完成", removed)
    return {"removed": removed}


def sync_export(run: Run) -> dict[str, object]:
    """A plain function: it runs in a thread, and checks itself whether to stop."""
    rows = int(run.parameters.get("rows", 500))
    logger.info("exporting %d rows to /srv/export/orders.csv", rows)
    for done in range(0, rows, 50):
        run.raise_if_cancelled()
        time.sleep(0.2)
        run.progress(min(1.0, (done + 50) / rows), f"{min(rows, done + 50)} rows written")
        if done == 200:
            logger.warning("row 217: price is empty, 0.00 written")
    logger.info("export finished")
    return {"rows": rows, "file": "/srv/export/orders.csv"}


async def mail_digest(run: Run) -> dict[str, object]:
    """A child job of the monthly report: the report's result is part of its parameters."""
    revenue = float(run.parameters.get("revenue", 0))
    if revenue < 1_000:
        raise Skip(f"{revenue:.2f} € are not worth a mail")
    recipients = list(run.parameters.get("to", []))
    run.log.info(
        "mailing the figures of %s to %d people", run.parameters.get("month"), len(recipients)
    )
    await asyncio.sleep(0.2)
    return {"mails": len(recipients)}


async def warm_cache(run: Run) -> dict[str, object]:
    """A broadcast: it runs on every node."""
    run.log.info("node %d of %d warms its cache", run.shard_index + 1, run.shard_total)
    await asyncio.sleep(random.uniform(0.2, 1.0))
    return {"host": socket.gethostname(), "entries": random.randint(800, 1_200)}


async def import_orders(run: Run) -> dict[str, int]:
    """Sharded: each shard takes every n-th order. Asks for a retry when it is too early."""
    mine = range(run.shard_index, 400, run.shard_total)
    run.log.info("importing %d of 400 orders", len(mine))
    await asyncio.sleep(random.uniform(0.3, 1.5))
    if run.try_number == 1 and random.random() < 0.3:
        raise Retry("the file of this shard is still being written", after=3)
    return {"orders": len(mine)}


async def rebuild_index(run: Run) -> dict[str, int]:
    """Takes longer than its interval, and must never overlap with itself."""
    documents = 300
    for done in range(0, documents, 20):
        await asyncio.sleep(1)
        run.progress((done + 20) / documents, f"{done + 20} of {documents} documents")
    return {"documents": documents}


async def stock_sync(run: Run) -> dict[str, int]:
    """Starts with a fixed delay after its own end."""
    run.log.info("asking the warehouse for its stock")
    await asyncio.sleep(random.uniform(0.5, 4))
    return {"articles": random.randint(1_000, 1_100)}


async def refresh_customer(run: Run) -> dict[str, str]:
    """Runs on the same node for the same customer, as long as that node lives."""
    customer = str(run.parameters.get("customer", CUSTOMERS[0]))
    run.log.info("%s: prices and addresses are in this node's cache", customer)
    await asyncio.sleep(random.uniform(0.1, 0.6))
    return {"customer": customer}


async def train_model(run: Run) -> dict[str, float]:
    """Needs a node with a GPU, which its job selects by a label."""
    for epoch in range(1, 9):
        await asyncio.sleep(0.5)
        run.progress(epoch / 8, f"epoch {epoch} of 8")
    return {"accuracy": round(random.uniform(0.91, 0.97), 3)}


async def read_ledger(run: Run) -> dict[str, int]:
    """Continues where the previous run stopped, using the job's state."""
    first = int(run.state.get("read", 0)) + 1
    count = random.randint(20, 60)
    run.log.info("reading entries %d to %d", first, first + count - 1)
    await asyncio.sleep(random.uniform(0.5, 2))
    run.state = {"read": first + count - 1, "runs": int(run.state.get("runs", 0)) + 1}
    return {"entries": count}


async def copy_archive(run: Run) -> dict[str, int]:
    """Fails now and then; the next try continues after the last copied file."""
    files = 12
    done = int((run.checkpoint or {}).get("files", 0))
    if done:
        run.log.warning("%d of %d files were copied by an earlier try", done, files)
    for number in range(done + 1, files + 1):
        await asyncio.sleep(0.4)
        if random.random() < 0.08:
            raise OSError(f"connection lost while copying file {number}")
        run.log.info("file %d of %d copied", number, files)
        run.save_checkpoint({"files": number})
        run.progress(number / files, f"{number} of {files} files")
    return {"files": files}


def price_list(
    run: Run,
    customer: Annotated[str, Meta(min_length=1, description="Whose prices")],
    copies: Annotated[int, Meta(ge=1, le=20)] = 1,
    file_type: Literal["pdf", "csv", "html"] = "pdf",
    valid_from: Annotated[date | None, Meta(description="Empty: from today on")] = None,
    with_discounts: bool = True,
) -> dict[str, object]:
    """Writes the price list of a customer.

    Its signature is all that the console needs to ask for the right parameters.
    """
    begins = valid_from or run.scheduled_at.date()
    run.log.info("prices of %s from %s on, %d copies", customer, begins, copies)
    time.sleep(0.5)
    name = f"prices-{begins:%Y-%m-%d}{'' if with_discounts else '-net'}.{file_type}"
    return {"customer": customer, "file": name, "copies": copies}


def find_primes(run: Run, below: Annotated[int, Meta(ge=10, le=20_000_000)] = 3_000_000) -> int:
    """Finds primes in a separate process.

    It needs a processor for some seconds and a good deal of memory, and bothers nobody with that.
    """
    is_prime = bytearray([1]) * below
    is_prime[:2] = b"\0\0"
    for number in range(2, int(below**0.5) + 1):
        if is_prime[number]:
            for multiple in range(number * number, below, number):
                is_prime[multiple] = 0
        run.progress(number / below**0.5, f"sieved with {number}")
    run.log.info("%d primes below %d, says process %d", sum(is_prime), below, os.getpid())
    return sum(is_prime)


def make_executor(name: str | None, slots: int) -> Executor:
    """The executor with all handlers of this module; DEMO_LABELS is like zone=eu,gpu=a100."""
    labels = {"example": "demo_executor"}
    for label in filter(None, os.environ.get("DEMO_LABELS", "").split(",")):
        key, _, value = label.partition("=")
        labels[key] = value
    executor = Executor(
        os.environ.get("TICKWHEEL_EXECUTOR", "demo"),
        name=name,
        slots=slots,
        labels=labels,
        weight=int(os.environ.get("DEMO_WEIGHT", "1")),
    )
    executor.handler("quick")(quick)
    executor.handler("slow-report")(slow_report)
    executor.handler("flaky")(flaky)
    executor.handler("minutely-cleanup")(minutely_cleanup)
    executor.handler("sync-export")(sync_export)
    executor.handler("mail-digest")(mail_digest)
    executor.handler("warm-cache")(warm_cache)
    executor.handler("import-orders")(import_orders)
    executor.handler("rebuild-index")(rebuild_index)
    executor.handler("stock-sync")(stock_sync)
    executor.handler("refresh-customer")(refresh_customer)
    executor.handler("train-model")(train_model)
    executor.handler("read-ledger")(read_ledger)
    executor.handler("copy-archive")(copy_archive)
    executor.handler("price-list")(price_list)
    executor.handler("find-primes", isolation="process", memory_mb=128, cpu_seconds=60)(find_primes)
    # A job declared in code: the console marks it as such, and users cannot edit it there.
    executor.job(
        "morning-prices",
        handler="price-list",
        description="Declared in the code of the example service, beside its handler.",
        cron="0 30 6 ? * MON-FRI",
        timezone="Asia/Shanghai",
        tags=["example", "code"],
        parameters={"customer": CUSTOMERS[2], "file_type": "csv"},
        # Without channels, alarms are shown in the console and told to nobody.
        alarms=[
            {"kind": "failed"},
            {"kind": "slow", "severity": "warning", "limits": {"factor": 5}},
        ],
    )
    declare_price_round(executor)
    return executor


def declare_price_round(executor: Executor) -> Workflow:
    """A workflow declared in code: its steps name handlers, and each other's results."""
    prices = executor.workflow(
        "price-round",
        description="Declared in code: prices for each customer, somebody looks, a mail goes out.",
        every=600,
        tags=["example", "code"],
    )
    stock = prices.step("stock", stock_sync)
    articles = stock.result["articles"]
    lists = prices.step(
        "lists",
        price_list,
        needs=[stock],
        for_each=CUSTOMERS,
        max_parallel=2,
        tolerate=1,
        parameters={"customer": prices.item, "file_type": "csv"},
    )
    check = prices.approval(
        "check",
        needs=[lists],
        deadline_seconds=300,
        silence="approve",
        message="May the new prices be mailed? They are, if nobody answers for five minutes.",
    )
    prices.step(
        "mail",
        mail_digest,
        needs=[check],
        when=f"{articles.path} > 0",
        parameters={
            "month": prices.scheduled_at,
            "revenue": articles,
            "to": ["sales@example.com", "shop@example.com"],
        },
        output=True,
    )
    return prices


def main() -> None:
    """Parse the command line and run until stopped."""
    parser = argparse.ArgumentParser(description="Tickwheel example executor")
    parser.add_argument("--name", help="how the console shows this node (default: host-pid)")
    parser.add_argument("--slots", type=int, default=8, help="runs at once (default: 8)")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s"
    )
    try:
        executor = make_executor(arguments.name, arguments.slots)
    except ConfigurationError as error:
        parser.exit(2, f"{error}\n")
    executor.run()


if __name__ == "__main__":
    main()
