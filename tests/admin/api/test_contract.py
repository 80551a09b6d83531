"""Requests that Schemathesis makes of the OpenAPI document, to a real admin, as every role.

No answer is 500 or above, and none has a status, a type, a header or a body that the document does
not tell; what the document forbids is refused. Paths name existing objects, so that requests get
somewhere. `tests.admin.kit.contract` checks the same answers more strictly.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode, openapi
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.admin.kit.routes import COMMON, two_executors
from tests.admin.kit.served import Served, served
from tests.support.nightly import often
from tickwheel_admin.api.openapi.openapi import openapi as document
from tickwheel_admin.api.runs.event_stream import OPEN_EVENT_STREAMS
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

PER_OPERATION = often(1, by_night=40)  # good requests, and as many bad ones
SHOWN = 20
MAX_ADDRESS_CHARS = 8_000  # of a request line
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Besides, for requests that break the document.
REFUSALS = [negative_data_rejection, missing_required_header]
# They can take the tokens away that all others ask with.
LAST = ("end_sessions", "revoke_token", "delete_user")


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, sender=Provider()) as admin:
        streams_end(admin)
        yield admin


class Provider:
    """Every other message is taken; none leaves this machine."""

    def __init__(self) -> None:
        self._answers = itertools.cycle([Delivered(answer="250 ok"), Undelivered(why="550 no")])

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        return next(self._answers)


def streams_end(admin: Served) -> None:
    """Each stream of events ends at once, after it has begun."""
    assert admin.client.app is not None
    admin.client.app[OPEN_EVENT_STREAMS].stopping.set()


@pytest.mark.slow
async def test_the_api_keeps_what_its_document_says(admin: Served) -> None:
    ids, _ = await two_executors(admin)
    tokens = {role: await admin.token_for(f"any-{role.value}", role) for role in Role}
    told, broken = await asyncio.to_thread(
        _ask_everything, _base_url(admin), {**COMMON, **ids}, tokens
    )
    if broken:  # an assertion would cut off what is needed to repeat it
        pytest.fail("\n\n".join(broken[:SHOWN]), pytrace=False)
    # That nothing is wrong must not be because nothing got through.
    assert sum(told[status] for status in (200, 201, 202, 204)) > sum(told.values()) / 10
    assert told[422] > 0
    assert told[404] > 0


def _base_url(admin: Served) -> str:
    return str(admin.client.make_url("/")).rstrip("/")


def _ask_everything(
    base_url: str, ids: Mapping[str, int | str], tokens: Mapping[Role, dict[str, str]]
) -> tuple[Counter[int], list[str]]:
    schema = openapi.from_dict(copy.deepcopy(document()))
    told: Counter[int] = Counter()
    broken: list[str] = []
    operations = [each.ok() for each in schema.get_all_operations()]
    operations.sort(key=_place)
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
                continue
            _ask(
                operation, mode, base_url=base_url, ids=ids, tokens=tokens, told=told, broken=broken
            )
    return told, broken


def _place(operation: Any) -> tuple[int, bool, str]:
    """What deletes comes late."""
    name = operation.definition.raw["operationId"]
    last = LAST.index(name) + 1 if name in LAST else 0
    return last, "delete" in operation.method.lower(), operation.path


def _ask(
    operation: Any,
    mode: GenerationMode,
    *,
    base_url: str,
    ids: Mapping[str, int | str],
    tokens: Mapping[Role, dict[str, str]],
    told: Counter[int],
    broken: list[str],
) -> None:
    @seed(0)
    @settings(
        max_examples=PER_OPERATION,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        role=st.sampled_from([Role.ADMIN, *Role]),
        exists=st.sampled_from([True, True, False]),
    )
    def ask(case: Case, role: Role, *, exists: bool) -> None:
        bad = _bad_parts(case)
        if exists and ParameterLocation.PATH not in bad:
            case.path_parameters = {
                name: ids.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
        response = case.call(base_url=base_url, headers=tokens[role])
        told[response.status_code] += 1
        if len(response.request.url or "") > MAX_ADDRESS_CHARS:
            return  # the parser answers before the application; test_broken_requests.py has it
        # A bad header may be that of the token, which is a good one here.
        is_refused = bool(bad - {ParameterLocation.HEADER, ParameterLocation.COOKIE})
        checks = [*CHECKS, *REFUSALS] if is_refused else CHECKS
        try:
            case.validate_response(response, checks=checks)
        except FailureGroup as failures:
            for each in failures.exceptions:
                broken.append(f"{operation.label} as {role}: {each}\n{case.as_curl_command()}")

    ask()


def _bad_parts(case: Case) -> set[ParameterLocation]:
    """Where the request breaks the document."""
    parts = {} if case.meta is None else case.meta.components
    return {place for place, part in parts.items() if part.mode is GenerationMode.NEGATIVE}
