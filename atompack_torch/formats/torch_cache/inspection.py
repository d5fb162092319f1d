"""Description of feature caches: entries, rows, the descriptor and the file's own attributes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from atompack_torch._native import TorchCacheReader
from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError, printable
from atompack_torch.formats import FORMATS, conversion, opening
from atompack_torch.formats.entry import Description, Head, Summary
from atompack_torch.formats.paths import Place
from atompack_torch.formats.text import plain, table
from atompack_torch.formats.torch_cache.attributes import attributes_of
from atompack_torch.options import absolute_path, is_url, shown_url
from atompack_torch.remote.local_copies import local_copy

if TYPE_CHECKING:
    from atompack_torch.formats.torch_cache.dataset import TorchCacheDataset
    from atompack_torch.formats.verification import Verification


def can_open(place: Place) -> bool:
    """Returns False for HDF5 files of a different kind, which ``convert`` may read."""
    try:
        TorchCacheReader(absolute_path(place.path))
    except CorruptFileError as error:
        return not str(error).endswith(_NO_ENTRIES)
    return True


def open_dataset(path: Any, options: Mapping[str, Any]) -> TorchCacheDataset:
    """Opens the molecules of a cache file.

    Args:
        path: the file, or a list of one.
        options: options of ``TorchCacheDataset``.

    Returns:
        The dataset.

    Raises:
        TypeError: several files.
    """
    from atompack_torch.formats.torch_cache.dataset import TorchCacheDataset

    if isinstance(path, (list, tuple)):
        path = _one_of(path)
    with _opening(path):
        return TorchCacheDataset(path, **options)


def describe(places: Sequence[Place], full: bool, progress: bool | OnProgress) -> Description:
    """Describes files from their indexes; no row is read."""
    files: list[dict[str, Any]] = []
    errors = []
    for place in places:
        try:
            files.append(_document(place))
        except AtompackError as error:
            files.append({"path": place.shown, "error": str(error)})
            errors.append(str(error))
    return Description({"files": files}, "\n".join(map(_text, files)), errors)


def head(places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
    """Reads the first molecules of each file."""
    options = {} if fields is None else {"fields": fields}
    datasets = (open_dataset(place.path, options | place.options) for place in places)
    return Head.of_items(datasets, n)


def verify(places: Sequence[Place], max_faults: int, progress: bool | OnProgress) -> Verification:
    """Reads one file with all checks, and recomputes its rows; several are a ``TypeError``."""
    from atompack_torch.formats.torch_cache.dataset import TorchCache
    from atompack_torch.formats.torch_cache.verification import check_rows

    place = _one_of(places)
    opened = partial(TorchCache, place.path, **place.options)
    found = check_rows(opened, place.shown, True, None, max_faults, None, progress)
    if any(fault.message.endswith(_NO_ENTRIES) for fault in found.faults):
        raise _other_kind(place.path)
    return found


def statistics(
    places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
) -> Summary:
    """Gathers statistics of every molecule of one file; several are a ``TypeError``."""
    place = _one_of(places)

    def open_with(**given: Any) -> TorchCacheDataset:
        return open_dataset(place.path, given | place.options)

    return Summary.of_molecules(open_with, options, progress)


def _one_of(paths: Sequence[Any]) -> Any:
    if len(paths) != 1:
        raise TypeError(f"path: expected one feature cache, got {len(paths)}")
    return paths[0]


_NO_ENTRIES = "entries: expected a group, got none"


def _other_kind(path: Any) -> UnsupportedFormatError:
    text = "expected an .atp file, got an HDF5 file without the entries of a feature cache"
    if is_url(path):
        return UnsupportedFormatError(f"{shown_url(path)}: {text}")
    command = conversion(path, next(known for known in FORMATS if known.name == "hdf5"))
    return UnsupportedFormatError(f"{path}: {text}: `{command}` converts it")


@contextmanager
def _opening(path: Any) -> Iterator[None]:
    """Refuses HDF5 files of a different kind, such as arrays to be converted.

    Raises:
        UnsupportedFormatError: the file has no entries.
    """
    try:
        with opening(path, "a feature cache (HDF5)", "hdf5"):
            yield
    except CorruptFileError as error:
        if not str(error).endswith(_NO_ENTRIES):
            raise
        raise _other_kind(path) from None


def _open_reader(place: Place) -> TorchCacheReader:
    """Opens a file without torch; that of a URL is downloaded."""
    with _opening(place.path):
        if not is_url(place.path):
            return TorchCacheReader(absolute_path(place.path))
        copy = local_copy(place.remote, place.path)
        return TorchCacheReader(copy.path, name=place.shown)


def _document(place: Place) -> dict[str, Any]:
    reader = _open_reader(place)
    info = attributes_of(reader)
    entries = range(len(reader))
    return {
        "path": place.shown,
        "file_bytes": reader.identity[2],
        "version": 1 if reader.is_legacy else info.get("schema_version"),
        "n_entries": len(reader),
        "n_atoms": int(reader.atom_counts().sum()),
        "n_with_energy": sum(not math.isnan(reader.energy(entry)) for entry in entries),
        "n_with_forces": sum(reader.has_forces(entry) for entry in entries),
        "storage_dtype": info.get("storage_dtype"),
        "features": {"n_features": reader.n_features} if reader.has_features else None,
        "force_derivatives": _rows(reader) if reader.has_force_derivatives else None,
        "descriptor": _settings(info),
        "descriptor_compat_sha256": info.get("descriptor_compat_sha256"),
        "attributes": plain(info),
    }


def _rows(reader: TorchCacheReader) -> dict[str, int]:
    sizes = [reader.derivative_sizes(entry) for entry in range(len(reader))]
    there = [size for size in sizes if size is not None]
    return {
        "n_rows": len(there),
        "n_edges": sum(edges for edges, _ in there),
        "n_triplets": sum(triplets for _, triplets in there),
        "n_radial": reader.n_radial,
        "n_angular": reader.n_angular,
    }


def _settings(info: dict[str, Any]) -> Any:
    """Returns the stored settings of the descriptor, even if it cannot be rebuilt here."""
    manifest = info.get("descriptor_manifest")
    text = info.get("descriptor_compat_json") or (manifest and manifest["config_json"])
    try:
        return None if text is None else plain(json.loads(text))
    except (ValueError, RecursionError):  # the raw string is among the attributes
        return None


def _text(file: dict[str, Any]) -> str:
    path = printable(file["path"])
    if "error" in file:
        return f"{path}: cannot be read"
    lines = [
        f"{path}: {file['n_entries']:,} entries, {file['n_atoms']:,} atoms, "
        f"{file['file_bytes']:,} bytes",
        f"  {file['n_with_energy']:,} with energy, {file['n_with_forces']:,} with forces",
        f"  {_sections_text(file)}",
    ]
    settings = file["descriptor"]
    if settings is not None:
        words = ", ".join(f"{key} {json.dumps(value)}" for key, value in settings.items())
        lines.append(f"  descriptor: {printable(words)}")
    rows = [
        (printable(f"{group}{name}"), printable(json.dumps(value)))
        for group, name, value in _attributes(file["attributes"])
    ]
    return "\n".join([*lines, *([table(rows, indent="  ")] if rows else [])])


def _sections_text(file: dict[str, Any]) -> str:
    found = []
    if file["features"]:
        found.append(f"features: {file['features']['n_features']:,} an atom")
    if rows := file["force_derivatives"]:
        found.append(
            f"force derivatives: {rows['n_rows']:,} entries, {rows['n_edges']:,} edges "
            f"({rows['n_radial']} functions), {rows['n_triplets']:,} triplets "
            f"({rows['n_angular']} functions)"
        )
    version = "no cache" if file["version"] is None else f"version {file['version']}"
    return "; ".join([version, *found, *([file["storage_dtype"]] if found else [])])


def _attributes(attributes: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Lists attributes of the cache, then additional ones of its groups, without settings."""
    groups = {group: values for group, values in attributes.items() if isinstance(values, dict)}
    own = {name: value for name, value in attributes.items() if name not in groups}
    found = [("", name, value) for name, value in own.items()]
    for group, values in groups.items():
        found += [(f"{group}/", *item) for item in values.items() if item not in own.items()]
    return [item for item in found if not item[1].endswith(("compat_json", "config_json"))]
