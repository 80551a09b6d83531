"""What the command palette finds beside the pages: jobs, executors, nodes, words, documents."""

from __future__ import annotations

from typing import TypedDict

from aiohttp import web

from tickwheel_admin.console.frame.i18n import gettext
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.help import glossary
from tickwheel_admin.console.help.documents import sections
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.suggestions import Matches
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

WORDS_AT_MOST = 4
SECTIONS_AT_MOST = 4
MAX_TEXT_CHARS = 200

routes = Routes()


class Item(TypedDict):
    """A line of the palette."""

    kind: str  # found: by its name in the database; word: of the glossary or the documents
    icon: str
    name: str
    more: str  # beside the name: an executor, a word of another scheduler, a file
    href: str


@routes.get("/palette.json", permission=Permission.VIEW)
async def find(request: web.Request) -> web.Response:
    """What `q` may mean: 20 jobs, 5 executors, 5 nodes, 4 words and 4 headings at most."""
    set_locale(request)
    actor, text = actor_of(request), request.query.get("q", "").strip()[:MAX_TEXT_CHARS]
    found = await request.app[SERVICES].suggestions.anything(actor, text)
    words = glossary.search(actor, text, most=WORDS_AT_MOST)
    items = [
        *_found(found),
        *(_word(actor, *each) for each in words),
        *_sections(text, {concept.document for concept, _by in words}),
    ]
    return web.json_response(items)


@routes.get("/help", permission=Permission.LOGGED_IN)
async def show_help(request: web.Request) -> web.Response:
    """The words of other schedulers, and where the documents say what."""
    return await render(
        request,
        "help/page.html",
        {"concepts": glossary.CONCEPTS, "sections": sections(), "translate": gettext},
    )


def _found(found: Matches) -> list[Item]:
    return [
        *(
            Item(
                kind="found",
                icon="jobs",
                name=item.job.config.name,
                more=item.executor_name,
                href=f"/jobs/{item.job.id}",
            )
            for item in found.jobs
        ),
        *(
            Item(
                kind="found",
                icon="executors",
                name=name,
                more=_("Executor"),
                href=f"/executors/{id_}",
            )
            for name, id_ in found.executors
        ),
        *(
            Item(
                kind="found",
                icon="connected",
                name=node.name,
                more=_("Node"),
                href=f"/nodes/{node.id}",
            )
            for node in found.nodes
        ),
    ]


def _word(actor: Actor, concept: glossary.Concept, by: str) -> Item:
    name = gettext(concept.name)
    is_its_own = by.lower() in (name.lower(), concept.name.lower())
    return Item(
        kind="word",
        icon="guide",
        name=name,
        more="" if is_its_own else by,
        href=concept.address(actor),
    )


def _sections(text: str, documents: set[str]) -> list[Item]:
    """Headings with the text in them, or that say more of the words that it found."""
    wanted = text.lower()
    if len(wanted) < 2:
        return []
    found = [
        each
        for each in sections()
        if wanted in each.heading.lower() or f"{each.file}#{each.heading}" in documents
    ]
    found.sort(key=lambda each: not each.heading.lower().startswith(wanted))
    return [
        Item(
            kind="word", icon="info", name=each.heading, more=each.file, href=f"/help#{each.anchor}"
        )
        for each in found[:SECTIONS_AT_MOST]
    ]
