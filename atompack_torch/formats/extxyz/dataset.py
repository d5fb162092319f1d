"""Frames of extended XYZ files as a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from atompack_torch import formats
from atompack_torch._native import (
    ExtxyzScanner,
    ExtxyzSource,
    FieldMap,
    MoleculeSource,
    ParsedIndex,
    check_regular_file,
)
from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats.extxyz.keys import FoundKey, NativeTarget, native_targets, targets_of
from atompack_torch.formats.extxyz.text_files import plain_path
from atompack_torch.formats.indexes import FileVersion, open_index
from atompack_torch.formats.parsed_files import ParsedFiles, ParsedOptions
from atompack_torch.options import PathLike, checked_integer, threads_or_cores, with_fields

_SUFFIXES = tuple(
    f"{suffix}{packed}" for suffix in (".xyz", ".extxyz") for packed in ("", ".gz", ".xz", ".bz2")
)


@dataclass(frozen=True)
class ExtxyzOptions(ParsedOptions):
    """Options of ``ExtxyzDataset``.

    Attributes:
        max_unpacked_bytes: limit on the text of a compressed file; None: 256 MiB, or 64 times the
            size of the file.
    """

    _: KW_ONLY
    max_unpacked_bytes: int | None = None


class ExtxyzDataset(ParsedFiles):
    """Frames of extended XYZ files as one map-style dataset, parsed when they are read.

        for batch in DataLoader(ExtxyzDataset("train.xyz"), batch_size=64, shuffle=True):
            ...

    Batches are those of the ``.atp`` file that ``convert`` makes of the same text: positions and
    labels are float64, in the units and with the signs of the file, ``pbc`` is always present, and
    labels that are NaN throughout are missing. The dialect is that of ASE. A key has one type in
    all files: integers next to reals become reals, numbers next to strings become strings. Columns
    of strings are dropped, with a warning.

    The first time, one pass over each file (about a second per GB) makes an index, which is kept
    next to it as ``.NAME.idx`` or, where that is impossible, in the folder
    ``atompack_torch/indexes`` of ``XDG_CACHE_HOME`` or ``~/.cache``. An index of a different size
    or time of change is replaced. A file compressed with gzip, bzip2 or xz is unpacked once, into
    the folder ``atompack_torch/plain`` there, and the plain text is kept.

    The names that ``key_map`` need not name are ``energy``, ``forces``, ``force``, ``stress``,
    ``charge``, ``charges``, ``velocities``, ``momenta`` (divided by the masses) and ``name``.
    """

    _format = "extended XYZ"
    _max_unpacked_bytes: int | None = None

    @with_fields(ExtxyzOptions)
    def __init__(self, path: PathLike | Sequence[PathLike], **options: Any) -> None:
        """Opens the files.

        Args:
            path: a file, a list of files, or a folder whose ``**/*.xyz`` and ``**/*.extxyz``
                (compressed or not) are read in the order of their paths; suffixes count in any
                case, and names that begin with a dot are not read.
            **options: the fields of ``ExtxyzOptions``.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option does not have one of its values.
            CorruptFileError: a comment line or the number of lines violates the format; other
                damage is found when the molecule is read.
            UnsupportedFormatError: a file has a different format, or more than 65,536 different
                keys.
            FieldError: a key of ``key_map`` or a name in ``fields`` does not occur, or two keys
                denote one field.
            OSError: a file cannot be opened.
        """
        given = ExtxyzOptions.of(path, options)
        limit = given.max_unpacked_bytes
        if limit is not None:
            self._max_unpacked_bytes = checked_integer("max_unpacked_bytes", limit, 0)
        self._open_path(given)

    def _files_in(self, folder: str) -> list[str]:
        return extxyz_files(folder)

    def _index_file(self, file: str) -> tuple[ParsedIndex, FileVersion]:
        check_regular_file(file)
        with formats.opening(file, "extended XYZ", "extxyz", "gzip", "xz", "bzip2", "text"):
            found = formats.recognize(file)
            if found is not None and found.magics and not found.is_compression:
                raise UnsupportedFormatError(f"{file}: expected extended XYZ")
            place = plain_path(file, self._max_unpacked_bytes)
            threads = threads_or_cores(self._request.num_threads)

            def start() -> ExtxyzScanner:
                return ExtxyzScanner(place, file, threads)

            return open_index(place, file, start, keep=self._keeps_index)

    def _map_fields(self, found: list[FoundKey]) -> list[NativeTarget]:
        return native_targets(found, targets_of(self._shown, found, self._key_map, _Warnings()))

    def _take_files(
        self, files: list[str], indexes: list[ParsedIndex], versions: list[FileVersion]
    ) -> None:
        super()._take_files(files, indexes, versions)
        for key in dict.fromkeys(key for index in indexes for key in index.survey.left_out):
            warnings.warn(f"{self._shown}: column {key!r} omitted: strings of atoms", stacklevel=4)

    def _open_file(
        self, file: str, version: FileVersion, index: ParsedIndex, fields: FieldMap
    ) -> MoleculeSource:
        place = plain_path(file, self._max_unpacked_bytes)
        return ExtxyzSource(place, file, version, index, fields, *self._native_access)


class _Warnings:
    """Receiver of notices about keys."""

    def skip(self, what: str, why: str, count: int = 1) -> None:
        self.note(f"{what} omitted: {why}")

    def note(self, text: str) -> None:
        warnings.warn(text, stacklevel=8)


def extxyz_files(folder: str) -> list[str]:
    """Lists the extended XYZ files of a folder, in the order of their paths.

    Args:
        folder: the folder.

    Returns:
        The paths, at least one.

    Raises:
        FileNotFoundError: there is none.
    """
    return formats.files_of_folder(folder, "extxyz-folder", ".xyz or .extxyz", *_SUFFIXES)
