"""The API as a program uses it: JSON over HTTP with a token."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

REQUEST_SECONDS = 30  # an admin whose database is away answers 503 well before


@dataclass(frozen=True, slots=True)
class Answer:
    """What the admin said, whatever the status."""

    status: int
    body: Any

    @property
    def code(self) -> str:
        """The stable code of an error."""
        return str(self.body["error"]["code"])


class Api:
    """One admin's `/api/v1`."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.token = token

    def get(self, path: str) -> Any:
        """The body of a success; anything else fails the test."""
        return self._succeed("GET", path)

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        return self._succeed("POST", path, body, **headers)

    def delete(self, path: str) -> None:
        self._succeed("DELETE", path)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """The answer, also when it is a refusal; `Idempotency_Key="…"` gives that header."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=sent,
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
                return Answer(response.status, _json(response.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _json(error.read()))

    def _succeed(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert 200 <= answer.status < 300, f"{method} {path}: {answer.status} {answer.body}"
        return answer.body


def _json(text: bytes) -> Any:
    return json.loads(text) if text else None
