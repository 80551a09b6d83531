"""Why a node was chosen, or why none is yet, as the API tells it."""

from __future__ import annotations

from tickwheel_admin.api.answers import instant
from tickwheel_admin.api.runs.shapes import ChoiceJson, NodeChoiceJson, WaitingJson
from tickwheel_admin.domain.routing.choice import Choice, choice_of
from tickwheel_admin.domain.routing.reasons import sentences
from tickwheel_admin.services.runs.waiting import Waiting
from tickwheel_admin.web.i18n import translate


def choice_view(stored: str | None, language: str) -> NodeChoiceJson:
    """The reason of an attempt's node: sentences for people, and the facts for programs."""
    choice = choice_of(stored)
    if choice is None:
        return {"why_node": None, "choice": None}
    told = [translate(each.template, each.params, language) for each in sentences(choice)]
    return {"why_node": " ".join(told), "choice": _facts(choice)}


def waiting_view(waiting: Waiting | None, language: str) -> WaitingJson:
    """What a queued run waits for; nulls for any other run."""
    if waiting is None:
        return {
            "waiting_for": None,
            "waiting_for_runs": [],
            "waiting_since": None,
            "why_waiting": None,
            "start_by": None,
        }
    return {
        "waiting_for": waiting.code,
        "waiting_for_runs": list(waiting.runs),
        "waiting_since": instant(waiting.since),
        "why_waiting": translate(waiting.template, waiting.params, language),
        "start_by": instant(waiting.start_by),
    }


def _facts(choice: Choice) -> ChoiceJson:
    return {
        "by": choice.by,
        "candidates": choice.candidates,
        "used": choice.used,
        "slots": choice.slots,
        "passed_over": [{"node": each.node, "why": each.why} for each in choice.passed],
        "more_passed_over": choice.more_passed,
        "detail": list(choice.detail),
    }
