"""Templates are compiled by a process of their own once, and read at each start after that."""

from __future__ import annotations

import io
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


def compiled() -> bytes:
    """What the process says."""
    output = io.BytesIO()
    main(output)
    return output.getvalue()


def answer(monkeypatch: pytest.MonkeyPatch, whole: bytes) -> None:
    """Have the process say this, and nothing compiled after it."""

    async def compile_elsewhere() -> bytes:
        monkeypatch.setattr(jinja2.Environment, "compile", pytest.fail)
        return whole

    monkeypatch.setattr(compile_templates, "_compile_in_a_process", compile_elsewhere)


async def test_a_process_compiles_what_the_next_start_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer, whole = new_renderer(Assets()), compiled()
    directory = tmp_path / "not" / "yet"
    forget(monkeypatch)
    answer(monkeypatch, whole)
    await compile_templates.compile_templates(renderer, directory)
    assert os.listdir(directory) == [FILE]

    forget(monkeypatch)
    monkeypatch.setattr(compile_templates, "_compile_in_a_process", pytest.fail)
    read_compiled(directory)
    await compile_templates.compile_templates(new_renderer(Assets()), directory)


async def test_without_a_place_to_write_they_are_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer, whole = new_renderer(Assets()), compiled()
    nowhere = tmp_path / "file"
    nowhere.write_bytes(b"")
    forget(monkeypatch)
    answer(monkeypatch, whole)

    with capture_logs() as logs:
        await compile_templates.compile_templates(renderer, nowhere)

    assert [line["event"] for line in logs] == ["templates.not_kept"]
    assert all(map(renderer.is_compiled, renderer.template_names()))


@pytest.mark.parametrize("content", [None, b"", b"\x81\xa1a", b"\x91\x01"])
def test_a_damaged_file_is_as_none(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    forget(monkeypatch)
    read_compiled(tmp_path)
    assert bytecode_cache.COMPILED._kept == {}


@pytest.mark.parametrize(("mode", "is_read"), [(0o600, True), (0o644, True), (0o660, False)])
def test_a_file_that_others_may_write_is_not_run(
    mode: int, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch)
    bytecode_cache.COMPILED._kept["kept"] = b""
    bytecode_cache.COMPILED.write(tmp_path / FILE)
    (tmp_path / FILE).chmod(mode)
    forget(monkeypatch)
    read_compiled(tmp_path)
    assert ("kept" in bytecode_cache.COMPILED._kept) is is_read


async def test_a_process_that_fails_is_told_and_templates_are_compiled_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderer = new_renderer(Assets())
    await renderer.compile_all()
    some = renderer.template_names()[:1]
    whole = dict(bytecode_cache.COMPILED._kept)
    forget(monkeypatch)
    monkeypatch.setattr(renderer, "template_names", lambda: some)
    renderer._environment.cache.clear()  # type: ignore[union-attr]
    monkeypatch.setattr(compile_templates, "__name__", "tickwheel_admin.no_such_module")

    with capture_logs() as logs:
        await compile_templates.compile_templates(renderer, tmp_path)

    (told,) = (line for line in logs if line["event"] == "templates.not_compiled")
    assert told["status"] == 1
    assert "no_such_module" in told["problem"]
    assert os.listdir(tmp_path) == []
    assert bytecode_cache.COMPILED._kept.items() <= whole.items()
    assert all(map(renderer.is_compiled, some))
