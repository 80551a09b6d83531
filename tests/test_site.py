"""The documents as a site: every link leads somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "docs/site/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = builder.build(tmp_path_factory.mktemp("site"))  # strict: all links are checked
    return built


def test_every_document_is_a_page_that_is_found(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    documents = {path.stem for path in (ROOT / "docs").glob("*.md")}
    translated = {name for name in documents if name.endswith(".zh-CN")}
    assert {f"{name}.html" for name in documents - translated - {"README"}} <= pages
    assert {f"zh/{name.removesuffix('.zh-CN')}.html" for name in translated} <= pages
    assert {"index.html", "sdk.html", "zh/index.html", "zh/jobs.html"} <= pages
    found = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    assert {each["location"].partition("#")[0] for each in found} >= pages - {"404.html"}


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=\"?(https?:|//)[^>]*|<link[^>]*stylesheet[^>]*https?:[^>]*"
    )
    found = {
        f"{path.name}: {each.group()[:200]}"
        for path in site.rglob("*.html")
        for each in loads.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_a_link_that_leads_nowhere_is_refused(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = builder.copy_pages

    def with_a_wrong_anchor(to: Path) -> object:
        pages = copy(to)
        page = to / "pools.md"
        page.write_text(page.read_text() + "\n[wrong](schedules.md#no-such-heading)\n")
        return pages

    monkeypatch.setattr(builder, "copy_pages", with_a_wrong_anchor)
    with pytest.raises(subprocess.CalledProcessError):
        builder.build(tmp_path / "site")


def test_every_page_has_one_place_in_the_navigation(
    builder: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [page for part in builder.PARTS.values() for page in part]
    assert list(builder.navigation(pages)) == [*builder.PARTS, builder.CHINESE, builder.DECISIONS]
    with pytest.raises(ValueError, match=r"lacks pages: \['new.md'\]"):
        builder.navigation([*pages, "new.md"])
    with pytest.raises(ValueError, match=r"gone: \['jobs.md'\]"):
        builder.navigation([page for page in pages if page != "jobs.md"])
    monkeypatch.setitem(builder.PARTS, "Reference", (*builder.PARTS["Reference"], "jobs.md"))
    with pytest.raises(ValueError, match="twice"):
        builder.navigation(pages)


def test_links_are_as_they_are_in_the_site(builder: ModuleType) -> None:
    text = (
        "[a](../README.md#x) [b](jobs.md) ![c](images/run.png) [d](../tests/README.md) `[e](f)`\n"
    )
    assert builder.with_links(text, "docs/pools.md") == (
        "[a](index.md#x) [b](jobs.md) ![c](images/run.png) d `[e](f)`\n"
    )
    fenced = "```sh\n[a](../README.md)\n```\n"
    assert builder.with_links(fenced, "docs/pools.md") == fenced
    assert builder.with_links("[a](../jobs.md)", "docs/decisions/x.md") == "[a](../jobs.md)\n"


def test_the_search_cuts_chinese_texts_into_words(site: Path) -> None:
    search = json.loads((site / "search.json").read_text(encoding="utf-8"))
    assert "zh" in search["config"]["lang"]  # what it looks like: tests/browser/site
