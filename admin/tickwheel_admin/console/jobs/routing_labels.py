"""Words for how a job's runs are spread over nodes: strategies, policies, reasons of choices."""

from __future__ import annotations

from itertools import groupby

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.domain.routing.choice import choice_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.reasons import sentences
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing
from tickwheel_admin.domain.routing.strategy import NodeNames, Split


def groups() -> list[tuple[str, list[Routing]]]:
    """All strategies in groups with a heading, in the order in which people should meet them."""
    grouped = groupby(STRATEGIES, key=lambda strategy: STRATEGIES[strategy].group)
    return [(_(heading), list(strategies)) for heading, strategies in grouped]


def name_of(strategy: Routing) -> str:
    """The name of a strategy."""
    return _(STRATEGIES[strategy].title)


def hint_of(strategy: Routing) -> str:
    """What a strategy does, and when it is right."""
    return _(STRATEGIES[strategy].hint)


def asked_for(strategy: Routing) -> str:
    """The fields that a strategy asks for, as the style sheet looks for them."""
    record = STRATEGIES[strategy]
    asked = {
        "shards": record.split is Split.BY_NUMBER,
        "hash_by": record.hashes,
        f"nodes {record.names}": record.names is not None,
    }
    return " ".join(name for name, is_asked in asked.items() if is_asked)


def text_of(policy: RoutingPolicy) -> str:
    """The strategy in a few words, with the one number or name that matters most."""
    name = name_of(policy.strategy)
    if policy.record.split is Split.BY_NUMBER:
        shards = ngettext("%(num)s shard", "%(num)s shards", policy.shards)
        return f"{name}: {shards % {'num': policy.shards}}"
    if policy.record.hashes:
        if policy.hash_by is None:
            return _("%(name)s, by the job") % {"name": name}
        return _("%(name)s, by the parameter “%(parameter)s”") % {
            "name": name,
            "parameter": policy.hash_by,
        }
    return name


def named_nodes(policy: RoutingPolicy) -> str:
    """Which nodes are named, in a few words; "" for none."""
    if not policy.nodes:
        return ""
    if policy.record.names is NodeNames.PREFERRED:
        return _("in this order:") + " " + " → ".join(policy.nodes)
    return _("only:") + " " + ", ".join(policy.nodes)


def why(choice: str | None) -> list[str]:
    """Why a node was chosen, in sentences; none for a run that no node was chosen for yet."""
    told = choice_of(choice)
    if told is None:
        return []
    return [_(sentence.template) % sentence.params for sentence in sentences(told)]
