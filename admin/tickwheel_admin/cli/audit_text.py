"""What `tickwheel audit` prints for people, in lines of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from unicodedata import east_asian_width

from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.audit.figures import FireFigures
from tickwheel_admin.domain.xxl_job.audit.origin import RowOrigin
from tickwheel_admin.domain.xxl_job.audit.report import AuditReport, HourReport, JobReport
from tickwheel_admin.domain.xxl_job.audit.zone_guess import ZoneChoice

WIDTH = 80
WORST_JOBS = 20
WORST_HOURS = 10
_NAME = 19  # columns
_FIGURES = ("lost", "doubled", "late")


def as_text(report: AuditReport) -> Iterator[str]:
    """The summary first, then the worst, then what was judged and what is not known."""
    yield from _wrapped(_summary(report))
    if stopped := [job for job in report.jobs if job.stopped_at is not None]:
        yield from _wrapped(
            f"{_many(len(stopped), 'job')} stopped without anybody's doing: {_ids(stopped)}."
        )
    if report.total.not_sent or report.total.no_result:
        yield from _wrapped(_sending(report.total))
    if outcomes := _outcomes(report.total):
        yield from _wrapped(f"No faults of the scheduler: {outcomes}.")
    yield from _jobs(report)
    yield from _hours(report)
    yield from _facts(report)
    yield from _unknown(report)


def moment(second: int, zone: Zone) -> str:
    """As the clocks of a zone show it: “2026-01-03 02:00:00”."""
    return _local(second, zone).strftime("%Y-%m-%d %H:%M:%S")


def plain(text: str) -> str:
    """A name from a foreign database, without what a terminal might obey."""
    return "".join(char if char.isprintable() else "?" for char in text)


def length(seconds: int | None) -> str:
    """“12 s”, “3 min”, “2.5 h” in few columns."""
    if seconds is None:
        return "-"
    if seconds < 600:
        return f"{seconds}s"
    if seconds < 36_000:
        return f"{seconds // 60}min"
    return f"{seconds // 3_600}h"


def _local(second: int, zone: Zone) -> datetime:
    offset = timedelta(seconds=zone.segment_at(second).offset)
    return datetime.fromtimestamp(second, timezone(offset))


def _summary(report: AuditReport) -> str:
    total, window = report.total, report.window
    if report.log_from is None:
        return "The log is empty: nothing can be said."
    if not total.expected:
        return "No job was due in the time that can be judged: nothing can be said."
    span = f"{_span(window.end - window.start)}, {_many(total.expected, 'fire')}"
    if not total.faults:
        text = f"Nothing lost, nothing doubled, nothing late by more than {window.late_after} s"
        return f"{text}: {span}, {_many(report.judged_jobs, 'job')}."
    parts = []
    if total.lost:
        parts.append(f"lost {total.lost:,}{_percent(total.lost, total.expected)}")
    if total.doubled:
        parts.append(f"ran {total.doubled:,} twice")
    if total.late:
        parts.append(f"started {total.late:,} late by more than {window.late_after} s")
    if total.missing_shards:
        parts.append(f"left {_many(total.missing_shards, 'shard')} of broadcasts out")
    text = f"{span}: XXL-JOB {_listed(parts)}."
    worst = report.jobs[0]
    if worst.figures.faults:
        text += f" Worst job: {worst.id}, {plain(worst.name)} ({_faults(worst.figures)})."
    for hour in report.worst_hours(1):
        at = _local(hour.hour_at, window.zone).strftime("%Y-%m-%d %H:%M")
        text += f" Worst hour: {at} ({_faults(hour.figures)})."
    return text


def _sending(total: FireFigures) -> str:
    parts = []
    if total.not_sent:
        parts.append(f"{_many(total.not_sent, 'run')} could not be sent to an executor")
    if total.no_result:
        parts.append(f"of {_many(total.no_result, 'run')} no result ever came")
    text = _listed(parts)
    return f"{text[0].upper()}{text[1:]}."


def _outcomes(total: FireFigures) -> str:
    parts = []
    if total.failed:
        parts.append(f"{_many(total.failed, 'run')} failed")
    if total.timed_out:
        parts.append(f"{total.timed_out:,} timed out")
    if total.discarded:
        parts.append(f"{total.discarded:,} discarded as the block strategy asks for")
    return _listed(parts) if parts else ""


def _jobs(report: AuditReport) -> Iterator[str]:
    worst = [job for job in report.jobs if job.is_finding]
    if not worst:
        return
    yield ""
    yield "Jobs, the worst first"
    yield _row("job", "name", "fires", "lost", "twice", "late", "p99", "max", "unsent", "silent")
    for job in worst[:WORST_JOBS]:
        figures = job.figures
        yield _row(
            str(job.id),
            plain(job.name),
            f"{figures.expected}",
            *_figures(figures),
            length(job.p99),
            length(job.max),
            _count(figures.not_sent),
            _count(figures.no_result),
        )
        if figures.missing_shards:
            yield f"        {_many(figures.missing_shards, 'shard')} of broadcasts without a run"
        if figures.lost_at_clock_change:
            yield f"        {figures.lost_at_clock_change:,} lost where the clocks changed"
        if job.stopped_at is not None:
            at = moment(job.stopped_at, report.window.zone)
            since = _count_up_to(job.instants_since_stop)
            yield f"        stopped by itself after {at}; {since} since"
    if len(worst) > WORST_JOBS:
        yield f"and {len(worst) - WORST_JOBS:,} more: see --format csv"


def _row(job: str, name: str, *cells: str) -> str:
    widths = (8, 6, 6, 6, 6, 6, 8, 8)
    text = "".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{job:>6} {_fitted(name, _NAME)}{text}".rstrip()


def _hours(report: AuditReport) -> Iterator[str]:
    worst = report.worst_hours(WORST_HOURS)
    if not worst:
        return
    yield ""
    yield f"Hours, the worst first ({report.window.zone.name})"
    yield f"{'hour':17}{'fires':>8}{'lost':>8}{'twice':>8}{'late':>8}   jobs"
    for hour in worst:
        at = _local(hour.hour_at, report.window.zone).strftime("%Y-%m-%d %H:%M")
        cells = "".join(cell.rjust(8) for cell in _figures(hour.figures))
        yield f"{at:17}{hour.figures.expected:8}{cells}   {_jobs_of(report, hour)}"


def _jobs_of(report: AuditReport, hour: HourReport) -> str:
    """The jobs with most faults in an hour."""
    found = [
        (each.figures.faults, job.id)
        for job in report.jobs
        for each in job.hours
        if each.hour_at == hour.hour_at and each.figures.faults
    ]
    found.sort(key=lambda each: (-each[0], each[1]))
    more = f" +{len(found) - 3}" if len(found) > 3 else ""
    return ", ".join(str(job) for _faults, job in found[:3]) + more


def _facts(report: AuditReport) -> Iterator[str]:
    window = report.window
    yield ""
    yield from _fact("database", f"{report.place} (schema of {report.version})")
    if report.log_from is not None:
        yield from _fact(
            "judged",
            f"{moment(window.start, window.zone)} to {moment(window.end, window.zone)};"
            f" {report.judged_jobs} of {_many(len(report.jobs), 'job')};"
            f" {_many(report.rows, 'row')} read",
        )
        if window.start - 60 <= report.log_from:
            yield from _fact("", "the log has no older rows")
    if report.p50 is not None:
        yield from _fact(
            "lateness",
            f"50% up to {length(report.p50)}, 99% up to {length(report.p99)},"
            f" the latest {length(report.max)}",
        )
    yield from _fact(
        "cron", _zone_words(report.cron_zone, "next triggers of jobs", flag="--cron-zone")
    )
    yield from _fact("DATETIMEs", _zone_words(report.stored_zone, "newest runs", flag="--zone"))
    others = {
        origin: sum(job.origins[origin] for job in report.jobs)
        for origin in (RowOrigin.MANUAL, RowOrigin.PARENT, RowOrigin.API, RowOrigin.RETRY)
    }
    if any(others.values()):
        words = (f"{origin} {count:,}" for origin, count in others.items() if count)
        yield from _fact("left out", f"runs not by schedule: {', '.join(words)}")


def _zone_words(choice: ZoneChoice, votes: str, *, flag: str) -> str:
    name = choice.zone.name
    if not choice.votes:
        how = "as you say" if choice.is_given else f"assumed, for nothing tells; say {flag}"
        return f"{name}, {how}"
    fit = f"fits {choice.fits:,} of {choice.votes:,} {votes}"
    if choice.better is not None:
        return f"{name}, as you say; BUT IT {fit}, and {choice.better} fits more"
    if choice.is_given:
        return f"{name}, as you say; {fit}"
    if choice.is_confirmed:
        return f"{name}, found: {fit}; other zones may too, say {flag} to be sure"
    return f"{name}, assumed: no zone fits, this one {fit}; say {flag}"


def _unknown(report: AuditReport) -> Iterator[str]:
    zone = report.window.zone
    lines = []
    unseen = [job for job in report.jobs if job.unseen]
    if unseen:
        lines.append(
            f"{_many(sum(job.unseen for job in unseen), 'fire')} before the first row of"
            f" {_many(len(unseen), 'job')} ({_ids(unseen)}): lost, or their rows were deleted."
        )
    if report.total.unknown:
        jobs = [job for job in report.jobs if job.figures.unknown]
        lines.append(
            f"{_many(report.total.unknown, 'row')} of {_many(len(jobs), 'job')} ({_ids(jobs)})"
            " of which it is not told what started them, or for which instant."
        )
    changed = [
        job
        for job in report.jobs
        if job.judged_from is not None and job.judged_from > report.window.start
    ]
    if changed:
        latest = max(changed, key=lambda job: job.judged_from or 0)
        lines.append(
            f"What {_many(len(changed), 'job')} did before the last edit or start ({_ids(changed)};"
            f" the latest, {latest.id}, on {moment(latest.judged_from or 0, zone)})."
        )
    refused: dict[str, list[JobReport]] = {}
    for job in report.jobs:
        if job.refusal is not None:
            refused.setdefault(plain(job.refusal), []).append(job)
    lines.extend(
        f"{_many(len(jobs), 'job')} not judged ({_ids(jobs)}): {reason}."
        for reason, jobs in sorted(refused.items(), key=lambda each: -len(each[1]))
    )
    if report.deleted_job_rows:
        lines.append(f"{_many(report.deleted_job_rows, 'row')} of jobs that were deleted.")
    if report.undated_rows:
        lines.append(f"{_many(report.undated_rows, 'row')} without a time.")
    if lines:
        yield ""
        yield "Not known"
    for line in lines:
        yield from textwrap.wrap(line, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _ids(jobs: Sequence[JobReport]) -> str:
    ids = sorted(job.id for job in jobs)
    return ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")


def _fact(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        plain(text),
        WIDTH,
        initial_indent=f"{name:11}",
        subsequent_indent=" " * 11,
        break_on_hyphens=False,
    )


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _figures(figures: FireFigures) -> list[str]:
    return [_count(getattr(figures, name)) for name in _FIGURES]


def _count(number: int) -> str:
    return f"{number}" if number else "-"


def _count_up_to(number: int) -> str:
    return f"{_many(number, 'fire')}{' or more' if number >= 1_000_000 else ''}"


def _faults(figures: FireFigures) -> str:
    words = {
        "lost": figures.lost,
        "twice": figures.doubled,
        "late": figures.late,
        "missing shards": figures.missing_shards,
    }
    return ", ".join(f"{count:,} {word}" for word, count in words.items() if count)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _span(seconds: int) -> str:
    if seconds >= 2 * 86_400:
        return f"{round(seconds / 86_400)} days"
    return f"{max(0, round(seconds / 3_600))} hours"


def _percent(part: int, whole: int) -> str:
    return f" ({part / whole:.2%})" if part / whole >= 0.0001 else ""


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _fitted(text: str, columns: int) -> str:
    """Cut or filled to a width; Chinese characters take two columns."""
    shown, used = "", 0
    for char in text:
        wide = 2 if east_asian_width(char) in "WF" else 1
        if used + wide > columns:
            while used > columns - 1:
                used -= 2 if east_asian_width(shown[-1]) in "WF" else 1
                shown = shown[:-1]
            return f"{shown}…" + " " * (columns - used - 1)
        shown += char
        used += wide
    return shown + " " * (columns - used)
