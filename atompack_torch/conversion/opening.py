"""Datasets of what only ``convert`` reads: a copy in the cache folder of the user, or in memory."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from atompack_torch.conversion.pipeline import convert
from atompack_torch.errors import printable
from atompack_torch.formats.atp.dataset import AtpDataset, AtpOptions
from atompack_torch.formats.atp.writer import AtpWriter
from atompack_torch.formats.user_cache import CONVERTED, kept_copy
from atompack_torch.options import ChangeOptions, is_listing

_AT_ONCE = 1024
_OPTIONS = {"format", "key_map", "padding", "changes", "nan_is_missing", "on_error"}
_OPTIONS |= {option.name for option in fields(ChangeOptions)} - {"dtype"}  # that of the dataset


def open_converted(paths: Sequence[str], options: Mapping[str, Any]) -> AtpDataset:
    """Opens files as the ``.atp`` file that ``convert`` makes of them, once.

    The report of the conversion is written to stderr. See ``kept_copy`` for how long it is used.

    Args:
        paths: local files and folders, which are concatenated.
        options: of ``convert``: ``format``, ``key_map``, ``padding``, ``nan_is_missing``,
            ``on_error``, ``progress`` and those of ``Changes`` except for ``dtype``; all others are
            of ``AtpDataset``.

    Returns:
        The dataset.

    Raises:
        AtompackError: the files cannot be converted.
        OSError: a file cannot be read, or there is no room for the copy.
        TypeError: an option is unknown.
        ValueError: an option does not suit the format.
    """
    given = {name: value for name, value in options.items() if name in _OPTIONS}
    own = {name: options[name] for name in options.keys() - given.keys() - {"progress"}}
    AtpOptions.of(paths[0], own)  # wrong ones are an error before any work
    progress = options.get("progress", True)

    def make(hidden: Path) -> None:
        report = convert(paths, hidden, target="atp", progress=progress, **given)
        if progress:
            names = ", ".join(map(printable, paths))
            print(f"{names}: converted for this and later use\n{report}", file=sys.stderr)

    logs = [log for path in paths if Path(log := f"{path}-wal").is_file()]  # of SQLite
    settings = {"version": version("atompack_torch"), **given}
    text = json.dumps(settings, sort_keys=True, default=repr)
    copy = kept_copy([*paths, *logs], CONVERTED, ".atp", make, text)
    return AtpDataset(os.fspath(copy), **own)


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
