"""Routes that say who may use them; one that does not cannot be added, nor answered.

    routes = Routes()

    @routes.get("/jobs", permission=Permission.VIEW)
    async def list_jobs(request: web.Request) -> web.Response: ...

A module that declares routes calls its table `routes`: the API and the console each add the tables
of all of their modules.

The permission is checked for any executor before the handler runs, or for all of them where the
route says so; use cases check it again for the executor at hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, TypedDict, Unpack

from aiohttp import hdrs, web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.input_fields import InputField

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Declare = Callable[[Handler], Handler]


class NoContent:
    """The answer of an endpoint that has nothing to say: 204."""


class Untyped:
    """The answer of a page, or of an endpoint that does not say what it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One declared route."""

    method: str
    path: str  # as aiohttp writes it: "/jobs/{job_id:[0-9]{1,18}}"
    handler: Handler
    permission: Permission
    api: bool = False  # answers JSON, takes bearer tokens as well as the console's cookie
    name: str | None = None
    on_all: bool = False  # the permission must hold for all executors, not only for some
    in_person: bool = False  # for people with a session, not for tokens that act for them
    # What an endpoint takes and answers; the OpenAPI document is made of it (api/openapi).
    answers: Any = Untyped  # a type that msgspec makes a schema of; NoContent
    status: int = 200  # of a good answer; 204 where it is NoContent
    media_types: tuple[str, ...] = ("application/json",)  # of a good answer
    query: tuple[InputField[Any], ...] = ()
    body: Any = None  # inputs, or the type of a JSON object; None: none is read
    body_type: str = "application/json"
    headers: tuple[InputField[Any], ...] = ()
    conflicts: tuple[str, ...] = ()  # codes of 409
    gone: tuple[str, ...] = ()  # codes of 410

    @property
    def is_typed(self) -> bool:
        """Whether it says what it takes and answers."""
        return self.answers is not Untyped


class More(TypedDict, total=False):
    """What else a route may declare; explained at `Route`."""

    api: bool
    name: str | None
    on_all: bool
    in_person: bool
    answers: Any
    status: int
    media_types: tuple[str, ...]
    query: tuple[InputField[Any], ...]
    body: Any
    body_type: str
    headers: tuple[InputField[Any], ...]
    conflicts: tuple[str, ...]
    gone: tuple[str, ...]


class Routes:
    """A table of routes, filled by decorators and added to the application once."""

    def __init__(self) -> None:
        self._routes: list[Route] = []

    def get(self, path: str, *, permission: Permission, **more: Unpack[More]) -> Declare:
        """Answer GET and HEAD; must change nothing."""
        return self._add(hdrs.METH_GET, path, permission, more)

    def post(self, path: str, *, permission: Permission, **more: Unpack[More]) -> Declare:
        return self._add(hdrs.METH_POST, path, permission, more)

    def put(self, path: str, *, permission: Permission, **more: Unpack[More]) -> Declare:
        return self._add(hdrs.METH_PUT, path, permission, more)

    def delete(self, path: str, *, permission: Permission, **more: Unpack[More]) -> Declare:
        return self._add(hdrs.METH_DELETE, path, permission, more)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add_to(self, app: web.Application) -> None:
        """Make the application answer these routes."""
        if _DECLARED not in app:
            app[_DECLARED] = {}
        declared = app[_DECLARED]
        for route in self._routes:
            if route.method == hdrs.METH_GET:
                added = app.router.add_get(route.path, route.handler, name=route.name)
                # aiohttp answers HEAD by a route of its own on the same resource.
                for sibling in added.resource or ():
                    if sibling.method == hdrs.METH_HEAD:
                        declared[sibling] = route
            else:
                added = app.router.add_route(
                    route.method, route.path, route.handler, name=route.name
                )
            declared[added] = route

    def _add(self, method: str, path: str, permission: Permission, more: More) -> Declare:
        def declare(handler: Handler) -> Handler:
            self._routes.append(
                Route(method=method, path=path, handler=handler, permission=permission, **more)
            )
            return handler

        return declare


@cache
def tables_of(package: ModuleType) -> tuple[Routes, ...]:
    """The table `routes` of every module in a package, by the names of the modules."""
    names = sorted(found.name for found in walk_packages(package.__path__, f"{package.__name__}."))
    tables = (getattr(import_module(name), "routes", None) for name in names)
    return tuple(table for table in tables if isinstance(table, Routes))


_DECLARED: web.AppKey[dict[web.AbstractRoute, Route]] = web.AppKey("declared_routes")


def route_of(request: web.Request) -> Route | None:
    """What the route that matched declared; None when none matched or it declared nothing."""
    return request.app[_DECLARED].get(request.match_info.route)


def declared_routes(app: web.Application) -> dict[web.AbstractRoute, Route]:
    """Every route that declared its permission, by the router's own object."""
    return app[_DECLARED].copy()
