"""Fetch the console's third-party files at pinned versions: `python -m tests.support.vendor`.

Needs npm and a network; nobody else does, for the files are committed. A package whose content is
not the one pinned here is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "admin/tickwheel_admin/console/static"
BROWSER_TESTS = ROOT / "tests/browser"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package of which some files are kept."""

    name: str
    version: str
    licence: str
    home: str
    sha512: str  # of the package archive, base64, as lock files write it
    files: tuple[tuple[str, Path], ...]  # path in the package, where it goes
    licence_file: str = "LICENSE"


PACKAGES = (
    Package(
        name="htmx.org",
        version="2.0.11",
        licence="0BSD",
        home="https://github.com/bigskysoftware/htmx",
        sha512="Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        files=(("dist/htmx.min.js", STATIC / "vendor/htmx-2.0.11.min.js"),),
    ),
    Package(
        name="idiomorph",
        version="0.8.0",
        licence="0BSD",
        home="https://github.com/bigskysoftware/idiomorph",
        sha512="R47JBL+6jHDQvcnbppIUtXXcxi5h6+wuCEEZXnRhUltsgzPFKzThL5PuHppP9ypJuy+7WawcY1TsSBD/iQbMhw==",
        files=(("dist/idiomorph-ext.min.js", STATIC / "vendor/idiomorph-ext-0.8.0.min.js"),),
    ),
    Package(
        name="@fontsource-variable/inter",
        version="5.3.0",
        licence="OFL-1.1",
        home="https://github.com/rsms/inter",
        sha512="OupL48va4JNofb97w6NYeF9S7W/kHNKM0Er8Dem5nqi4jeOLrVJDoE8tZEpnMJmtkvNbB1EIPPwHcdkF6b1oUA==",
        files=(("files/inter-latin-wght-normal.woff2", STATIC / "vendor/inter-5.3.0-latin.woff2"),),
    ),
    Package(
        name="@fontsource-variable/jetbrains-mono",
        version="5.3.0",
        licence="OFL-1.1",
        home="https://github.com/JetBrains/JetBrainsMono",
        sha512="F32xpS2NsGYoQi2ADSkKTgpJj7ozajsGgDJ8woTnqjmIB+dxDIqImjl4pXZVEExu8UFZ2ndhmX18EBS/hdz3Lw==",
        files=(
            (
                "files/jetbrains-mono-latin-wght-normal.woff2",
                STATIC / "vendor/jetbrains-mono-5.3.0-latin.woff2",
            ),
        ),
    ),
    Package(
        name="axe-core",
        version="4.14.1",
        licence="MPL-2.0",
        home="https://github.com/dequelabs/axe-core",
        sha512="FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        files=(("axe.min.js", BROWSER_TESTS / "vendor/axe-4.14.1.min.js"),),
    ),
)

# Bundled of many small packages, which tests/support/editor/package-lock.json pins. All have one
# author and the same licence text but for the name of its holders.
EDITOR = Path(__file__).parent / "editor"
EDITOR_BUNDLE = STATIC / "vendor/codemirror-6.0.2.min.js"

ICONS = Package(
    name="@tabler/icons",
    version="3.51.0",
    licence="MIT",
    home="https://github.com/tabler/tabler-icons",
    sha512="0pinvPZz7YeX+OSfxuEAbnEPWbocVXW5iU8h5lh41pYG8sZuQfpWECC980lxOT0clGIcNGn8xsBr+zKaRGdA/g==",
    files=(),
)

# The name of a symbol in the sprite says what it means here, not what is drawn.
SYMBOLS = {
    "overview": "layout-dashboard",
    "jobs": "calendar-repeat",
    "runs": "activity",
    "executors": "server-2",
    "calendar": "calendar-month",
    "search": "search",
    "filter": "filter",
    "language": "language",
    "light": "sun",
    "dark": "moon",
    "system": "device-desktop",
    "user": "user-circle",
    "log-out": "logout",
    "password": "key",
    "lock": "lock",
    "add": "plus",
    "run": "player-play",
    "edit": "pencil",
    "delete": "trash",
    "cancel": "player-stop",
    "pause": "player-pause",
    "retry": "refresh",
    "rotate": "rotate-clockwise",
    "copy": "copy",
    "duplicate": "copy-plus",
    "build": "adjustments-horizontal",
    "upload": "upload",
    "download": "download",
    "wrap": "text-wrap",
    "clock": "clock",
    "follow": "arrow-down",
    "next": "chevron-right",
    "previous": "chevron-left",
    "open": "chevron-down",
    "start": "rocket",
    "check": "check",
    "more": "dots",
    "close": "x",
    "warning": "alert-triangle",
    "bell": "bell",
    "info": "info-circle",
    "keyboard": "keyboard",
    "offline": "plug-connected-x",
    "connected": "plug-connected",
    "code": "terminal-2",
    "audit": "history",
    "users": "users",
    "user-add": "user-plus",
    "token": "api",
    "settings": "settings",
    "menu": "menu-2",
    "guide": "book-2",
    "session": "device-laptop",
    "phone": "device-mobile",
    "shield": "shield-check",
    "world": "world",
    "s-queued": "circle-dashed",
    "s-dispatched": "send",
    "s-running": "loader-2",
    "s-succeeded": "circle-check",
    "s-failed": "circle-x",
    "s-timed_out": "clock-exclamation",
    "s-cancelled": "ban",
    "s-lost": "plug-connected-x",
    "s-skipped": "player-skip-forward",
    "s-retrying": "rotate-clockwise",
}


def main() -> None:
    """Fetch everything, write VENDORED.md and the licence texts."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for package in (*PACKAGES, ICONS):
            archive = _fetch(package, Path(folder))
            for inside, target in package.files:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(_read(archive, inside))
                table.append(_row(package, target))
            if package is ICONS:
                sprite = STATIC / "icons.svg"
                sprite.write_text(_sprite(archive))
                table.append(_row(package, sprite))
            name = package.name.strip("@").replace("/", "-")
            licence = STATIC / f"vendor/licences/{name}.txt"
            licence.parent.mkdir(parents=True, exist_ok=True)
            licence.write_bytes(_read(archive, package.licence_file))
        table.append(_bundle_editor(Path(folder)))
    (STATIC / "vendor/VENDORED.md").write_text(_HEAD + "".join(table))


def _fetch(package: Package, folder: Path) -> Path:
    packed = subprocess.run(
        ["npm", "pack", "--json", "--ignore-scripts", f"{package.name}@{package.version}"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    archive = folder / json.loads(packed.stdout)[0]["filename"]
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.sha512:
        raise SystemExit(f"{package.name} {package.version} is not the pinned one: sha512 {found}")
    return archive


def _bundle_editor(folder: Path) -> str:
    """Build the script editor; npm refuses a package whose content is not the pinned one."""
    work = folder / "editor"
    shutil.copytree(EDITOR, work)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(npm, cwd=work, check=True, capture_output=True)
    subprocess.run(
        [
            "node_modules/.bin/esbuild",
            "bundle.js",
            "--bundle",
            "--minify",
            "--format=esm",
            "--target=es2022",
            "--legal-comments=none",
            f"--outfile={EDITOR_BUNDLE}",
        ],
        cwd=work,
        check=True,
        capture_output=True,
    )
    licence = (work / "node_modules/codemirror/LICENSE").read_bytes()
    (STATIC / "vendor/licences/codemirror.txt").write_bytes(licence)
    package = Package(
        name="codemirror",
        version="6.0.2",
        licence="MIT",
        home="https://codemirror.net",
        sha512="",
        files=(),
    )
    return _row(package, EDITOR_BUNDLE)


def _read(archive: Path, inside: str) -> bytes:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"package/{inside}")
        assert member is not None, inside
        return member.read()


def _sprite(archive: Path) -> str:
    """One SVG with a symbol for each icon; size and stroke come from the style sheet."""
    symbols = []
    for name, icon in SYMBOLS.items():
        svg = _read(archive, f"icons/outline/{icon}.svg").decode()
        shapes = re.sub(r"<path stroke=\"none\"[^>]*/>", "", re.sub(r"(?s)^.*?<svg[^>]*>", "", svg))
        shapes = re.sub(r"\s+", " ", shapes.replace("</svg>", "")).strip().replace("> <", "><")
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{shapes}</symbol>\n')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" fill="none" stroke="currentColor" '
        'stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round">\n'
        + "".join(symbols)
        + "</svg>\n"
    )


def _row(package: Package, target: Path) -> str:
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    where = target.relative_to(ROOT)
    return (
        f"| `{where}` | [{package.name}]({package.home}) | {package.version} "
        f"| {package.licence} | `{digest}` |\n"
    )


_HEAD = """\
# Third-party files of the console

Written by `python -m tests.support.vendor`, which pins the versions; do not edit the files.
The licence texts are in `licences/`. The axe file is used by the browser tests only.

| file | from | version | licence | sha256 |
|---|---|---|---|---|
"""


if __name__ == "__main__":
    main()
