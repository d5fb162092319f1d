"""MACE's HDF5 files, the target of conversions ``--to mace-hdf5``.

The layout is that of ``save_configurations_as_HDF5`` of MACE 0.3.16: a group ``config_batch_0`` of
groups ``config_N``. Values that MACE reads are in ``properties``, with weights of 1 in
``property_weights``; labels that a molecule lacks are the string "None" with a weight of 0. All
other values are next to the positions, where MACE does not look, with an attribute
``atompack_torch`` that names their field.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.fields import ATOM_PROPERTY, MOLECULE_PROPERTY, PREFIXES, RESULTS
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Target, TargetOptions
from atompack_torch.formats.records import records_of
from atompack_torch.publishing import published

FIELD, PREFIX = "atompack_torch", "value_"  # attribute and names of the values next to MACE's
DEFAULT_TYPE = "Default"  # of molecules without a type
_NONE = "None"  # MACE's word for a missing value
# Values with weights in MACE's losses; a missing weight counts as 1.
_WEIGHTED = ("energy", "forces", "stress", "virials", "dipole", "charges", "polarizability")
# Values that MACE reads without weights.
_OTHERS = ("total_charge", "total_spin", "elec_temp", "head")


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new file."""
    import h5py

    with (
        published(Path(path)) as made,
        _Image(made, "xb+") as image,
        h5py.File(image, "w") as file,
    ):
        file.attrs["drop_last"] = False
        file.attrs[FIELD] = True
        yield Writer(file.create_group("config_batch_0"), image, options.report)


class _Image(io.FileIO):
    """File for libhdf5, which loses errors of objects that are closed: keeps the first of them."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Writes all of the data, unless a write has failed before."""
        rest = memoryview(data)
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        """Changes the size, unless a write has failed before."""
        try:
            return super().truncate(size) if self.error is None else 0
        except OSError as error:
            self.error = error
            return 0

    def check(self) -> None:
        """Raises the error of a write that has failed."""
        if self.error is not None:
            raise self.error

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.check()


class Writer:
    """Writes molecules to a group of a file.

    Args:
        group: the group, of h5py.
        image: the file.
        report: receives what the file cannot represent.
    """

    def __init__(self, group: Any, image: _Image, report: Report) -> None:
        self._group, self._image, self._report = group, image, report
        self._n_structures = 0

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        for parts in records_of(columns):
            self._write(self._group.create_group(f"config_{self._n_structures}"), parts)
            self._n_structures += 1
        self._image.check()

    def _write(self, group: Any, parts: Parts) -> None:
        labels, properties = dict(parts.labels), dict(parts.properties)
        group["atomic_numbers"] = np.asarray(parts.atomic_numbers, dtype=np.int64)
        group["positions"] = np.asarray(parts.positions, dtype=np.float64)
        group["cell"] = np.float64(labels.pop("cell")) if "cell" in labels else _NONE
        group["pbc"] = labels.pop("pbc", _NONE)
        group["weight"] = _number(properties, "weight", 1.0)
        kind = properties.get("config_type", DEFAULT_TYPE)
        is_kind = _is_text(kind) and kind not in (DEFAULT_TYPE, _NONE)
        group["config_type"] = properties.pop("config_type") if is_kind else DEFAULT_TYPE
        known, weights = group.create_group("properties"), group.create_group("property_weights")
        given = {key: labels.pop(key) for key in RESULTS if key in labels}
        given |= {
            key: properties.pop(key)
            for key in (*_WEIGHTED, *_OTHERS)
            if key not in RESULTS and _is_numeric(properties.get(key))
        }
        for key in _WEIGHTED:
            has = key in given
            known[key] = given.pop(key, _NONE)
            weights[key] = _number(properties, f"{key}_weight", 1.0) if has else 0.0
        for key, value in given.items():
            known[key] = value
        self._write_others(group, labels)
        self._write_others(group, parts.atom_properties, PREFIXES[ATOM_PROPERTY])
        self._write_others(group, properties, PREFIXES[MOLECULE_PROPERTY])

    def _write_others(self, group: Any, values: Mapping[str, Any], scope: str = "") -> None:
        """Writes values that MACE does not read."""
        for key, value in values.items():
            if isinstance(value, str) and not _is_text(value):
                self._report.skip(scope + key, "HDF5 has no text with NUL, or that is not UTF-8")
                continue
            if value is None:
                self._report.skip(scope + key, "None is read as missing")
                continue
            name = f"{PREFIX}{len(group)}"
            group[name] = value
            group[name].attrs[FIELD] = scope + key


def _number(values: dict[str, Any], key: str, default: float) -> float:
    """Takes a number out of the properties, unless it is the default, which is not read."""
    value: Any = values.get(key)
    if not _is_numeric(value) or np.ndim(value) or float(value) == default:
        return default
    return float(values.pop(key))


def _is_numeric(value: Any) -> bool:
    return isinstance(value, (int, float, np.ndarray, np.generic))


def _is_text(value: Any) -> bool:
    """True for a string that HDF5 can hold."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
