"""Words for how a job's runs are spread over nodes: strategies, policies, reasons of choices."""

from __future__ import annotations

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.domain.routing.choice import choice_of, sentences
from tickwheel_admin.domain.routing.policy import Routing, RoutingPolicy

Choices = list[tuple[str, str, str]]  # value, name, what it does


def groups() -> list[tuple[str, Choices]]:
    """All strategies in groups with a heading, in the order in which people should meet them."""
    return [
        (
            _("One after the other"),
            [
                (
                    Routing.ROUND_ROBIN.value,
                    _("Round robin"),
                    _("One node after the other. Right for most jobs."),
                ),
                (
                    Routing.WEIGHTED.value,
                    _("Weighted"),
                    _("By turns, a node of weight 3 three times as often as one of weight 1."),
                ),
                (
                    Routing.LEAST_RECENTLY_USED.value,
                    _("Least recently used"),
                    _("The node whose last run of this job is the longest ago."),
                ),
                (
                    Routing.LEAST_FREQUENTLY_USED.value,
                    _("Least frequently used"),
                    _("The node that was given the fewest runs of this job."),
                ),
                (
                    Routing.RANDOM.value,
                    _("Random"),
                    _("Any node with a free slot, each equally likely."),
                ),
            ],
        ),
        (
            _("By how busy they are"),
            [
                (
                    Routing.LEAST_BUSY.value,
                    _("Least busy"),
                    _("The node with the most free slots. For runs of uneven length."),
                ),
                (
                    Routing.BUSY_OVER.value,
                    _("Busy over"),
                    _(
                        "Passes over nodes that run this job already, to the first by name that"
                        " does not. When all do, the run waits."
                    ),
                ),
            ],
        ),
        (
            _("Always the same node"),
            [
                (
                    Routing.CONSISTENT_HASH.value,
                    _("Consistent hash"),
                    _(
                        "The same value of a parameter goes to the same node, also when others"
                        " come and go. For nodes that keep a cache."
                    ),
                ),
                (
                    Routing.FAILOVER.value,
                    _("Failover"),
                    _("The first of a list; the next stands in when it is away, full or refuses."),
                ),
                (
                    Routing.PINNED.value,
                    _("Pinned"),
                    _("Only nodes that you name or choose by their labels. Runs wait for them."),
                ),
                (
                    Routing.FIRST.value,
                    _("First"),
                    _("The first node by name that has a free slot."),
                ),
                (
                    Routing.LAST.value,
                    _("Last"),
                    _("The last node by name that has a free slot."),
                ),
            ],
        ),
        (
            _("Several nodes at once"),
            [
                (
                    Routing.BROADCAST.value,
                    _("Broadcast"),
                    _("Every live node at once, each with its own shard of the run."),
                ),
                (
                    Routing.SHARDS.value,
                    _("Shards"),
                    _("The run is cut into a fixed number of parts, spread over the nodes."),
                ),
            ],
        ),
    ]


def name_of(strategy: Routing) -> str:
    """The name of a strategy."""
    return next(
        name
        for _heading, choices in groups()
        for value, name, _what in choices
        if value == strategy
    )


def text_of(policy: RoutingPolicy) -> str:
    """The strategy in a few words, with the one number or name that matters most."""
    name = name_of(policy.strategy)
    if policy.strategy is Routing.SHARDS:
        shards = ngettext("%(num)s shard", "%(num)s shards", policy.shards)
        return f"{name}: {shards % {'num': policy.shards}}"
    if policy.strategy is Routing.CONSISTENT_HASH:
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
    if policy.strategy is Routing.FAILOVER:
        return _("in this order:") + " " + " → ".join(policy.nodes)
    return _("only:") + " " + ", ".join(policy.nodes)


def why(choice: str | None) -> list[str]:
    """Why a node was chosen, in sentences; none for a run that no node was chosen for yet."""
    told = choice_of(choice)
    if told is None:
        return []
    return [_(sentence.template) % sentence.params for sentence in sentences(told)]
