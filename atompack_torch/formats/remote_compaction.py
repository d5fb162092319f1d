"""Compaction of files, stores and array files behind URLs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats import detect
from atompack_torch.formats.atp.files import files_of
from atompack_torch.formats.entry import Compaction, CompactOptions
from atompack_torch.formats.table import ATP_ENTRY, STORES_ENTRY
from atompack_torch.options import bytes_at, is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.objects import RemoteObjects
from atompack_torch.remote.staging import Options
from atompack_torch.remote.urls import shown_url


def compact_urls(
    paths: Sequence[str], target: str, options: CompactOptions, storage_options: Options
) -> Compaction:
    """Compacts where a source or the target is a URL.

    Args:
        paths: the sources: URLs and paths of ``.atp`` files, or one store or array file.
        target: the new file; a store or an array file itself.
        options: see ``compact``.
        storage_options: options of the store.

    Returns:
        Counts and sizes.

    Raises:
        ValueError: options or a target that do not suit the format.
        UnsupportedFormatError: a source has another format.
        FileNotFoundError: there is nothing at a source.
    """
    remote = RemoteFiles.checked(storage_options)
    found = [detect(path, remote) for path in paths]
    entries = {known.entry if known else ATP_ENTRY for known in found}
    if entries == {STORES_ENTRY}:
        if [*paths] != [target]:
            raise ValueError(
                f"{shown_url(target)}: expected {shown_url(paths[0])} itself: stores and array "
                "files are compacted in place"
            )
        return _in_place(target, options, storage_options)
    for path, known in zip(paths, found, strict=True):
        if known is not None and known.entry != ATP_ENTRY:
            raise UnsupportedFormatError(
                f"{shown_url(path)}: expected .atp files, an ATLAS store or an array file, got "
                f"{known.title}: compact a local copy"
            )
    if options.shards is not None:
        raise ValueError(f"{shown_url(paths[0])}: shards: expected none for .atp files")
    from atompack_torch.formats.atp.compaction import compact
    from atompack_torch.formats.atp.dataset import AtpDataset

    files = [file for path in paths for file in files_of(path, remote)]
    if target in paths and target not in files:
        raise ValueError(f"{shown_url(target)}: expected a new file, got a folder of .atp files")
    before = sum(_bytes_at(file, storage_options) for file in files)
    compact(
        files,
        target,
        options.codec,
        options.order,
        level=options.level,
        num_threads=options.num_threads,
        progress=options.progress,
        storage_options=storage_options,
    )
    with AtpDataset(target, storage_options=storage_options) as dataset:
        n = len(dataset)
    return Compaction(n, "molecules", before, _bytes_at(target, storage_options))


def _in_place(url: str, options: CompactOptions, storage_options: Options) -> Compaction:
    from atompack_torch.formats.atlas_store.array_file import ArrayFile
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore

    for name, value in zip(options._fields, options, strict=True):
        if name != "progress" and value is not None:
            raise ValueError(f"{name}: expected none for stores and array files")
    if url.endswith(".af"):
        before = _bytes_at(url, storage_options)
        with ArrayFile(url, "a", storage_options=storage_options) as file:
            file.compact()
            return Compaction(len(file.names), "datasets", before, _bytes_at(url, storage_options))
    before = _bytes_at(url, storage_options)
    with AtlasStore(url, "a", storage_options=storage_options) as store:
        store.compact()
        return Compaction(len(store), "datasets", before, _bytes_at(url, storage_options))


def _bytes_at(path: str, storage_options: Options) -> int:
    """Returns the size of a file, or of the files of a folder, a store or an array file."""
    if not is_url(path):
        return bytes_at(Path(path))
    objects = RemoteObjects(path, storage_options)
    if path.endswith(".af"):
        folder, _, name = path.rpartition("/")
        found = objects.list(folder, name.removesuffix("af"))
        return sum(state.size for state in found.values())
    state = objects.state(path)
    if state is not None:
        return state.size
    return sum(state.size for state in objects.list(path.rstrip("/")).values())
