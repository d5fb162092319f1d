"""Extended XYZ in tests: small files, what is read of them, and what is reported."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from reference.frames import Frame, frames_of

import atompack_torch as apt
from atompack_torch.batch.columns import Columns, of_batch
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import SourceOptions, TargetOptions
from atompack_torch.formats.extxyz import converter as extxyz

COLUMNS = "Properties=species:S:1:pos:R:3"


class Told(Report):
    """A report that lists what is skipped, in order."""

    skipped: Any

    def __init__(self) -> None:
        super().__init__()
        self.skipped = []

    def skip(self, what: str, why: str, count: int = 1) -> None:
        self.skipped.append((what, why, count))


def blocks(
    path: Path, *, keys: Mapping[str, str] | None = None, report: Report | None = None
) -> Iterator[Columns]:
    """The blocks that a conversion reads."""
    source = extxyz.open_source(str(path), SourceOptions("extxyz", keys or {}))
    try:
        yield from source.read(report or Report())
    finally:
        source.close()


def write(
    path: Path, batches: Iterable[Columns | apt.MoleculeBatch], report: Report | None = None
) -> None:
    """Writes what a conversion writes."""
    with extxyz.open_target(str(path), TargetOptions(report or Report())) as target:
        for batch in batches:
            target.write(of_batch(batch) if isinstance(batch, apt.MoleculeBatch) else batch)


def read(path: Path, **options: Any) -> list[Frame]:
    return frames_of(blocks(path, **options))


def read_or_message(path: Path) -> tuple[list[Frame], str | None]:
    """The frames, or the error about the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path), None
        except (apt.CorruptFileError, apt.FieldError) as error:
            return [], str(error)


def one_atom(comment: str, atom: str = "H 0 0 0") -> str:
    return f"1\n{comment}\n{atom}\n"
