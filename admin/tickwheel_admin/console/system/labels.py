"""Words for what an admin says of itself."""

from __future__ import annotations

from tickwheel_admin.console.frame.formatting import duration
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.services.system.service import loop_label


def offset_text(offset_ms: int) -> str:
    """How an admin's clock differs from the database's; positive when it is behind."""
    if abs(offset_ms) < 1_000:
        return _("within a second of the database’s")
    template = (
        _("%(time)s behind the database’s")
        if offset_ms > 0
        else _("%(time)s ahead of the database’s")
    )
    return template % {"time": duration(abs(offset_ms))}


def loop_name(name: str) -> str:
    """What one of an admin's background loops is for."""
    return _(loop_label(name))
