"""Builds the documents as a site of static pages: `make site`.

The pages are those of the repository. They are copied, because a site has one folder for all and
the repository has not; links between them are changed to where they stand in the site, and links
to files that are no pages of it become plain text.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

# Where pages stand that are not in docs/, and those of docs/ that have another place.
PLACES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "executor_sdk/README.md": "sdk.md",
    "docker/README.md": "containers.md",
    "shared/PROTOCOL.md": "protocol.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.zh-CN.md": "zh/index.md",
}
TRANSLATED = re.compile(r"docs/([\w-]+)\.zh-CN\.md")  # to zh/ under the name of its original
# The navigation, by what a reader is after: to learn, to get something done, to look something up,
# to understand. Every page has a place.
PARTS: dict[str, tuple[str, ...]] = {
    "Tutorial": ("index.md", "install.md", "contents.md"),
    "How to: jobs": (
        *("jobs.md", "schedules.md", "sdk.md", "workflows.md", "workflow-examples.md"),
        *(
            "backfills.md",
            "coverage.md",
            "pools.md",
            "receipts.md",
            "scripts.md",
            "secrets.md",
            "agent.md",
            "agent-handlers.md",
        ),
        *("gitops.md", "console.md", "mcp.md"),
    ),
    "How to: operate": (
        *("deployment.md", "containers.md", "operations.md", "doctor.md", "backup.md"),
        *("high-availability.md", "alarms.md", "tracing.md", "self-audit.md", "what-if.md"),
        "time-machine.md",
        *("night-plan.md", "proof.md", "delays.md"),
    ),
    "How to: come from elsewhere": (
        *("coming-from-xxl-job.md", "xxl-job-audit.md", "xxl-job-import.md"),
        *("xxl-job-take-over.md", "import-quartz.md", "import-crontab.md"),
    ),
    "Reference": (
        *("configuration.md", "cli.md", "api.md", "errors.md", "log-events.md", "metrics.md"),
        *("protocol.md", "changelog.md"),
    ),
    "Explanation": (
        *("guarantees.md", "architecture.md", "security.md", "performance.md", "contributing.md"),
    ),
}
CHINESE = "简体中文"  # the pages that are translated, in the order of the parts above
DECISIONS = "Decisions"  # all of docs/decisions/

# Code in a line, which stays as it is, or a link.
_CODE_OR_LINK = re.compile(
    r"(`+)(?!`).*?(?<!`)\1(?!`)|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)"
)
_FENCE = re.compile(r"^(?:```|~~~)")


def place_of(source: str) -> str | None:
    """Where a file of the repository stands in the site; None: it does not."""
    if source in PLACES:
        return PLACES[source]
    if translated := TRANSLATED.fullmatch(source):
        return f"zh/{translated[1]}.md"
    name = Path(source)
    is_page = name.suffix in (".md", ".png", ".svg", ".json")
    return source.removeprefix("docs/") if source.startswith("docs/") and is_page else None


def with_links(text: str, source: str) -> str:
    """A page's text with links as they are in the site; code stays as it is."""
    lines, in_code = [], False
    for line in text.splitlines():
        if _FENCE.match(line.strip()):
            in_code = not in_code
        lines.append(
            line if in_code else _CODE_OR_LINK.sub(lambda each: _changed(each, source), line)
        )
    return "\n".join(lines) + "\n"


def _changed(link: re.Match[str], source: str) -> str:
    ticks, mark, words, target = link.groups()
    if ticks or re.match(r"[a-z]+:", target) or target.startswith("#"):
        return link.group()
    path, sharp, anchor = target.partition("#")
    leads_to = normpath((Path(source).parent / path).as_posix())
    place = place_of(leads_to)
    if place is None:
        return words  # a file of the repository that is no page
    here = Path(place_of(source) or "").parent.as_posix()
    return f"{mark}[{words}]({relpath(place, here)}{sharp}{anchor})"


def copy_pages(to: Path) -> list[str]:
    """Copy all pages and what they show; returns the places of the pages."""
    sources = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    sources += [ROOT / source for source in PLACES if not source.startswith("docs/")]
    pages = []
    for path in sorted(sources):
        source = path.relative_to(ROOT).as_posix()
        place = place_of(source)
        if place is None or source.startswith("docs/site/"):
            continue
        target = to / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            target.write_text(with_links(path.read_text(encoding="utf-8"), source), "utf-8")
            pages.append(place)
        else:
            shutil.copy(path, target)
    return pages


def navigation(pages: list[str]) -> dict[str, list[str]]:
    """The parts with their pages.

    Raises:
        ValueError: a part names a page that is not there, or a page is in no part or in two.
    """
    parts = {part: list(named) for part, named in PARTS.items()}
    translated = [f"zh/{page}" for part in parts.values() for page in part]
    parts[CHINESE] = [page for page in translated if page in pages]
    parts[DECISIONS] = [page for page in pages if page.startswith("decisions/")]
    named = {page for part in parts.values() for page in part}
    if gone := sorted(named - set(pages)):
        raise ValueError(f"PARTS in docs/site/build.py names pages that are gone: {gone}")
    if lost := sorted(set(pages) - named):
        raise ValueError(f"PARTS in docs/site/build.py lacks pages: {lost}")
    if sum(map(len, parts.values())) != len(named):
        raise ValueError("PARTS in docs/site/build.py names a page twice")
    return parts


def build(directory: Path) -> Path:
    """Build the site in a directory that is emptied; returns the folder of its pages.

    Raises:
        subprocess.CalledProcessError: a link leads nowhere; each is told by line.
    """
    shutil.rmtree(directory, ignore_errors=True)
    pages = copy_pages(directory / "pages")
    lines = [(HERE / "mkdocs.yml").read_text(encoding="utf-8"), "nav:"]
    for part, named in navigation(pages).items():
        lines.append(f"  - {json.dumps(part, ensure_ascii=False)}:")
        lines += [f"      - {page}" for page in named]
    config = directory / "mkdocs.yml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", str(config)]
    subprocess.run([*command, "--strict"], check=True)
    let_chinese_words_be_found(directory / "site" / "search.json")
    return directory / "site"


def let_chinese_words_be_found(index: Path) -> None:
    """Name Chinese among the languages of the search, which then cuts such texts into words.

    zensical takes the language of the theme and ignores `lang` of the plugin (0.0.73).
    """
    search = json.loads(index.read_text(encoding="utf-8"))
    search["config"]["lang"] = ["en", "zh"]
    index.write_text(json.dumps(search, ensure_ascii=False), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documents as a site.")
    parser.add_argument("directory", type=Path, nargs="?", default=ROOT / "build" / "site")
    args = parser.parse_args()
    try:
        site = build(args.directory)
    except (ValueError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
