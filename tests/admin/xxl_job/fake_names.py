"""A resolver that knows only what the test says."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult


class FakeNames(AbstractResolver):
    """Answers each question for a name with the next of its lists, the last one for ever."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            raise OSError(f"no such name: {host}")
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass
