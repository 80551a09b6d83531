"""Templates are ready before anybody asks for a page."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from tickwheel_admin.console.frame import rendering
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.templating import new_renderer

TEMPLATES = Path(rendering.__file__).parents[1] / "templates"
MAX_COLUMNS = 120


async def test_no_reader_waits_for_a_template_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "COMPILE_PAUSE_SECONDS", 0)
    renderer = new_renderer(Assets())
    await renderer.compile_all()

    monkeypatch.setattr(jinja2.PackageLoader, "load", pytest.fail)
    for name in renderer._environment.list_templates(extensions=("html",)):
        renderer._environment.get_template(name)


def test_templates_can_be_read_without_scrolling_sideways() -> None:
    long = [
        f"{path.relative_to(TEMPLATES)}:{number}"
        for path in TEMPLATES.rglob("*.html")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > MAX_COLUMNS
    ]
    assert not long
