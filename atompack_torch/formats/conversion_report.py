"""Report of a conversion: what was read, written, changed and omitted."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from atompack_torch.errors import AtompackError, CorruptFileError, FieldError, molecules, printable
from atompack_torch.options import ChangeOptions

OnError = Literal["raise", "skip"]

_REFUSED = ("structures", "the rest of a file")
_COUNTS = ("structures_read", "structures_written", "atoms_written")
_SIZES = ("bytes_written", "seconds")
_BY_LABEL = ("labels", "nan_as_missing", "partly_nan")
_LINES = ("changes", "warnings", "notes", "source_units")
_COUNT_IN_TEXT = re.compile(r"(\d[\d,]*) molecules?\b")


class Report:
    """Report of one conversion. ``print(report)`` shows it, ``as_dict()`` is for JSON.

    Args:
        on_error: ``"raise"``, or ``"skip"`` to count molecules that cannot be converted.
        options: changes of values that were asked for; readers heed ``stress_order`` and
            ``keep_units``.
        n_sources: number of sources that may have a key of ``key_map``; 0: keys are not checked.

    Attributes:
        structures_read: readable molecules in the sources.
        structures_written: molecules in the output.
        atoms_written: atoms in the output.
        labels: field → number of molecules written with it.
        skipped: (what, why) → count; everything omitted is listed here.
        notes: other useful information: interpretation of the source, changes of representation.
        warnings: likely mistakes: no labels, names that suggest another quantity, options without
            effect, fields left in another unit.
        changes: changes made to values.
        changed: ``Changes`` that were made → label → number of molecules that had it then.
        units: field of the source that is read → its unit, as the source states it.
        missing: key of ``key_map`` → the error of each source that lacks it.
        is_order_assumed: True if six numbers of a stress were taken as Voigt's order, although
            the source is not known to have that, and VASP's would be another stress.
        sources: field → its names in the sources, where they differ.
        source_units: fields that look like energies, forces, stresses or dipoles and are still in
            the unit of the source.
        nan_as_missing: label → number of molecules in which it was all NaN and treated as missing.
        partly_nan: label → number of molecules in which some of its values are NaN.
        bytes_read: size of the sources on disk.
        bytes_written: size of the output on disk.
        seconds: duration of the conversion.
        whole: the sum of the reports of all parts, if this is one of them and no other is missing.
    """

    def __init__(
        self,
        on_error: OnError = "raise",
        options: ChangeOptions | None = None,
        n_sources: int = 1,
    ) -> None:
        self.on_error = on_error
        self.options = options or ChangeOptions()
        self.n_sources = n_sources
        self.missing: dict[str, list[FieldError]] = {}
        self.structures_read = 0
        self.structures_written = 0
        self.atoms_written = 0
        self.labels: Counter[str] = Counter()
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.changes: list[str] = []
        self.changed: defaultdict[Hashable, Counter[str]] = defaultdict(Counter)
        self.units: dict[str, str] = {}
        self.is_order_assumed = False
        self.sources: dict[str, list[str]] = {}
        self.source_units: list[str] = []
        self.nan_as_missing: Counter[str] = Counter()
        self.partly_nan: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self.seconds = 0.0
        self.whole: Report | None = None
        self._start = time.monotonic()

    def skip(self, what: str, why: str, count: int = 1) -> None:
        """Records something that was omitted.

        Args:
            what: what was omitted.
            why: the reason.
            count: number of times.
        """
        self.skipped[what, why] += count

    def note(self, text: str) -> None:
        """Adds a note, unless it was added before.

        Args:
            text: the note.
        """
        if text not in self.notes:
            self.notes.append(text)

    def warn(self, text: str) -> None:
        """Adds a warning about a likely mistake, unless it was added before.

        Args:
            text: the warning.
        """
        if text not in self.warnings:
            self.warnings.append(text)

    def origin(self, field: str, source: str) -> None:
        """Records the name of a field in a source, if it differs.

        Args:
            field: name of the field in the output.
            source: its name in the source.
        """
        names = self.sources.setdefault(field, [])
        if source != field and source not in names:
            names.append(source)

    def miss_key(self, key: str, error: FieldError) -> None:
        """Handles a key that a source does not have: raises if no source has it.

        Args:
            key: the key.
            error: the error about the source.

        Raises:
            FieldError: ``error`` itself, about the last of all sources.
        """
        errors = self.missing.setdefault(key, [])
        errors.append(error)
        if len(errors) == self.n_sources:
            raise error
        self.note(str(error))

    def refuse(self, error: AtompackError, count: int = 1) -> None:
        """Handles molecules that cannot be converted: raises, or counts them if requested.

        Args:
            error: the error about them.
            count: number of molecules.

        Raises:
            AtompackError: ``error`` itself, unless ``on_error="skip"``.
        """
        if self.on_error == "raise":
            raise error
        self.skip("structures", str(error), count)

    def check_not_all_refused(self) -> None:
        """Checks, if no molecule was kept, that none had been refused.

        Raises:
            CorruptFileError: some were; it has the reason of the first.
        """
        reasons = [why for what, why in self.skipped if what in _REFUSED]
        if reasons:
            raise CorruptFileError(f"{reasons[0]}: expected molecules without a fault, got none")

    def finish(self) -> None:
        """Stops the clock, and formats the counts."""
        for label, n in self.nan_as_missing.items():
            self.changes.append(f"{label}: NaN in {molecules(n)}, taken as missing")
        for label, n in self.partly_nan.items():
            self.note(f"{label}: some values are NaN in {molecules(n)}: left as they are")
        self.seconds = time.monotonic() - self._start

    def add(self, other: dict[str, Any]) -> None:
        """Adds what another process did with other molecules of the same sources.

        Args:
            other: ``as_dict()`` of its report.

        Raises:
            KeyError, TypeError, ValueError: it is not a report; this one is unchanged.
        """
        numbers = {name: other[name] for name in (*_COUNTS, *_SIZES)}
        skipped = {(one["what"], one["why"]): int(one["count"]) for one in other["skipped"]}
        by_label = {name: Counter(other[name]) for name in _BY_LABEL}
        lines = {name: _joined(getattr(self, name), other[name]) for name in _LINES}
        sources = [(field, name) for field, names in other["sources"].items() for name in names]
        totals = {name: getattr(self, name) + number for name, number in numbers.items()}
        self.bytes_read = max(self.bytes_read, other["bytes_read"])
        for name, total in (totals | lines).items():
            setattr(self, name, total)
        for name, counts in by_label.items():
            getattr(self, name).update(counts)
        self.skipped.update(skipped)
        for field, name in sources:
            self.origin(field, name)

    def as_dict(self) -> dict[str, object]:
        """Converts the report to plain values, for JSON.

        Returns:
            Name of the attribute → value.
        """
        whole = {} if self.whole is None else {"whole": self.whole.as_dict()}
        return {
            **{name: getattr(self, name) for name in (*_COUNTS, "bytes_read", *_SIZES)},
            **{name: dict(getattr(self, name)) for name in _BY_LABEL},
            **{name: list(getattr(self, name)) for name in _LINES},
            "sources": {field: list(names) for field, names in self.sources.items() if names},
            "skipped": [
                {"what": what, "why": why, "count": count}
                for (what, why), count in self.skipped.items()
            ],
            **whole,
        }

    def __str__(self) -> str:
        rows = [
            ("read", f"{molecules(self.structures_read)}, {_size(self.bytes_read)}"),
            (
                "written",
                f"{molecules(self.structures_written)}, {self.atoms_written:,} atoms, "
                f"{_size(self.bytes_written)}",
            ),
            ("time", f"{self.seconds:.1f} s"),
        ]
        rows += _section("warnings", self.warnings)
        rows += _section("labels", [self._label_line(name) for name in self.labels])
        rows += _section("changed", self.changes or ["nothing"])
        if self.source_units:
            rows.append(("units", f"as in the source: {', '.join(self.source_units)}"))
        left_out = [f"{n:>12,}  {what}: {why}" for (what, why), n in self.skipped.items()]
        rows += _section("left out", left_out or ["nothing"])
        rows += _section("notes", self.notes)
        table = "\n".join(f"{head:<10}{printable(text)}" for head, text in rows)
        return table if self.whole is None else f"{table}\n\nall parts\n{self.whole}"

    __repr__ = __str__  # what a notebook shows

    def _label_line(self, field: str) -> str:
        names = ", ".join(map(repr, self.sources.get(field, [])))
        return f"{self.labels[field]:>12,}  {field}" + (f", from {names}" if names else "")


def _section(head: str, lines: list[str]) -> list[tuple[str, str]]:
    return [(head if i == 0 else "", line) for i, line in enumerate(lines)]


def _joined(lines: list[str], others: Iterable[str]) -> list[str]:
    """Joins lines; those that differ only in a number of molecules become one with the sum."""
    joined = {_COUNT_IN_TEXT.sub("#", line): line for line in lines}
    for line in others:
        key = _COUNT_IN_TEXT.sub("#", line)
        mine, theirs = (_COUNT_IN_TEXT.findall(text) for text in (joined.get(key, ""), line))
        for a, b in zip(mine, theirs, strict=False):
            total = int(a.replace(",", "")) + int(b.replace(",", ""))
            line = re.sub(rf"\b{b} molecules?\b", molecules(total), line, count=1)
        joined[key] = line
    return list(joined.values())


def _size(n_bytes: int) -> str:
    size, unit = float(n_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{n_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def described(error: Exception) -> str:
    """Formats an error of another library as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def naming_damage(where: object) -> Iterator[None]:
    """Converts errors of other libraries about damaged files, which vary.

    Args:
        where: the file, and what in it.

    Yields:
        Nothing.

    Raises:
        CorruptFileError: for any error but ours, a missing package or a missing file.
    """
    try:
        yield
    except (AtompackError, FileNotFoundError, ImportError):
        raise
    except Exception as error:
        raise CorruptFileError(f"{where}: {described(error)}") from error


def pass_on(recorded: Report, report: Report, *, counts: bool = True) -> None:
    """Adds the records of one report to another.

    Args:
        recorded: a report that a reader has written to.
        report: receives notes, warnings, units and names of fields.
        counts: it also receives the numbers of skipped molecules.
    """
    if counts:
        report.skipped.update(recorded.skipped)
    report.units.update(recorded.units)
    report.is_order_assumed |= recorded.is_order_assumed
    for key, errors in recorded.missing.items():
        for error in errors:
            report.miss_key(key, error)
    for text in recorded.notes:
        report.note(text)
    for text in recorded.warnings:
        report.warn(text)
    for field, names in recorded.sources.items():
        for name in names:
            report.origin(field, name)
