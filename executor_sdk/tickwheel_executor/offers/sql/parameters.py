"""The types of the parameters of `sql`, with the descriptions that a form shows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Scalar = str | int | float | bool | None
_TEXT = {"format": "multiline"}

Connection = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="Name of the connection on the machine that runs the job; its address and "
        "password are known only there",
    ),
]
Statement = Annotated[
    str,
    Meta(
        description="One statement, with :name for values. Either this or statements",
        extra_json_schema=_TEXT,
    ),
]
Statements = Annotated[
    list[Annotated[str, Meta(min_length=1, extra_json_schema=_TEXT)]],
    Meta(max_length=100, description="Several statements, executed in this order"),
]
Values = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=128)], Scalar | list[Scalar]],
    Meta(
        max_length=500,
        description="Values of :name in the statements. A list is for IN :name. "
        ":run_id, :attempt, :scheduled_at, :due_at, :interval_start, :interval_end, "
        ":shard_index and :shard_total are those of the run",
    ),
]
Transaction = Annotated[
    Literal["one", "each", "none"],
    Meta(
        description="All statements in one transaction, each in its own, or without one, which "
        "VACUUM and the like need"
    ),
]
MaxRows = Annotated[
    int, Meta(ge=0, le=100_000, description="Rows to read of each statement that returns some")
]
Rows = Annotated[
    Literal["result", "log", "nowhere"],
    Meta(
        description="Where rows go: those of the last statement into the result of the run, all as "
        "CSV into its log, or nowhere"
    ),
]
FailIf = Annotated[
    Literal["never", "rows", "no_rows"],
    Meta(description="Fail the run if the last statement that returns rows has some, or has none"),
]
TimeoutSeconds = Annotated[
    float,
    Meta(
        gt=0,
        le=86_400,
        description="Seconds for each statement; then it is cancelled on the server",
    ),
]
