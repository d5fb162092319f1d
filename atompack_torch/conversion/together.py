"""Conversions of the same sources to several targets: each block is read once, for all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.job import Job, TooNarrowError
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.conversion_report import Report, pass_on
from atompack_torch.formats.converter import Source
from atompack_torch.progress import Progress


class Conversion(NamedTuple):
    """A job, and the types known before reading; None: types need not agree."""

    job: Job
    fit: SchemaUnifier | None


def convert_together(conversions: Sequence[Conversion]) -> list[Report]:
    """Converts the same sources to several targets, side by side.

    The sources are read once, and once more if types were too narrow: then they are all known.

    Args:
        conversions: jobs with the same sources, counts, part and ``on_error``.

    Returns:
        The report of each.

    Raises:
        CorruptFileError: a structure cannot be read, or a source changes meanwhile. Targets that
            were not complete by then do not appear.
    """
    reports: dict[int, Report] = {}
    for _ in range(2):
        left = [number for number in range(len(conversions)) if number not in reports]
        found = _run_once([conversions[number] for number in left])
        reports |= {n: report for n, report in zip(left, found, strict=True) if report is not None}
        if len(reports) == len(conversions):
            return [reports[number] for number in range(len(conversions))]
    unfinished = next(each for n, each in enumerate(conversions) if n not in reports)
    raise CorruptFileError(f"{unfinished.job.dst}: expected sources that stay as they are")


def _run_once(conversions: Sequence[Conversion]) -> list[Report | None]:
    """Reads all sources once; None where types were too narrow, and nothing was written."""
    jobs = [conversion.job for conversion in conversions]
    label = Path(jobs[0].dst).name if len(jobs) == 1 else f"{len(jobs)} files"
    n_sources = 1 if jobs[0].part is not None else len(jobs[0].sources)  # of what a part reads
    reports = [Report(job.on_error, job.changes, n_sources) for job in jobs]
    found: list[Report | None] = [None] * len(jobs)
    running = {
        number: job.steps(reports[number], conversions[number].fit)
        for number, job in enumerate(_sharing(jobs))
    }
    with Progress(jobs[0].total(), "structures", label=label, enabled=jobs[0].progress) as bar:
        try:
            while running:
                for number, steps in [*running.items()]:
                    try:
                        n_read = next(steps, None)
                    except TooNarrowError:
                        del running[number]
                        continue
                    if n_read is None:
                        found[number] = reports[number]
                        del running[number]
                    elif number == 0:  # all read the same
                        bar.update(n_read)
        finally:
            for steps in running.values():
                steps.close()  # discards the target
    return found


def _sharing(jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs, with sources that are read once for all of them."""
    if len(jobs) == 1:
        return [*jobs]
    shared = [_shared(source, jobs[0], len(jobs)) for source in jobs[0].sources]
    return [job._replace(sources=[each[n] for each in shared]) for n, job in enumerate(jobs)]


def _shared(source: Source, job: Job, n: int) -> list[Source]:
    """Returns ``n`` sources of the same blocks, which are kept until all of them have read them."""
    branches = itertools.tee(_with_notices(source, Report(job.on_error, job.changes, 0)), n)
    return [replace(source, read=partial(_branch, branch)) for branch in branches]


def _with_notices(source: Source, told: Report) -> Iterator[tuple[Columns | None, Report]]:
    """Yields blocks with the notices about each; at the end, notices alone."""
    blocks = source.read(told)
    for columns in itertools.chain(blocks, [None]):
        notices = Report(n_sources=0)
        pass_on(told, notices)
        told.skipped.clear()
        told.missing.clear()
        yield columns, notices


def _branch(blocks: Iterator[tuple[Columns | None, Report]], report: Report) -> Iterator[Columns]:
    for columns, notices in blocks:
        pass_on(notices, report)
        if columns is not None:
            yield columns
