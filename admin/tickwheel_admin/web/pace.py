"""How many requests begin in one turn of the event loop.

Hundreds of requests that arrive at once would all begin in the same turn, and a fire would wait for
all of them at each of its steps. Here a few begin in each turn, first come, first served.
"""

from __future__ import annotations

import asyncio
from collections import deque

from aiohttp import web

from tickwheel_admin.web.routes import Handler

BEGIN_PER_TURN = 2


class Pace:
    """Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._begun = 0  # in this turn of the loop
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait until one more request may begin."""
        loop = asyncio.get_running_loop()
        if self._begun == 0:
            loop.call_soon(self._next_turn)
        elif self._begun >= BEGIN_PER_TURN:
            waiting = loop.create_future()
            self._waiting.append(waiting)
            await waiting
            return
        self._begun += 1

    def _next_turn(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < BEGIN_PER_TURN:
            waiting = self._waiting.popleft()
            if not waiting.done():  # else its client has gone
                waiting.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next_turn)


PACE: web.AppKey[Pace] = web.AppKey("pace", Pace)


@web.middleware
async def keep_pace(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request begin when it is its turn."""
    await request.app[PACE].turn()
    return await handler(request)
