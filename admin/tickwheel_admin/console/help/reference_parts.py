"""Parts of the OpenAPI document as the reference shows them: fields in words, and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_WORDS = 12  # of an enumeration; more have "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePart:
    """A part of what a field holds: words, or the name of a type that has a page."""

    text: str
    is_link: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceField:
    """A field of an object."""

    name: str
    type: tuple[TypePart, ...]
    is_required: bool
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceAnswer:
    """What an endpoint answers with a status."""

    status: str
    about: str
    type: tuple[TypePart, ...]  # empty: there is no body


def grouped(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    """Method, path and operation of every endpoint, by tag."""
    groups: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return dict(sorted(groups.items()))


def resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema behind a reference."""
    found: Mapping[str, Any] = document
    if "$ref" not in schema:
        return schema
    for step in schema["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def fields_of(schema: Mapping[str, Any]) -> list[ReferenceField]:
    """The fields of an object, those that are required first."""
    required = schema.get("required", ())
    fields = [
        ReferenceField(
            name=name,
            type=type_of(each),
            is_required=name in required,
            about=_about(each),
        )
        for name, each in schema.get("properties", {}).items()
    ]
    return sorted(fields, key=lambda each: not each.is_required)


def type_of(schema: Mapping[str, Any]) -> tuple[TypePart, ...]:
    """What a field holds, in the words of JSON Schema."""
    return tuple(_parts(schema))


def answers_of(
    document: Mapping[str, Any], operation: Mapping[str, Any]
) -> Sequence[ReferenceAnswer]:
    """What an endpoint answers, good answers first."""
    answers = []
    for status, told in operation["responses"].items():
        answer = resolved(document, told)
        content = answer.get("content", {})
        parts = type_of(next(iter(content.values()))["schema"]) if content else ()
        answers.append(ReferenceAnswer(status=status, about=answer["description"], type=parts))
    return answers


def example_of(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """A body with what is required, to begin with."""
    schema = resolved(document, schema)
    if "anyOf" in schema:
        return example_of(document, schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {
                name: example_of(document, properties[name]) for name in schema.get("required", ())
            }
        case "array":
            return [example_of(document, schema["items"])] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return True
        case "string":
            return ""
    return None


def _parts(schema: Mapping[str, Any]) -> Iterator[TypePart]:
    if "$ref" in schema:
        yield TypePart(text=schema["$ref"].rpartition("/")[2], is_link=True)
    elif "anyOf" in schema:
        for place, each in enumerate(schema["anyOf"]):
            if place:
                yield TypePart(text=" | ")
            yield from _parts(each)
    elif "enum" in schema:
        words = [str(each) for each in schema["enum"]]
        more = [] if len(words) <= MAX_WORDS else ["…"]
        yield TypePart(text=" | ".join(words[:MAX_WORDS] + more))
    elif schema.get("type") == "array":
        yield TypePart(text="[")
        yield from _parts(schema.get("items", {}))
        yield TypePart(text="]")
    else:
        yield TypePart(text=_plain(schema))


def _plain(schema: Mapping[str, Any]) -> str:
    text = str(schema.get("format") or schema.get("type") or "any JSON")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 2**53 - 1:
        text += f" {low:,} to {high:,}"
    if "maxLength" in schema:
        text += f", at most {schema['maxLength']:,} characters"
    return text


def _about(schema: Mapping[str, Any]) -> str:
    about = str(schema.get("description", ""))
    if "default" in schema:
        about = f"{about} Default: {schema['default']}.".strip()
    return about
