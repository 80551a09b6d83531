"""A node whose handlers give away everything that they were told not to."""

from __future__ import annotations

import logging
import sys
import time
from typing import Annotated, Any

from msgspec import Meta

from tests.e2e.node_program import parser
from tickwheel_executor import Executor, Fail, Retry, Run, Skip
from tickwheel_executor.offers.command import Command


def tells(run: Run, values: list[str], way: str = "returns") -> Any:
    """Write the values wherever a handler can write, and end in one of its ways."""
    for value in values:
        print(value)
        print(f"key={value!r}", file=sys.stderr)
        run.log.info("the key is %s", value)
        logging.getLogger("shop").debug("%s", {"key": value})
        try:
            raise LookupError(value)
        except LookupError:
            logging.getLogger("shop").exception("look: %s", value)
        run.progress(0.5, value)
    run.save_checkpoint({"values": values})
    match way:
        case "raises":
            raise ValueError(values)
        case "retries":
            raise Retry(" ".join(values), after=600)
        case "fails":
            raise Fail(" ".join(values))
        case "skips":
            raise Skip(" ".join(values))
        case "keeps":
            run.state["values"] = values
    return {value: [value] for value in values}


def waits(run: Run, values: list[str]) -> None:
    """Long enough to look at it from outside."""
    run.log.info("waits")
    while not run.cancelled:
        time.sleep(0.05)
    run.raise_if_cancelled()


def takes_digits(values: list[Annotated[str, Meta(pattern="^[0-9]+$")]]) -> None:
    """Refuse what it is given."""


def main() -> None:
    arguments = parser().parse_args()
    logging.basicConfig(level=logging.DEBUG)
    executor = Executor(
        name=arguments.name,
        slots=arguments.slots,
        spool_dir=arguments.spool,
        shutdown_grace_seconds=arguments.grace,
        offers=[Command()],
    )
    executor.handler("tells")(tells)
    executor.handler("tells_in_process", isolation="process")(tells)
    executor.handler("waits")(waits)
    executor.handler("takes_digits")(takes_digits)
    executor.run()


if __name__ == "__main__":
    main()
