"""Rows of ASE databases in LMDB as a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from atompack_torch import formats
from atompack_torch._native import (
    FieldMap,
    LmdbRowScanner,
    LmdbRowSource,
    MoleculeSource,
    ParsedIndex,
    check_regular_file,
)
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.aselmdb.rows import arrays_among_text, fields_of_rows
from atompack_torch.formats.extxyz.keys import FoundKey, NativeTarget
from atompack_torch.formats.indexes import FileVersion, open_index
from atompack_torch.formats.parsed_files import ParsedFiles, ParsedOptions
from atompack_torch.options import PathLike, threads_or_cores, with_fields


class AseLmdbDataset(ParsedFiles):
    """Rows of ``.aselmdb`` databases as one map-style dataset, parsed when they are read.

        for batch in DataLoader(AseLmdbDataset("train/"), batch_size=64, shuffle=True):
            ...

    Rows are in the order of their ids; deleted ones are omitted. Batches are those of the
    ``.atp`` file that ``convert`` makes of the same rows, in the units of the database (eV and Å
    by ASE's convention): positions and labels are float64, stress is (3, 3), momenta become
    velocities, and labels that are NaN throughout are missing. Other results of calculators, tags,
    initial charges and moments, key-value pairs and data (charge, spin, ids) are properties; an
    entry of ``data`` named ``atom_properties/KEY`` has a row for each atom. Constraints, complex
    numbers and nested maps have no place in batches and are dropped, with a warning.

    The first time, every row is read once (a few hundred thousand rows a second) for the numbers of
    atoms and the types of all fields, which are kept next to the file as ``.NAME.idx`` or, where
    that is impossible, in the folder ``atompack_torch/indexes`` of ``XDG_CACHE_HOME`` or
    ``~/.cache``.

    Attributes:
        left_out: keys of values that batches have no place for → number of rows that have them.
    """

    left_out: dict[str, int]
    _format = "ASE databases"

    @with_fields(ParsedOptions)
    def __init__(self, path: PathLike | Sequence[PathLike], **options: Any) -> None:
        """Opens the files.

        Args:
            path: a file, a list of files, or a folder whose ``*.aselmdb`` are read in the order of
                their names. In ``key_map``, fields may have their scope: ``properties/KEY``.
            **options: the fields of ``ParsedOptions``.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option does not have one of its values.
            CorruptFileError: a page or a row is damaged.
            UnsupportedFormatError: a file has a different format.
            FieldError: a key of ``key_map`` or a name in ``fields`` does not occur.
            OSError: a file cannot be opened.
        """
        self._open_path(ParsedOptions.of(path, options))

    def _files_in(self, folder: str) -> list[str]:
        return formats.files_of_folder(folder, "databases", ".aselmdb", ".aselmdb", is_deep=False)

    def _index_file(self, file: str) -> tuple[ParsedIndex, FileVersion]:
        check_regular_file(file)
        threads = threads_or_cores(self._request.num_threads)
        try:
            with formats.opening(file, "an .aselmdb database", "lmdb"):
                return open_index(
                    file, file, lambda: LmdbRowScanner(file, threads), keep=self._keeps_index
                )
        except CorruptFileError as error:
            if "(molecule " not in str(error):
                raise
            rest = "`atompack-torch convert --on-error skip` keeps the other rows"
            raise CorruptFileError(f"{error}: {rest}") from None
        except UnsupportedFormatError as error:
            found = formats.recognize(file)
            if found is None or "nextid" not in str(error):
                raise
            command = formats.conversion(file, found)
            raise UnsupportedFormatError(
                f"{error}: `{command}` reads graphs and dicts in pickles, as of OC20 and NequIP"
            ) from None

    def _map_fields(self, found: list[FoundKey]) -> list[NativeTarget]:
        fields = fields_of_rows(self._shown, found, self._key_map)
        for key in arrays_among_text(fields):
            text = f"{key}: arrays omitted, as other rows have text there"
            warnings.warn(f"{self._shown}: {text}", stacklevel=5)
        return fields

    def _take_files(
        self, files: list[str], indexes: list[ParsedIndex], versions: list[FileVersion]
    ) -> None:
        super()._take_files(files, indexes, versions)
        counts: dict[str, int] = {}
        for index in indexes:
            for key, count in index.survey.left_out.items():
                counts[key] = counts.get(key, 0) + count
        self.left_out = counts
        for key, count in counts.items():
            text = f"{key} omitted in {count:,} rows: no number, string or array of numbers"
            warnings.warn(f"{self}: {text}", stacklevel=4)

    def _open_file(
        self, file: str, version: FileVersion, index: ParsedIndex, fields: FieldMap
    ) -> MoleculeSource:
        return LmdbRowSource(file, version, index, fields, *self._native_access)
