"""Starts one child that does nothing, to find out whether children can be started."""

from __future__ import annotations

from tickwheel_executor.offers.children.child import Child, ChildLostError
from tickwheel_executor.offers.children.keeper import KeeperError
from tickwheel_executor.offers.children.settings import Children
from tickwheel_executor.offers.command import find_program


async def probe(children: Children) -> str:
    """What is wrong, in one sentence; "" if a child was started and ended."""
    program = find_program("true", children.path)
    if program is None:
        return f"there is no program true in {children.path}"
    try:
        child = Child(children.keeper)
    except (KeeperError, OSError) as error:
        return str(error)
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
        return "its supervisor was killed"
    finally:
        child.close()
    found = child.report or {}
    if "problem" in found:
        return f"no: {found['problem']['step']}: {found['problem']['text']}"
    return "" if found.get("code") == 0 else f"{program} ended with {found.get('code')}"


def _nothing(_: object) -> None:
    return
