"""A handler with a receipt that runs in a process of its own."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from tests.executor_sdk.receipts.bank import CREDIT, DEBIT
from tickwheel_executor import Run


def connect() -> sqlite3.Connection:
    return sqlite3.connect(os.environ["BANK"])


def transfer(run: Run) -> int:
    with closing(connect()) as connection:
        receipt = run.receipt(connection)
        connection.execute(DEBIT)
        connection.execute(CREDIT)
        process = receipt.save_result(os.getpid())
        connection.commit()
    return process


def never(run: Run) -> None:
    raise RuntimeError("called")
