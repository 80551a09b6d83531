"""What code would change in a job is said as the job form says it."""

from __future__ import annotations

import dataclasses

import pytest

from tickwheel_admin.console.jobs import declared_labels
from tickwheel_admin.domain.input.job import job_to_raw, parse_job
from tickwheel_admin.domain.jobs.declared_job import DeclaredReason, DeclaredState
from tickwheel_admin.services.jobs.declared.lists import differences
from tickwheel_admin.services.jobs.declared.service import DeclaredItem

JOB = {"name": "digest", "handler": "send"}
ITEM = DeclaredItem(
    name="digest",
    state=DeclaredState.APPLIED,
    reason=None,
    handler="send",
    job_id=1,
    job_name="digest",
    managed=True,
    differences=[],
    problems=[],
    declared_by="node-1",
    declared_at=0,
    declared_now=True,
    renamed_from=None,
)


def test_every_field_of_a_job_has_its_name() -> None:
    names = declared_labels.field_names()
    assert set(job_to_raw(parse_job(JOB))) - set(names) == set()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"timeout_seconds": 900}, ("Timeout", [], ["15 min"])),
        ({"retries": 2}, ("Retries", ["0"], ["2"])),
        ({"retry_on": ["failed"]}, ("Retry when it", ["Failed, Timed out"], ["Failed"])),
        ({"retry_on_lost": False}, ("Retry when lost with its node", ["yes"], ["no"])),
        ({"retry_jitter": 0.25}, ("Extra wait by chance", ["0%"], ["25%"])),
        ({"tags": ["a", "b"]}, ("Tags", [], ["a, b"])),
        ({"description": "one\ntwo"}, ("Description", [], ["one", "two"])),
        ({"routing": "random"}, ("Routing", ["Round robin"], ["Random"])),
        ({"parameters": {"n": 1}}, ("Parameters", [], ["{", '  "n": 1', "}"])),
        (
            {"triggers": [{"kind": "cron", "expression": "0 7 * * 1", "timezone": "UTC"}]},
            ("When", [], ["At 07:00 every Monday (0 7 * * 1)"]),
        ),
        (
            {"children": [{"job": 7, "on": "always"}]},
            ("What runs afterwards", [], ["job #7 in both cases"]),
        ),
    ],
)
def test_a_difference_is_told_in_the_words_of_the_form(
    changed: dict[str, object], told: tuple[str, list[str], list[str]]
) -> None:
    found = declared_labels.changes(differences(parse_job(JOB), JOB | changed))
    assert [(each.name, list(each.before), list(each.after)) for each in found] == [told]


def test_what_needs_somebody_comes_first() -> None:
    def item(name: str, state: DeclaredState, **more: object) -> DeclaredItem:
        return dataclasses.replace(ITEM, name=name, state=state, **more)  # type: ignore[arg-type]

    items = [
        item("a", DeclaredState.RELEASED, managed=False),
        item("b", DeclaredState.APPLIED),
        item("c", DeclaredState.APPLIED, declared_now=False),
        item("d", DeclaredState.INVALID),
        item("e", DeclaredState.WAITING),
        item("f", DeclaredState.IGNORED, managed=False),
    ]
    assert [each.name for each in declared_labels.in_order(items)] == ["e", "d", "c", "b", "f", "a"]


def test_every_state_and_reason_says_something_of_its_own() -> None:
    told = {
        declared_labels.explanation(
            dataclasses.replace(ITEM, state=state, reason=reason, renamed_from="x")
        )
        for state, reason in [
            (DeclaredState.APPLIED, None),
            (DeclaredState.INVALID, None),
            (DeclaredState.RELEASED, None),
            (DeclaredState.WAITING, DeclaredReason.POLICY_ASK),
            (DeclaredState.WAITING, DeclaredReason.MADE_BY_HAND),
            (DeclaredState.WAITING, DeclaredReason.RENAMED),
            (DeclaredState.IGNORED, DeclaredReason.POLICY_IGNORE),
            (DeclaredState.IGNORED, DeclaredReason.DELETED),
            (DeclaredState.IGNORED, DeclaredReason.PERSON),
        ]
    }
    assert len(told) == 9
