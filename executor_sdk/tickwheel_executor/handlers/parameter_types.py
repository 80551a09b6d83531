"""The types of a handler's parameters: resolved from annotations, and used to decode JSON."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.run.context import Run


class ParameterTypes:
    """The annotations of a function, resolved on demand."""

    def __init__(self, handler: str, function: Callable[..., Any]) -> None:
        self._handler = handler
        self._globals = getattr(plain(function), "__globals__", {})

    def is_run(self, parameter: inspect.Parameter) -> bool:
        """Whether its annotation says that it receives the run."""
        annotation = parameter.annotation
        if parameter.kind in VARIADIC or annotation is parameter.empty:
            return False
        if isinstance(annotation, str) and "Run" not in annotation:
            return False  # no need to resolve it
        if isinstance(annotation, str) and parameter.name == "run":
            try:
                annotation = self._look_up(parameter)
            except HandlerError:  # for example, imported for type checkers only: its name is enough
                return True
        else:
            annotation = self._look_up(parameter)
        if get_origin(annotation) in _UNIONS:
            return any(_is_run(each) for each in get_args(annotation))
        return _is_run(annotation)

    def of(self, parameter: inspect.Parameter) -> Any:
        """Its type; any JSON without an annotation."""
        if parameter.annotation is parameter.empty:
            return Any
        wanted = self._look_up(parameter)
        return Any if wanted is object else wanted

    def decoder(self, parameter: inspect.Parameter) -> msgspec.json.Decoder[Any]:
        """Decoder for one parameter; HandlerError if its type cannot be decoded from JSON."""
        wanted = self.of(parameter)
        try:
            msgspec.json.schema(wanted)  # stricter than the decoder, which takes any class
            return msgspec.json.Decoder(wanted)
        except Exception as error:  # code of a type may raise anything
            reason = str(error).rpartition("\n")[2]
            raise HandlerError(
                f"handler {self._handler!r}: parameter {parameter.name!r} cannot be read from "
                f"JSON: {reason}; types that can: str, int, float, bool, datetime, date, UUID, "
                "Decimal, Enum, Literal, lists and dicts of these, dataclasses, TypedDicts and "
                "msgspec.Struct"
            ) from error

    def struct(
        self, names: Mapping[str, str], parameters: Iterable[inspect.Parameter], *, lenient: bool
    ) -> type[msgspec.Struct]:
        """All parameters as one struct. Its fields have generated names, which cannot clash."""
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for field, parameter in zip(names, parameters, strict=True):
            self.decoder(parameter)  # one by one, so that an error names the parameter
            wanted = self.of(parameter)
            if parameter.default is parameter.empty:
                fields.append((field, wanted))
            else:
                fields.append((field, Union[wanted, UnsetType], UNSET))  # noqa: UP007 (at run time)
        try:
            struct = msgspec.defstruct(
                "Parameters",
                fields,
                rename=dict(names),
                forbid_unknown_fields=not lenient,
                kw_only=True,
            )
            msgspec.json.Decoder(struct)
        except (TypeError, ValueError) as error:
            raise HandlerError(
                f"handler {self._handler!r}: its parameters cannot be read from JSON: {error}"
            ) from error
        return struct

    def _look_up(self, parameter: inspect.Parameter) -> Any:
        holder = _AnnotationHolder({parameter.name: parameter.annotation})
        try:
            hints = get_type_hints(holder, self._globals, include_extras=True)
        except Exception as error:
            raise HandlerError(
                f"handler {self._handler!r}: the type {parameter.annotation!r} of parameter "
                f"{parameter.name!r} cannot be found ({error}): it must be known at the top level "
                "of its module, and not for type checkers only"
            ) from error
        return hints[parameter.name]


class _AnnotationHolder:
    """An object with annotations, for get_type_hints."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations


def plain(function: Any) -> Any:
    """The function behind partials, decorators, methods and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif not inspect.isroutine(function) and not inspect.isclass(function):
            function = type(function).__call__
        else:
            return inspect.unwrap(function)


def _is_run(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Run)


VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_UNIONS = (Union, type(int | str))
