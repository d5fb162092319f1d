"""Datasets in memory, of structures of other libraries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atompack_torch.conversion.pipeline import convert
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.formats.atp.writer import AtpWriter
from atompack_torch.options import is_listing

_AT_ONCE = 1024


def from_structures(structures: Sequence[Any], **options: Any) -> AtpDataset:
    """Makes a dataset in memory.

        ds = apt.from_structures(ase.io.read("md.traj", ":"), neighbors=apt.NeighborList(5.0))

    Values are those that writing ``ase.Atoms`` to an ``.atp`` file, or converting a JSON file of
    pymatgen's structures, would give.

    Args:
        structures: a list of ``ase.Atoms``, of ``Molecule`` or of ``pymatgen`` structures; not
            mixed with each other.
        **options: of ``AtpDataset``.

    Returns:
        The dataset, which holds its molecules in memory; a pickle carries all of them.

    Raises:
        TypeError: an item is none of these.
        FieldError: a label does not fit its structure, or types of one field do not mix.
        UnsupportedFormatError: a site has fractional occupancies.
    """
    if not is_listing(structures):
        got = type(structures).__name__
        raise TypeError(f"structures: expected a list of molecules or ase.Atoms, got {got}")
    items = list(structures)
    of_pymatgen = [hasattr(item, "as_dict") and hasattr(item, "sites") for item in items]
    if any(of_pymatgen) and not all(of_pymatgen):
        raise TypeError("structures: expected a list of one kind, got pymatgen's and others")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "structures.atp"
        if any(of_pymatgen):
            document = Path(folder) / "structures.json"
            document.write_text(json.dumps([item.as_dict() for item in items]))
            convert(document, path, progress=False)
        else:
            with AtpWriter(path) as writer:
                for first in range(0, len(items), _AT_ONCE):
                    writer.write(items[first : first + _AT_ONCE])
        return AtpDataset(path.read_bytes(), **options)
