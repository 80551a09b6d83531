"""The job form seen as YAML, and the way there and back: nothing that was typed is lost in it.

Each view carries the other as it was when it was left. Coming back without having changed what the
job says finds it exactly so: a YAML text with its comments, a form with all that it holds beside
what is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from multidict import MultiDict, MultiMapping

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.services.jobs.imports import MAX_IMPORTED
from tickwheel_admin.services.jobs.yaml import from_yaml, placed, to_yaml
from tickwheel_admin.services.jobs.yaml_reader import read_yaml, read_yaml_documents

_NOT_KEPT = frozenset({"csrf_token", "do", "then", "view", "kept_yaml"})
_WORKFLOW = re.compile(r"(?m)^workflow:")
_MISSING = {"name": "-", "handler": "-"}  # what a job that is not finished is read with


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlView:
    """A job as somebody types it in YAML."""

    text: str
    kept_form: str = ""  # the form that it was made of, as a query string; "": there was none
    problems: tuple[Problem, ...] = ()  # with `line` in their params, but for those of the whole

    @property
    def has_workflow(self) -> bool:
        """Whether it looks like a workflow, also while it cannot be read."""
        return _WORKFLOW.search(self.text) is not None

    def raw(self) -> dict[str, Any]:
        """The raw job, its fields not checked yet; raises InvalidInput of the field "yaml"."""
        return read_yaml(self.text).value

    def holds_many(self) -> bool:
        """Whether it is several documents, as an export of many jobs is; raises InvalidInput."""
        return len(read_yaml_documents(self.text, most=MAX_IMPORTED)) > 1

    def refused(self, problems: Sequence[Problem]) -> YamlView:
        """The same, with what is wrong and where; the executor is chosen beside the text."""
        of_text = [problem for problem in problems if problem.field != "executor_id"]
        try:
            if all("line" in problem.params for problem in of_text) and of_text:
                pass  # of several documents, or of none that can be read
            elif any(problem.field != "yaml" for problem in of_text):
                of_text = placed(of_text, read_yaml(self.text))
            elif len(of_text) < len(problems):
                self.holds_many()  # nobody has looked at it yet
        except InvalidInput as unreadable:
            of_text = list(unreadable.problems)
        return replace(self, problems=tuple(of_text))

    def line(self, problem: Problem) -> str:
        """The line that a problem is about, as it was typed."""
        lines = self.text.splitlines()
        number = problem.params.get("line", 0)
        return lines[number - 1].strip()[:120] if 0 < number <= len(lines) else ""


def yaml_as_sent(sent: MultiMapping[str]) -> YamlView | None:
    """The YAML view as somebody filled it in; None: the form was shown."""
    if sent.get("view") != "yaml":
        return None
    return YamlView(text=with_plain_ends(sent.get("yaml", "")), kept_form=sent.get("kept_form", ""))


def yaml_of_form(
    raw: Mapping[str, Any], sent: MultiMapping[str] | None, kept_yaml: str
) -> YamlView:
    """The YAML view of what a form says.

    Args:
        sent: the form as it was filled in.
        kept_yaml: the text that the form was made of; "": there was none.
    """
    text = to_yaml(raw)
    if kept_yaml and _says_the_same(kept_yaml, text):
        text = kept_yaml
    return YamlView(text=text, kept_form="" if sent is None else _as_query(sent))


def form_kept(view: YamlView) -> MultiDict[str] | None:
    """The form that the view was made of, as it was sent; None: there was none."""
    if not view.kept_form:
        return None
    return MultiDict(parse_qsl(view.kept_form, keep_blank_values=True))


def says_the_same(view: YamlView, raw: Mapping[str, Any]) -> bool:
    """Whether a view says no other job than this one."""
    return _says_the_same(view.text, to_yaml(raw))


def draft_of(raw: Mapping[str, Any]) -> tuple[JobConfig, frozenset[str]]:
    """The configuration that a raw job means, and which of name and handler it does not say yet.

    Raises:
        InvalidInput: with every problem found, but that one of these is missing.
    """
    missing = frozenset(
        name
        for name in _MISSING
        if raw.get(name) in (None, "") and not (name == "handler" and raw.get("script"))
    )
    return parse_job({**raw, **{name: _MISSING[name] for name in missing}}), missing


def with_plain_ends(text: str) -> str:
    """Browsers send every end of a line as CR LF."""
    return text.replace("\r\n", "\n")


def _says_the_same(text: str, other: str) -> bool:
    try:
        first, second = from_yaml(text), from_yaml(other)
        return first == second or draft_of(first) == draft_of(second)
    except InvalidInput:
        return False


def _as_query(sent: MultiMapping[str]) -> str:
    return urlencode([(name, value) for name, value in sent.items() if name not in _NOT_KEPT])
