"""manage.py run_jobs: a process that only runs jobs, until SIGTERM or Ctrl-C."""

from typing import Any

from django.core.management.base import BaseCommand

from shop.jobs import executor


class Command(BaseCommand):
    help = "Run the jobs that Tickwheel sends."

    def handle(self, *args: Any, **options: Any) -> None:
        executor.run()
