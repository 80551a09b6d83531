"""Why a node was chosen, as sentences: message ids, told in the language of the reader."""

from __future__ import annotations

from typing import Any, NamedTuple

from tickwheel_admin.domain.routing.choice import CHOSEN, ONLY, Choice, PassedOver, Why
from tickwheel_admin.domain.routing.strategies import STRATEGIES, Routing


class Sentence(NamedTuple):
    """A message id with its params."""

    template: str
    params: dict[str, Any]


def sentences(choice: Choice) -> tuple[Sentence, ...]:
    """First what decided, then who was passed over."""
    told = [_decisive(choice), *(_passed(each) for each in choice.passed)]
    if choice.more_passed:
        params = {"count": choice.more_passed}
        told.append(Sentence(template="Others passed over: %(count)d.", params=params))
    return tuple(told)


def _decisive(choice: Choice) -> Sentence:
    params: dict[str, Any] = {
        "nodes": choice.candidates,
        "used": choice.used,
        "slots": choice.slots,
    }
    if choice.by == CHOSEN:
        return Sentence(template="This node was chosen for this run.", params={})
    if choice.by == ONLY:
        return Sentence(
            template="The only node that could take it: %(used)d of %(slots)d slots used.",
            params=params,
        )
    strategy = STRATEGIES[Routing(choice.by)] if choice.by in frozenset(Routing) else None
    if strategy is not None and len(choice.detail) >= len(strategy.detail):
        params |= zip(strategy.detail, choice.detail, strict=False)
        return Sentence(template=strategy.reason, params=params)
    if strategy is not None and strategy.reason_without_detail:
        return Sentence(template=strategy.reason_without_detail, params=params)
    # A newer version wrote it.
    return Sentence(template="%(used)d of %(slots)d slots used.", params=params)


def _passed(passed: PassedOver) -> Sentence:
    params = {"node": passed.node}
    match passed.why:
        case Why.CORDONED:
            return Sentence(template="%(node)s was cordoned.", params=params)
        case Why.DRAINING:
            return Sentence(template="%(node)s was shutting down.", params=params)
        case Why.FULL:
            return Sentence(template="%(node)s had no free slot.", params=params)
        case Why.REFUSED:
            return Sentence(template="%(node)s had refused the handler.", params=params)
        case Why.CUT_OFF:
            return Sentence(template="The connection to %(node)s was lost.", params=params)
        case Why.BUSY:
            return Sentence(template="%(node)s was running this job.", params=params)
