"""Cache files as h5py and PyTables see them, and as a stand-in of aenet-python's class would."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import h5py
import numpy as np
import tables
from reference.cache_fixture import DERIVATIVES

CACHE = "torch_cache"
FORCES = f"{CACHE}/force_derivatives"


class Contents(NamedTuple):
    """All rows of a file, in the order of its tables."""

    structures: list[Any]
    meta: dict[str, Any]
    features: dict[str, Any] | None
    derivatives: dict[str, Any] | None

    def same_as(self, other: Contents) -> bool:
        """Bit for bit."""
        return _plain(self) == _plain(other)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def path_of(column: str) -> str:
    """Where a column of derivatives stands."""
    block, _, name = column.partition("_")
    return f"{FORCES}/{block}/{name}"


def read_with_h5py(path: Path) -> Contents:
    with h5py.File(path) as file:
        return _read(lambda name: file[name][...] if name in file else None)


def read_with_tables(path: Path) -> Contents:
    with tables.open_file(str(path)) as file:

        def read(name: str) -> Any:
            if f"/{name}" not in file:
                return None
            found = file.get_node(f"/{name}").read()
            if isinstance(found, list):
                rows = np.empty(len(found), dtype=object)
                rows[:] = found
                return rows
            return found

        return _read(read)


def _read(read: Any) -> Contents:
    def table(name: str) -> dict[str, Any] | None:
        found = read(name)
        if found is None:
            return None
        # PyTables makes bool of a bit field, h5py a number.
        return {
            key: found[key].astype("u1") if key == "has_forces" else np.array(found[key])
            for key in found.dtype.names
        }

    features, derivatives = table(f"{CACHE}/features/index"), table(f"{FORCES}/index")
    if features is not None:
        features["values"] = list(read(f"{CACHE}/features/values"))
    if derivatives is not None:
        derivatives |= {column: list(read(path_of(column))) for column in DERIVATIVES}
    meta = table("entries/meta")
    assert meta is not None
    return Contents(list(read("entries/structures")), meta, features, derivatives)


@contextmanager
def stand_in() -> Iterator[type]:
    """A class by the name that the pickles know, while nobody else has one."""

    class Structure:
        pass

    names = ("aenet", "aenet.torch_training", "aenet.torch_training.config")
    assert not any(name in sys.modules for name in names)
    modules = {name: ModuleType(name) for name in names}
    modules[names[-1]].Structure = Structure  # type: ignore[attr-defined]
    sys.modules.update(modules)
    try:
        yield Structure
    finally:
        for name in names:
            del sys.modules[name]


def unpickled(contents: Contents) -> list[dict[str, Any]]:
    """The attributes of every stored structure, by Python's own pickle."""
    with stand_in() as kind:
        found = [pickle.loads(bytes(np.asarray(row, np.uint8))) for row in contents.structures]
    assert all(type(structure) is kind for structure in found)
    return [vars(structure) for structure in found]
