"""Static files: named by their content's hash in the query, so a browser need never ask again."""

from __future__ import annotations

from pathlib import Path

from aiohttp import hdrs, web

from tickwheel_admin.domain.user import Permission
from tickwheel_admin.web.routes import Routes

STATIC_PREFIX = "/static"

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
          ".woff2": "font/woff2", ".ico": "image/x-icon", ".png": "image/png",
          ".json": "application/json", ".txt": "text/plain"}  # fmt: skip


def static_routes(directory: Path) -> Routes:
    """Routes that serve a directory under /static; a `.gz` beside a file is used when wanted."""
    routes = Routes()
    root = directory.resolve()

    @routes.get(STATIC_PREFIX + "/{path:.+}", permission=Permission.PUBLIC, name="static")
    async def send_file(request: web.Request) -> web.StreamResponse:
        relative = request.match_info["path"]
        if "\0" in relative or "\\" in relative:
            raise web.HTTPNotFound
        file = (root / relative).resolve()
        # Resolved first: neither dots nor links lead out of the directory.
        content_type = _TYPES.get(file.suffix)
        if content_type is None or not file.is_relative_to(root) or not file.is_file():
            raise web.HTTPNotFound
        # What is not asked for by its hash may be another version's tomorrow.
        lasting = "v" in request.query
        headers = {
            hdrs.CONTENT_TYPE: content_type,
            hdrs.CACHE_CONTROL: "public, max-age=31536000, immutable" if lasting else "no-cache",
        }
        return web.FileResponse(file, headers=headers)

    return routes
