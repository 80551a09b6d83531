"""A project of Django with a handler that moves money; prints how three deliveries ended."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import sqlalchemy as sa

from tests.executor_sdk.receipts.bank import CREDIT, DEBIT
from tickwheel_executor import Executor, Run
from tickwheel_executor.receipts import create_receipt_table
from tickwheel_executor.testing import run_handler


def main(address: str) -> None:
    url = sa.make_url(address)
    django: Any = importlib.import_module("django")
    engine = {"sqlite": "sqlite3"}.get(url.get_backend_name(), url.get_backend_name())
    importlib.import_module("django.conf").settings.configure(
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": f"django.db.backends.{engine}",
                "NAME": url.database,
                "HOST": url.host or "",
                "PORT": url.port or "",
                "USER": url.username or "",
                "PASSWORD": url.password or "",
            }
        },
    )
    django.setup()
    db: Any = importlib.import_module("django.db")
    with db.connection.cursor() as cursor:
        cursor.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
        cursor.execute("INSERT INTO account VALUES (1, 1000), (2, 0)")
    with db.connection.schema_editor() as editor:  # as a migration has it
        create_receipt_table(editor.connection)

    executor = Executor("bank", admins=["http://localhost:8500"], token="t" * 40)
    executor.receipts(db.connection)

    @executor.handler("transfer")
    def transfer(run: Run) -> Any:
        with db.transaction.atomic():
            receipt = run.receipt(db.connection)
            with db.connection.cursor() as cursor:
                cursor.execute(DEBIT)
                cursor.execute(CREDIT)
            return receipt.save_result({"moved": 10})

    @executor.handler("late")
    async def late(run: Run) -> None:
        """Is settled before it is called."""
        raise RuntimeError("called")

    @executor.handler("outside")
    def outside(run: Run) -> None:
        run.receipt(db.connection)

    ends = [
        run_handler(executor, name, run_id=run_id, attempt=attempt, job="x").result()
        for name, run_id, attempt in (
            ("transfer", 7, 1),
            ("transfer", 7, 2),
            ("late", 7, 3),
            ("outside", 8, 1),
        )
    ]
    # With no check before it, the handler's own receipt says the same.
    alone = run_handler(transfer, run_id=7, attempt=4, job="x").result()
    print(json.dumps([[end.outcome, end.result, end.message] for end in [*ends, alone]]))


if __name__ == "__main__":
    main(sys.argv[1])
