"""Every block of code in the documents is checked, or marked with the reason why not.

Commands are read by the parsers of their programs, calls of the API by the OpenAPI document, YAML,
JSON and TOML by what reads jobs and settings; Python is executed, and so is what needs no admin.
"""

from __future__ import annotations

import ast
import configparser
import contextlib
import inspect
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tickwheel_executor
from tests.support.document_blocks import data, shell
from tests.support.document_blocks.blocks import ROOT, Block, blocks_of, pages
from tickwheel_admin.cli.commands import run
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_executor import Executor
from tickwheel_executor.errors import ConfigurationError

_OUTPUT = ("", "text", "mermaid", "nginx", "caddyfile", "sql")  # nothing here reads these
_SAFE = ("cron",)  # commands of `tickwheel` that need no admin and change nothing


def unchecked(block: Block) -> str | None:
    """What of a block nothing can check; None: nothing.

    Raises:
        AssertionError: with what is wrong with it.
    """
    try:
        problems = list(_problems(block))
    except (data.NotKnown, shell.Unknown) as error:
        return str(error)
    assert problems == []
    return None


def _problems(block: Block) -> Iterator[str]:
    if block.language == "sh":
        yield from shell.problems(block.text)
    elif block.language == "console":
        typed = re.findall(r"^\$ (.+)$", block.text, re.MULTILINE)
        if not typed:
            raise data.NotKnown("output")
        yield from shell.problems("\n".join(typed))
    elif block.language == "yaml":
        yield from data.yaml_problems(block.text)
    elif block.language == "json":
        yield from data.json_problems(block.text)
    elif block.language == "toml":
        yield from data.toml_problems(block.text)
    elif block.language == "properties":
        yield from (line for line in block.text.splitlines() if not re.match(r"[\w.]+=\S+$", line))
    elif block.language == "ini":
        head = "" if block.text.startswith("[") else "[all]\n"
        configparser.ConfigParser().read_string(head + block.text)
    elif block.language in _OUTPUT:
        raise data.NotKnown(block.language or "a block without a language")
    elif block.language != "python":  # those of a page are executed together, below
        yield f"no test knows blocks of {block.language}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_blocks_are_right_or_marked(page: Path) -> None:
    for block in blocks_of(page):
        try:
            what = unchecked(block)
        except Exception as error:
            raise AssertionError(f"{block}: {error}") from error
        if what is not None and block.why_not is None:
            raise AssertionError(
                f"{block}: nothing here checks it ({what}):"
                " write <!-- not run: the reason --> before it"
            )
        is_needed = what is not None or block.language == "python"  # see below
        assert is_needed or block.why_not is None, f"{block}: its mark is needless"


def with_python() -> list[Path]:
    return [page for page in pages() if any(each.language == "python" for each in blocks_of(page))]


@pytest.mark.parametrize("page", with_python(), ids=lambda page: page.relative_to(ROOT).as_posix())
async def test_python_runs_block_by_block(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWHEEL_TOKEN", "t" * 40)
    monkeypatch.setenv("TICKWHEEL_ADMINS", "http://localhost:8500")
    monkeypatch.setattr(Executor, "run", lambda _self: None)  # it would serve until a signal
    namespace: dict[str, Any] = {
        name: getattr(tickwheel_executor, name) for name in tickwheel_executor.__all__
    }
    namespace |= {"__name__": "service", "executor": Executor("example")}
    for block in blocks_of(page):
        if block.language == "python":
            if block.why_not is None:
                await execute(block, namespace)
                continue
            # The machine lacks what the block names, and it is right up to there.
            with pytest.raises(ConfigurationError):
                await execute(block, namespace)


async def execute(block: Block, namespace: dict[str, Any]) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    done = eval(compile(block.text, str(block), "exec", flags=flags), namespace)
    if inspect.isawaitable(done):
        await done


def safe_commands() -> list[tuple[str, list[str], list[str]]]:
    """Commands that need no admin, with the output that the comments after them show."""
    found = []
    for page in pages():
        for block in blocks_of(page):
            if block.language == "sh":
                for line, shown in re.findall(r"^(tickwheel .+\n)((?:# .*\n)*)", block.text, re.M):
                    command, _, comment = line.partition("  # ")
                    words = shlex.split(command)[1:]
                    if words[0] in _SAFE:
                        told = [*([comment] if comment else []), *shown.splitlines()]
                        expected = [each.removeprefix("# ").strip() for each in told]
                        found.append((str(block), words, expected))
    return found


@pytest.mark.parametrize(("place", "words", "expected"), safe_commands())
def test_commands_that_need_no_admin_print_what_is_shown(
    place: str, words: list[str], expected: list[str]
) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(words) == 0, place
    assert [line.strip() for line in printed.getvalue().splitlines()][: len(expected)] == expected


# --- that the checks find what is wrong -----------------------------------------------------------


def block(language: str, text: str, why_not: str | None = None) -> Block:
    return Block(page=ROOT / "x.md", line=1, language=language, text=text, why_not=why_not)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "tickwheel jobs list"),
        ("sh", "tickwheel job list --no-such"),
        ("sh", "export A=1; tickwheel rerun"),
        ("sh", "export TOKEN=$(tickwheel token mint deploy)"),
        ("sh", "make demos"),
        ("sh", "make bench QUICK=1"),
        ("sh", "curl $API/jobz"),
        ("sh", "curl '$API/jobs?tags=x'"),
        ("sh", "curl -H 'Content-Type: application/json' -d '{\"nam\": 1}' $API/executors"),
        ("sh", "pip install './executor_sdk[agents]'"),
        ("sh", "python -m tests.no_such_module"),
        ("console", "$ tickwheel plans -f x"),
        ("yaml", "name: a\nhandler: b\nretrys: 3"),
        ("yaml", "name: a\nhandler: b\ntriggers: [{kind: cron, expression: '61 * * * *'}]"),
        ("yaml", "type: executor\nname: a\ncolour: red"),
        ("yaml", "steps: [{run: tickwheel planning}]"),
        ("json", '{"name": "a", "handler": "b", "retries": "many"}'),
        ("toml", "prot = 8500"),
        ("toml", 'port = "many"'),
        ("rust", "fn main() {}"),
    ],
)
def test_what_is_wrong_is_found(language: str, text: str) -> None:
    with pytest.raises((AssertionError, InvalidInput)):
        unchecked(block(language, text))


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "kubectl get pods"), ("", "some output"), ("yaml", "scrape_configs: []")],
)
def test_what_nothing_checks_needs_a_mark(language: str, text: str) -> None:
    assert unchecked(block(language, text)) is not None


def test_commands_to_run_are_found() -> None:
    places = [(words[0], expected != []) for _place, words, expected in safe_commands()]
    assert places.count(("cron", True)) >= 2


def test_a_mark_belongs_to_the_block_below_it(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text("<!-- not run: output -->\n```\na\n```\n\n```sh\nmake demo\n```\n")
    assert [each.why_not for each in blocks_of(page)] == ["output", None]
