"""Result of checks of every format: what was read, and what is wrong in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from atompack_torch._native import MoleculeSource, Verifier
from atompack_torch.datasets.sweeping import OnProgress, available_threads, steps
from atompack_torch.errors import AtompackError, counted, printable
from atompack_torch.fields import BUILTIN, PREFIXES

if TYPE_CHECKING:
    from atompack_torch.formats.torch_cache.verification import Difference


_IN_WORDS = {
    "bytes": "bytes of records",
    "feature_rows": "rows of features",
    "derivative_rows": "of derivatives",
    "recomputed": "entries computed again",
}


@dataclass(frozen=True)
class Fault:
    """A violation of the format.

    Attributes:
        path: the file or folder.
        molecule: index of the molecule in that file; None if the fault concerns another part of it,
            or the whole.
        message: description of the fault and its place, including file and molecule.
    """

    path: str
    molecule: int | None
    message: str


class CheckResult(NamedTuple):
    """Result of a check in readable form.

    Attributes:
        faults: kind of fault → messages of the first ones, and the total number.
        warnings: irregularities that readers tolerate.
        summary: one-line summary.
    """

    faults: Mapping[str, tuple[Sequence[str], int]]
    warnings: Sequence[str]
    summary: str


@dataclass
class Verification:
    """Result of ``verify`` and ``verify_cache``.

    Each count is an attribute, too: ``n_molecules`` is ``counts["molecules"]``.

    Attributes:
        files: the verified files, stores or folders.
        counts: kind of item → number of those that were read: ``"molecules"`` and the uncompressed
            ``"bytes"`` of their records; ``"entries"`` of a feature cache, its valid
            ``"feature_rows"`` and ``"derivative_rows"``, and the number of ``"recomputed"``
            entries; ``"datasets"`` and ``"arrays"`` of stores; ``"examples"`` and ``"blocks"`` of
            Atlas shards.
        n_faults: total number of faults.
        faults: the first faults: at most ``max_faults`` in all, and a hundred per molecule.
        warnings: irregularities that readers tolerate.
        n_differences: number of rows of a feature cache that differ from those recomputed from
            their molecule.
        differences: the first of them, at most ``max_faults``; None for other formats.
    """

    files: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    n_faults: int = 0
    faults: list[Fault] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    n_differences: int = 0
    differences: list[Difference] | None = None

    @property
    def ok(self) -> bool:
        """True if there are no faults and no differences; warnings do not count."""
        return self.n_faults == self.n_differences == 0

    @property
    def mismatched_entries(self) -> list[int]:
        """Entries among ``differences`` that the original library computed wrongly."""
        return sorted({one.entry for one in self.differences or () if one.cause is not None})

    def __getattr__(self, name: str) -> int:
        counts = self.__dict__.get("counts", {})
        if name.startswith("n_") and name[2:] in counts:
            return int(counts[name[2:]])
        raise AttributeError(f"expected a count ({', '.join(counts)}), got {name!r}")

    def add_fault(self, fault: Fault, max_faults: int) -> None:
        """Counts a fault, and lists it if there is room.

        Args:
            fault: the fault.
            max_faults: maximum number of faults to list.
        """
        self.n_faults += 1
        if len(self.faults) < max_faults:
            self.faults.append(fault)

    def as_dict(self) -> dict[str, object]:
        """Converts the result to plain values, for JSON.

        Returns:
            The attributes by name, each count as ``n_...``, and ``ok``; for feature caches also
            ``path`` and ``mismatched_entries``. None stands for an unbounded difference.
        """
        found: dict[str, Any] = {
            "ok": self.ok,
            "files": self.files,
            **{f"n_{name}": n for name, n in self.counts.items()},
            "n_faults": self.n_faults,
            "faults": [asdict(fault) for fault in self.faults],
            "warnings": self.warnings,
        }
        if self.differences is None:
            return found
        differences = [asdict(one) for one in self.differences]
        for one in differences:
            if not math.isfinite(one["largest"]):
                one["largest"] = None
        return found | {
            "path": self.files[0],
            "n_differences": self.n_differences,
            "differences": differences,
            "mismatched_entries": self.mismatched_entries,
        }

    def report(self) -> CheckResult:
        """Formats the result.

        Returns:
            Messages of faults and differences, warnings, and a summary in one line.
        """
        kinds = {"faults": ([fault.message for fault in self.faults], self.n_faults)}
        if self.differences is not None:
            messages = [one.message for one in self.differences]
            kinds["differences"] = (messages, self.n_differences)
        return CheckResult(kinds, self.warnings, self._summary())

    def _summary(self) -> str:
        counts = [f"{n:,} {_IN_WORDS.get(name, name)}" for name, n in self.counts.items()]
        kinds = [counted(self.n_faults, "fault"), counted(len(self.warnings), "warning")]
        if self.differences is not None:
            kinds.insert(1, counted(self.n_differences, "difference"))
        n = len(self.files)
        where = f"{self.files[0]}: " if n == 1 else f"{n:,} files, "
        return f"{where}{', '.join(counts)}: {', '.join(kinds)}"

    def __repr__(self) -> str:
        return f"Verification({printable(self._summary())})"


def check_part(
    result: Verification, file: str, check: Callable[[], object], max_faults: int
) -> None:
    """Runs the check of a part of a file; its error becomes a fault.

    Args:
        result: gets the fault.
        file: the file, store or folder.
        check: reads the part.
        max_faults: maximum number of faults to list.
    """
    try:
        check()
    except (AtompackError, OSError) as error:
        result.add_fault(Fault(file, None, str(error)), max_faults)


def check_records(
    source: MoleculeSource,
    result: Verification,
    max_faults: int,
    report: OnProgress | None,
    place_of: Callable[[int], tuple[str, int]],
    where: str = "",
) -> None:
    """Reads molecules with all checks, and adds counts, faults and warnings to a result.

    Args:
        source: the molecules.
        result: gets the faults, the numbers of molecules and bytes, and warnings about NaN and
            infinite values.
        max_faults: maximum number of faults to list.
        report: called with the number of molecules done since the last call.
        place_of: returns file and number within it of a molecule.
        where: beginning of warnings.
    """
    verifier = Verifier(source, available_threads(None))
    non_finite: Counter[str] = Counter()
    for n_molecules in steps(verifier, report):
        n_faults, faults, n_bytes, fields = verifier.take()
        result.n_faults += n_faults
        for molecule, text in faults[: max_faults - len(result.faults)]:
            result.faults.append(Fault(*place_of(molecule), text))
        result.counts.update(molecules=n_molecules, bytes=n_bytes)
        for scope, key, molecules in fields:
            non_finite[(PREFIXES[scope] if scope != BUILTIN else "") + key] += molecules
    result.warnings += [
        f"{where}{n} molecules store NaN or infinite values (field {name!r})"
        for name, n in sorted(non_finite.items())
    ]
