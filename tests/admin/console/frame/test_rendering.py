"""Templates are ready before anybody asks for a page."""

from __future__ import annotations

import jinja2
import pytest

from tickwheel_admin.console.frame import rendering
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.templating import new_renderer


async def test_no_reader_waits_for_a_template_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rendering, "COMPILE_PAUSE_SECONDS", 0)
    renderer = new_renderer(Assets())
    await renderer.compile_all()

    monkeypatch.setattr(jinja2.PackageLoader, "load", pytest.fail)
    for name in renderer._environment.list_templates(extensions=("html",)):
        renderer._environment.get_template(name)
