"""Learns what each route reads: whatever its handler asks a request for, and its pages' forms.

Nothing here names a route or a field. While `Tracing` is in place, requests note which names are
asked of their query, form, headers and cookies, and strict objects which fields they know and what
these may hold.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import MappingProxyType
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDictProxy, MultiDictProxy

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.web import body
from tickwheel_admin.web.routes import Route, route_of

INDEX = re.compile(r"\[\d+\]")


@dataclass
class Names:
    """What a route was seen to read, by name in the order it was first asked for."""

    query: dict[str, None] = field(default_factory=dict)
    form: dict[str, None] = field(default_factory=dict)
    headers: dict[str, None] = field(default_factory=dict)
    cookies: dict[str, None] = field(default_factory=dict)
    fields: dict[str, None] = field(default_factory=dict)  # "triggers[0].kind": paths in JSON
    needed: dict[str, None] = field(default_factory=dict)  # those that are refused when missing
    good: dict[str, object] = field(default_factory=dict)  # a value within the bounds of a field
    choices: dict[str, list[str]] = field(default_factory=dict)  # fields that take one of a few
    # What each choice of a field needs beside it: {("triggers[0].kind", "cron"): {"…expression"}}
    needs: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    forms: list[dict[str, str]] = field(default_factory=list)  # as pages have them filled in


class Learned(dict[Route, Names]):
    """By route."""

    def __missing__(self, route: Route) -> Names:
        names = self[route] = Names()
        return names


_CURRENT: ContextVar[Names | None] = ContextVar("fuzzed", default=None)


def learning(learned: Learned) -> Callable[..., Awaitable[web.StreamResponse]]:
    """A middleware, outermost, that says whose names are learned."""

    @web.middleware
    async def learn(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        route = route_of(request)
        token = _CURRENT.set(learned[route] if route is not None else None)
        try:
            return await handler(request)
        finally:
            _CURRENT.reset(token)

    return learn


def _note(place: str, name: object) -> None:
    names = _CURRENT.get()
    if names is not None and isinstance(name, str):
        getattr(names, place)[name] = None


class _Query(MultiDictProxy[Any]):
    """Notes which names are asked for."""

    place = "query"

    def get(self, key: str, default: Any = None) -> Any:
        _note(self.place, key)
        return super().get(key, default)

    def getone(self, key: str, *default: Any, **named: Any) -> Any:
        _note(self.place, key)
        return super().getone(key, *default, **named)

    def getall(self, key: str, *default: Any, **named: Any) -> Any:
        _note(self.place, key)
        return super().getall(key, *default, **named)

    def __getitem__(self, key: str) -> Any:
        _note(self.place, key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        _note(self.place, key)
        return super().__contains__(key)


class _Form(_Query):
    place = "form"


class _Headers(CIMultiDictProxy[str]):
    def get(self, key: str, default: Any = None) -> Any:
        _note("headers", str(key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        _note("headers", str(key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        _note("headers", str(key))
        return super().__contains__(key)


class _Cookies(dict[str, str]):
    def get(self, key: str, default: Any = None) -> Any:
        _note("cookies", key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        _note("cookies", key)
        return super().__getitem__(key)


def trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make requests and strict objects tell what they are asked for."""
    for name, wrapped in (("query", _Query), ("headers", _Headers)):
        monkeypatch.setattr(web.BaseRequest, name, _noting(name, wrapped))
    cookies = web.BaseRequest.__dict__["cookies"].wrapped
    monkeypatch.setattr(
        web.BaseRequest,
        "cookies",
        property(lambda request: MappingProxyType(_Cookies(cookies(request)))),
    )
    monkeypatch.setattr(body, "MultiDictProxy", _Form)  # what `read_form` gives
    _trace_fields(monkeypatch)


def _noting(name: str, wrapped: type) -> property:
    read = web.BaseRequest.__dict__[name].wrapped
    return property(lambda request: _copy(wrapped, read(request)))


def _copy(wrapped: type, proxy: Any) -> Any:
    if isinstance(proxy, dict):  # the headers of what never became a request
        return proxy
    # A proxy cannot be made of another one, but of a copy of what is behind it.
    return wrapped(proxy.copy())


def _trace_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    only, choice, integer = Fields.only, Fields.choice, Fields.integer

    def noting_only(fields: Fields, known: Any, **more: Any) -> None:
        known = list(known)
        for name in known:
            _note("fields", INDEX.sub("[0]", fields.where(str(name))))
        only(fields, known, **more)

    def noting_choice(fields: Fields, name: str, allowed: Any, **more: Any) -> str:
        allowed = list(allowed)
        _note_good(fields, name, allowed[0] if allowed else "")
        if (names := _CURRENT.get()) is not None:
            names.choices[INDEX.sub("[0]", fields.where(name))] = allowed
        return choice(fields, name, allowed, **more)

    def noting_integer(fields: Fields, name: str, *, low: int, **more: Any) -> int:
        _note_good(fields, name, max(low, 1))
        return integer(fields, name, low=low, **more)

    monkeypatch.setattr(Fields, "only", noting_only)
    monkeypatch.setattr(Fields, "choice", noting_choice)
    monkeypatch.setattr(Fields, "integer", noting_integer)


def _note_good(fields: Fields, name: str, value: object) -> None:
    names = _CURRENT.get()
    if names is not None:
        names.good.setdefault(INDEX.sub("[0]", fields.where(name)), value)


@dataclass
class PageForm:
    """A form in a page: where it goes, and what it sends when nobody touches it."""

    action: str
    method: str
    values: dict[str, str] = field(default_factory=dict)


def forms_in(page: str, address: str) -> Iterator[PageForm]:
    """The forms of a page, with what they would send."""
    reader = _FormReader(address)
    reader.feed(page)
    yield from reader.forms


class _FormReader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.forms: list[PageForm] = []
        self._address = address
        self._form: PageForm | None = None
        self._select = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            action = given.get("action") or given.get("hx-post") or self._address
            method = "POST" if "hx-post" in given else given.get("method", "GET").upper()
            self._form = PageForm(action, method)
            self.forms.append(self._form)
        elif self._form is not None and (name := given.get("name", "")):
            kind = given.get("type", "")
            if tag == "select":
                self._select = name
                self._form.values.setdefault(name, "")
            elif tag == "textarea":
                self._text = name
                self._form.values[name] = ""
            elif kind in ("radio", "checkbox"):
                if "checked" in given or name not in self._form.values:
                    self._form.values[name] = given.get("value", "on")
            elif tag in ("input", "button"):
                self._form.values.setdefault(name, given.get("value", ""))
        elif tag == "option" and self._form is not None and self._select:
            chosen = self._form.values[self._select]
            if "selected" in given or not chosen:
                chosen = given.get("value", "")
            self._form.values[self._select] = chosen

    def handle_data(self, data: str) -> None:
        if self._text and self._form is not None:
            self._form.values[self._text] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "select":
            self._select = ""
        elif tag == "textarea":
            self._text = ""
