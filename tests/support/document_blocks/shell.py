"""Command lines of a block of shell: each is read by the parser of its program."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

from tests.support.document_blocks import curl
from tests.support.document_blocks.blocks import ROOT
from tickwheel_admin.cli.commands import make_parser

_BUILTINS = ("export", "echo", "set", "source", "printf", "exit", "cd")
# Programs of the system whose words are checked by nothing but the shell, and known to exist.
_FILTERS = ("jq", "sort", "uniq", "wc", "head", "openssl")
_ASSIGNMENT = re.compile(r"\w+=")
_SEPARATORS = ";|&()\n"


class Unknown(Exception):
    """A command that nothing here can check."""


def problems(text: str) -> Iterator[str]:
    """What is wrong with the command lines.

    Raises:
        Unknown: a program is not known here; those before it were checked.
    """
    unknown = []
    for words in commands(text):
        try:
            yield from _problems(words)
        except Unknown as error:
            unknown.append(str(error))
    if unknown:
        raise Unknown(", ".join(dict.fromkeys(unknown)))


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command, without redirections."""
    text = re.sub(r"(?m)(^|\s)#.*$", r"\1", text).replace("\\\n", " ")
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_SEPARATORS + "<>")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    is_target = False
    for word in [*lexer, "\n"]:
        if set(word) <= set(_SEPARATORS + "<>"):
            is_target = set(word) <= set("<>")
            if not is_target:
                if words:
                    yield words
                words = []
        elif is_target:
            is_target = False
        else:
            words.append(word)


def _problems(words: list[str]) -> Iterator[str]:
    while words and _ASSIGNMENT.match(words[0]):
        words = words[1:]
    if not words or words[0].endswith("=$"):
        return
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program == "ssh":
        raise Unknown("ssh")
    if program == "tickwheel":
        yield from parsed(make_parser(), rest)
    elif program == "tickwheel-agent":
        yield from _agent(rest)
    elif program == "make":
        yield from _make(rest)
    elif program == "curl":
        yield from curl.problems(rest)
    elif program in ("python", "python3"):
        yield from _python(rest)
    elif program in ("pip", "pipx", "uvx"):
        yield from _installing(rest)
    elif program not in (*_BUILTINS, *_FILTERS):
        raise Unknown(program)


def parsed(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[str]:
    """What a parser refuses."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(words)
    except SystemExit as end:
        if end.code:
            yield told.getvalue().strip().rpartition("\n")[2]


def _agent(words: list[str]) -> Iterator[str]:
    source = (ROOT / "executor_sdk/tickwheel_executor/agent/program.py").read_text("utf-8")
    for word in words:
        if word.startswith("--") and f'"{word.partition("=")[0]}"' not in source:
            yield f"tickwheel-agent has no {word}"


@cache
def _makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def _make(words: list[str]) -> Iterator[str]:
    for word in words:
        name, equals, _ = word.partition("=")
        if equals and not re.search(rf"\$\((?:if \$\(|or \$\()?{name}\b", _makefile()):
            yield f"nothing in the Makefile reads {name}"
        if not equals and not re.search(rf"^{name}:", _makefile(), re.MULTILINE):
            yield f"the Makefile has no target {name}"


def _python(words: list[str]) -> Iterator[str]:
    if words[:1] == ["-m"] and find_spec(words[1]) is None:
        yield f"there is no module {words[1]}"
    if words[:2] == ["-m", "pytest"]:
        for each in words[2:]:
            if "/" in each and not (ROOT / each).exists():
                yield f"there is no {each}"


def _installing(words: list[str]) -> Iterator[str]:
    """Distributions of this repository, by folder or by wheel, and their extras."""
    for word in words:
        found = re.match(r"(?:\./|dist/tickwheel_)(\w+?)(?:-[^\[]*)?(?:\[(.+)\])?$", word)
        if found is None:
            continue
        folder = {"executor": "executor_sdk"}.get(found[1], found[1])
        if not (ROOT / folder / "pyproject.toml").exists():
            yield f"{word}: there is no such distribution"
            continue
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for extra in (found[2] or "").split(",") if found[2] else ():
            if extra not in project["optional-dependencies"]:
                yield f"{word}: there is no extra {extra}"
