"""A rule's own text: a Jinja2 template without loops, so that it always ends, and soon.

Only what is listed here may stand in a template: values, comparisons, conditions and filters that
make nothing longer. Its time and its output are bounded by its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_SOURCE_CHARS = 2_000
MAX_TEXT_CHARS = 2_000  # of what is rendered; the rest is cut off
MAX_VALUE_CHARS = 500
# What a template may name; tests and the documentation list the same.
VALUES = (
    "job", "executor", "owner", "kind", "severity", "count", "run_id", "error", "since", "rule",
)  # fmt: skip
_FILTERS = frozenset({"upper", "lower", "title", "capitalize", "trim", "default", "length"})
_TESTS = frozenset({"defined", "none", "eq", "ne", "gt", "ge", "lt", "le", "in"})
_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.If,
    nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Concat,
    nodes.Filter, nodes.Test,
)  # fmt: skip

_environment = ImmutableSandboxedEnvironment(autoescape=False)


class OwnTextError(ValueError):
    """A template that cannot be used; `template` and `params` say why, for people."""

    def __init__(self, template: str, **params: Any) -> None:
        self.template = template
        self.params = params
        super().__init__(template % params if params else template)


def check_own_text(source: str) -> None:
    """Whether the template can be used.

    Raises:
        OwnTextError: it cannot be read, or has what is not allowed.
    """
    _compiled(source)


def render_own_text(source: str, values: Mapping[str, Any]) -> str:
    """The text for one alarm; "" if the template cannot be used after all.

    Args:
        values: by the names of `VALUES`; what is missing is empty.
    """
    if not source:
        return ""
    try:
        return _compiled(source).render(_bounded(values))[:MAX_TEXT_CHARS]
    # A text of somebody's own must not keep an alarm from being told: TypeError and ValueError
    # come from comparing a number with a text.
    except (OwnTextError, TemplateError, TypeError, ValueError):
        return ""


def _bounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value[:MAX_VALUE_CHARS] if isinstance(value, str) else value
        for name in VALUES
        if (value := values.get(name)) is not None
    }


@lru_cache(maxsize=1_000)
def _compiled(source: str) -> Template:
    try:
        tree = _environment.parse(source)
        for node in (tree, *tree.find_all(nodes.Node)):
            _check(node)
        return _environment.from_string(source)
    except TemplateError as error:
        raise OwnTextError("This is not a template: %(reason)s", reason=str(error)[:200]) from None
    except RecursionError:
        raise OwnTextError("This is nested too deeply.") from None


def _check(node: nodes.Node) -> None:
    if isinstance(node, nodes.Name) and node.name not in VALUES:
        raise OwnTextError(
            "There is no value “%(name)s”; there are %(known)s.",
            name=node.name,
            known=", ".join(VALUES),
        )
    if isinstance(node, nodes.Filter) and (node.name not in _FILTERS or node.kwargs):
        raise OwnTextError(
            "The filter “%(name)s” is not allowed; allowed are %(known)s.",
            name=node.name,
            known=", ".join(sorted(_FILTERS)),
        )
    if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.Test) and node.name not in _TESTS):
        raise OwnTextError(
            "Only values, filters and conditions are allowed here, not “%(what)s”.",
            what=type(node).__name__.lower(),
        )
