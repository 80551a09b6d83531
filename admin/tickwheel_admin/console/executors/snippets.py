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


_XXL_JOB = {
    "Java": """\
xxl.job.admin.addresses={url}/xxl-job-admin
xxl.job.executor.appname={app_name}
xxl.job.accessToken={token}
""",
    "Go": """\
exec := xxl.NewExecutor(
	xxl.ServerAddr("{url}/xxl-job-admin"),
	xxl.RegistryKey("{app_name}"), xxl.AccessToken("{token}"))
""",
    "Python": """\
config = ExecutorConfig(
    xxl_admin_baseurl="{url}/xxl-job-admin/api/",
    executor_app_name="{app_name}", access_token="{token}")
""",
}


def xxl_job_snippets(app_name: str, admin_url: str) -> list[tuple[str, str]]:
    """The configuration of services on XXL-JOB, by language; plain texts likewise."""
    token = _("the access token")
    return [
        (language, text.format(url=admin_url, app_name=app_name, token=token))
        for language, text in _XXL_JOB.items()
    ]


def node_program(name: str, token: str | None, admin_url: str) -> str:
    """A whole program that connects as a node; without a token it says where it goes.

    A plain text, so that templates escape it wherever they put it.
    """
    text = _NODE.format(name=name, token=token or _("the token"), admin_url=admin_url)
    # repr() writes single quotes; the program is in the style of the formatter people use.
    return text.replace("'", '"')
