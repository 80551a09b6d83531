"""What a handler's signature says: who gets the run, which parameters are right, the schema."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import connect, request, value
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import HandlerError, Run
from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.handlers.signature import ParametersError, Signature
from tickwheel_shared.protocol import MAX_SCHEMA_BYTES, Hello, LogChunk, Outcome, Result

if TYPE_CHECKING:
    from fractions import Fraction

    from tickwheel_executor import Run as OnlyForCheckers


def nothing() -> None: ...
def run_named_otherwise(this: Run) -> None: ...
def run_without_type(run): ...  # type: ignore[no-untyped-def]
def run_after_others(month: str, run: Run) -> None: ...
def run_by_place(r: Run, /, month: str) -> None: ...
def run_by_keyword(*, run: Run) -> None: ...
def run_or_none(run: Run | None = None) -> None: ...
def run_for_checkers(run: OnlyForCheckers) -> None: ...
def only_parameters(month: str, rows: int = 3) -> None: ...


class Service:
    async def __call__(self, run: Run) -> None: ...

    def method(self, month: str, run: Run) -> None: ...


@pytest.mark.parametrize(
    ("function", "first", "by_name", "parameters"),
    [
        (nothing, False, "", []),
        (run_named_otherwise, True, "", []),
        (run_without_type, True, "", []),
        (run_after_others, False, "run", ["month"]),
        (run_by_place, True, "", ["month"]),
        (run_by_keyword, False, "run", []),
        (run_or_none, True, "", []),
        (run_for_checkers, True, "", []),
        (only_parameters, False, "", ["month", "rows"]),
        (Service(), True, "", []),
        (Service().method, False, "run", ["month"]),
        (functools.partial(run_after_others, "2026-01"), True, "", []),
        (functools.partial(only_parameters, rows=7), False, "", ["month", "rows"]),
        (lambda: None, False, "", []),
        (print, False, "", None),
    ],
)
def test_who_gets_the_run(
    function: Any, first: bool, by_name: str, parameters: list[str] | None
) -> None:
    if parameters is None:  # a built-in that takes anything at all
        with pytest.raises(HandlerError, match=r"takes \*"):
            Signature("h", function)
        return
    signature = Signature("h", function)
    assert (signature.run_first, signature.run_by_name) == (first, by_name)
    assert list(schema_of(function).get("properties", {})) == parameters


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    text = Signature("h", function).schema
    return msgspec.json.decode(text) if text is not None else {}


def twice(a: Run, b: Run) -> None: ...
def run_is_a_number(run: int) -> None: ...
def many(*names: str) -> None: ...
def by_place(month: str, /) -> None: ...
def second_by_place(run: Run, month: str, /) -> None: ...
def unknown_type(month: Fraction) -> None: ...
def no_json(when: Callable[[], None]) -> None: ...
def two_shapes(what: dict[str, int] | Point) -> None: ...


@dataclass
class Point:
    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (twice, "takes the run twice"),
        (run_is_a_number, "named run is given the run, and is annotated int"),
        (Service.method, r"a method without its object: .*\(service.method\)"),
        (many, r"takes \*names, .* write \*\*names"),
        (by_place, "'month' by its place only"),
        (second_by_place, "'month' by its place only"),
        (unknown_type, "type 'Fraction' of parameter 'month' cannot be found"),
        (no_json, "parameter 'when' cannot be read from JSON"),
        (two_shapes, "parameter 'what' cannot be read"),
    ],
)
def test_what_no_run_can_give_is_refused_before_the_start(function: Any, words: str) -> None:
    handlers = Handlers()
    handlers.add("report", function)
    with pytest.raises(HandlerError, match=words) as caught:
        handlers.close()
    assert "handler 'report'" in str(caught.value)


# --- parameters ----------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Address(TypedDict, total=False):
    city: str


class Order(msgspec.Struct):
    id: int
    to: Address | None = None


def everything(
    run: Run,
    month: Annotated[str, msgspec.Meta(pattern="^[0-9]{4}-[0-9]{2}$", description="Which month")],
    rows: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100,
    share: float = 0.5,
    color: Color = Color.RED,
    size: Literal["s", "m"] = "m",
    since: date = date(2026, 1, 1),
    until: datetime | None = None,
    key: UUID | None = None,
    price: Decimal = Decimal("1.50"),
    dry_run: bool = False,
    tags: list[str] | None = None,
    orders: list[Order] = [],  # noqa: B006 (never changed)
    at: Point = Point(0),  # noqa: B008
    whatever=None,  # type: ignore[no-untyped-def]
) -> None:
    """Writes the report.

    And more that nobody reads in a form.
    """


def test_the_schema_says_what_a_form_needs() -> None:
    schema = schema_of(everything)
    properties = schema["properties"]
    assert schema["description"] == "Writes the report."
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert schema["required"] == ["month"]
    assert "title" not in schema
    assert "run" not in properties
    assert properties["month"] == {
        "type": "string",
        "pattern": "^[0-9]{4}-[0-9]{2}$",
        "description": "Which month",
    }
    assert properties["rows"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert properties["color"] == {"enum": ["blue", "red"], "default": "red"}
    assert properties["size"] == {"enum": ["m", "s"], "default": "m"}
    assert properties["since"] == {"type": "string", "format": "date", "default": "2026-01-01"}
    assert properties["price"]["default"] == "1.50"
    assert properties["dry_run"] == {"type": "boolean", "default": False}
    assert properties["until"]["default"] is None
    assert properties["orders"]["items"] == {"$ref": "#/$defs/Order"}
    assert sorted(schema["$defs"]) == ["Address", "Order", "Point"]
    assert properties["whatever"] == {"default": None}


def test_arguments_have_the_types_of_the_signature() -> None:
    given = {
        "month": "2026-03",
        "color": "blue",
        "since": "2026-03-01",
        "until": "2026-03-31T00:00:00Z",
        "key": "12345678-1234-5678-1234-567812345678",
        "price": "9.99",
        "orders": [{"id": 1, "to": {"city": "Ulm"}}],
        "at": {"x": 3},
        "whatever": {"a": [1]},
    }
    arguments = Signature("h", everything).read(msgspec.Raw(msgspec.json.encode(given)))
    assert arguments == {
        "month": "2026-03",
        "color": Color.BLUE,
        "since": date(2026, 3, 1),
        "until": datetime(2026, 3, 31, tzinfo=UTC),
        "key": UUID("12345678-1234-5678-1234-567812345678"),
        "price": Decimal("9.99"),
        "orders": [Order(1, {"city": "Ulm"})],
        "at": Point(3),
        "whatever": {"a": [1]},
    }  # what was not given is not there: the function has its own defaults


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ('{"month": 7}', "month: expected str, got int"),
        ("{}", "month: is required"),
        ('{"month": "2026-03", "rows": 0}', "rows: expected int >= 1"),
        ('{"month": "2026-03", "rows": "5"}', "rows: expected int, got str"),
        ('{"month": "2026-03", "color": "green"}', "color: invalid enum value 'green'"),
        ('{"month": "2026-03", "since": "soon"}', "since: invalid RFC3339 encoded date"),
        ('{"month": "2026-03", "orders": [{}]}', "orders[0].id: is required"),
        (
            '{"month": "2026-03", "orders": [{"id": 1, "to": {"city": 3}}]}',
            "orders[0].to.city: expected str, got int",
        ),
        (
            '{"monht": "2026-03"}',
            "monht: the handler takes no such parameter; did you mean 'month'?",
        ),
        ("[1]", "expected object, got array"),
    ],
)
def test_wrong_parameters_are_named_with_their_place(parameters: str, message: str) -> None:
    with pytest.raises(ParametersError) as caught:
        Signature("h", everything).read(msgspec.Raw(parameters.encode()))
    assert str(caught.value) == f"parameters: {message}"


def with_extra(run: Run, month: str, **others: int) -> None: ...
def any_extra(**others: Any) -> None: ...


def test_further_parameters_where_the_signature_allows_them() -> None:
    signature = Signature("h", with_extra)
    assert signature.read(msgspec.Raw(b'{"month": "a", "x": 1}')) == {"month": "a", "x": 1}
    for wrong, words in {
        b'{"month": "a", "x": "1"}': "parameters: x: expected int, got str",
        b'{"month": "a", "run": 1}': "parameters: run: this name is taken by the run itself",
    }.items():
        with pytest.raises(ParametersError, match=words):
            signature.read(msgspec.Raw(wrong))
    assert schema_of(with_extra)["additionalProperties"] == {"type": "integer"}
    assert schema_of(any_extra) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {},
        "additionalProperties": {},
    }


def odd_names(self: int, type: str, f0: int, f1: int = 2, __struct_fields__: int = 3) -> int:  # noqa: A002
    return self + f0 + f1


def test_no_name_of_a_parameter_is_special() -> None:
    arguments = Signature("h", odd_names).read(msgspec.Raw(b'{"self":1,"type":"a","f0":5}'))
    assert odd_names(**arguments) == 8


@dataclass
class Visit:
    at: datetime
    until: time | None = None
    before: "list[Visit]" = field(default_factory=list)  # noqa: UP037 - as people write it


class Call(msgspec.Struct, tag=True, array_like=True):
    kind: Literal["a"]
    at: datetime


class Mail(msgspec.Struct, tag=True):
    sent: datetime


class Fax(msgspec.Struct, tag=True):
    sent: Annotated[datetime, msgspec.Meta(tz=True)]


def instants(
    plain: datetime,
    zoned: Annotated[datetime, msgspec.Meta(tz=True)],
    of_day: time,
    bounded: Annotated[datetime, msgspec.Meta(description="When it ends.")] | None = None,
    listed: dict[str, list[datetime | int]] | None = None,
    pair: tuple[str, datetime] | None = None,
    visit: Visit | list[str] | None = None,
    call: Call | None = None,
    sent: Mail | Fax | None = None,
    text: str = "",
    **more: datetime,
) -> None: ...


def test_instants_and_times_are_told_as_such_wherever_they_are() -> None:
    schema = schema_of(instants)
    properties, parts = schema["properties"], schema["$defs"]
    instant, of_day, null = (
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "time"},
        {"type": "null"},
    )
    assert properties["plain"] == properties["zoned"] == schema["additionalProperties"] == instant
    assert properties["of_day"] == of_day
    assert properties["bounded"]["anyOf"] == [instant | {"description": "When it ends."}, null]
    assert properties["listed"]["anyOf"][0]["additionalProperties"]["items"]["anyOf"] == [
        instant,
        {"type": "integer"},
    ]
    assert properties["pair"]["anyOf"][0]["prefixItems"] == [{"type": "string"}, instant]
    assert properties["text"] == {"type": "string", "default": ""}
    assert parts["Visit"]["properties"]["at"] == instant
    assert parts["Visit"]["properties"]["until"]["anyOf"] == [of_day, null]
    assert parts["Mail"]["properties"]["sent"] == parts["Fax"]["properties"]["sent"] == instant
    assert parts["Call"]["prefixItems"][1:] == [{"enum": ["a"]}, instant]


def any_object(what: object, number: float = float("nan"), **more: object) -> None: ...


def test_object_means_any_json_and_a_default_that_is_none_is_not_told() -> None:
    schema = schema_of(any_object)
    assert schema["properties"] == {"what": {}, "number": {"type": "number"}}
    assert schema["additionalProperties"] == {}
    given = msgspec.Raw(b'{"what": [1], "x": null}')
    assert Signature("h", any_object).read(given) == {"what": [1], "x": None}


# --- in a node -----------------------------------------------------------------------------------


async def run_once(function: Any, parameters: bytes) -> tuple[Hello, Result, list[str]]:
    _, node, session = await connect({"work": function})
    session.send(request(parameters=msgspec.Raw(parameters)))
    result = await session.expect(Result)
    assert await node.drain(1)
    lines = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    return session.all(Hello)[0], result, lines


@virtual_time
async def test_a_handler_is_called_with_its_parameters_and_the_hello_tells_them() -> None:
    async def report(month: str, run: Run, rows: int = 3) -> list[Any]:
        return [run.id, month, rows, run.parameters]

    hello, result, _ = await run_once(report, b'{"month": "2026-03"}')
    assert value(result) == [1, "2026-03", 3, {"month": "2026-03"}]
    assert list(hello.schemas) == ["work"]
    assert msgspec.json.decode(hello.schemas["work"])["required"] == ["month"]


@virtual_time
async def test_wrong_parameters_fail_the_run_for_good_and_call_nothing() -> None:
    called = []

    async def report(month: str) -> None:
        called.append(month)

    _, result, lines = await run_once(report, b'{"month": 3}')
    assert (result.outcome, result.final) == (Outcome.FAILED, True)
    assert result.message == "parameters: month: expected str, got int"
    assert result.message in lines[0]
    assert called == []


@dataclass
class Range:
    steps: int

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise SystemExit(3)
        self.size = {1: 100, 2: 50}[self.steps]


async def in_ranges(steps: Range) -> None: ...
async def in_further_ranges(**steps: Range) -> None: ...


@pytest.mark.parametrize("function", [in_ranges, in_further_ranges])
@pytest.mark.parametrize(("steps", "raised"), [(3, "KeyError: 3"), (-1, "SystemExit: 3")])
@virtual_time
async def test_a_type_whose_own_code_raises_fails_the_run_and_not_the_node(
    function: Any, steps: int, raised: str
) -> None:
    _, result, _ = await run_once(function, b'{"steps": {"steps": %d}}' % steps)
    assert (result.outcome, result.final) == (Outcome.FAILED, True)
    place = "" if function is in_ranges else "steps: "
    assert result.message == f"parameters: {place}{raised}"


@virtual_time
async def test_without_parameters_in_its_signature_a_handler_takes_what_comes() -> None:
    async def free(run: Run) -> Any:
        return run.parameters

    hello, result, _ = await run_once(free, b'{"a": [1]}')
    assert value(result) == {"a": [1]}
    assert hello.schemas == {}


def test_a_schema_that_is_too_long_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def huge(name: str) -> None: ...

    huge.__doc__ = "x" * MAX_SCHEMA_BYTES
    handlers = Handlers()
    handlers.add("huge", huge)
    handlers.add("small", only_parameters)
    handlers.close()
    assert list(handlers.schemas) == ["small"]
    assert "the parameters of handler 'huge'" in caplog.text
