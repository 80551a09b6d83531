"""Words for people: what roles may do, what a person has, how far a token reaches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tickwheel_admin.console.frame.formatting import instant
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Grant, Role

DAY_MS = 86_400_000
ENDS_SOON_MS = 14 * DAY_MS  # of a token: time enough to make another one and roll it out


def role_name(role: Role) -> str:
    """The word for a role."""
    return {
        Role.VIEWER: _("Viewer"),
        Role.OPERATOR: _("Operator"),
        Role.DEVELOPER: _("Developer"),
        Role.ADMIN: _("Admin"),
    }[role]


def role_what(role: Role) -> str:
    """What a role may do, in a line."""
    return {
        Role.VIEWER: _("Sees jobs, runs, logs and nodes."),
        Role.OPERATOR: _("Runs, retries, cancels and pauses as well."),
        Role.DEVELOPER: _("Adds, edits and deletes jobs as well."),
        Role.ADMIN: _("Manages executors and their tokens as well; on all executors, people too."),
    }[role]


def role_choices() -> list[tuple[str, str, str]]:
    """(value, word, what it may do), the least first."""
    return [(role.value, role_name(role), role_what(role)) for role in Role]


def grant_text(grant: Grant) -> str:
    """A role, and whether scripts may be edited with it."""
    if grant.scripts:
        return _("%(role)s with scripts") % {"role": role_name(grant.role)}
    return role_name(grant.role)


def grants_text(grants: Mapping[int, Grant], executors: Mapping[int, str]) -> str:
    """What a person may do where, in a few words.

    Args:
        executors: names by id; grants on those that are gone are passed over.
    """
    parts = []
    if ALL_EXECUTORS in grants:
        parts.append(_("%(role)s of all executors") % {"role": grant_text(grants[ALL_EXECUTORS])})
    by_text: dict[str, list[str]] = {}
    for executor_id, grant in grants.items():
        if executor_id in executors:
            by_text.setdefault(grant_text(grant), []).append(executors[executor_id])
    for text, names in by_text.items():
        parts.append(_("%(role)s of %(executors)s") % {"role": text, "executors": _names(names)})
    return "; ".join(parts) or _("Nothing yet")


def scope_text(
    role: Role | None, executor_ids: Sequence[int] | None, executors: Mapping[int, str]
) -> str:
    """How far an API token reaches."""
    what = _("All that its owner may") if role is None else role_name(role)
    if executor_ids is None:
        where = "" if role is None else _("wherever its owner may")
    else:
        names = [executors[each] for each in executor_ids if each in executors]
        where = _("on %(executors)s") % {"executors": _names(names)} if names else _("on none")
    return _("%(what)s, %(where)s") % {"what": what, "where": where} if where else what


def _names(names: Sequence[str], most: int = 3) -> str:
    """Some names, and how many more there are."""
    shown, more = sorted(names)[:most], len(names) - most
    text = _(", ").join(shown)
    return text if more <= 0 else f"{text} {_('+%(n)s more') % {'n': more}}"


def expiry_state(expires_at: int | None) -> str:
    """Of a token: "never", "ended", "soon" or "later"."""
    if expires_at is None:
        return "never"
    left = expires_at - REQUEST_LOCALE.get().now_at
    return "ended" if left <= 0 else "soon" if left <= ENDS_SOON_MS else "later"


def expiry_text(expires_at: int | None) -> str:
    """When a token ends, said so that one knows whether to act."""
    if expires_at is None:
        return _("does not expire")
    left = expires_at - REQUEST_LOCALE.get().now_at
    if left <= 0:
        return _("expired on %(time)s") % {"time": instant(expires_at, "short")}
    days = left // DAY_MS
    if days < 1:
        return _("expires today, at %(time)s") % {"time": instant(expires_at, "minute")}
    return ngettext("expires in %(num)s day", "expires in %(num)s days", days) % {"num": days}


def browser_name(user_agent: str) -> str:
    """A browser and its system as people call them; programs by their own name."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), None)
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    if browser:
        return browser
    found = _PRODUCT.match(user_agent)
    return found[0] if found else _("Unknown browser")


def is_phone(user_agent: str) -> bool:
    """Whether a session is one of a phone."""
    return "Mobile" in user_agent or "Android" in user_agent


# The first that fits: Edge and Opera call themselves Chrome as well, and Chrome Safari.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("HeadlessChrome/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iPadOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_PRODUCT = re.compile(r"[\w.-]{1,40}(/[\w.-]{1,20})?", re.ASCII)
