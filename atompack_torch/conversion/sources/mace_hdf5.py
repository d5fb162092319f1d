"""Molecules from the HDF5 files that ``mace_prepare_data`` of MACE writes.

A file has groups ``config_batch_N`` of groups ``config_M``, each with ``positions``,
``atomic_numbers``, ``cell``, ``pbc``, ``weight`` and ``config_type``. In newer files labels are in
a group ``properties`` and their weights in a group ``property_weights``; in older ones they are
next to the positions, as ``energy`` and ``energy_weight``. The string "None" and a weight of 0 both
mark a missing value: MACE stores zeros for labels that it does not know.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts, full_stress, is_numeric
from atompack_torch.batch.exact_values import native
from atompack_torch.conversion.keys import field_of
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, Tree, opened
from atompack_torch.conversion.sources.values import levels_of, sample
from atompack_torch.conversion.targets.mace_hdf5 import DEFAULT_TYPE, FIELD, PREFIX, open_target
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, RESULTS, is_value_of
from atompack_torch.formats.conversion_report import Report, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import convert_each

__all__ = ["count", "is_mace", "open_source", "open_target", "read"]

_Path = str | os.PathLike[str]
_BATCH = re.compile(r"config_batch_(\d+)")
_CONFIG = re.compile(r"config_(\d+)")
_MARKS = ("drop_last", FIELD)  # attributes that describe no molecules
# Per-molecule values of any shape; other values with one row per atom are per-atom.
_OF_STRUCTURE = {
    *("energy", "stress", "virials", "dipole", "polarizability", "head"),
    *("total_charge", "total_spin", "elec_temp", "weight", "config_type"),
}


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    return Source(
        path,
        lambda report: read(path, report=report),
        partial(count, path),
        is_arrays=True,
        keeps_open=True,  # as MACE reads it
    )


def is_mace(file: ForeignFile) -> bool:
    """True if an HDF5 file was written by MACE."""
    names = file.listing().groups
    return any(_BATCH.fullmatch(name) or _CONFIG.fullmatch(name) for name in names)


def count(path: _Path) -> int:
    """Counts the molecules.

    Args:
        path: the file.

    Returns:
        The number of molecules.

    Raises:
        CorruptFileError: the file is damaged.
    """
    with opened(path) as file:
        return sum(len(names) for _, names in _batches(file, Report()))


def read(path: _Path, *, report: Report) -> Iterator[Columns]:
    """Yields the molecules in blocks, in the order in which MACE reads them.

    Energy, forces, stress and so on become labels, in MACE's units (eV and Å); virials, everything
    else, and weights that are neither 0 nor 1 become properties.

    Args:
        path: the file.
        report: counts labels of weight 0, which are treated as missing.

    Returns:
        Blocks of molecules.

    Raises:
        CorruptFileError: the file is damaged.
        UnsupportedFormatError: atoms are one-hot rows of a table that the file does not contain.
    """
    return convert_each(path, _makes(path, report), report)


def _makes(path: _Path, report: Report) -> Generator[Callable[[], Parts]]:
    with opened(path) as file:
        is_own = FIELD in file.listing().attrs
        paths = [f"/{batch}/{name}" for batch, names in _batches(file, report) for name in names]
        of_sample = file.trees([paths[i] for i in sample(len(paths))])
        parts_of = partial(_parts, is_own=is_own)
        levels = levels_of(partial(parts_of, tree, "", Report(), levels={}) for tree in of_sample)
        for name, tree in zip(paths, file.trees(paths), strict=True):
            if isinstance(tree, UnsupportedFormatError):
                raise tree
            yield partial(parts_of, tree, f"{path}: {name}", report, levels=levels)


def _batches(file: ForeignFile, report: Report) -> Iterator[tuple[str, list[str]]]:
    """Yields batch names with the names of their molecules, in numeric order."""
    root = file.listing()
    if any(_CONFIG.fullmatch(name) for name in root.groups):
        raise UnsupportedFormatError(
            f"{file.path}: expected groups config_batch_N, got config_N of prepared graphs, whose "
            "atoms are rows of an element table that is not in the file: convert the source of it"
        )
    batches = _by_number(root.groups, _BATCH)
    root.list_unused(report, {*batches, *_MARKS})
    for batch in batches:
        group = file.listing(f"/{batch}")
        names = _by_number(group.groups, _CONFIG)
        group.list_unused(report, {*names})
        yield batch, names


def _by_number(names: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    found = [(int(match[1]), name) for name in names if (match := pattern.fullmatch(name))]
    return [name for _, name in sorted(found)]


def _parts(
    tree: Tree | AtompackError,
    where: str,
    report: Report,
    *,
    is_own: bool,
    levels: Mapping[str, bool],
) -> Parts:
    if isinstance(tree, AtompackError):
        raise tree
    with naming_damage(where):
        values, weights, own = _values(tree, report)
    for key in ("positions", "atomic_numbers"):
        if key not in values:
            raise CorruptFileError(f"{where}: expected {key}, got none")
    positions, numbers = values.pop("positions"), values.pop("atomic_numbers")
    parts = Parts(positions, numbers, {}, {}, {})
    for key, weight in weights.items():
        if weight == 0:
            if values.pop(key, None) is not None:
                report.skip(key, "its weight is 0: taken as missing")
        elif weight != 1 and key in values:
            parts.properties[f"{key}_weight"] = weight
    if "charges" in values and "charges" not in weights and not np.any(values["charges"]):
        del values["charges"]
        report.skip("charges", "all are 0 and have no weight: MACE's word for none")
    if is_own and values.get("config_type") == DEFAULT_TYPE:
        del values["config_type"]
    for key, value in values.items():
        _put(parts, key, value, report, levels)
    for field, value in own.items():
        _put_own(parts, field, value, where)
    return parts


def _values(tree: Tree, report: Report) -> tuple[dict[str, Any], dict[str, float], dict[str, Any]]:
    """Returns values and weights of one molecule, in either layout, and values of our own."""
    values: dict[str, Any] = {}
    weights: dict[str, float] = {}
    own: dict[str, Any] = {}
    for path, value in tree.attrs.items():
        if "/" in path:
            report.skip(path, "MACE has no such value")
        else:
            _add(values, path, value, report)
    for path, (value, attrs) in tree.values.items():
        group, _, key = path.rpartition("/")
        if group == "property_weights" or (not group and key.endswith("_weight")):
            if (weight := _text(value)) is not None:
                weights[key if group else key.removesuffix("_weight")] = float(weight)
        elif not group and key.startswith(PREFIX) and FIELD in attrs:  # as our target writes them
            own[str(attrs[FIELD])] = value.decode() if isinstance(value, bytes) else value
        elif group in ("", "properties"):
            _add(values, key, value, report)
            for name in attrs:
                what = f"attribute {name!r} of array {key!r}"
                report.skip(what, "attributes of arrays are not kept")
        else:
            report.skip(path, "MACE has no such value")
    for path, why in tree.others.items():
        report.skip(f"array {path!r}", why)
    return values, weights, own


def _add(values: dict[str, Any], key: str, value: Any, report: Report) -> None:
    if value is None:
        report.skip(f"attribute {key!r}", "it is neither numbers nor text")
    elif (found := _text(value)) is not None:
        values[key] = found


def _text(value: Any) -> Any:
    """Decodes text; None for MACE's "None"."""
    if isinstance(value, bytes):
        value = value.decode()
    return None if isinstance(value, str) and value == "None" else value


def _put_own(parts: Parts, field: str, value: Any, where: str) -> None:
    """Adds a value to the field that it is of."""
    scope, key = field_of(field, MOLECULE_PROPERTY)
    target = (parts.labels, parts.atom_properties, parts.properties)[scope]
    if not isinstance(value, str):
        array = np.asarray(value)
        if not is_numeric(array):
            raise CorruptFileError(f"{where}: {field}: expected numbers, got {array.dtype}")
        value = native(array)
    n, shape = len(parts.positions), np.shape(value)
    if scope == ATOM_PROPERTY and shape[:1] != (n,):
        raise CorruptFileError(f"{where}: {field}: expected {n} rows, got {shape}")
    target[key] = value


def _put(parts: Parts, key: str, value: Any, report: Report, levels: Mapping[str, bool]) -> None:
    n = len(parts.positions)
    if isinstance(value, str):
        parts.properties[key] = value
        return
    array = np.asarray(value)
    if not is_numeric(array):
        report.skip(f"array {key!r}", f"no numbers: {array.dtype}")
    elif key == "cell":
        if array.any():
            parts.labels[key] = native(array)
    elif key == "pbc":
        parts.labels[key] = array.astype(bool)
    elif key == "stress":
        parts.labels[key] = np.asarray(full_stress(array)).reshape(3, 3)
    elif key in RESULTS and is_value_of(key, array.shape, is_number=True):
        parts.labels[key] = native(array)
    elif key == "weight" and float(array) == 1.0:
        pass  # MACE's default
    elif key not in _OF_STRUCTURE and array.shape[:1] == (n,) and levels.get(key, True):
        parts.atom_properties[key] = native(array)
    else:
        parts.properties[key] = native(array)
