"""Programs that the console gives people to paste."""

from __future__ import annotations

from tickwheel_admin.console.frame.i18n import gettext as _

_NODE = """\
from tickwheel_executor import Executor

executor = Executor(
    {name!r},
    admins=[{admin_url!r}],
    token={token!r},
)


@executor.handler("send-invoices")
def send_invoices(run):
    month = run.parameters.get("month", "2026-01")
    run.log.info("sending the invoices of %s", month)
    return {{"sent": 3}}


if __name__ == "__main__":
    executor.run()
"""


def node_program(name: str, token: str | None, admin_url: str) -> str:
    """A whole program that connects as a node; without a token it says where it goes.

    A plain text, so that templates escape it wherever they put it.
    """
    text = _NODE.format(name=name, token=token or _("the token"), admin_url=admin_url)
    # repr() writes single quotes; the program is in the style of the formatter people use.
    return text.replace("'", '"')
