"""Words for the audit: every action that is written has some, in both languages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tickwheel_admin
from tickwheel_admin.console.frame.i18n import LANGUAGE
from tickwheel_admin.console.system import audit_labels
from tickwheel_admin.console.system.audit_details import Fact, facts_of
from tickwheel_admin.services.system.audit import AuditItem
from tickwheel_admin.store.system import audit as store_audit

PACKAGE = Path(tickwheel_admin.__file__).parent
# What notes a change, and which of its arguments is the action; services have helpers of this name.
NOTING = {"write_audit", "NewAudit", "_note", "note", "_change", "_act", "_run", "Done"}
LOGGING = ("info", "warning", "error")  # what is called is the name of a log event
FORM = re.compile(r"[a-z_]+\.[a-z_]+").fullmatch  # of actions of nouns that have no words yet, too
NOUNS = {words.partition(".")[0] for words in audit_labels.action_labels()}


def written_actions() -> Iterator[str]:
    """Every text in what writes the audit that has the form of an action.

    Codes of errors and names of log events have the same form; those are never noted.
    """
    for layer in ("services", "store", "engine", "links"):
        for path in sorted((PACKAGE / layer).rglob("*.py")):
            source = path.read_text()
            if "audit" not in source and "note(" not in source:
                continue
            tree = ast.parse(source)
            errors = {
                id(argument)
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and _called(call) not in NOTING
                for argument in call.args[:2]
                if _called(call)[:1].isupper() or _called(call) in ("one", "refuse", *LOGGING)
            } | {id(code) for node in ast.walk(tree) for code in _codes(node)}
            noted = {
                id(argument)
                for call in ast.walk(tree)
                if isinstance(call, ast.Call) and _called(call) in NOTING
                for argument in call.args
            }
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and id(node) not in errors
                    and (_is_action(node.value) or (id(node) in noted and FORM(node.value)))
                ):
                    yield node.value


def _codes(node: ast.AST) -> Iterator[ast.expr]:
    """Codes of errors: the argument `code`, and what an error's `code` is compared with."""
    if isinstance(node, ast.keyword) and node.arg == "code":
        yield node.value
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute):
        yield from node.comparators if node.left.attr == "code" else ()


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_action(text: str) -> bool:
    noun, dot, verb = text.partition(".")
    return bool(dot) and noun in NOUNS and verb.isidentifier() and verb.islower()


# Texts of that form that are no actions: codes of errors that are kept in constants.
OUTCOMES = {
    "run.ended", "run.not_ended", "user.last_admin", "calendar.unknown", "job.changed",
    "gitops.plan_changed",
}  # fmt: skip


def test_every_action_has_words() -> None:
    actions = set(written_actions())
    assert len(actions) > 40  # else nothing was read
    missing = actions - set(audit_labels.action_labels()) - OUTCOMES
    assert missing == set()


def test_no_words_are_left_of_actions_that_nothing_writes() -> None:
    assert set(audit_labels.action_labels()) - set(written_actions()) == set()


def test_words_are_translated() -> None:
    english = audit_labels.action_labels()
    token = LANGUAGE.set("zh_CN")
    try:
        chinese = audit_labels.action_labels()
        names = dict(audit_labels.action_choices())
    finally:
        LANGUAGE.reset(token)
    assert [action for action in english if english[action] == chinese[action]] == []
    assert dict(audit_labels.action_choices()).keys() == names.keys()
    assert not set(dict(audit_labels.action_choices()).values()) & set(names.values())


def item(action: str, detail: dict[str, Any], **more: Any) -> AuditItem:
    values: dict[str, Any] = {"id": 1, "at": 0, "user_name": "ada", "address": ""}
    values |= {"executor_id": None, "executor_name": None, "object_id": 7}
    return AuditItem(**(values | {"action": action, "detail": detail} | more))


@pytest.mark.parametrize(
    ("action", "detail", "name", "href"),
    [
        ("job.updated", {"name": "invoices"}, "invoices", "/jobs/7"),
        ("job.deleted", {"name": "invoices"}, "invoices", None),
        ("run.cancelled", {"job": 3}, "#7", "/runs/7"),
        ("runs.purged", {"job": 3}, "#3", "/jobs/3"),
        ("token.revoked", {"user": "bob", "name": "ci"}, "bob / ci", None),
        ("token.revoked", {"user": "ada", "name": "ci"}, "ci", None),
        ("declared.ignored", {"name": "night"}, "night", "/jobs/7"),
    ],
)
def test_what_something_was_done_to_is_named_and_linked(
    action: str, detail: dict[str, Any], name: str, href: str | None
) -> None:
    found = audit_labels.object_of(item(action, detail))
    assert found is not None
    assert (found.name, found.href) == (name, href)


def test_what_was_done_to_oneself_or_to_everything_names_nothing() -> None:
    assert audit_labels.object_of(item("user.logged_in", {})) is None
    assert audit_labels.object_of(item("system.paused", {}, object_id=None)) is None
    assert audit_labels.object_of(item("runs.purged", {"keep_newest": 5})) is None


def test_changes_are_told_as_before_and_after() -> None:
    changes = {"retention_days": {"before": None, "after": 7}}
    (fact,) = facts_of(item("settings.updated", {"changes": changes}), {})
    assert (fact.before, fact.value) == ("", "7")


@pytest.mark.parametrize("detail", [{}, {"changes": {}}])
def test_the_token_that_acted_is_told(detail: dict[str, Any]) -> None:
    told = facts_of(item("job.updated", detail | {"by_token": 7}), {})
    assert told == [Fact(label="With API token", value="#7")]


def test_roles_are_told_in_words_with_the_names_of_executors() -> None:
    before = [{"executor_id": 5, "role": "viewer"}]
    after = [
        {"executor_id": None, "role": "admin", "scripts": False},
        {"executor_id": 5, "role": "developer", "scripts": True},
    ]
    detail = {"name": "bob", "before": before, "grants": after, "sessions_ended": 2}
    told = facts_of(item("user.grants_changed", detail), {5: "billing"})
    assert told == [
        Fact(
            label="Roles",
            value="Admin of all executors; Developer with scripts of billing",
            before="Viewer of billing",
        ),
        Fact(label="Sessions ended", value="2"),
    ]


def test_what_a_newer_admin_wrote_is_shown_as_it_is() -> None:
    strange = item("job.polished", {"shine": [1, {"a": None}], "grants": [{"x": 1}]})
    assert audit_labels.action_text(strange.action) == "job.polished"
    told = {fact.label: fact.value for fact in facts_of(strange, {})}
    assert told == {"shine": '[1, {"a": null}]', "Roles": '[{"x": 1}]'}


def test_the_audit_is_read_where_it_is_written() -> None:
    """The search above knows the functions that write it."""
    assert {"write_audit", "NewAudit"} <= {name for name in vars(store_audit) if name in NOTING}
