"""Starts one child that does nothing, to find out whether children can be started."""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_executor.offers.children.child import Child, ChildLostError
from tickwheel_executor.offers.children.keeper import KeeperError
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import find_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What became of a child that does nothing."""

    problem: str = ""  # in one sentence; "": it was started, and ended
    has_subreaper: bool = False  # what it daemonises would end with it


async def probe(children: Children) -> Probe:
    """Start one, with everything on."""
    program = find_program("true", children.path)
    if program is None:
        return Probe(problem=f"there is no program true in {children.path}")
    try:
        child = Child(children.keeper)
    except (KeeperError, OSError) as error:
        return Probe(problem=str(error))
    try:
        name = "probe"
        await child.order(
            {
                **children.order(name),
                "argv": [program],
                "directory": f"{child.directory}/{name}",
                "cwd": None,
                "environment": {"PATH": children.path},
                "files": {},
                "returned": [],
                "stdin": None,
                "watched": None,
            }
        )
        while not child.is_over:
            await child.wait()
            child.take(_nothing, _nothing, _nothing)
    except ChildLostError:
        return Probe(problem="its supervisor was killed")
    finally:
        child.close()
    found = child.report or {}
    if "problem" in found:
        return Probe(problem=f"no: {found['problem']['step']}: {found['problem']['text']}")
    problem = "" if found.get("code") == 0 else f"{program} ended with {found.get('code')}"
    return Probe(problem=problem, has_subreaper=bool(found.get("subreaper")))


def _nothing(_: object) -> None:
    return
