"""Parameters whose usual values only the machine's owner knows: its schema names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType, MethodType
from typing import Annotated, Any, cast, get_type_hints

from msgspec import Meta


def with_examples(method: Callable[..., Any], **examples: Iterable[str]) -> Callable[..., Any]:
    """The same bound method with `examples` in the schema of these parameters, sorted.

    Examples are suggestions: a node does not refuse other values, as another machine may know them.
    """
    bound = cast("MethodType", method)
    function = cast("FunctionType", bound.__func__)
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__doc__, copy.__qualname__ = function.__doc__, function.__qualname__
    hints = get_type_hints(function, include_extras=True)
    copy.__annotations__ = hints | {
        name: Annotated[hints[name], Meta(examples=sorted(values))]
        for name, values in examples.items()
    }
    return MethodType(copy, bound.__self__)
