"""The public function for reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.elements import symbol
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.batches import BatchDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.sweeping import OnProgress, reporting, runs
from atompack_torch.display.markup import Markup, short, tag
from atompack_torch.errors import UnsupportedFormatError, printable
from atompack_torch.formats.dispatch import open as open_path
from atompack_torch.options import PathLike, checked_path, redact_path
from atompack_torch.publishing import published
from atompack_torch.reports.collection import Collector
from atompack_torch.reports.findings import Findings, Label, shared_geometries
from atompack_torch.reports.groups import Group, SpreadSums
from atompack_torch.reports.neighborhoods import search
from atompack_torch.reports.notes import notes_of
from atompack_torch.reports.page import page_of

_ATOMS, _STRUCTURES = 65_536, 4096  # at a time
_EXAMPLES = 256  # of a dataset that does not know their numbers of atoms

Source = BatchDataset[Any, Any] | PathLike | Sequence[PathLike]


@dataclass(frozen=True, repr=False)
class DatasetReport:
    """A page about one or two datasets; notebooks show it in a frame.

    Attributes:
        html: the page, which needs nothing outside it.
    """

    html: str
    _findings: tuple[Findings, ...]

    def save(self, path: PathLike) -> Path:
        """Writes the page; it replaces an old one when it is complete.

        Args:
            path: the file, usually ``NAME.html``.

        Returns:
            The path.

        Raises:
            OSError: the file cannot be written.
        """
        target = Path(checked_path(path))
        with published(target) as hidden:
            hidden.write_text(self.html, encoding="utf-8")
        return target

    def as_dict(self) -> dict[str, object]:
        """Returns the numbers of the page as plain values, for JSON.

        Returns:
            ``"datasets"``: a list with one document per dataset, and ``"n_shared"``: the number of
            molecules of the second whose geometry is in the first too (None for one dataset).
        """
        return document_of(self._findings)

    def __repr__(self) -> str:
        names = " and ".join(printable(found.name) for found in self._findings)
        return f"DatasetReport({names}: {len(self.html) / 1024:,.0f} KiB of HTML)"

    def _repr_html_(self) -> str:
        return tag(
            "iframe",
            Markup(),
            srcdoc=Markup(self.html),
            sandbox="allow-same-origin",
            style="width:100%;height:42rem;border:1px solid #8886;border-radius:.5rem",
            title="Report",
        )


def report(
    source: Source,
    other: Source | None = None,
    *,
    output: PathLike | None = None,
    cutoff: float = 5.0,
    by: str | None = None,
    predicted: Mapping[str, str] | None = None,
    progress: bool | OnProgress = False,
    storage_options: Mapping[str, object] | None = None,
) -> DatasetReport:
    """Describes a dataset of molecules, or two side by side, on one page of HTML.

        apt.report("train.atp", "test.atp", output="report.html")

    The page shows sizes, elements, which molecules have which label, energies per atom before and
    after reference energies, force norms and the molecules with the largest forces, cells,
    neighbors within a cutoff, molecules with equal geometry, values that are not finite, and notes
    on units. It contains styles and drawings itself and requests nothing.

    All molecules are read once, in bounded memory. Counts, extremes and force norms are exact;
    histograms of energies and volumes show at most 32,768 molecules at even distances, neighbors
    at most 4,096. Labels are those of the dataset as stored; ``transform``, ``dtype`` and
    ``missing`` are ignored.

    Args:
        source: a dataset of molecules, or a path of one for ``open``.
        other: a second one to compare with, including geometries that are in both.
        output: file for the page, usually ``NAME.html``; None: it is only returned.
        cutoff: radius for neighbor counts, in the unit of the positions (Å).
        by: property of the molecules, text or integers, by which counts, energies, forces and
            volumes are listed; None: ``config_type``, if there is any.
        predicted: name of a prediction in the data → label, such as
            ``{"mace_energy": "energy"}``, whose errors are listed by group and element.
        progress: True for a progress bar, or a function that is called with the number of further
            molecules that are done.
        storage_options: options of the store of URLs, as for ``AtpDataset``.

    Returns:
        The page; ``.html`` is its text.

    Raises:
        UnsupportedFormatError: the data are not molecules.
        CorruptFileError: a record or a value is damaged.
        FieldError: an atomic number is not in 0 to 255, no molecule has a field that ``by`` or
            ``predicted`` names, or it has another type or shape.
        ValueError: the cutoff is not finite, or below 0.001.
        OSError: a file cannot be opened or written.
    """
    cutoff = NeighborList(cutoff).as_tuple()[0]
    if output is not None and not Path(checked_path(output)).parent.is_dir():
        raise FileNotFoundError(f"{Path(checked_path(output)).parent}: no such folder")
    given = [source] if other is None else [source, other]
    datasets = [_opened(one, storage_options) for one in given]
    with reporting(progress, sum(len(one) for one in datasets), "report", "molecules") as step:
        names = _distinct([_name_of(one) for one in datasets])
        with np.errstate(over="ignore", invalid="ignore"):  # absurd values give absurd sums
            found = tuple(
                _collect(dataset, name, Collector(name, by, predicted), cutoff, step)
                for dataset, name in zip(datasets, names, strict=True)
            )
            made = DatasetReport(page_of(found), found)
    if output is not None:
        made.save(output)
    return made


def _opened(source: Source, storage_options: Mapping[str, object] | None) -> BatchDataset[Any, Any]:
    if isinstance(source, BatchDataset):
        return source
    options: dict[str, Any] = (
        {} if storage_options is None else {"storage_options": storage_options}
    )
    try:
        dataset: BatchDataset[Any, Any] = open_path(source, **options)
    except TypeError as error:
        if "arrays" not in str(error):
            raise
        raise UnsupportedFormatError(
            f"{source}: expected molecules, got an ATLAS store, whose columns have no report"
        ) from None
    return dataset


def _collect(
    dataset: BatchDataset[Any, Any],
    name: str,
    collector: Collector,
    cutoff: float,
    step: Callable[[int], object] | None,
) -> Findings:
    if isinstance(dataset, MoleculeDataset):
        dataset = dataset.stored_values()
    for part in _parts(dataset):
        batch = dataset.batch(part)
        if not isinstance(batch, MoleculeBatch):
            raise UnsupportedFormatError(
                f"{name}: expected batches of molecules, got {type(batch).__name__}"
            )
        collector.add(batch)
        if step is not None:
            step(len(part))
    return collector.findings(search(dataset, cutoff))


def _parts(dataset: BatchDataset[Any, Any]) -> Iterator[range]:
    """Returns ranges of molecules that fit into memory together."""
    if isinstance(dataset, MoleculeDataset):
        return runs(dataset.n_atoms.numpy(), _ATOMS, _STRUCTURES)
    return runs(np.zeros(len(dataset)), _ATOMS, _EXAMPLES)


def _name_of(dataset: BatchDataset[Any, Any]) -> str:
    path = dataset.path
    if isinstance(path, tuple):
        return f"{_last_part(path[0])} and {len(path) - 1} more" if path else "no files"
    return _last_part(path)


def _last_part(path: Path | str) -> str:
    shown = redact_path(path)
    return short(Path(shown).name or shown)


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({i})" for i, name in enumerate(names, start=1)]


def document_of(found: Sequence[Findings]) -> dict[str, object]:
    """Converts findings to plain JSON values.

    Args:
        found: findings of one or two datasets.

    Returns:
        ``"datasets"`` and ``"n_shared"``.
    """
    n_shared = None
    if len(found) == 2:
        n_shared = shared_geometries(found[0].duplicates, found[1].duplicates)[0]
    return {"datasets": [_document(one) for one in found], "n_shared": n_shared}


def _document(one: Findings) -> dict[str, Any]:
    fit, near = one.reference_energies, one.neighborhoods
    return {
        "name": one.name,
        "n_structures": one.n_structures,
        "n_atoms": one.n_atoms,
        "sizes": {str(size): count for size, count in sorted(one.sizes.items())},
        "elements": {
            symbol(z): {"n_atoms": count.n_atoms, "n_structures": count.n_molecules}
            for z, count in one.elements.items()
        },
        "labels": {name: _label(label) for name, label in one.labels.items()},
        "reference_energies": fit
        and {symbol(z): _finite(energy) for z, energy in fit.energies.items()},
        "residual_rms_per_atom": fit and _finite(fit.residual_rms_per_atom),
        "longest_forces": [
            {"structure": i, "formula": formula, "force": _finite(value)}
            for value, i, formula in one.worst_forces
        ],
        "n_cells": one.n_cells,
        "periodicity": dict(one.periodicity.most_common()),
        "n_duplicates": one.duplicates.n_surplus,
        "neighbors": {
            "cutoff": near.cutoff,
            "n_structures": near.n_structures,
            "counts": {str(k): n for k, n in near.counts.items()},
            "shortest": [
                {"structure": i, "formula": formula, "distance": -value}
                for value, i, formula in near.closest
            ],
        },
        "by": one.groups.by,
        "groups": {name: _group(group) for name, group in one.groups.groups.items()},
        "errors_by_element": {
            name: {symbol(z): _error(spread) for z, spread in sorted(of_elements.items())}
            for name, of_elements in one.groups.element_errors.items()
        },
        "n_isolated": one.groups.n_isolated,
        "isolated": [
            {"structure": i, "element": symbol(z), "energy": _finite(energy)}
            for i, z, energy in one.groups.isolated
        ],
        "notes": [{"text": note.text, "warning": note.is_warning} for note in notes_of(one)],
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "n_structures": group.n_structures,
        "n_atoms": group.n_atoms,
        "energy_per_atom": _finite(group.energy.mean),
        "force_rms": _finite(group.force.rms),
        "longest_force": _finite(group.force.largest),
        "volume_per_atom": _finite(group.volume.mean),
        "errors": {name: _error(spread) for name, spread in group.errors.items()},
    }


def _error(spread: SpreadSums) -> dict[str, Any]:
    return {
        "n": spread.n,
        "mae": _finite(spread.mae),
        "rmse": _finite(spread.rms),
        "largest": _finite(spread.largest),
    }


def _label(label: Label) -> dict[str, Any]:
    return {
        "dtype": label.dtype,
        "level": label.level,
        "n_present": label.n_present,
        "n_non_finite": label.n_non_finite,
        "min": _finite(label.spread.low),
        "mean": _finite(label.spread.mean),
        "max": _finite(label.spread.high),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
