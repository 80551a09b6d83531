"""People with their grants, tokens and saved views, and what was noted of what they did."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from tests.bench.seed.jobs import DAY, HOUR, PEOPLE, TAGS, Sizes, person
from tests.bench.seed.writer import Writer, line
from tickwheel_admin.services.users.passwords import Passwords
from tickwheel_admin.store.database import tables

PASSWORD = "correct horse battery"
SCOPED = person(2)  # may see three executors only
VIEWS = 2_000
AUDIT_DAYS = 400
ACTIONS = (
    "job.updated", "job.ran", "job.paused", "job.resumed", "job.created", "run.cancelled",
    "run.retried", "user.logged_in", "user.logged_in", "node.cordoned", "job.deleted",
)  # fmt: skip


def write_people(writer: Writer, sizes: Sizes, chance: random.Random) -> None:
    """All have the same password; the first may do everything, the others act on a few."""
    passwords = Passwords()
    hashed = asyncio.run(passwords.hash(PASSWORD))
    passwords.close()
    now = sizes.now
    writer.write_all(
        tables.user,
        [
            "id", "name", "password_hash", "must_change_password", "disabled", "preferences",
            "created_at", "logged_in_at",
        ],
        (
            line(n, person(n), hashed, False, n % 40 == 0, "{}", 1, now - n * HOUR)
            for n in range(1, PEOPLE + 1)
        ),
    )  # fmt: skip
    grants = [line(1, 0, "admin", True)]
    for n in range(2, PEOPLE + 1):
        few = range(1, 4) if n == 2 else (chance.randrange(sizes.executors) + 1 for _ in range(5))
        roles = ("viewer", "operator", "developer")
        grants += [line(n, executor, roles[n % 3], False) for executor in sorted(set(few))]
    writer.write_all(tables.grant, ["user_id", "executor_id", "role", "scripts"], grants)
    writer.write_all(
        tables.api_token,
        ["id", "user_id", "name", "token_hash", "created_at", "used_at"],
        (
            line(n, n % PEOPLE + 1, f"token-{n}", f"{n:064x}", now - n * HOUR, now - n)
            for n in range(1, 2 * PEOPLE + 1)
        ),
    )
    writer.write_all(
        tables.saved_view,
        ["id", "user_id", "page", "name", "query", "shared", "created_at"],
        (
            line(
                n, n % PEOPLE + 1, ("jobs", "runs")[n % 2], f"View {n}",
                f"q=tag%3A{TAGS[n % len(TAGS)]}", n % 50 == 0, now - n,
            )
            for n in range(1, VIEWS + 1)
        ),
    )  # fmt: skip


def audit_lines(sizes: Sizes, chance: random.Random) -> Iterator[str]:
    """Rows of the table `audit`, in the order of their instants."""
    start = sizes.now - AUDIT_DAYS * DAY
    for n in range(1, sizes.audit + 1):
        at = start + AUDIT_DAYS * DAY * n // sizes.audit
        who = 1 + int(PEOPLE * chance.random() ** 3)
        action = ACTIONS[n % len(ACTIONS)]
        of_job = action.startswith("job.")
        executor = (
            None if action.startswith("user.") else int(sizes.executors * chance.random()) + 1
        )
        object_id = int(sizes.jobs * chance.random() ** 3) + 1 if of_job else n
        yield line(
            n, at, who, person(who), f"10.0.{n % 9}.{n % 250}", action, executor, object_id,
            '{"name":"sync-invoices"}' if of_job else "{}",
        )  # fmt: skip


AUDIT_COLUMNS = (
    "id", "at", "user_id", "user_name", "address", "action", "executor_id", "object_id", "detail",
)  # fmt: skip
