"""A node whose handlers make spans of their own."""

from __future__ import annotations

import logging

from opentelemetry import trace

from tests.e2e.node_program import parser
from tickwheel_executor import Executor, Run

tracer = trace.get_tracer("shop")  # set up by the SDK, from the environment


async def charge(run: Run) -> None:
    with tracer.start_as_current_span("call the bank"):
        if run.try_number == 1:
            raise ConnectionError("the bank does not answer")


def report(run: Run) -> None:
    with tracer.start_as_current_span("write the report"):
        pass


def main() -> None:
    arguments = parser().parse_args()
    logging.basicConfig(level=logging.INFO)
    executor = Executor(name=arguments.name, spool_dir=arguments.spool, tracing=True)
    executor.handler("charge")(charge)
    executor.handler("report", isolation="process")(report)
    executor.run()


if __name__ == "__main__":
    main()
