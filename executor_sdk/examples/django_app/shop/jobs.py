"""The jobs of this project: plain functions, each in a thread, with the ORM as anywhere else.

Two ways to run them, with TICKWHEEL_ADMINS and TICKWHEEL_TOKEN set:

    python manage.py run_jobs        # in a separate process
    gunicorn shop.wsgi               # in each worker, alongside its requests: gunicorn.conf.py
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import close_old_connections
from django.utils import timezone

from tickwheel_executor import Ending, Executor, Run

executor = Executor("shop", shutdown_grace_seconds=20)  # gunicorn gives its workers 30 s


@executor.on_started
def before_each_run(run: Run) -> None:
    close_old_connections()  # as Django does before a request: reopens broken connections


@executor.on_ended
def after_each_run(run: Run, ending: Ending) -> None:
    close_old_connections()


@executor.handler("forget-visitors")
def forget_visitors(run: Run, days: int = 14) -> dict[str, int]:
    """Delete sessions that end within this many days."""
    until = timezone.now() + timedelta(days=days)
    count, _ = Session.objects.filter(expire_date__lt=until).delete()
    run.log.info("%d visitors forgotten", count)
    return {"visitors": count}
