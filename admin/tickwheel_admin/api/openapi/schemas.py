"""JSON Schemas of what routes take and answer, as components of the document."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tickwheel_admin.api.answers import ErrorAnswerJson
from tickwheel_admin.web.input_fields import InputField
from tickwheel_admin.web.routes import NoContent, Route

_REF = "#/components/schemas/{name}"
_GENERIC = re.compile(r"(\w+?)Json_(\w+)_")  # msgspec's PageJson_RunJson_ of PageJson[RunJson]


class Schemas:
    """The schemas of some routes."""

    def __init__(self, routes: Iterable[Route]) -> None:
        taken: list[Any] = []
        answered: list[Any] = [ErrorAnswerJson]
        for route in routes:
            inputs: list[InputField[Any]] = [*route.query, *route.headers]
            if isinstance(route.body, tuple):
                inputs += route.body
            elif route.body is not None:
                taken.append(route.body)
            taken += [each.type for each in inputs]
            if route.answers is not NoContent:
                answered.append(route.answers)
        types = {id(each): each for each in (*taken, *answered)}
        found, components = msgspec.json.schema_components(types.values(), ref_template=_REF)
        self._schemas: dict[int, dict[str, Any]] = {
            place: _renamed(each) for place, each in zip(types, found, strict=True)
        }
        named = {_name(name): _renamed(each) for name, each in components.items()}
        for name in _reached([self._schemas[id(each)] for each in taken], named):
            if "properties" in named[name]:  # what requests do not know is refused
                named[name]["additionalProperties"] = False
        self.components = dict(sorted(named.items()))

    def of(self, type_: Any) -> dict[str, Any]:
        """The schema of one of the routes' types."""
        return self._schemas[id(type_)]

    def fields(self, inputs: Sequence[InputField[Any]]) -> dict[str, Any]:
        """The schema of a body with these fields: others are refused, null is as if left out."""
        properties: dict[str, Any] = {}
        for each in inputs:
            schema = self.of(each.type)
            if not each.required:
                schema = {"anyOf": [schema, {"type": "null"}]}
            if each.default is not None:
                schema = schema | {"default": each.default}
            properties[each.name] = schema | {"description": each.about}
        body: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [each.name for each in inputs if each.required]:
            body["required"] = required
        return body | {"additionalProperties": False}


def _name(name: str) -> str:
    """`Run` of RunJson, `RunPage` of PageJson[RunJson]."""
    generic = _GENERIC.fullmatch(name)
    if generic:
        return _name(generic[2]) + generic[1]
    return name.removesuffix("Json")


def _renamed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_renamed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _renamed(value) for key, value in schema.items()}
    if isinstance(ref := schema.get("$ref"), str):
        head, _, name = ref.rpartition("/")
        renamed["$ref"] = f"{head}/{_name(name)}"
    elif isinstance(renamed.get("title"), str):
        del renamed["title"]  # it is the name of the component
    # Versions of msgspec differ in these; the document is the same with each.
    renamed.pop("propertyNames", None)
    if isinstance(renamed.get("description"), str):
        renamed["description"] = inspect.cleandoc(renamed["description"])
    words = renamed.get("enum")
    if isinstance(words, list) and all(isinstance(each, str) for each in words):
        renamed["type"] = "string"
    return renamed


def _reached(schemas: Iterable[Any], components: dict[str, Any]) -> set[str]:
    """The components that these schemas refer to, also through others."""
    reached: set[str] = set()
    waiting: list[Any] = list(schemas)
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
            if isinstance(ref := each.get("$ref"), str):
                name = ref.rpartition("/")[2]
                if name not in reached:
                    reached.add(name)
                    waiting.append(components[name])
    return reached
