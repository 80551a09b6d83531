"""The process in which Apprise sends one message; it runs this module as its program.

It reads a request from its input and writes what became of it to its output, both as JSON. It may
connect to allowed addresses only, and starts no programs: the interpreter's own audit events
(PEP 578) tell of each connection with the address that is connected to, after names were resolved.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from typing import Any

from tickwheel_admin.domain.network_guard import AddressGuard, ForbiddenAddress, alarm_guard

MAX_SAID_CHARS = 2_000
_CALLS = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))
_PROGRAMS = frozenset(
    (
        "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
        "pty.spawn",
    )
)  # fmt: skip


class _LastWords(logging.Handler):
    """Keeps what Apprise logs: its only way to say why something failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def guard_process(guard: AddressGuard) -> None:
    """From now on this process calls allowed addresses only, for good."""

    def check(event: str, args: tuple[Any, ...]) -> None:
        if event in _PROGRAMS:
            raise PermissionError(f"{event} is not allowed here")
        if event in _CALLS:
            address = args[1]
            if address is None:  # of a socket that is connected
                return
            if not isinstance(address, tuple):
                raise ForbiddenAddress("sockets of this machine are not called")
            guard.check(str(address[0]))

    sys.addaudithook(check)


def send(request: dict[str, Any]) -> dict[str, Any]:
    """Send one message; the answer says whether it was taken, and what Apprise said."""
    try:
        import apprise
    except ImportError:
        return {"outcome": "missing", "said": ""}
    words = _LastWords()
    logger = logging.getLogger("apprise")
    logger.addHandler(words)
    logger.propagate = False
    asset = apprise.AppriseAsset(
        async_mode=False, app_id="Tickwheel", app_desc="Tickwheel", app_url="", plugin_paths=[]
    )
    services = apprise.Apprise(asset=asset)
    if not services.add(request["url"]):
        return {"outcome": "unknown", "said": _joined(words)}
    taken = services.notify(
        title=request["title"],
        body=request["body"],
        notify_type=request["type"],
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
    )
    return {"outcome": "taken" if taken else "refused", "said": _joined(words)}


def main() -> None:
    """Answers one request."""
    request = json.load(sys.stdin)
    guard_process(alarm_guard(request["networks"]))
    with contextlib.redirect_stdout(sys.stderr):  # what services print is no answer
        answer = send(request)
    json.dump(answer, sys.stdout)


def _joined(words: _LastWords) -> str:
    return "; ".join(words.lines)[:MAX_SAID_CHARS]


if __name__ == "__main__":
    main()
