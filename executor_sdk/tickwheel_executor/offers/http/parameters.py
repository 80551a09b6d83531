"""The types of the parameters of `http`, with the descriptions that a form shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from .status_ranges import PATTERN

Status = Annotated[int, Meta(ge=100, le=599)] | Annotated[str, Meta(pattern=PATTERN)]
Value = str | int | float | bool

Url = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=8000,
        description="Address to call: https://example.com/path",
    ),
]
Method = Annotated[
    Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"],
    Meta(description="HTTP method"),
]
Headers = Annotated[
    dict[str, Annotated[str, Meta(max_length=8000)]],
    Meta(
        max_length=50,
        description="Headers to send, such as Authorization with Bearer ${secret.TOKEN}. "
        "Idempotency-Key is the id of the run unless it is given here",
    ),
]
Query = Annotated[
    dict[str, Value | list[Value]],
    Meta(max_length=100, description="Query parameters, added to those of the address"),
]
Body = Annotated[
    str | None,
    Meta(
        description="Text to send as it is. At most one of body, json and form",
        extra_json_schema={"format": "multiline"},
    ),
]
Json = Annotated[Any, Meta(description="Value to send as JSON; null: none")]
Form = Annotated[
    dict[str, Value | list[Value]],
    Meta(max_length=200, description="Fields to send as a form (x-www-form-urlencoded)"),
]
Username = Annotated[
    str, Meta(max_length=1000, description="User for basic authentication; empty: none")
]
Password = Annotated[str, Meta(max_length=1000, description="Password for it: ${secret.NAME}")]
ExpectedStatus = Annotated[
    list[Status],
    Meta(
        min_length=1,
        max_length=50,
        description="Statuses that mean success: 200, 200-299 or 2xx",
    ),
]
ExpectedJson = Annotated[
    dict[str, Any],
    Meta(
        max_length=50,
        description="Values that the JSON of the response must have, by path, such as data.state",
    ),
]
ExpectedText = Annotated[
    str, Meta(max_length=2000, description="Text that the response must contain; empty: any")
]
UnwantedText = Annotated[
    str, Meta(max_length=2000, description="Text that the response must not contain; empty: any")
]
RetryOnStatus = Annotated[
    list[Status],
    Meta(
        max_length=50,
        description="Statuses after which the run is tried again, after the time that the server "
        "asks for in Retry-After",
    ),
]
TimeoutSeconds = Annotated[
    float,
    Meta(gt=0, le=86_400, description="Seconds for the whole call"),
]
Redirects = Annotated[
    Literal["same_host", "any_host", "none"],
    Meta(
        description="Which redirects are followed. To another host, headers and body are not sent "
        "again"
    ),
]
Result = Annotated[
    Literal["nothing", "text", "json"],
    Meta(description="What to keep of the response in the result of the run"),
]
ResultPath = Annotated[
    str,
    Meta(max_length=500, description="Part of the JSON to keep, by path: data.id; empty: all"),
]
LogResponse = Annotated[
    bool, Meta(description="Write the beginning of the response to the log also after success")
]
