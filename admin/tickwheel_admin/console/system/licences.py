"""What Tickwheel is made of: the libraries that it runs on and the files that it brings along."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata, requires
from importlib.resources import files

_DISTRIBUTION = "tickwheel-admin"
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
# | `path` | [name](home) | version | licence | `sha256` |
_VENDORED = re.compile(r"\| `([^`]+)` \| \[([^]]+)\]\(([^)]+)\) \| ([^ ]+) \| ([^ ]+) \|")
_CLASSIFIER = "License :: OSI Approved :: "


@dataclass(frozen=True, slots=True, kw_only=True)
class LicensedPart:
    """Something that others made."""

    name: str
    version: str
    licence: str  # its short name; "" when the package does not say
    home: str | None = None
    text: str | None = None  # static file with the text of the licence


@functools.cache
def libraries() -> tuple[LicensedPart, ...]:
    """The installed libraries that the admin asks for itself, by name."""
    names = {
        found[0]
        for line in requires(_DISTRIBUTION) or ()
        if "extra ==" not in line and (found := _REQUIREMENT.match(line))
    }
    return tuple(
        part
        for name in sorted(names, key=str.lower)
        if not name.startswith("tickwheel-") and (part := _library(name)) is not None
    )


def _library(name: str) -> LicensedPart | None:
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return None
    return LicensedPart(name=about["Name"], version=about["Version"], licence=_licence(about))


def _licence(about: PackageMetadata) -> str:
    if "License-Expression" in about:
        return about["License-Expression"]
    # The older field often holds a whole text; the classifiers are short.
    for line in about.get_all("Classifier") or ():
        if line.startswith(_CLASSIFIER):
            return str(line.removeprefix(_CLASSIFIER))
    licence = about["License"] or ""
    return licence if "\n" not in licence and len(licence) <= 60 else ""


@functools.cache
def vendored() -> tuple[LicensedPart, ...]:
    """Third-party files of the console, as VENDORED.md lists them."""
    table = (files("tickwheel_admin.console") / "static/vendor/VENDORED.md").read_text("utf-8")
    return tuple(
        LicensedPart(
            name=name,
            version=version,
            licence=licence,
            home=home,
            text=f"vendor/licences/{name.strip('@').replace('/', '-')}.txt",
        )
        for path, name, home, version, licence in _VENDORED.findall(table)
        if path.startswith("admin/")  # the others are for tests
    )
