"""A clock to turn."""

from __future__ import annotations

from dataclasses import dataclass, field

NOW = 1_800_000_000_000


@dataclass
class Clock:
    """Database time and monotonic time, moved by hand; `sleep` moves them as well."""

    now: int = NOW
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
