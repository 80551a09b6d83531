"""The console's static files: read once, packed once, addressed by their content.

The address of every file holds one hash of all of them, so scripts and style sheets may name each
other by relative paths and browsers may keep everything for ever. Files come from memory, found by
their exact name: no path from outside ever reaches the file system.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import hdrs, web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.routes import Routes

_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".txt": "text/plain",
    ".md": "text/plain",
}
_STYLE_SHEETS = (
    "tokens",
    "base",
    "frame",
    "components",
    "forms",
    "triggers",
    "jobs",
    "charts",
    "graphs",
    "calendar",
    "people",
    "lists",
    "log",
    "states",
)
_LIBRARIES = ("vendor/htmx-2.0.11.min.js", "vendor/idiomorph-ext-0.8.0.min.js")
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One file as it is sent."""

    content_type: str
    body: bytes
    packed: bytes | None  # gzip, where that is smaller


class Assets:
    """Every static file under its name; `app.css` and `libraries.js` are joined from several."""

    def __init__(self, *, more_styles: str = "") -> None:
        found = dict(_walk(files("tickwheel_admin.console") / "static", ""))
        sheets = [found[f"css/{name}.css"] for name in _STYLE_SHEETS]
        found["app.css"] = b"\n".join((*sheets, more_styles.encode()))
        found["libraries.js"] = b";\n".join(found[name] for name in _LIBRARIES)
        digest = hashlib.sha256()
        for name in sorted(found):
            digest.update(name.encode() + b"\0" + found[name])
        self.version = digest.hexdigest()[:12]
        self._assets = {name: _asset(name, body) for name, body in found.items()}

    def url(self, name: str) -> str:
        """Address of a file; KeyError when there is none of that name."""
        if name not in self._assets:
            raise KeyError(name)
        return f"/static/{self.version}/{name}"

    def add_to(self, routes: Routes) -> None:
        """Answer the addresses."""
        routes.get("/static/{version}/{name:.+}", permission=Permission.PUBLIC)(self._send)

    async def _send(self, request: web.Request) -> web.Response:
        asset = self._assets.get(request.match_info["name"])
        if asset is None:
            raise web.HTTPNotFound
        # While admins of two versions run, a page of one may ask the other for its files.
        is_current = request.match_info["version"] == self.version
        headers = {
            hdrs.CACHE_CONTROL: _FOR_EVER if is_current else "no-cache",
            hdrs.VARY: hdrs.ACCEPT_ENCODING,
        }
        body = asset.body
        if asset.packed is not None and "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            headers[hdrs.CONTENT_ENCODING] = "gzip"
            body = asset.packed
        return web.Response(body=body, content_type=asset.content_type, headers=headers)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif _suffix(entry.name) in _TYPES:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


@cache  # packing them takes as long as all the rest of making an application, and tests make many
def _asset(name: str, body: bytes) -> Asset:
    packed = None if name.endswith(".woff2") else gzip.compress(body, mtime=0)
    return Asset(
        content_type=_TYPES[_suffix(name)],
        body=body,
        packed=packed if packed is not None and len(packed) < len(body) else None,
    )


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]
