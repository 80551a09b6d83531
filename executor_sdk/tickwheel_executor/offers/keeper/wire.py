"""Messages between an agent and a supervisor: JSON with its length before it."""

from __future__ import annotations

import json
from typing import Any

_LENGTH_BYTES = 4


def frame(message: dict[str, Any]) -> bytes:
    """The bytes of a message."""
    data = json.dumps(message).encode("ascii")
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class FrameReader:
    """Takes bytes as they come, and gives the messages that are complete."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that these bytes complete."""
        self._data += data
        messages: list[dict[str, Any]] = []
        while len(self._data) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._data[:_LENGTH_BYTES], "big")
            if len(self._data) < end:
                break
            messages.append(json.loads(self._data[_LENGTH_BYTES:end]))
            self._data = self._data[end:]
        return messages
