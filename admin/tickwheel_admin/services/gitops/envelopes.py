"""The documents of a request: which object each means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.names import normal_name
from tickwheel_admin.services.gitops.objects import ObjectDocument, ObjectKey, ObjectType

MAX_DOCUMENTS = 5_000
MAX_PROBLEMS = 500  # that are told of one request
MAX_NAME_CHARS = 200
WITH_EXECUTOR = frozenset({ObjectType.JOB, ObjectType.POOL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelopes:
    """What the documents of a request mean."""

    documents: Sequence[ObjectDocument]
    problems: list[Problem]


def read_envelopes(raw: Sequence[Any]) -> Envelopes:
    """The documents that can be told apart; what is wrong with others is noted."""
    problems: list[Problem] = []
    found: dict[ObjectKey, ObjectDocument] = {}
    for place, each in enumerate(raw):
        document = _read(place, each, problems)
        if document is None:
            continue
        earlier = found.setdefault(document.key, document)
        if earlier is not document:
            problems.append(
                Problem(
                    field=f"{document.path}.name",
                    code="gitops.duplicate",
                    template="Another document is about %(object)s already; keep one of the two.",
                    params={"object": str(document.key), "other": earlier.place},
                )
            )
    return Envelopes(documents=list(found.values()), problems=problems)


def _read(place: int, raw: Any, problems: list[Problem]) -> ObjectDocument | None:
    before = len(problems)
    fields = Fields(raw, f"documents[{place}]", problems)
    if not fields.is_object:
        return None
    kind = fields.member("type", ObjectType, default=ObjectType.JOB)
    if len(problems) > before:
        return None
    name = fields.text("name", max_chars=MAX_NAME_CHARS, required=True)
    executor = ""
    if kind in WITH_EXECUTOR:
        needed = kind is ObjectType.JOB
        executor = fields.text("executor", max_chars=MAX_NAME_CHARS, required=needed)
    if len(problems) > before:
        return None
    taken = ("type", "executor") if kind in WITH_EXECUTOR else ("type",)
    return ObjectDocument(
        place=place,
        key=ObjectKey(type=kind, executor=executor, name=normal_name(name)),
        fields={key: value for key, value in fields.raw.items() if key not in taken},
    )
