"""Work as a large installation has it: many executors, all routing strategies, serial jobs too."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.testbed.bed import Bed
from tests.bench.testbed.queued_runs import Share
from tickwheel_admin.domain.routing.strategies import STRATEGIES as STRATEGY_RECORDS
from tickwheel_admin.domain.routing.strategy import Memory, NodeNames
from tickwheel_admin.domain.runs.blocking import Blocking

# Each gives a run to one node, needs no names, and may give a node many runs of one job.
STRATEGIES = tuple(
    routing
    for routing, record in STRATEGY_RECORDS.items()
    if record.split is None
    and record.names is not NodeNames.REQUIRED
    and record.memory is not Memory.BUSY
)
SERIAL_SHARE = 0.1  # of all runs
# Those of one job go one by one. With more of them, small claims take most of an admin's time.
RUNS_OF_SERIAL_JOB = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedWork:
    """Executors with jobs. Each has one parallel job, and as many serial ones as the others."""

    tokens: list[tuple[str, str]]  # name and token of each executor
    parallel: list[tuple[int, int]]  # job and executor
    serial: list[tuple[int, int]]

    def shares(self, runs: int) -> list[Share]:
        """About so many runs: a tenth of them those of serial jobs, if there are enough of these.

        The same number for every parallel job, and for every serial one that has any.
        """
        serial = self.serial[: round(runs * SERIAL_SHARE / RUNS_OF_SERIAL_JOB)]
        rest = runs - len(serial) * RUNS_OF_SERIAL_JOB
        return [
            Share(job_id=job_id, executor_id=executor_id, runs=rest // len(self.parallel))
            for job_id, executor_id in self.parallel
        ] + [
            Share(
                job_id=job_id, executor_id=executor_id, runs=RUNS_OF_SERIAL_JOB, is_parallel=False
            )
            for job_id, executor_id in serial
        ]


def add_mixed_work(bed: Bed, *, executors: int, runs: int) -> MixedWork:
    """Make executors, and jobs for floods of up to so many runs."""
    serial_jobs = round(runs * SERIAL_SHARE / RUNS_OF_SERIAL_JOB)
    work = MixedWork(tokens=[], parallel=[], serial=[])
    of_executors: list[list[tuple[int, int]]] = []
    for number in range(executors):
        name = f"mixed-{number}"
        executor = bed.cluster.api().post("/executors", {"name": name})
        work.tokens.append((name, executor["token"]))
        jobs = [{"name": f"{name}-parallel", "routing": strategy(number)}]
        jobs += [
            {
                "name": f"{name}-serial-{each}",
                "routing": strategy(number + each),
                "blocking": Blocking.SERIAL.value,
            }
            for each in range(len(range(number, serial_jobs, executors)))
        ]
        parallel, *serial = [
            (job_id, executor["id"]) for job_id in _add_jobs(bed, executor["id"], jobs)
        ]
        work.parallel.append(parallel)
        of_executors.append(serial)
    # By turns, so that the first of them belong to all executors.
    for place in range(max(map(len, of_executors))):
        work.serial.extend(jobs[place] for jobs in of_executors if place < len(jobs))
    return work


def strategy(number: int) -> str:
    """The strategies by turns."""
    return STRATEGIES[number % len(STRATEGIES)].value


def _add_jobs(bed: Bed, executor_id: int, jobs: list[dict[str, str]]) -> list[int]:
    made = [job | {"handler": "noop"} for job in jobs]
    answer = bed.cluster.api().post("/jobs/bulk", {"executor_id": executor_id, "jobs": made})
    return [each["id"] for each in answer["jobs"]]
