"""Requests that follow from one another: what one answer names, the next ones ask for.

The links between operations are inferred from the OpenAPI document: of a run that was started, its
log, its steps and its retry. Each step is asked by somebody else, in any role. Some steps take the
tokens away that the others ask with; then there are new ones.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from schemathesis import Case, openapi
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from schemathesis.generation.stateful import run_state_machine_as_test
from schemathesis.specs.openapi.checks import (
    ensure_resource_availability,
    response_schema_conformance,
    use_after_free,
)

from tests.admin.api.test_contract import CHECKS, MAX_ADDRESS_CHARS, SHOWN, streams_end
from tests.admin.kit.routes import COMMON, two_executors
from tests.admin.kit.served import Served, served
from tests.support.nightly import often
from tickwheel_admin.api.openapi.openapi import openapi as document
from tickwheel_admin.domain.users.user import Role

REQUESTS = often(120, by_night=10_000)
SCENARIOS = 10  # with the same seed
STEPS = 12
FRESH_SHARE = 0.5  # of ids that no link gives: those of existing things
# A resource that was made is there, and one that was deleted is not.
STATEFUL_CHECKS = [*CHECKS, use_after_free, ensure_resource_availability]


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as admin:
        streams_end(admin)
        yield admin


class Askers:
    """Tokens of each role, and new ones when they are refused."""

    def __init__(self, admin: Served, loop: asyncio.AbstractEventLoop) -> None:
        self._admin = admin
        self._loop = loop
        self._tokens: dict[Role, dict[str, str]] = {}
        self.renewed = 0

    def headers(self, role: Role) -> dict[str, str]:
        if role not in self._tokens:
            made = self._admin.token_for(f"asker-{self.renewed}", role)
            self._tokens[role] = asyncio.run_coroutine_threadsafe(made, self._loop).result(30)
            self.renewed += 1
        return self._tokens[role]

    def refused(self, role: Role) -> None:
        """Somebody has revoked it, or deleted its user."""
        self._tokens.pop(role, None)


@pytest.mark.slow
async def test_answers_lead_to_requests_that_keep_what_the_document_says(admin: Served) -> None:
    ids, _ = await two_executors(admin)
    askers = Askers(admin, asyncio.get_running_loop())
    base_url = str(admin.client.make_url("/")).rstrip("/")
    told, linked, broken = await asyncio.to_thread(_play, base_url, {**COMMON, **ids}, askers)
    if broken:
        pytest.fail("\n\n".join(list(broken)[:SHOWN]), pytrace=False)
    assert told[200] + told[201] + told[202] + told[204] > sum(told.values()) / 10, told
    assert linked > REQUESTS / 10


def _play(
    base_url: str, ids: dict[str, Any], askers: Askers
) -> tuple[Counter[int], int, dict[str, None]]:
    schema = openapi.from_dict(copy.deepcopy(document()))
    told: Counter[int] = Counter()
    linked = 0
    broken: dict[str, None] = {}
    luck = random.Random(0)

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def step(self, input: Any) -> Any:  # noqa: A002 - as Schemathesis names it
            nonlocal linked
            given = {name for place, name in input.applied_parameters if name}
            linked += bool(given)
            case: Case = input.case
            for name in (case.path_parameters or {}).keys() & ids.keys() - given:
                if luck.random() < FRESH_SHARE:
                    case.path_parameters[name] = ids[name]
            return super().step(input)

        def call(self, case: Case, **kwargs: Any) -> Response:
            role = luck.choice([Role.ADMIN, Role.ADMIN, *Role])
            response = case.call(base_url=base_url, headers=askers.headers(role), **kwargs)
            if response.status_code == 401:
                askers.refused(role)
            told[response.status_code] += 1
            return response

        def validate_response(self, response: Response, case: Case, **kwargs: Any) -> None:
            if len(response.request.url or "") > MAX_ADDRESS_CHARS:
                return
            checks = list(STATEFUL_CHECKS)
            if "yaml" in response.headers.get("content-type", [""])[0]:
                # The document says that it is a text; Schemathesis compares what it means.
                checks.remove(response_schema_conformance)
            try:
                case.validate_response(response, checks=checks, recorder=self.recorder)
            except FailureGroup as failures:
                for each in failures.exceptions:
                    broken[f"{case.operation.label}: {each}\n{case.as_curl_command()}"] = None

    for number in itertools.count():
        # What one scenario leaves behind is there for the next, which Hypothesis may take amiss.
        with suppress(Flaky):
            run_state_machine_as_test(
                seed(number)(type(f"Machine{number}", (Machine,), {})),
                settings=settings(
                    max_examples=SCENARIOS,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        if told.total() >= REQUESTS:
            return told, linked, broken
    raise AssertionError("unreachable")
