"""The node of tickwheel_program.py: its handler writes the line that every peer's writes."""

from __future__ import annotations

from tests.bench.peers.contract import Order, Output
from tests.e2e.node_program import Journal, executor, parser
from tickwheel_executor import Run


def main() -> None:
    arguments = parser().parse_args()
    output = Output(Order.from_environment().output)
    node = executor(arguments, Journal(arguments.journal).around)

    @node.handler("handle")
    async def handle(run: Run) -> None:
        output.started(run.parameters["schedule"], round(run.scheduled_at.timestamp() * 1000))

    node.run()


if __name__ == "__main__":
    main()
