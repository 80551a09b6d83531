"""One bench: its measurements one after the other, whatever becomes of each."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench.amounts import Amount, Measurement, Where
from tests.bench.arguments import Size
from tests.bench.progress import Progress
from tests.bench.results.repeats import as_figures, medians
from tests.bench.results.report import Report
from tests.bench.results.tables import told
from tests.bench.scenarios.flood import flood
from tests.bench.testbed.bed import Bed, made, missing

MOST_LETTERS = 300  # of what went wrong, in the report; all of it is printed
WARM_UP_RUNS = 1_000  # caches and connections of a new bed


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement, on a kind of database or on none."""

    measurement: Measurement
    kind: str | None

    @property
    def name(self) -> str:
        """As in the report."""
        return f"{self.kind}.{self.measurement.name}" if self.kind else self.measurement.name


def planned(
    measurements: Sequence[Measurement], kinds: Sequence[str], size: Size, only: Sequence[str]
) -> list[Step]:
    """What is to be measured, database by database; what needs none comes last."""
    chosen = [
        each for each in measurements if (each.name in only if only else each.belongs_to(size))
    ]
    steps = [
        Step(each, kind)
        for kind in kinds
        for each in chosen
        if each.where is not Where.MACHINE and kind not in each.not_on
    ]
    return steps + [Step(each, None) for each in chosen if each.where is Where.MACHINE]


def measure(steps: Sequence[Step], size: Size, report: Report) -> None:
    """Do all of them; the report holds what was found, and what went wrong with which."""
    steps = list(_possible(steps, report))
    amounts = [step.measurement.amount(size) for step in steps]
    progress = Progress([amount.seconds * amount.repeats for amount in amounts])
    with _SharedBed() as bed:
        for step, amount in zip(steps, amounts, strict=True):
            progress.step(step.name)
            try:
                repeats = [_once(step, amount, bed) for _ in range(amount.repeats)]
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are measured
                progress.clear()
                traceback.print_exc()
                report.problem(step.name, _in_short(error))
                bed.close()  # nobody knows what is left in it
            else:
                figures = medians([as_figures(each) for each in repeats])
                report.add(step.kind, step.measurement.name, figures)
            progress.done()
            if step.name not in report.problems:
                print(told(step.kind, step.measurement.name, figures), flush=True)


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:MOST_LETTERS]


def _possible(steps: Sequence[Step], report: Report) -> Iterator[Step]:
    for step in steps:
        lacking = missing(step.kind) if step.kind else None
        if lacking is None:
            yield step
        elif step.kind not in report.missing:
            report.missing[str(step.kind)] = lacking
            print(f"{step.kind}: {lacking}, not measured", flush=True)


def _once(step: Step, amount: Amount, bed: _SharedBed) -> object:
    measurement = step.measurement
    if measurement.where is Where.BED:
        assert step.kind is not None
        return measurement.measure(bed.of(step.kind), **amount.arguments)
    bed.close()  # an idle admin costs little, but it costs
    if measurement.where is Where.DATABASE:
        return measurement.measure(step.kind, **amount.arguments)
    return measurement.measure(**amount.arguments)


class _SharedBed:
    """The bed that measurements share, made when one wants it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._bed: Bed | None = None

    def of(self, kind: str) -> Bed:
        """The bed over a database of the kind."""
        if self._bed is None or self._bed.kind != kind:
            self.close()
            self._bed = bed = self._stack.enter_context(made(kind))
            flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
        return self._bed

    def close(self) -> None:
        """End what runs; the next one gets a new bed."""
        self._bed = None
        self._stack.close()

    def __enter__(self) -> _SharedBed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
