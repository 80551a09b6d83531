"""Pages from templates: whole, or one block of a page that is already open.

A live part of a page fetches itself again from the page's own address, with the header `X-Block`
naming its template block: the same filter, the same permission, the same code.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import jinja2
import jinja2.ext
import msgspec
from aiohttp import hdrs, web
from jinja2.runtime import Context

from tickwheel_admin import __version__
from tickwheel_admin.console.frame import formatting
from tickwheel_admin.console.frame.admins import ADMINS
from tickwheel_admin.console.frame.assets import Assets
from tickwheel_admin.console.frame.bytecode_cache import COMPILED
from tickwheel_admin.console.frame.charts import strip_data
from tickwheel_admin.console.frame.flash import flash_text, set_flash, take_flash
from tickwheel_admin.console.frame.i18n import gettext, ngettext
from tickwheel_admin.console.frame.locale import (
    REQUEST_LOCALE,
    THEME_COOKIE,
    TIME_ZONE_COOKIE,
    set_locale,
)
from tickwheel_admin.domain.errors import Problem, UserError
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.errors import describe
from tickwheel_admin.web.i18n import LANGUAGE_COOKIE, LANGUAGE_TAGS, LANGUAGES, translate
from tickwheel_admin.web.identity import actor_or_none, csrf_of
from tickwheel_admin.web.keys import SERVICES

BLOCK_HEADER = "X-Block"
_INDENTATION = re.compile(r"\n[ \t]+")
COMPILE_PAUSE_SECONDS = 0.005  # between two templates: fires of the first second are on time


class _WithoutIndentation(jinja2.ext.Extension):
    """Indentation is for whoever reads a template: pages go out without it."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        """The template as it is compiled; its line numbers stay."""
        return _INDENTATION.sub("\n", source)


class Renderer:
    """The templates, and what every one of them may use."""

    def __init__(self, assets: Assets, names: Mapping[str, Any], macros: Mapping[str, str]) -> None:
        """Load what templates may use.

        Args:
            names: modules and functions of the nouns, by the name that templates call them by.
            macros: templates with macros, by such a name; later ones may use those before.
        """
        self._loader = jinja2.PackageLoader("tickwheel_admin.console")
        self._environment = jinja2.Environment(
            loader=self._loader,
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            bytecode_cache=COMPILED,
            trim_blocks=True,
            extensions=["jinja2.ext.i18n", _WithoutIndentation],
        )
        # One environment for all languages: overlays would share their globals, and with them the
        # language installed last.
        self._environment.install_gettext_callables(  # type: ignore[attr-defined]
            gettext, ngettext, newstyle=True
        )
        told: Any = self._environment.globals["ngettext"]
        self._environment.globals["ngettext"] = _with_separators(told)
        self._environment.globals |= {
            "static": assets.url,
            "static_version": assets.version,
            "version": __version__,
            "locale": REQUEST_LOCALE.get,
            "languages": LANGUAGES,
            "language_tags": LANGUAGE_TAGS,
            "language_cookie": LANGUAGE_COOKIE,
            "theme_cookie": THEME_COOKIE,
            "time_zone_cookie": TIME_ZONE_COOKIE,
            "Permission": Permission,
            "duration_units": formatting.duration_units,
            **names,
        }
        self._environment.filters |= {
            "number": formatting.number,
            "short_number": formatting.short_number,
            "tiny_number": formatting.tiny_number,
            "strip_data": strip_data,
            "duration": formatting.duration,
            "in_units": formatting.length_in_words,
            "iso": formatting.iso,
            "instant": formatting.instant,
            "percent": formatting.percent,
            "pretty_json": _pretty_json,
            "problem": problem_text,
            "message": error_text,
            "translated": gettext,
        }
        # Macros depend on nothing but the globals, so one module serves every page and block.
        for name, template in macros.items():
            self._environment.globals[name] = self._environment.get_template(template).module

    def template_names(self) -> list[str]:
        """Of all templates."""
        return self._environment.list_templates(extensions=("html",))

    def compile(self, name: str) -> None:
        """Have the template of this name ready; compiling takes up to a tenth of a second."""
        self._environment.get_template(name)

    def is_compiled(self, name: str) -> bool:
        """Whether the template of this name, as it is now, was compiled before."""
        source, filename, _ = self._loader.get_source(self._environment, name)
        return COMPILED.get_bucket(self._environment, name, filename, source).code is not None

    async def compile_all(self, elsewhere: Callable[[], Awaitable[None]] | None = None) -> None:
        """Have every template ready, one by one in a thread.

        The first reader of each page must not hold up the event loop until it is compiled.

        Args:
            elsewhere: compiles them in another process, if some are not compiled yet.
        """
        names = await asyncio.to_thread(self.template_names)
        if elsewhere is not None:
            for name in names:
                if not await asyncio.to_thread(self.is_compiled, name):
                    await elsewhere()
                    break
        for name in names:
            await asyncio.to_thread(self.compile, name)
            await asyncio.sleep(COMPILE_PAUSE_SECONDS)

    def page(
        self,
        request: web.Request,
        template_name: str,
        context: dict[str, Any],
        /,
        *,
        status: int = 200,
        block: str | None = None,
    ) -> web.Response:
        """Answer with a page, or the block that the request asks for.

        Args:
            block: the block to answer with when the request comes from a script that names none.
        """
        template = self._environment.get_template(template_name)
        asked = request.headers.get(BLOCK_HEADER) or (block if is_scripted(request) else None)
        values = self._frame(request) | context
        render_block = template.blocks.get(asked) if asked else None
        response = web.Response(
            status=status,
            content_type="text/html",
            headers={
                hdrs.VARY: f"Cookie, {BLOCK_HEADER}",
                hdrs.CACHE_CONTROL: "no-store",
            },
        )
        if render_block is not None:
            response.text = "".join(render_block(template.new_context(values)))
        else:
            values["flash"] = take_flash(request, response)
            response.text = template.render(values)
        response.enable_compression()
        return response

    def _frame(self, request: web.Request) -> dict[str, Any]:
        """What the frame around every page needs."""
        set_locale(request)
        actor = actor_or_none(request)
        return {
            "request": request,
            "path": request.path,
            "actor": actor,
            "csrf_token": csrf_of(request) if actor is not None else "",
            "flash": None,
            "paused_at": None,
            "instance_name": request.app[SERVICES].settings.known.instance_name,
            "admins": request.app[ADMINS].known,
            "query": lambda **changes: _query(request, changes),
            "new_request_key": new_request_key,
        }


RENDERER: web.AppKey[Renderer] = web.AppKey("renderer")


async def render(
    request: web.Request,
    template_name: str,
    context: dict[str, Any] | None = None,
    /,
    *,
    status: int = 200,
    block: str | None = None,
) -> web.Response:
    """Answer with a page of this application's renderer."""
    values = dict(context or {})
    if BLOCK_HEADER not in request.headers:
        if request.method == hdrs.METH_GET:  # not for each of a flood of wrong passwords
            await request.app[SERVICES].settings.get()
        await request.app[ADMINS].refresh(request)
        if actor_or_none(request) is not None:
            values["paused_at"] = await request.app[SERVICES].system.paused_at()
    return request.app[RENDERER].page(request, template_name, values, status=status, block=block)


def is_scripted(request: web.Request) -> bool:
    """Whether htmx sent this, and not the browser itself."""
    return request.headers.get("HX-Request") == "true"


def go_to(request: web.Request, address: str) -> web.Response:
    """After a form was accepted: on to a page of this console, with or without script."""
    if is_scripted(request):
        return web.Response(status=204, headers={"HX-Redirect": address})
    return web.Response(status=303, headers={hdrs.LOCATION: address})


def done_in_place(
    text: str, *, href: str | None = None, link: str | None = None, topics: tuple[str, ...] = ()
) -> web.Response:
    """Tell a script that it is done: a toast, and which live parts to fetch again.

    Args:
        href, link: address and text of a link in the toast.
    """
    toast = {"text": text, "href": href, "link": link}
    # Headers are latin-1: everything else goes as \\u escapes.
    events = json.dumps({"toast": toast, **{f"live:{topic}": None for topic in topics}})
    return web.Response(status=204, headers={"HX-Trigger": events})


def done_or_back(
    request: web.Request, address: str, code: str, *, topics: tuple[str, ...]
) -> web.Response:
    """A small change was made: say so by the message of this code, in place or on a page."""
    if is_scripted(request):
        set_locale(request)
        return done_in_place(flash_text(code) or "", topics=topics)
    response = go_to(request, address)
    set_flash(response, code)
    return response


def new_request_key() -> str:
    """A nonce for a form, so that sending it twice is one request."""
    return secrets.token_urlsafe(16)


def problem_text(problem: Problem) -> str:
    """A broken rule in the reader's language."""
    return translate(problem.template, problem.params, REQUEST_LOCALE.get().language)


def error_text(error: UserError) -> str:
    """What went wrong, in the reader's language."""
    return describe(error, REQUEST_LOCALE.get().language)[1]


def _query(request: web.Request, changes: dict[str, str | int | None]) -> str:
    """The page's address with some query values changed; empty ones are left out."""
    values = {**request.query, **changes}
    kept = {key: value for key, value in values.items() if value not in (None, "")}
    return f"{request.path}?{urlencode(kept)}" if kept else request.path


def _pretty_json(text: str | None) -> str:
    """JSON for reading; no number passes through a float. What is no JSON stays as it is."""
    if not text:
        return ""
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text


def _with_separators(ngettext: Callable[..., str]) -> Callable[..., str]:
    """`ngettext` whose %(num)s has the reader's separators."""

    @jinja2.pass_context
    def told(context: Context, one: str, many: str, count: int, **about: object) -> str:
        about.setdefault("num", formatting.number(count))
        return ngettext(context, one, many, count, **about)

    return told
