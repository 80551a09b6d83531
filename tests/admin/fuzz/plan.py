"""Which requests are made: every place of every route × every value, a part of them per seed.

Places of a route come from `names`. Each place has its own constant order of attempts, seed s takes
the s-th slice of it, and after the last slice it begins again: so every attempt is made by some
seed, and every route is asked by each.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_from_bytes

from tests.admin.fuzz import values
from tests.admin.fuzz.names import Names
from tests.admin.kit.routes import COMMON, Ids
from tickwheel_admin.web.routes import Route

# How many attempts of a slice each place gets, in turns.
TURNS = ("field", "form", "query", "body", "field", "form", "header", "path", "query", "multipart")
TURNS += ("field", "form", "type", "cookie", "repeated")
ALWAYS_READ = ("Cookie", "Accept-Language", "User-Agent", "X-Forwarded-For", "Range")
_PARAMETER = re.compile(r"\{(\w+)(?::[^{}]*(?:\{[^{}]*\}[^{}]*)*)?\}")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

# What a name most likely wants, so that the other places are looked at as well.
GOOD: dict[str, object] = {
    "handler": "h",
    "expression": "0 4 * * *",
    "at": "2027-10-01T00:00:00Z",
    "every": 1,
    "start_date": "2027-10-01",
    "at_time": "04:00",
    "from_time": "04:00",
    "to_time": "05:00",
    "every_seconds": 60,
    "timezone": "UTC",
    "dates": ["2027-10-01"],
    "state": {},
    "revision": 1,
    "to": 1,
    "parameters": {},
    "filter": {},
    "triggers": [],
    "password": "correct horse battery",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One hostile value in one place of a route; the rest is as it should be."""

    place: str
    name: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent, before it is bytes."""

    method: str
    path: bytes
    query: tuple[tuple[bytes, bytes], ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes | None = None

    def encoded(self) -> bytes:
        """The bytes; line ends and NUL, which would break it as HTTP, are left out of headers."""
        target = self.path
        if self.query:
            target += b"?" + _encoded_form(self.query)
        lines = [self.method.encode() + b" " + target + b" HTTP/1.1"]
        if not any(name.lower() == b"host" for name, _ in self.headers):
            lines.append(b"Host: fuzz.example")
        lines += [name + b": " + _header_value(value) for name, value in self.headers]
        if self.body is not None:
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + (self.body or b"")


def attempts_of(route: Route, names: Names) -> dict[str, list[Attempt]]:
    """Every attempt, by place, in an order that is always the same."""
    found: dict[str, list[Attempt]] = {}

    def add(place: str, named: Sequence[str], tried: Sequence[bytes]) -> None:
        pairs = [Attempt(place, name, value) for name in named for value in tried]
        if pairs:
            random.Random(f"{route.method} {route.path} {place}").shuffle(pairs)
            found[place] = pairs

    add("path", _PARAMETER.findall(route.path), values.TEXTS)
    # Endpoints that only read have the names of strict objects in their query.
    asked = {*names.query, *names.fields} if route.method == "GET" else {*names.query}
    add("query", sorted(asked) or ["q"], values.TEXTS)
    add("repeated", sorted(asked), values.TEXTS[:20])
    add("header", list(dict.fromkeys([*names.headers, *ALWAYS_READ])), values.TEXTS)
    add("cookie", list(names.cookies), values.TEXTS)
    if route.method in ("GET", "DELETE"):
        return found
    if route.api:
        add("field", list(names.fields), values.JSONS)
    else:
        written = dict.fromkeys(names.form) | {n: None for form in names.forms for n in form}
        add("form", list(written), values.TEXTS)
        add("multipart", list(written), values.TEXTS)
    add("body", [""], values.BODIES)
    add("type", [""], values.CONTENT_TYPES)
    return found


def slice_of(attempts: Mapping[str, Sequence[Attempt]], *, seed: int, size: int) -> list[Attempt]:
    """The seed's part of a route's attempts."""
    turns = list(itertools.islice(itertools.cycle(TURNS), 10 * size))
    turns = [place for place in turns if place in attempts][:size]
    chosen = []
    for place in dict.fromkeys(turns):
        share = turns.count(place)
        every = attempts[place]
        chosen += [every[(seed * share + turn) % len(every)] for turn in range(share)]
    return chosen


def build(
    route: Route,
    names: Names,
    attempt: Attempt | None,
    *,
    ids: Ids,
    headers: Mapping[str, str],
    body: Mapping[str, object] | None = None,
) -> Request:
    """A good request with one attempt in it.

    Args:
        body: instead of the good one, for an endpoint.
    """
    place, name, value = (attempt.place, attempt.name, attempt.value) if attempt else ("", "", b"")
    made = Request(
        method=route.method,
        path=_path(route, ids, {name: value} if place == "path" else {}),
        headers=tuple((key.encode(), text.encode()) for key, text in headers.items()),
    )
    if route.method not in ("GET", "DELETE"):
        made = _with_body(made, route, names, attempt, ids)
    if body is not None:
        made = replace(made, body=json.dumps(body).encode())
    if place == "query":
        made = replace(made, query=((name.encode(), value),))
    elif place == "repeated":
        made = replace(made, query=((name.encode(), b"1"), (name.encode(), value)))
    elif place == "header":
        kept = tuple(pair for pair in made.headers if pair[0].lower() != name.lower().encode())
        made = replace(made, headers=(*kept, (name.encode(), value)))
    elif place == "cookie":
        said = name.encode() + b"=" + value
        kept = tuple(
            (key, text + b"; " + said if key.lower() == b"cookie" else text)
            for key, text in made.headers
        )
        made = replace(made, headers=kept if kept != made.headers else (*kept, (b"Cookie", said)))
    return made


def _with_body(
    made: Request, route: Route, names: Names, attempt: Attempt | None, ids: Ids
) -> Request:
    place, name, value = (attempt.place, attempt.name, attempt.value) if attempt else ("", "", b"")
    if route.api:
        good = good_object(names, ids)
        kind, body = values.JSON, json.dumps(good).encode()
        if attempt is not None and place == "field":
            marked = with_field(_beside(good, attempt, names, ids), name, "\x01HERE\x01")
            body = json.dumps(marked).encode().replace(b'"\\u0001HERE\\u0001"', value)
    else:
        form = {key.encode(): text.encode() for key, text in good_form(names).items()}
        if place in ("form", "multipart"):
            form[name.encode()] = value
        if place == "multipart":
            kind = values.MULTIPART
            body = b"".join(
                b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % pair
                for pair in form.items()
            )
            body += b"--b--\r\n"
        else:
            kind, body = values.FORM, _encoded_form(tuple(form.items()))
    if place == "body":
        body = value
        kind = values.MULTIPART if value.startswith(b"--b") and not route.api else kind
    elif place == "type":
        kind = value
    return replace(made, headers=(*made.headers, (b"Content-Type", kind)), body=body)


def good_form(names: Names) -> dict[str, str]:
    """What a page's own form sends; the one with the most fields, where there are several."""
    return max(names.forms, key=len, default={})


def good_object(names: Names, ids: Ids) -> dict[str, Any]:
    """A JSON object with the fields that were found to be needed."""
    made: dict[str, Any] = {}
    for path in names.needed:
        made = with_field(made, path, good_value(path, names, ids))
    return made


def explorations(names: Names, ids: Ids) -> Iterator[tuple[tuple[str, str] | None, dict[str, Any]]]:
    """Objects that show which fields are objects, or lists of them, and what each choice needs.

    Each with the field and the choice that it is about.
    """
    good = good_object(names, ids)
    for inner in ({}, [{}]):
        made = good
        for path in names.fields:
            if path not in names.choices:
                made = with_field(made, path, inner)
        yield None, made
    for path, choices in names.choices.items():
        for choice in choices:
            yield (path, choice), _with_choice(good, path, choice, names, ids)
        yield None, with_field(good, path, {})


def _with_choice(
    made: dict[str, Any], path: str, choice: str, names: Names, ids: Ids
) -> dict[str, Any]:
    for needed in names.needs.get((path, choice), ()):
        made = with_field(made, needed, good_value(needed, names, ids))
    return with_field(made, path, choice)


def _beside(made: dict[str, Any], attempt: Attempt, names: Names, ids: Ids) -> dict[str, Any]:
    """What stands around a field: a choice of each kind, other attempts another one."""
    around = attempt.name.rpartition(".")[0]
    luck = random.Random(f"{attempt.name} {attempt.value[:50]!r}")
    for path, choices in names.choices.items():
        if around and path.rpartition(".")[0] == around and path != attempt.name:
            made = _with_choice(made, path, luck.choice(choices), names, ids)
    return made


def good_value(path: str, names: Names, ids: Ids) -> object:
    """What a field would take, as far as its name or its handler's questions tell."""
    name = path.rpartition(".")[2].removesuffix("[0]")
    if path in names.good and names.good[path] is not None:
        return names.good[path]
    if name in ids:
        return ids[name]
    if f"{name}_id" in ids:  # job, node
        return ids[f"{name}_id"]
    if f"{name.removesuffix('s')}_id" in ids:  # runs, jobs
        return [ids[f"{name.removesuffix('s')}_id"]]
    return GOOD.get(name, COMMON.get(name, "x"))


def with_field(made: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with the value at a path such as triggers[0].kind, and what must be around it."""
    steps: list[str | int] = [key or int(index) for key, index in _STEP.findall(path)]
    return _placed(made, steps, value)  # type: ignore[no-any-return]


def _placed(around: Any, steps: Sequence[str | int], value: object) -> Any:
    if not steps:
        return value
    step, *rest = steps
    if isinstance(step, int):
        inner = around[0] if isinstance(around, list) and around else None
        return [_placed(inner, rest, value)]
    kept = around if isinstance(around, dict) else {}
    return {**kept, step: _placed(kept.get(step), rest, value)}


def _path(route: Route, ids: Ids, hostile: Mapping[str, bytes]) -> bytes:
    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in hostile:
            return quote_from_bytes(hostile[name][:4_000], safe="")
        return str(ids.get(name, COMMON.get(name, 1)))

    return _PARAMETER.sub(fill, route.path).encode()


def _encoded_form(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"&".join(_encoded(name) + b"=" + _encoded(value) for name, value in pairs)


def _encoded(text: bytes) -> bytes:
    return quote_from_bytes(text, safe="").encode()


def _header_value(value: bytes) -> bytes:
    return value.translate(None, b"\r\n\x00")[:6_000]
