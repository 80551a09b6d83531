"""`python -m tickwheel_executor describe`: what a service's handlers take."""

from __future__ import annotations

from tickwheel_executor import Executor
from tickwheel_executor.__main__ import description


def test_handlers_are_described_with_their_parameters() -> None:
    executor = Executor("billing", admins=["http://127.0.0.1:1"], token="t" * 40)

    @executor.handler("typed")
    def typed(batch: int, *, dry: bool = False) -> None:
        """Takes two."""

    @executor.handler("loose")
    def loose(**parameters: object) -> None:
        """Takes anything."""

    found = description(executor)["handlers"]
    assert sorted(found) == ["loose", "typed"]
    assert found["typed"]["required"] == ["batch"]
    assert set(found["typed"]["properties"]) == {"batch", "dry"}
