"""Why a run ended or stands as it does, as the API says it in the reader's language."""

from __future__ import annotations

from tickwheel_admin.api.runs.shapes import MisfireJson
from tickwheel_admin.domain.errors import Word
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.planning.missed_fires import MissedFires, missed_fires_of
from tickwheel_admin.domain.runs.reasons import REASONS
from tickwheel_admin.domain.runs.run import FINAL, Run
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_admin.web.i18n import translate

_POLICIES = {
    MisfirePolicy.SKIP: Word("Its trigger skips missed fires."),
    MisfirePolicy.FIRE_ONCE: Word("Its trigger makes up for missed fires with one run."),
    MisfirePolicy.FIRE_ALL: Word("Its trigger makes up for the latest of them only."),
}


def run_message(run: Run, language: str) -> str | None:
    """What its handler or a node said of its end; else what its reason means, if that adds any."""
    if (missed := missed_fires_of(run)) is not None:
        return _missed(missed, language)
    if run.message is not None:
        return run.message
    words = REASONS.get(run.reason or "") if run.state in FINAL else None
    return None if words is None else translate(words, {}, language)


def misfire_view(run: Run) -> MisfireJson | None:
    """The missed fires that a skipped run stands for; null for any other run."""
    missed = missed_fires_of(run)
    if missed is None:
        return None
    return {
        "count": missed.count,
        "capped": missed.capped,
        "first_at": instant_to_iso(missed.first_at),
        "last_at": instant_to_iso(missed.last_at),
        "policy": missed.policy,
        "made_up": missed.made_up,
    }


def _missed(missed: MissedFires, language: str) -> str:
    first_at, last_at = instant_to_iso(missed.first_at), instant_to_iso(missed.last_at)
    if missed.count == 1:
        template, params = (
            Word("The fire of %(time)s was missed; it is skipped."),
            {"time": first_at},
        )
    else:
        template = Word("%(n)s fires were missed from %(first)s to %(last)s; they are skipped.")
        count = f"{missed.count:,}" + ("+" if missed.capped else "")
        params = {"n": count, "first": first_at, "last": last_at}
    told = [translate(template, params, language)]
    if missed.policy is not None:
        told.append(translate(_POLICIES[missed.policy], {}, language))
    return " ".join(told)
