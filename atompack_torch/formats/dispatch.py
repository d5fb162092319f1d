"""Functions for paths of any format, dispatched to the module of the format."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.fields import usual_unit
from atompack_torch.formats import detect, recognize, unknown
from atompack_torch.formats.entry import Compaction, CompactOptions, SeveralFormatsError, Shown
from atompack_torch.formats.paths import Openable, Place, listed, located
from atompack_torch.formats.table import ATP_ENTRY, SHARDS_ENTRY, STORES_ENTRY
from atompack_torch.formats.text import (
    example_document,
    example_text,
    molecule_document,
    structure_text,
)
from atompack_torch.options import check_threads, checked_integer, checked_path, is_url
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    import torch

    from atompack_torch.batch.columns import Array
    from atompack_torch.batch.molecule_batch import Molecule
    from atompack_torch.datasets.base import MoleculeDataset
    from atompack_torch.datasets.statistics import Statistics
    from atompack_torch.datasets.sweeping import OnProgress
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset
    from atompack_torch.formats.atlas_shards.statistics import ShardStatistics
    from atompack_torch.formats.atlas_store.dataset import AtlasDataset
    from atompack_torch.formats.atp.writer import Codec
    from atompack_torch.formats.entry import Description, Entry
    from atompack_torch.formats.verification import Verification


@overload
def open(  # noqa: A001
    path: Openable, *, arrays: Sequence[str], convert: bool = True, **options: Any
) -> AtlasDataset: ...
@overload
def open(path: Openable, *, convert: bool = True, **options: Any) -> MoleculeDataset: ...  # noqa: A001
def open(  # noqa: A001
    path: Openable, *, convert: bool = True, **options: Any
) -> MoleculeDataset | ShardDataset | AtlasDataset:
    """Opens a path as a dataset; the format is detected by content.

        ds = apt.open("train.atp", fields=["energy", "forces"])
        ds = apt.open("profiles.atlas", arrays=["temperature", "salinity"])
        ds = apt.open("train.npz", key_map={"E": "energy"}, energy_unit="Ha", fields=["energy"])

    Local files that only ``convert`` reads (ASE databases and trajectories, NPZ, HDF5, Parquet,
    DeePMD, JSON of pymatgen, MTP, and all that ASE reads) are converted once, into the folder
    ``atompack_torch/converted`` of ``XDG_CACHE_HOME`` or ``~/.cache``, with progress and a report
    on stderr; other processes wait for it. The copy is used for as long as the files are unchanged
    and the options of the conversion are the same. ``atompack-torch cache --stats`` shows the size
    of the cache, ``--prune BYTES`` reduces it.

    Args:
        path: the data; those marked * may be URLs. The class that opens it has its documentation:

            - ``.atp`` files *: ``AtpDataset``; also the bytes of one
            - extended XYZ (``.xyz``, ``.extxyz``, also ``.gz``, ``.xz``, ``.bz2``):
              ``ExtxyzDataset``
            - ``.aselmdb`` databases: ``AseLmdbDataset``
            - a feature cache * (HDF5): ``TorchCacheDataset``
            - a folder of Atlas shards *: ``ShardDataset``
            - an ATLAS store *: ``AtlasDataset``; also a mapping from relative paths to the bytes
              of its files

            The first three may be a file, a list of files or a folder.
        convert: False: what would have to be converted is an error.
        **options: options of that class:

            - of all molecules: ``fields``, ``exclude``, ``dtype``, ``missing``,
              ``nan_is_missing``, ``augment``, ``neighbors``, ``features``, ``force_subset``,
              ``transform``, ``access``, ``num_threads``, ``storage_options``
            - of extended XYZ and ``.aselmdb`` also: ``key_map``, ``index``; of extended XYZ
              ``max_unpacked_bytes``
            - of Atlas shards: ``allow_pickle``, ``cache_blocks``, ``layout``, ``levels``,
              ``dtype``, ``missing``, ``transform``, ``num_threads``, ``storage_options``,
              ``missing_shards``
            - of ATLAS stores: ``arrays`` (required), ``start``, ``shape``, ``layout``, ``dtype``,
              ``missing``, ``transform``, ``num_threads``, ``cache_bytes``, ``storage_options``
            - of what is converted: those of ``AtpDataset``, and of ``convert``: ``format``,
              ``key_map``, ``padding``, ``nan_is_missing``, ``on_error``, ``progress``, and changes
              of units and signs, such as ``energy_unit``; ``dtype`` is that of the dataset

    Returns:
        An object of the class. Type checkers see a dataset of molecules, or with ``arrays=`` an
        ``AtlasDataset``; for them, open shards of other examples by ``ShardDataset``.

    Raises:
        FileNotFoundError: the path does not exist.
        PermissionError: a URL needs other credentials.
        UnsupportedFormatError: the format is not supported, or its class does not read bytes.
        CorruptFileError: what has to be converted is damaged.
        TypeError: an option is unknown to the class, or a required one is absent.
    """
    places = located(path, options.get("storage_options"))
    if any(is_url(place.path) for place in places):
        options = {**options, "storage_options": places[0].remote}
    for place in places:
        name, remote = place.path, place.remote
        if (remote.holds(name) or Path(name).exists()) and recognize(name, remote) is None:
            raise unknown(name, remote)
    dataset: MoleculeDataset | ShardDataset | AtlasDataset
    if convert and all(map(_is_only_converted, places)):
        opener = importlib.import_module("atompack_torch.conversion.opening")
        dataset = opener.open_converted([place.path for place in places], options)
    else:
        dataset = entry_of(places).open_dataset(path, options)
    return dataset


def _is_only_converted(place: Place) -> bool:
    """True for local files and folders that ``convert`` reads and no dataset does."""
    if place.remote.holds(place.path):
        return False
    found = detect(place.path)
    if found is None or not found.source:
        return False
    entry = importlib.import_module(found.entry) if found.entry else None
    return entry is None or (hasattr(entry, "can_open") and not entry.can_open(place))


def info(
    path: Openable,
    *,
    full: bool = False,
    storage_options: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Describes the data at a path: counts, types, use of space.

    Args:
        path: as for ``open``, or an array file, or its bytes; a list of ``.atp`` files counts as
            one dataset.
        full: for ``.atp`` files: count labels in all records, however many there are, instead of
            in a sample of 10,000.
        storage_options: for URLs, as for ``AtpDataset``.

    Returns:
        Plain JSON values, as printed by ``atompack-torch info --json``: ``"format"`` is its short
        name (``"atp"``, ``"extxyz"``, ...); ``"errors"`` lists any damage.

    Raises:
        FileNotFoundError: the path does not exist.
        UnsupportedFormatError: the format is not supported.
    """
    places = located(path, storage_options)
    described = describe(places, full, False)
    document = described.document
    if isinstance(document, list):
        document = document[0] if len(document) == 1 else {"stores": document}
    return {**document, "errors": list(described.errors)}


def describe(places: Sequence[Place], full: bool, progress: bool | OnProgress) -> Description:
    """Describes files, and names their format.

    Args:
        places: files and folders of one format.
        full: count labels in all records.
        progress: as for ``verify``.

    Returns:
        The description of the module of the format, with the format first.
    """
    made = entry_of(places).describe(places, full, progress)
    found = detect(places[0].path, places[0].remote)
    if found is None:
        return made
    is_list = isinstance(made.document, list)
    named = [
        {"format": found.name, **each} for each in (made.document if is_list else [made.document])
    ]
    text = f"format: {found.title.partition(' ')[2]}\n{made.text}"
    return made._replace(document=named if is_list else named[0], text=text)


def head(
    path: Openable,
    n: int = 5,
    *,
    storage_options: Mapping[str, object] | None = None,
) -> list[Molecule] | list[object]:
    """Reads the first items at a path.

    Args:
        path: as for ``info``.
        n: maximum number of items.
        storage_options: for URLs, as for ``AtpDataset``.

    Returns:
        ``Molecule`` objects of ``.atp`` files and feature caches, examples of Atlas shards; for
        ATLAS stores and array files dicts of ``dataset``, ``attributes`` and ``arrays``.

    Raises:
        FileNotFoundError: the path does not exist.
        CorruptFileError: an item is damaged.
        TypeError: ``n`` is no integer.
        ValueError: ``n`` is negative.
    """
    if checked_integer("n", n) < 0:
        raise ValueError(f"n: expected a number from 0, got {n}")
    places = located(path, storage_options)
    return list(entry_of(places).head(places, n, None).values)


def verify(
    path: Openable,
    *,
    max_faults: int = 100_000,
    progress: bool | OnProgress = False,
    storage_options: Mapping[str, object] | None = None,
) -> Verification:
    """Reads everything at a path with all checks.

    Headers, schema, index, every record, row, block and value are checked against the format, and
    all violations are listed. ``.atp`` records carry no checksums, so an altered number that is
    still a valid number cannot be detected. The rows of a feature cache are recomputed
    (``verify_cache`` has options for that).

    Args:
        path: as for ``info``.
        max_faults: list at most this many; the others are only counted.
        progress: show a bar, or a function called with the number of items done since the last
            call.
        storage_options: for URLs, as for ``AtpDataset``.

    Returns:
        Faults, warnings, and counts of what was read, which depend on the format.

    Raises:
        OSError: a file cannot be opened.
    """
    places = located(path, storage_options)
    return entry_of(places).verify(places, max_faults, progress)


def statistics(
    path: Openable,
    *,
    progress: bool | OnProgress = False,
    storage_options: Mapping[str, object] | None = None,
    **options: Any,
) -> Statistics | ShardStatistics | list[dict[str, object]]:
    """Gathers statistics of the data at a path.

    Args:
        path: as for ``info``.
        progress: show a bar, or a function called with the number of molecules done since the last
            call.
        storage_options: for URLs, as for ``AtpDataset``.
        **options: for molecules: ``cutoff``, ``features``, and options of the dataset
            (``fields``, ``missing``).

    Returns:
        For molecules ``Statistics``, as from ``dataset.statistics()``; for Atlas shards
        ``ShardStatistics``, with the kinds and the spread of the values in examples; for ATLAS
        stores and array files a dict per array, aggregated from the stored statistics. (Those of an
        array file are in a file next to it, so that its bytes alone have none.)

    Raises:
        TypeError: options are given for Atlas shards.
        CorruptFileError: a record is damaged.
        FieldError: no file has a requested label.
    """
    places = located(path, storage_options)
    found: Statistics | ShardStatistics | list[dict[str, object]]
    found = entry_of(places).statistics(places, options, progress).value
    return found


def compact(
    src: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    dst: str | os.PathLike[str],
    codec: Codec | None = None,
    order: Sequence[int] | torch.Tensor | Array | None = None,
    *,
    level: int | None = None,
    num_threads: int | None = None,
    progress: bool | OnProgress = False,
    storage_options: Mapping[str, object] | None = None,
    shards: tuple[int | None, int | None, int | None] | None = None,
) -> None:
    """Writes the newest generation of ``src`` to a new file, without dead space.

    Dead space is what earlier commits left behind. Every record of an ``.atp`` file is checked
    while it is copied, unchanged, and compared with its source before the new file gets its name,
    so that ``dst`` is either complete or absent.

    The examples of Atlas shards are decoded as data and written to new shards and blocks, with
    other sizes or in a different order if asked for: arrays stay arrays, tensors stay tensors.

    Args:
        src: an ``.atp`` file, or a list or a folder of them, merged into one file; an ATLAS store
            or an array file, which is compacted in place; a folder of Atlas shards, or a list.
        dst: the new file or folder. It may be ``src`` itself, which is then replaced; any other
            existing file is an error.
        codec: ``"none"``, ``"lz4"`` or ``"zstd"``; None: that of the source, whose records are then
            not recompressed.
        order: (m,) indices of the molecules or examples to keep, in their new order; None: all. Of
            shards, an order that jumps decodes a block again whenever it has left a cache of
            256 MiB.
        level: compression level; None: that of the source if it has the same codec, else 3.
        num_threads: maximum number of compression threads, as for ``AtpWriter``.
        progress: show a bar, or a function called with the number of molecules done since the last
            call; each counts twice, once when copied and once when compared.
        storage_options: options of the store of URLs; see ``AtpDataset``. A file that is written to
            a URL is built in the temporary folder first.
        shards: for Atlas shards only: shard size, block size and strategy, as for ``ShardWriter``;
            None for one of them: that of the first source.

    Raises:
        UnsafePickleError: an example of shards is more than data.
        ValueError: an option does not suit the format.
        FileExistsError: ``dst`` exists and is not ``src``.
        CorruptFileError: a record or a value of the source is damaged.
        FieldError: the sources differ in codec and ``codec`` is not given, or in the type of
            a field.
        IndexError: an index in ``order`` is out of range.
        UnsupportedFormatError: the format cannot be compacted.
        WriterLockedError: another writer has ``dst`` open.
    """
    check_threads(num_threads)
    options = CompactOptions(codec, level, order, progress, num_threads, shards)
    target = dst if isinstance(dst, str) and is_url(dst) else checked_path(dst)
    compact_paths(listed(src), target, options, storage_options)


def compact_paths(
    paths: Sequence[str],
    target: str,
    options: CompactOptions,
    storage_options: Mapping[str, object] | None = None,
) -> Compaction:
    """Compacts paths of one format.

    Args:
        paths: the sources.
        target: the new file.
        options: see ``compact``.
        storage_options: options of the store of URLs.

    Returns:
        Counts and sizes.

    Raises:
        UnsupportedFormatError: the format cannot be compacted.
    """
    remote = RemoteFiles.checked(storage_options)
    places = [Place(path, remote) for path in paths]
    known = detect(paths[0], remote)
    for place in places if any(map(is_url, (*paths, target))) else ():
        found = detect(place.path, remote)
        if found is not None and found.entry not in (ATP_ENTRY, STORES_ENTRY):
            raise UnsupportedFormatError(
                f"{place.shown}: expected .atp files, an ATLAS store or an array file, got "
                f"{found.title}: compact a local copy"
            )
    entry = entry_of(places)
    if not hasattr(entry, "compact"):
        title = "another format" if known is None else known.title
        raise UnsupportedFormatError(
            f"{paths[0]}: expected an .atp file, got {title}, which is not compacted"
        )
    if options.shards is not None and (known is None or known.entry != SHARDS_ENTRY):
        raise ValueError(f"{places[0].shown}: shards: expected none for other formats")
    return entry.compact(places, Place(target, remote), options)


def entry_of(places: Sequence[Place]) -> Entry:
    """Returns the module of the format that all paths have.

    Paths without a known format get the module of ``.atp``, which lists what is damaged in them.

    Args:
        places: files and folders.

    Returns:
        The module, with the functions of ``Entry``.

    Raises:
        FileNotFoundError: a path does not exist, and has the suffix of a foreign format.
        SeveralFormatsError: the paths are of several formats.
        UnsupportedFormatError: a path has a known format that cannot be opened.
    """
    names = set()
    for place in places:
        found = detect(place.path, place.remote)
        if found is not None and not found.entry:
            if not place.remote.holds(place.path):
                Path(place.path).stat()  # raises if it is missing, whatever its suffix
            raise unknown(place.path, place.remote)
        names.add(ATP_ENTRY if found is None else found.entry)
    if len(names) > 1:
        raise SeveralFormatsError(
            f"{places[0].shown} and others: expected one format, got several: open them one by "
            "one, or convert them to one .atp file"
        )
    entry: Entry = importlib.import_module(names.pop())
    return entry


def shown_item(dataset: Any, index: int, max_atoms: int) -> Shown:
    """Formats one item of a dataset.

    Args:
        dataset: a dataset of molecules or examples.
        index: number of the item, negative ones from the end.
        max_atoms: show at most this many atoms.

    Returns:
        The item.

    Raises:
        IndexError: there is no such item.
        FieldError: items are neither molecules nor examples.
    """
    from atompack_torch.batch.molecule_batch import Molecule
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset

    item = dataset[index]
    number = index % len(dataset)
    if isinstance(item, Molecule):
        document = molecule_document(number, item)
        for name, field in document["fields"].items():
            field["usual_unit"] = usual_unit(name)
        return Shown(document, structure_text(number, item, max_atoms))
    if isinstance(dataset, ShardDataset):
        return Shown(example_document(number, item), example_text(number, item))
    raise FieldError(f"expected a dataset of molecules, got {type(dataset).__name__}")
