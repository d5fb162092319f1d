"""Molecules from LMDB files of pickles: torch-geometric graphs, and dicts of tensors.

The keys are ``0``, ``1`` and so on. OC20 and similar sets have a key ``length``, and graphs of
torch-geometric 1 or 2 (``Data``) with ``pos``, ``atomic_numbers``, ``cell``, ``y``, ``force``,
``tags``, ``fixed``, ``sid`` and ``fid``; NequIP has a key ``__metadata__``, and dicts with ``pos``,
``atomic_numbers``, ``cell``, ``pbc``, ``total_energy``, ``forces`` and ``stress``. Pickles are read
as data (``csrc/serial/pickle``): nothing is imported or called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from atompack_torch._core import PickleReader
from atompack_torch.batch.conversions import Parts, is_numeric
from atompack_torch.batch.exact_values import host_array
from atompack_torch.conversion.sources.values import LmdbRecords, label_shape, number_array, shaped
from atompack_torch.errors import CorruptFileError, UnsafePickleError, UnsupportedFormatError
from atompack_torch.fields import is_of_molecule
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import stress_of_six

_LENGTH, _METADATA = b"length", b"__metadata__"
_STRUCTURE = {"positions": ("pos", "positions"), "atomic_numbers": ("atomic_numbers", "z")}
# Label → its names, the likeliest first.
_LABELS = {
    "energy": ("energy", "total_energy", "y"),
    "forces": ("forces", "force"),
    "stress": ("stress",),
    "cell": ("cell",),
    "pbc": ("pbc",),
    "charges": ("charges",),
}
# They follow from the molecule and a cutoff.
_DERIVED = frozenset(
    (
        *("edge_index", "edge_attr", "cell_offsets", "edge_cell_shift", "distances", "neighbors"),
        *("distance_vec", "edge_vectors", "edge_lengths", "natoms", "num_atoms", "num_nodes"),
        *("nedges", "batch", "ptr", "contact_solute"),
    )
)
_OF_ATOMS = frozenset(("tags", "fixed", "pos_relaxed"))


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    own_keys = {key for key, name in options.keys.items() if name in _STRUCTURE}
    return _Graphs(path, options.keys).source(own_keys)


class _Graphs(LmdbRecords):
    """Molecules of a file, in its types.

    Values with a row for each atom, also in a sample of the molecules, become properties of atoms,
    others of the molecule. Edges and what follows from them is omitted.

    Args:
        path: the file.
        keys: names of positions and atomic numbers, and names that are not read as labels, because
            they are mapped to others.

    Raises:
        CorruptFileError: the file is damaged, or states more molecules than it has keys.
        UnsafePickleError: a pickle is anything but data.
    """

    def __init__(self, path: str, keys: Mapping[str, str]) -> None:
        super().__init__(path, path)
        self._keys, self._reader = keys, PickleReader()
        self.n_molecules = self._count()

    def _count(self) -> int:
        """Returns the number of molecules that the file states, or that of its keys."""
        stated: Any = None
        if (data := self.file.get(_LENGTH)) is not None:
            stated = self._unpickled(data, f"{self.path}: length")
        elif (data := self.file.get(_METADATA)) is not None:
            found = self._unpickled(data, f"{self.path}: __metadata__")
            stated = found.get("num_frames") if isinstance(found, dict) else None
        most = self.file.entries
        if stated is None:
            return most - (data is not None)
        n = int(stated) if isinstance(stated, (int, Tensor)) and np.size(stated) == 1 else -1
        if not 0 <= n <= most:
            raise CorruptFileError(
                f"{self.path}: expected at most {most} molecules, got {stated!r}"
            )
        return n

    def _unpickled(self, data: bytes, where: str) -> Any:
        try:
            return self._reader.read(data)
        except (UnsafePickleError, CorruptFileError, UnsupportedFormatError) as error:
            raise type(error)(f"{where}: {error}") from None

    def parts(self, number: int, report: Report, levels: Mapping[str, bool]) -> Parts:
        """See ``LmdbRecords``."""
        where, data = f"{self.path}: key {number}", self.file.get(b"%d" % number)
        if data is None:
            raise CorruptFileError(f"{where}: expected a molecule under this key, got none")
        found = self._unpickled(data, where)
        for name in ("_store", "_mapping"):  # of graphs of torch-geometric 2
            found = found.get(name, found) if isinstance(found, dict) else found
        if not isinstance(found, dict):
            raise CorruptFileError(
                f"{where}: expected a graph or a dict, got {type(found).__name__}"
            )
        values = {str(key): value for key, value in found.items()}
        parts = self._with_labels(values, where, report)
        for key, value in values.items():
            if key in _DERIVED:
                report.note(f"{key!r} omitted: it follows from the molecule and a cutoff")
            elif value is not None:
                self._put(parts, key, value, report, levels)
        return parts

    def _with_labels(self, values: dict[str, Any], where: str, report: Report) -> Parts:
        """Takes the structure and the labels out of the values."""
        positions = self._taken(values, "positions", where)
        numbers = self._taken(values, "atomic_numbers", where).reshape(-1)
        n = len(positions)
        if positions.shape != (n, 3) or positions.dtype.kind != "f":
            raise CorruptFileError(f"{where}: pos: expected floats (n, 3), got {positions.shape}")
        if numbers.shape != (n,) or (numbers != np.floor(numbers)).any():
            raise CorruptFileError(f"{where}: atomic_numbers: expected {n} integers")
        labels: dict[str, Any] = {}
        for label, names in _LABELS.items():
            name = next((one for one in names if one in values and one not in self._keys), None)
            if name is None or values[name] is None:
                continue
            value = np.asarray(_plain(values.pop(name)))
            if label == "stress" and value.size == 6:
                value = stress_of_six(value.reshape(6), report, is_voigt=True)
            labels[label] = shaped(value, label_shape(label, n), f"{where}: {name}")
            report.origin(label, name)
        if "cell" in labels and not labels["cell"].any():
            del labels["cell"]
        if "pbc" in labels:
            labels["pbc"] = labels["pbc"].astype(bool)
        return Parts(positions, numbers.astype(np.int64), labels, {}, {})

    def _taken(self, values: dict[str, Any], part: str, where: str) -> Any:
        """Takes positions or atomic numbers out of the values."""
        names = [key for key, name in self._keys.items() if name == part] or _STRUCTURE[part]
        name = next((name for name in names if values.get(name) is not None), None)
        if name is None:
            types = "types of atoms are not elements; " if "atom_types" in values else ""
            hint = (
                f"{types}there are {', '.join(values)[:200]}: name one in keys (--key NAME={part})"
            )
            raise CorruptFileError(f"{where}: expected {names[0]}, got none: {hint}")
        value = np.asarray(_plain(values.pop(name)))
        if not is_numeric(value):
            raise CorruptFileError(f"{where}: {name}: expected numbers, got {value.dtype}")
        return value

    def _put(
        self, parts: Parts, key: str, value: Any, report: Report, levels: Mapping[str, bool]
    ) -> None:
        """Adds a value to the properties; labels of molecules are not of atoms."""
        array = number_array(parts, key, _plain(value), report)
        if array is None:
            return
        n, name = len(parts.positions), self._keys.get(key, key)
        may_be_atoms = array.ndim > 0 and len(array) == n and not is_of_molecule(name, array.shape)
        if may_be_atoms and levels.get(key, n > 1 or key in _OF_ATOMS):
            parts.atom_properties[key] = array
        elif array.ndim and len(array) == 1:  # the axis of graphs in a batch
            parts.properties[key] = array[0]
        else:
            parts.properties[key] = array


def _plain(value: Any) -> Any:
    """Converts tensors to NumPy arrays."""
    return host_array("type", value) if isinstance(value, Tensor) else value
