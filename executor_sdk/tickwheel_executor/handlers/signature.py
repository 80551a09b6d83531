"""The signature of a handler: read once, checked for every run, and published as a schema.

One parameter receives the run: the one annotated `Run`, else the one named `run`. All others
receive the run's parameters by name, and `**extra` those without a parameter of their own. If a
handler takes nothing but the run, it accepts any parameters, in `run.parameters`: no schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from tickwheel_executor.errors import HandlerError
from tickwheel_executor.text import describe

from .parameter_types import VARIADIC, ParameterTypes, plain
from .schema import schema_of

_MAX_NAMES = 20  # that a message lists
_raw_object = msgspec.json.Decoder(dict[str, Raw])


class ParametersError(Exception):
    """The run's parameters do not match the signature; says where and why."""


class Signature:
    """The parameters of one handler.

    Raises:
        HandlerError: it cannot be called with a run's parameters; says how to fix it.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._handler = name
        self._parameters = _parameters_of(function)
        self._refuse_what_has_no_name()
        types = ParameterTypes(name, function)
        run = self._find_run(types)
        self.run_by_name = ""  # parameter that gets the run; empty: none, or the first argument
        self.run_first = False
        if run is not None:
            self.run_first = next(iter(self._parameters)) == run.name and run.kind in _POSITIONAL
            self.run_by_name = "" if self.run_first else run.name
        own = [each for each in self._parameters.values() if each is not run]
        extra = next((each for each in own if each.kind is each.VAR_KEYWORD), None)
        self._named = [each for each in own if each is not extra]
        self.takes_parameters = bool(own)
        self._extra = types.decoder(extra) if extra is not None else None
        self._names = {f"f{index}": each.name for index, each in enumerate(self._named)}
        self._fields = tuple(self._names.items())
        self._known = frozenset(self._names.values())
        self._types = types
        self._struct = types.struct(self._names, self._named, lenient=extra is not None)
        self._decoder = msgspec.json.Decoder(self._struct)
        # JSON Schema of the parameters; None: it accepts any.
        self.schema: bytes | None = None
        if self.takes_parameters:
            defaults = {each.name: each.default for each in self._named}
            self.schema = schema_of(
                self._struct,
                defaults={key: value for key, value in defaults.items() if value is not _NONE},
                extra=types.of(extra) if extra is not None else None,
                description=_first_paragraph(function),
            )

    def read(self, parameters: Raw) -> dict[str, Any]:
        """The arguments for a run with these parameters, a JSON object.

        Raises:
            ParametersError: they do not match.
        """
        if not self.takes_parameters:
            return {}
        try:
            found = self._decoder.decode(parameters)
            arguments = {}
            for field, name in self._fields:
                value = getattr(found, field)
                if value is not UNSET:  # else the function's default applies
                    arguments[name] = value
        except (msgspec.DecodeError, RecursionError) as error:
            raise ParametersError(self._explain(str(error))) from None
        except (Exception, SystemExit) as error:  # code of a type may raise anything
            raise ParametersError(f"parameters: {describe(error)}") from error
        if self._extra is not None:
            self._add_extra(arguments, parameters, self._extra)
        return arguments

    def problems(self, parameters: Mapping[str, Any], *, later: Collection[str]) -> Iterator[str]:
        """Everything in which parameters do not match.

        Args:
            later: names of those whose values are not known yet.
        """
        if not self.takes_parameters:
            return
        for each in self._named:
            if each.name not in parameters:
                if each.default is each.empty:
                    yield f"parameters: {each.name}: is required"
                continue
            if each.name in later:
                continue
            try:
                self._types.decoder(each).decode(msgspec.json.encode(parameters[each.name]))
            except (msgspec.DecodeError, RecursionError) as error:
                yield _at(str(error), prefix=each.name)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - code of a type, as in `read`
                yield f"parameters: {each.name}: {describe(error)}"
        if self._extra is None:
            for name in parameters:
                if name not in self._known:
                    yield self._unknown(name)

    def _add_extra(
        self, arguments: dict[str, Any], parameters: Raw, decoder: msgspec.json.Decoder[Any]
    ) -> None:
        for name, value in _raw_object.decode(parameters).items():
            if name in self._known:
                continue
            if name == self.run_by_name or (self.run_first and name in self._parameters):
                raise ParametersError(f"parameters: {name}: this name is taken by the run itself")
            try:
                arguments[name] = decoder.decode(value)
            except (msgspec.DecodeError, RecursionError) as error:
                raise ParametersError(_at(str(error), prefix=name)) from None
            except (Exception, SystemExit) as error:  # as above
                raise ParametersError(f"parameters: {name}: {describe(error)}") from error

    def _explain(self, message: str) -> str:
        found = message.partition("unknown field `")[2].partition("`")[0]
        if not found or " - at " in message:
            return _at(message)
        return self._unknown(found)

    def _unknown(self, name: str) -> str:
        close = get_close_matches(name, self._known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it takes {_listed(self._known)}"
        return f"parameters: {name}: the handler takes no such parameter; {hint}"

    def _refuse_what_has_no_name(self) -> None:
        """Parameters of a run are passed by name, so positional-only parameters are refused."""
        for index, each in enumerate(self._parameters.values()):
            if index == 0 and each.name == "self" and each.annotation is each.empty:
                raise HandlerError(
                    f"handler {self._handler!r} is a method without its object: register the "
                    f"method of an object, as executor.handler({self._handler!r})(service.method)"
                )
            if each.kind is each.VAR_POSITIONAL:
                raise HandlerError(
                    f"handler {self._handler!r} takes *{each.name}, but the parameters of a run "
                    f"have names: write **{each.name}, or name them one by one (a decorator "
                    "around a handler needs functools.wraps)"
                )
            if each.kind is each.POSITIONAL_ONLY and index > 0:
                raise HandlerError(
                    f"handler {self._handler!r} takes {each.name!r} by its place only, but the "
                    "parameters of a run are passed by name: leave out the “/”"
                )

    def _find_run(self, types: ParameterTypes) -> inspect.Parameter | None:
        parameters = list(self._parameters.values())
        annotated = [each for each in parameters if types.is_run(each)]
        if len(annotated) > 1:
            raise HandlerError(f"handler {self._handler!r} takes the run twice")
        if annotated:
            return annotated[0]
        named = next((each for each in parameters if each.name == "run"), None)
        if named is not None and named.kind not in VARIADIC:
            if named.annotation in _NEVER_RUNS or str(named.annotation) in _NEVER_RUN_NAMES:
                raise HandlerError(
                    f"handler {self._handler!r}: the parameter named run is given the run, and is "
                    f"annotated {_name_of(named.annotation)}: call a parameter of yours otherwise"
                )
            return named
        first = next(iter(parameters), None)
        if first is not None and first.kind is first.POSITIONAL_ONLY:
            raise HandlerError(
                f"handler {self._handler!r} takes {first.name!r} by its place only: annotate it "
                "with Run to be given the run, or leave out the “/”"
            )
        return None


def _parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}  # a built-in without a signature: called without arguments


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = inspect.cleandoc(getattr(plain(function), "__doc__", None) or "")
    return " ".join(text.partition("\n\n")[0].split())


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _MAX_NAMES
    return ", ".join(ordered[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "") or "none"


def _at(message: str, *, prefix: str = "") -> str:
    """msgspec's message, with the path first: `parameters: month: expected str, got int`."""
    text, _, path = message.partition(" - at `$")
    path = path.rstrip("`").removeprefix(".")
    missing = text.partition("missing required field `")[2].rstrip("`")
    if missing:
        path, text = f"{path}.{missing}".lstrip("."), "is required"
    place = ".".join(filter(None, (prefix, path))).replace(".[", "[")
    text = text.replace("`", "")
    text = text[:1].lower() + text[1:] if not text.startswith("JSON") else text
    return ": ".join(filter(None, ("parameters", place, text)))


def _name_of(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


_NONE = inspect.Parameter.empty
_NEVER_RUNS = (str, int, float, bool, dict, list)
_NEVER_RUN_NAMES = tuple(each.__name__ for each in _NEVER_RUNS)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
