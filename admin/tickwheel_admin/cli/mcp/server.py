"""The tools as the library serves them: with an API for each call, bounded, and with consent."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from tickwheel_admin import __version__
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import ApiRefused
from tickwheel_admin.cli.failure import Failure
from tickwheel_admin.cli.mcp import acting
from tickwheel_admin.cli.mcp.answers import WARNING, bounded
from tickwheel_admin.cli.mcp.reading import READING

# The API for a call, with the token that counts for it; ToolError when there is none.
ApiOf = Callable[[Context[Any, Any]], AdminApi]

INSTRUCTIONS = f"""\
Tickwheel is a distributed job scheduler. A job belongs to an executor and has triggers; each fire
makes a run, which a node carries out. Begin with what_needs_attention when asked what is wrong, and
with explain_run for a single run. Instants are in UTC. Numbers of runs and jobs are links for
people: name them in your answers. Answers are cut when they are long, and say so.

Under “by_programs” and “by_program”: {WARNING}
"""
_OF_REQUEST = (
    "The token that your program sends is unknown, expired or revoked. Its user can put a new one"
    " where your program has this server's address, as header: Authorization: Bearer …"
)
_NOTHING_CHANGES = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, open_world_hint=False
)
_ACTS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)


class Consent(BaseModel):
    """The answer of the person whom the assistant works for."""

    yes: bool = Field(title="Yes, do it")


def make_server(api_of: ApiOf, *, actions: bool, asks: bool) -> MCPServer[Any]:
    """The server of an assistant.

    Args:
        actions: whether there are tools that act.
        asks: whether these ask the person first, through the assistant's program.
    """
    server: MCPServer[Any] = MCPServer(
        "tickwheel", title="Tickwheel", version=__version__, instructions=INSTRUCTIONS
    )
    for tool in READING.values():
        server.add_tool(
            _served(tool, api_of), annotations=_NOTHING_CHANGES, structured_output=False
        )
    for tool in _actions(api_of, asks=asks) if actions else ():
        server.add_tool(tool, annotations=_ACTS, structured_output=False)
    return server


def _served(tool: Callable[..., dict[str, Any]], api_of: ApiOf) -> Callable[..., Any]:
    """The tool without its first parameter, which is found out for each call."""
    hints = typing.get_type_hints(tool, include_extras=True)
    own = list(inspect.signature(tool).parameters.values())[1:]

    async def call(ctx: Context[Any, Any], **arguments: Any) -> dict[str, Any]:
        return await _call(ctx, api_of, tool, arguments)

    call.__name__ = tool.__name__
    call.__doc__ = inspect.getdoc(tool)
    call.__annotations__ = {"ctx": Context, **{each.name: hints[each.name] for each in own}}
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=Context)
    parameters = [
        each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in own
    ]
    call.__signature__ = inspect.Signature([*parameters, ctx])  # type: ignore[attr-defined]
    return call


def _actions(api_of: ApiOf, *, asks: bool) -> list[Callable[..., Any]]:
    async def ask_retry(run_id: int, ctx: Context) -> Consent | Elicit[Consent]:
        return await _ask(ctx, api_of, acting.retry_question, {"run_id": run_id}, asks)

    async def ask_run(job: str, ctx: Context) -> Consent | Elicit[Consent]:
        return await _ask(ctx, api_of, acting.run_question, {"job": job}, asks)

    async def ask_cancel(run_id: int, ctx: Context) -> Consent | Elicit[Consent]:
        return await _ask(ctx, api_of, acting.cancel_question, {"run_id": run_id}, asks)

    async def retry_run(
        run_id: int,
        consent: Annotated[Consent, Resolve(ask_retry)],
        ctx: Context,
        steps: Literal["all", "failed"] = "all",
    ) -> dict[str, Any]:
        """Retry an ended run with its parameters; the person is asked first.

        Args:
            run_id: the number of the run.
            steps: of a workflow's run: failed takes over the results of all other steps.
        """
        _require(consent)
        return await _call(ctx, api_of, acting.retry, {"run_id": run_id, "steps": steps})

    async def run_job(
        job: str, consent: Annotated[Consent, Resolve(ask_run)], ctx: Context
    ) -> dict[str, Any]:
        """Run a job now, once and with its own parameters; the person is asked first.

        Args:
            job: id, “executor/name” or name of the job.
        """
        _require(consent)
        return await _call(ctx, api_of, acting.run, {"job": job})

    async def cancel_run(
        run_id: int, consent: Annotated[Consent, Resolve(ask_cancel)], ctx: Context
    ) -> dict[str, Any]:
        """Cancel a run that has not ended; the person is asked first.

        Args:
            run_id: the number of the run.
        """
        _require(consent)
        return await _call(ctx, api_of, acting.cancel, {"run_id": run_id})

    made: list[Callable[..., Any]] = [retry_run, run_job, cancel_run]
    for tool in made:
        # Types stand in this function, where the library cannot look them up by their names.
        tool.__annotations__ = typing.get_type_hints(
            tool,
            globalns=globals(),
            localns={"ask_retry": ask_retry, "ask_run": ask_run, "ask_cancel": ask_cancel},
            include_extras=True,
        )
    return made


async def _call(
    ctx: Context[Any, Any],
    api_of: ApiOf,
    tool: Callable[..., Any],
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """What a tool answers, in a thread: it waits for the admin.

    Raises:
        ToolError: the admin refused it, or an argument is no such value; in words for the
            assistant.
    """

    def work() -> Any:
        with api_of(ctx) as api:
            return tool(api, **arguments)

    try:
        answer = await anyio.to_thread.run_sync(work)
    except ApiRefused as refused:
        # Over HTTP the token is the request's, and no login on this machine changes it.
        is_of_request = refused.status == 401 and bool(ctx.headers)
        told = f"{refused.said}\n  {_OF_REQUEST}" if is_of_request else str(refused)
        raise ToolError(told) from None
    except (Failure, ValueError) as problem:
        raise ToolError(str(problem)) from None
    return bounded(answer) if isinstance(answer, Mapping) else {"text": answer}


async def _ask(
    ctx: Context[Any, Any],
    api_of: ApiOf,
    question: Callable[..., str],
    arguments: Mapping[str, Any],
    asks: bool,
) -> Consent | Elicit[Consent]:
    if not asks:
        return Consent(yes=True)
    able = ctx.client_capabilities
    if able is None or able.elicitation is None:
        raise ToolError(
            "The program that you run in cannot ask its user, so nothing was done. The user can do"
            " it in the console, or start this server with --without-asking."
        )
    told = await _call(ctx, api_of, question, arguments)
    return Elicit(told["text"], Consent)


def _require(consent: Consent) -> None:
    if not consent.yes:
        raise ToolError("The user said no, so nothing was done.")
