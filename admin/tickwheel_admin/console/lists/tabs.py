"""The tabs over a list: fixed ones by state, and the views that people saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from aiohttp import web

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.lists.filter_box import FilterTerms
from tickwheel_admin.domain.users.saved_view import ListPage, SavedView
from tickwheel_admin.services.overview.list_counts import Number
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES

SHOWN_AS_TABS = 5  # saved views; more of them open in a menu


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """A tab, which filters by a state."""

    name: str
    href: str
    is_current: bool
    number: Number | None  # of what it would show; None: nobody counted
    is_bad: bool = False  # what it shows needs somebody

    @property
    def number_text(self) -> str:
        """The number, of many that nobody counted whole in hundreds: "900+"."""
        if self.number is None:
            return ""
        n, capped = self.number
        shown = n - n % 100 if capped and n >= 100 else n
        return number(shown) + "+" * capped


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTab:
    """A saved view beside the tabs."""

    view: SavedView
    href: str
    is_current: bool
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListHead:
    """What stands over a list and follows its filter."""

    tabs: list[Tab]
    views: list[ViewTab]
    address: str  # of the list with this filter, to save it as a view
    filter: str  # the query of that address

    @property
    def shown_views(self) -> list[ViewTab]:
        """The first views, and the current one wherever it stands."""
        return [each for n, each in enumerate(self.views) if n < SHOWN_AS_TABS or each.is_current]

    @property
    def more_views(self) -> list[ViewTab]:
        """The others."""
        shown = self.shown_views
        return [each for each in self.views if each not in shown]

    @property
    def current_view(self) -> ViewTab | None:
        """The view that shows just this."""
        return next((each for each in self.views if each.is_current), None)


def list_address(page: str, text: str, **more: str) -> str:
    """The address of a list with a filter; empty values are left out."""
    values = {name: value for name, value in {"q": text, **more}.items() if value}
    return f"/{page}?{urlencode(values)}" if values else f"/{page}"


async def list_head(
    request: web.Request,
    page: ListPage,
    typed: FilterTerms,
    *,
    states: Sequence[tuple[str, str]],
    bad: str,
    numbers: Mapping[str, Number],
    sort: str = "",
) -> ListHead:
    """The head of a list.

    Args:
        states: what "state:" can be on tabs, with names; "" is the tab without it.
        bad: the state that needs somebody.
        numbers: by state.
        sort: unless it is the usual one.
    """
    state = typed.one("state") or ""
    actor = actor_of(request)
    address = list_address(page, typed.text, sort=sort)
    views = await request.app[SERVICES].saved_views.list(actor, page)
    return ListHead(
        tabs=[
            Tab(
                name=name,
                href=list_address(page, typed.with_term("state", value), sort=sort),
                is_current=value == state,
                number=numbers.get(value),
                is_bad=value == bad,
            )
            for value, name in states
        ],
        views=[
            ViewTab(
                view=view,
                href=f"/{page}?{view.query}" if view.query else f"/{page}",
                is_current=parse_qs(view.query) == parse_qs(address.partition("?")[2])
                and bool(view.query),
                is_own=view.owner_id == actor.user_id,
            )
            for view in views
        ],
        address=address,
        filter=address.partition("?")[2],
    )
