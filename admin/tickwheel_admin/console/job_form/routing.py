"""Which live nodes a job's routing would take now: told while it is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.routing.node_names import place_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy, admits
from tickwheel_admin.domain.routing.selector import (
    Operator,
    Requirement,
    SelectorError,
    parse_selector,
)
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import NodeNames, Strategy

MAX_NAMED = 8  # nodes that a sentence names
MAX_LABELS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingNow:
    """What is told below the fields of the routing."""

    words: str = ""  # "2 of 3 live nodes match now: n1, n3"
    any_matches: bool = False
    notes: tuple[str, ...] = ()  # nodes that match and lack the handler, or take no runs
    labels: tuple[str, ...] = ()  # of all live nodes, as terms of a selector
    problem: Problem | None = None  # with the selector


def routing_now(
    live: Sequence[Node], *, strategy: str, names: Sequence[str], selector: str, handler: str
) -> RoutingNow:
    """How the live nodes of an executor fit what is typed.

    Args:
        names: of nodes, with `*` for any text; they count with strategies that nodes are named for.
        handler: "" while none is chosen.
    """
    labels = _labels(live)
    try:
        chosen = Routing(strategy)
        policy = RoutingPolicy(
            strategy=chosen,
            nodes=tuple(names) if STRATEGIES[chosen].names else (),
            selector=parse_selector(selector).text,
        )
    except SelectorError as error:
        problem = Problem(
            field="selector", code="selector.invalid", template=error.template, params=error.params
        )
        return RoutingNow(labels=labels, problem=problem)
    except ValueError:
        return RoutingNow(labels=labels)  # no such strategy: its field says so
    if not live:
        return RoutingNow(words=_("No node of this executor is live now; its runs wait for one."))
    matching = [node for node in live if admits(policy, name=node.name, labels=node.labels)]
    matching.sort(key=lambda node: (_place(policy, node), node.name, node.id))
    return RoutingNow(
        words=_words(matching, len(live), policy.record),
        any_matches=bool(matching),
        notes=tuple(_notes(matching, handler)),
        labels=labels,
    )


def _words(matching: Sequence[Node], live: int, strategy: Strategy) -> str:
    if not matching and live == 1:
        return _("The only live node does not match now; its runs would wait.")
    if not matching:
        return _("None of the %(all)s live nodes matches now; its runs would wait.") % {"all": live}
    if live == 1:
        return _("The only live node matches now: %(nodes)s") % {"nodes": matching[0].name}
    in_order = strategy.names is NodeNames.PREFERRED
    names = [f"{node.name} ×{node.weight}" if strategy.weighs else node.name for node in matching]
    template = (
        _("%(n)s of %(all)s live nodes match now, in this order: %(nodes)s")
        if in_order
        else _("%(n)s of %(all)s live nodes match now: %(nodes)s")
    )
    return template % {
        "n": len(matching),
        "all": live,
        "nodes": _named(names, " → " if in_order else ", "),
    }


def _notes(matching: Sequence[Node], handler: str) -> Iterable[str]:
    lacking = [node.name for node in matching if handler and not node.offers(handler)]
    if lacking:
        yield _("Without the handler “%(handler)s”: %(nodes)s") % {
            "handler": handler,
            "nodes": _named(lacking, ", "),
        }
    resting = [node.name for node in matching if not node.takes_runs]
    if resting:
        yield _("Cordoned or shutting down: %(nodes)s") % {"nodes": _named(resting, ", ")}


def _named(names: Sequence[str], separator: str) -> str:
    text = separator.join(names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        text += " " + _("+%(n)s more") % {"n": len(names) - MAX_NAMED}
    return text


def _labels(live: Sequence[Node]) -> tuple[str, ...]:
    found = {
        Requirement(key=key, operator=Operator.IN, values=(value,)).text
        for node in live
        for key, value in node.labels.items()
    }
    return tuple(sorted(found)[:MAX_LABELS])


def _place(policy: RoutingPolicy, node: Node) -> int:
    """Where it is looked at: in the order of the names that are preferred, then with all others."""
    others = len(policy.nodes) + 1
    if policy.record.names is not NodeNames.PREFERRED or not policy.nodes:
        return others
    return place_of(policy.nodes, node.name) or others
