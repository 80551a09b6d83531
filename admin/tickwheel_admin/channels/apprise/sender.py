"""Sends messages by Apprise, each in a process of its own.

Apprise has more than a hundred services, most of them code that waits in a thread and calls
whatever its URL names. In a process it can be ended in time, calls only addresses that may be
called, and costs memory only while it sends. The URL goes to its input: not to its arguments or
environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.cleaning import lookalike
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.channels.text.letter import Letter, Tone, fitted
from tickwheel_admin.channels.text.plain import plain_text
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.network_guard import AddressGuard
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

SEND_SECONDS = 20.0
MAX_PROCESSES = 2  # at the same time; each takes some 60 MB
MAX_CHARS = 3_000  # of a text; services with less cut it themselves
COMMAND = (sys.executable, "-I", "-B", "-m", "tickwheel_admin.channels.apprise.child")
_KEPT = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_TYPES = {
    Tone.BAD: "failure",
    Tone.WARNING: "warning",
    Tone.GOOD: "success",
    Tone.NEUTRAL: "info",
}


class AppriseSender:
    """Args: command: what answers requests; another one in tests."""

    def __init__(self, guard: AddressGuard, *, command: Sequence[str] = COMMAND) -> None:
        self._networks = [str(each) for each in guard.networks]
        self._command = command
        self._places = asyncio.Semaphore(MAX_PROCESSES)

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send one message."""
        request = _request(compose(channel, message), channel.secrets["url"], self._networks)
        async with self._places:
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    answer = await self._ask(json.dumps(request).encode())
            except TimeoutError:
                return Undelivered(why=f"The service did not answer within {SEND_SECONDS:.0f} s.")
        said = told(str(answer.get("said", "")), channel)
        match answer.get("outcome"):
            case "taken":
                return Delivered(answer=said)
            case "missing":
                # Another admin may have it.
                return Undelivered(why="Apprise is not installed: pip install 'apprise>=1.9.2'")
            case "unknown":
                why = f"Apprise does not know this URL. {said}".strip()
                return Undelivered(why=why[:500], permanent=True)
            case _:
                return Undelivered(why=said or "Apprise could not send it, and did not say why.")

    async def _ask(self, request: bytes) -> Mapping[str, Any]:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # tracebacks hold addresses with tokens
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            cwd="/",
        )
        try:
            written, _ = await process.communicate(request)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        try:
            answer = json.loads(written)
        except ValueError:
            return {"said": f"Apprise ended with {process.returncode}, without an answer."}
        return answer if isinstance(answer, dict) else {}


def _request(letter: Letter, url: str, networks: Sequence[str]) -> dict[str, Any]:
    body = fitted(
        letter, lambda each: plain_text(each, escape=lookalike), size=len, limit=MAX_CHARS
    )
    return {
        "url": url,
        "title": lookalike(letter.subject),
        "body": body,
        "type": _TYPES[letter.tone],
        "networks": networks,
    }
