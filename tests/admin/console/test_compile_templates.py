"""Templates are compiled by a process of their own once, and read at each start after that."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2
import pytest
from structlog.testing import capture_logs

from tickwheel_admin.console import compile_templates
from tickwheel_admin.console.compile_templates import FILE, main, read_compiled
from tickwheel_admin.console.frame import bytecode_cache, rendering
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.templating import new_renderer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "COMPILE_PAUSE_SECONDS", 0)
    monkeypatch.setattr(os, "nice", lambda _: 0)  # the process of the tests


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled, as at the start of a process."""
    monkeypatch.setattr(bytecode_cache.COMPILED, "_kept", {})


async def test_a_start_reads_what_was_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(tmp_path / FILE)
    forget(monkeypatch)
    monkeypatch.setattr(jinja2.Environment, "compile", pytest.fail)
    monkeypatch.setattr(compile_templates, "_compile_in_a_process", pytest.fail)

    read_compiled(tmp_path)
    renderer = new_renderer(Assets())  # compiles the templates with macros
    await compile_templates.compile_templates(renderer, tmp_path)

    assert os.listdir(tmp_path) == [FILE]


async def test_a_process_compiles_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = new_renderer(Assets())
    main(tmp_path / FILE)
    whole = dict(bytecode_cache.COMPILED._kept)
    forget(monkeypatch)
    asked: list[Path] = []

    async def compile_elsewhere(directory: Path) -> None:
        asked.append(directory)
        monkeypatch.setattr(jinja2.Environment, "compile", pytest.fail)

    monkeypatch.setattr(compile_templates, "_compile_in_a_process", compile_elsewhere)
    await compile_templates.compile_templates(renderer, tmp_path)

    assert asked == [tmp_path]
    assert bytecode_cache.COMPILED._kept == whole


@pytest.mark.parametrize("content", [None, b"", b"\x81\xa1a", b"\x91\x01"])
def test_a_damaged_file_is_as_none(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    forget(monkeypatch)
    read_compiled(tmp_path)
    assert bytecode_cache.COMPILED._kept == {}


async def test_a_process_that_fails_is_told_and_templates_are_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = new_renderer(Assets())
    whole = await _compiled(renderer)
    key, code = next(iter(whole.items()))
    monkeypatch.setattr(bytecode_cache.COMPILED, "_kept", {k: whole[k] for k in whole if k != key})
    renderer._environment.cache.clear()  # type: ignore[union-attr]
    nowhere = tmp_path / "missing" / "directory"

    with capture_logs() as logs:
        await compile_templates.compile_templates(renderer, nowhere)

    (told,) = (line for line in logs if line["event"] == "templates.not_compiled")
    assert told["status"] == 1
    assert "missing/directory" in told["problem"]
    assert bytecode_cache.COMPILED._kept[key] == code


async def _compiled(renderer: rendering.Renderer) -> dict[str, bytes]:
    await renderer.compile_all()
    for name in renderer.template_names():
        assert renderer.is_compiled(name)
    return dict(bytecode_cache.COMPILED._kept)
