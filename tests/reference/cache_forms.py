"""Feature caches in the forms that versions of HDF5 give to the same contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

# v110 is refused: its indexes of chunks are others.
LIBVERS = {"earliest": ("earliest", "v108"), "v108": ("v108", "v108"), "v110": ("v110", "latest")}
Layout = Callable[[int], dict[str, Any]]


def growing(rows: int) -> dict[str, Any]:
    """Chunks of two rows, of which there may be any number."""
    return {"chunks": (2,), "maxshape": (None,)}


def single(rows: int) -> dict[str, Any]:
    """One chunk that holds all rows."""
    return {"chunks": (max(rows, 1),)}


def fixed(rows: int) -> dict[str, Any]:
    """Chunks of one row, of which there are as many as were told in advance."""
    return {"chunks": (1,)}


def packed(rows: int) -> dict[str, Any]:
    """Compressed chunks."""
    return {"chunks": (2,), "maxshape": (None,), "shuffle": True, "compression": "gzip"}


LAYOUTS: dict[str, Layout] = {
    layout.__name__: layout for layout in (growing, single, fixed, packed)
}


def _copy_attributes(source: Any, target: Any, fixed_text: bool) -> None:
    for name in source.attrs:
        old = h5py.h5a.open(source.id, name.encode())
        if old.get_type().get_class() == h5py.h5t.STRING:
            value = source.attrs[name]
            in_place = fixed_text and isinstance(value, str) and value
            target.attrs[name] = np.bytes_(value.encode()) if in_place else value
            continue
        values = np.zeros(old.shape, old.dtype)
        old.read(values, mtype=old.get_type())
        new = h5py.h5a.create(target.id, name.encode(), old.get_type(), old.get_space())
        new.write(values, mtype=old.get_type())


def _copy_rows(source: Any, target: Any) -> None:
    if source.dtype != object:
        target[...] = source[...]
        return
    for i, row in enumerate(source):  # h5py would make one array of rows of the same length
        target[i] = row


def _copy_group(source: Any, target: Any, layout: Layout, fixed_text: bool) -> None:
    _copy_attributes(source, target, fixed_text)
    for name, child in source.items():
        if isinstance(child, h5py.Group):
            _copy_group(child, target.create_group(name), layout, fixed_text)
            continue
        rows = len(child)
        made = target.create_dataset(name, shape=(rows,), dtype=child.dtype, **layout(rows))
        _copy_rows(child, made)
        _copy_attributes(child, made, fixed_text)


def rewrite(source: Path, target: Path, libver: str, layout: str) -> Path:
    """Writes the contents of a cache again; some layouts come with further forms.

    Args:
        source: A cache.
        target: The new file.
        libver: Version of HDF5 whose forms are used, of `LIBVERS`.
        layout: Chunks and filters of each dataset, of `LAYOUTS`.

    Returns:
        The new file.
    """
    userblock = 512 if layout == "fixed" else 0
    with (
        h5py.File(source) as old,
        h5py.File(target, "w", libver=LIBVERS[libver], userblock_size=userblock) as new,
    ):
        _copy_group(old, new, LAYOUTS[layout], fixed_text=layout in ("single", "packed"))
        if layout in ("growing", "single"):
            for group in [new, *(new[path] for path in _groups_of(new))]:
                _add_more(group)
    return target


def _add_more(group: Any) -> None:
    """So many attributes and links that they get a heap, and one too long for its blocks."""
    for i in range(12):
        group.attrs[f"attribute {i}"] = i
        group.create_group(f"group {i}")
    group.attrs["long"] = np.bytes_(b"x" * 5000)


def _groups_of(file: Any) -> Iterator[str]:
    paths: list[str] = []
    file.visititems(lambda path, item: paths.append(path) if isinstance(item, h5py.Group) else None)
    return iter(paths)


def freeze(source: Path, folder: Path) -> None:
    """Writes the files that are kept."""
    for libver, layout in (("earliest", "packed"), ("v108", "single")):
        rewrite(source, folder / f"{libver}_{layout}.h5", libver, layout)
