"""The error codes in docs/errors.md, made from the code; `tests.support.documents` writes them.

A refusal is a call that has a code beside its text: `Conflict("job.changed", "Somebody …")`, or a
helper's `refuse(field, "required", "This is required.")`. The text says the rule and the way out,
so the reference is these texts.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tickwheel_admin.domain import errors
from tickwheel_admin.web.errors import _HTTP_ERRORS

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
_ADMIN = Path(__file__).parents[3] / "admin" / "tickwheel_admin"
# What the commands of the terminal and loops tell; no answer of the API has it.
_NO_ANSWERS = ("cli", "engine", "store/migrations")
_INVALID = "Some fields cannot be taken as they are."  # as web.errors.describe says it
PROBLEM = 0  # in the place of a status: a broken rule of a field, in `problems` of a 422
_CODE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z_]+)*")
_TEXT = re.compile(r"[A-Z“%].* .*[.?…]", re.DOTALL)
_MARKS = ("N_", "Word")  # functions that mark texts for translation
# Calls that note a broken rule of a field, beside `….refuse(field, code, text)`.
_PROBLEMS = ("InvalidInput.one", "Problem", "problem_at", "_refuse_at", "BadJson")


@dataclass(frozen=True, slots=True, order=True)
class Refusal:
    """One place of the code that refuses something."""

    code: str
    status: int  # of HTTP, or PROBLEM
    text: str  # English, with %(name)s for what it is filled with


@cache
def refusals() -> frozenset[Refusal]:
    """All of them."""
    found = {
        Refusal(code, status, text)
        for status, (code, text) in _HTTP_ERRORS.items()
        if status != errors.NotAllowed.status
    }
    found.add(Refusal("invalid_input", errors.InvalidInput.status, _INVALID))
    for path in _modules():
        tree = _tree(path)
        constants = _constants(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found |= set(_of_call(node, constants))
    return frozenset(found)


def _modules() -> list[Path]:
    return [
        path
        for path in sorted(_ADMIN.rglob("*.py"))
        if not path.relative_to(_ADMIN).as_posix().startswith(_NO_ANSWERS)
    ]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _of_call(call: ast.Call, constants: dict[str, str]) -> Iterator[Refusal]:
    function = ast.unparse(call.func)
    kind = getattr(errors, function, None)
    if function in _PROBLEMS or function.endswith(".refuse"):
        status = PROBLEM
    elif isinstance(kind, type) and issubclass(kind, errors.UserError):
        status = kind.status
    else:
        return
    named = {each.arg: each.value for each in call.keywords}
    pairs = list(zip(call.args, call.args[1:], strict=False))
    if "code" in named and "template" in named:
        pairs.append((named["code"], named["template"]))
    for code, text in pairs:
        codes = [each for each in _texts(code, constants) if _CODE.fullmatch(each)]
        sentences = [each for each in _texts(text, constants) if _TEXT.fullmatch(each)]
        if isinstance(text, ast.Attribute) and text.attr == "template":
            sentences = [""]  # that of what was refused deeper down
        for each in codes:
            yield from (Refusal(each, status, sentence) for sentence in sentences)


def _texts(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """The texts that an argument can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name):
        yield from (constants[node.id],) if node.id in constants else ()
    elif isinstance(node, ast.Attribute):
        yield from (constants[node.attr],) if node.attr in constants else ()
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, constants)
        yield from _texts(node.orelse, constants)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MARKS:
        yield from _texts(node.args[0], constants)


def _constants(path: Path) -> dict[str, str]:
    """Names of texts in a module: its own, and those that other modules call by the same name."""
    return _all_constants() | _own_constants(path)


@cache
def _all_constants() -> dict[str, str]:
    values: defaultdict[str, set[str]] = defaultdict(set)
    for path in _modules():
        for name, value in _own_constants(path).items():
            values[name].add(value)
    return {name: each.pop() for name, each in values.items() if len(each) == 1}


@cache
def _own_constants(path: Path) -> dict[str, str]:
    return {
        target.id: text
        for node in _tree(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
        for text in _texts(node.value, {})
    }


def reference() -> str:
    """The two tables of the page."""
    found = refusals()
    whole = sorted({(each.status, each.code) for each in found if each.status != PROBLEM})
    fields = sorted({each.code for each in found if each.status == PROBLEM})
    lines = [
        "## Errors of a whole request",
        "",
        "| status | code | what is told |",
        "|---|---|---|",
    ]
    for status, code in whole:
        lines.append(f"| {status} | `{code}` | {_told(found, code, status)} |")
    lines += ["", "## Problems of fields", ""]
    lines += ["They stand in `problems` of `invalid_input`, status 422.", ""]
    lines += ["| code | what is told |", "|---|---|"]
    lines += [f"| `{code}` | {_told(found, code, PROBLEM)} |" for code in fields]
    return "\n".join(lines)


def _told(found: frozenset[Refusal], code: str, status: int) -> str:
    texts = {each.text for each in found if (each.code, each.status) == (code, status)}
    return "<br>".join(_markdown(each) or "what exactly is wrong" for each in sorted(texts))


def _markdown(text: str) -> str:
    """A text with what it is filled with as emphasis, and the rest as it is."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):  # the others are code
        marked = re.sub(r"%\((\w+)\)[sd]", "\0\\1\0", parts[index])
        escaped = re.sub(r"([*_\[\]<|$\\])", r"\\\1", marked)
        parts[index] = re.sub("\0(.*?)\0", r"*\1*", escaped)
    return "`".join(parts).replace("%%", "%")
