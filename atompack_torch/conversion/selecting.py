"""Selections and renamings of files of any format that is converted, to files of any other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.formats import target_format, traits_of
from atompack_torch.conversion.keys import KeyMap, field_of, label_of
from atompack_torch.conversion.pipe import count_molecules
from atompack_torch.conversion.pipeline import Options, Output, convert_edited, paths_of
from atompack_torch.conversion.remote_ends import RemoteEnds
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.datasets.selection.blocks import (
    Field,
    check_known,
    deal,
    deal_strata,
    one_of,
    sizes_of,
)
from atompack_torch.datasets.selection.expressions import Expression
from atompack_torch.datasets.selection.grouping import GroupBy, Strata
from atompack_torch.errors import FieldError, UnsupportedFormatError, file_exists, molecules
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    check_key_map,
    prefixed_id,
)
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source
from atompack_torch.formats.paths import is_pipe
from atompack_torch.formats.records import is_per_atom, select
from atompack_torch.options import checked_integer, is_url
from atompack_torch.progress import Progress
from atompack_torch.random_order import shuffled

_Path = str | os.PathLike[str]
_OPTIONS = frozenset(
    (
        *("format", "target", "codec", "level", "shards", "mode", "key_map", "progress"),
        *("storage_options", "keep_units"),
    )
)


def split(
    src: _Path | Sequence[_Path],
    dst: Sequence[_Path],
    fractions: Sequence[float],
    seed: int = 0,
    by: str | None = None,
    stratify: str | None = None,
    **options: Any,
) -> list[Report]:
    """Splits files at random into several files.

        apt.split("all.extxyz", ["train.atp", "test.atp"], [0.9, 0.1], seed=1, by="trajectory")

    The molecules are those of ``split`` of datasets for the same seed, in their order here. The
    sources are read once for all files, and once before that for ``by`` or ``stratify``, or to
    count molecules where the format does not tell their number. Each file appears when it is
    complete; after an error those that were not complete do not appear.

    Args:
        src: a file or folder of any format that ``convert`` reads, or several of them.
        dst: the files to create, of any format that ``convert`` writes.
        fractions: sizes of the files, which add up to 1.
        seed: the same seed gives the same files.
        by: None; or the name of a field (``"name"``, a property), or ``"formula"``: molecules with
            the same value get into the same file, and the sizes are as near to the fractions as
            whole groups permit.
        stratify: None; or such a name: each file gets its share of the molecules of every value.
            Reals, such as ``"energy"``, are grouped by up to 100 quantiles.
        **options: ``format``, ``target``, ``codec``, ``level``, ``shards``, ``mode`` ("x" or "w"),
            ``key_map``, ``progress``, ``storage_options`` and ``keep_units`` of ``convert``.

    Returns:
        The report of each file.

    Raises:
        ValueError: there are not as many files as fractions, a fraction is negative, they do not
            add up to 1, or a file would be empty, as there are too few molecules or groups; or
            ``by`` and ``stratify`` are combined.
        FieldError: a molecule lacks the value of ``by`` or ``stratify``.
        FileExistsError: a file exists already.
    """
    if isinstance(dst, (str, os.PathLike)) or len(dst) != len(fractions):
        raise ValueError(f"dst: expected as many paths as fractions ({len(fractions)}), got {dst}")
    if len({os.fspath(path) for path in dst}) < len(dst):
        raise ValueError("dst: expected each path once, got one twice")
    sizes_of(0, fractions)  # checks them
    seed = checked_integer("seed", seed)
    if by is not None and stratify is not None:
        raise ValueError("stratify: excludes by")
    groups = None if by is None else GroupBy(by)
    strata = None if stratify is None else Strata(stratify)
    own = _options_of(options)
    for path in dst:
        _check_target(path, own)
    with _ends(src, own, twice=True) as paths:
        if strata is not None:
            found = _groups(paths, strata, own)
            dealt = deal_strata(found, fractions, seed, are_ordered=strata.are_ordered)
            parts = [part.numpy() for part in dealt]
        elif groups is None:
            n = _count(paths, own)
            order, ends = shuffled(seed, n), np.cumsum([0, *sizes_of(n, fractions)]).tolist()
            parts = [np.sort(order.between(*part)) for part in pairwise(ends)]
        else:
            dealt = deal(_groups(paths, groups, own), fractions, seed)
            parts = [part.numpy() for part in dealt]
        outputs = [Output(path, [Numbers(part)]) for path, part in zip(dst, parts, strict=True)]
        return convert_edited(paths, outputs, own)


def filter(  # noqa: A001  (the word users look for)
    src: _Path | Sequence[_Path], dst: _Path, expression: str, **options: Any
) -> Report:
    """Writes the molecules for which an expression is true to a new file.

        conversion.filter("all.atp", "iron.extxyz", "'Fe' in elements and max_force < 10")

    Args:
        src: a file or folder of any format that ``convert`` reads, or several of them.
        dst: the file to create, of any format that ``convert`` writes.
        expression: as for ``AtpDataset.filter``; ``index`` is the number in all sources.
        **options: as for ``split``.

    Returns:
        The report.

    Raises:
        FieldError: the expression is wrong, or no molecule has one of its fields.
        FileExistsError: ``dst`` exists already.
    """
    parsed = Expression(expression)
    own = _options_of(options)
    with _ends(src, own) as paths:
        _check_early(parsed, paths, own)
        return _edit(paths, dst, Filter(parsed), own)


def sample(
    src: _Path | Sequence[_Path], dst: _Path, n: int, seed: int = 0, **options: Any
) -> Report:
    """Writes ``n`` molecules, drawn at random without repeats, to a new file, in their order.

    Args:
        src: a file or folder of any format that ``convert`` reads, or several of them.
        dst: the file to create, of any format that ``convert`` writes.
        n: number of molecules.
        seed: the same seed gives the same structures.
        **options: as for ``split``.

    Returns:
        The report.

    Raises:
        TypeError: ``n`` is no integer.
        ValueError: ``n`` is negative, or more than there are.
        FileExistsError: ``dst`` exists already.
    """
    seed = checked_integer("seed", seed)
    if checked_integer("n", n) < 0:
        raise ValueError(f"n: expected a number from 0, got {n}")
    own = _options_of(options)
    _check_target(dst, own)
    with _ends(src, own, twice=True) as paths:
        total = _count(paths, own)
        if n > total:
            raise ValueError(f"n: expected at most {total:,}, as many as there are, got {n:,}")
        chosen = np.sort(shuffled(seed, total).between(0, n))
        return _edit(paths, dst, Numbers(chosen), own)


def rename(
    src: _Path | Sequence[_Path], dst: _Path, key_map: Mapping[str, str], **options: Any
) -> Report:
    """Writes all molecules to a new file, with other names for fields.

    Args:
        src: a file or folder of any format that ``convert`` reads, or several of them.
        dst: the file to create, of any format that ``convert`` writes.
        key_map: old name → new name, of labels and properties: a property may become a label.
        **options: as for ``split``, without their ``key_map``.

    Returns:
        The report.

    Raises:
        FieldError: no molecule has an old name, a new one exists already, or values do not have
            the shape of their label.
        ValueError: a name is wrong.
        FileExistsError: ``dst`` exists already.
    """
    return _edit(src, dst, Rename(key_map), _options_of(options))


def drop(
    src: _Path | Sequence[_Path], dst: _Path, fields: Collection[str], **options: Any
) -> Report:
    """Writes all molecules to a new file, without some fields.

    Args:
        src: a file or folder of any format that ``convert`` reads, or several of them.
        dst: the file to create, of any format that ``convert`` writes.
        fields: names of labels and properties.
        **options: as for ``split``.

    Returns:
        The report.

    Raises:
        FieldError: no molecule has one of them.
        ValueError: a name is wrong.
        FileExistsError: ``dst`` exists already.
    """
    return _edit(src, dst, Drop(fields), _options_of(options))


def _edit(src: _Path | Sequence[_Path], dst: _Path, edit: Stage, options: Options) -> Report:
    (report,) = convert_edited(src, [Output(dst, [edit])], options)
    return report


def _options_of(options: Mapping[str, Any]) -> Options:
    check_key_map(options)
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        expected = ", ".join(sorted(_OPTIONS))
        raise TypeError(f"expected options of {expected}, got {', '.join(unknown)}")
    own = {name: value for name, value in options.items() if name != "keep_units"}
    return Options(**own, changes=Changes(keep_units=options.get("keep_units", False)))


def _check_target(path: _Path, options: Options) -> None:
    """Raises an error for a target that exists or has no format, before any work."""
    traits_of(target_format(path, options.target))
    if options.mode == "x" and not is_url(path) and Path(path).exists():
        raise file_exists(path, "mode='w' replaces it")


@contextlib.contextmanager
def _ends(
    src: _Path | Sequence[_Path], options: Options, *, twice: bool = False
) -> Iterator[list[_Path]]:
    """Provides the sources, those that are downloaded as local files; ``twice``: for two passes."""
    with RemoteEnds(options.storage_options, progress=options.progress) as remote:
        paths = [remote.source(path, options.format) for path in paths_of(src)]
        for path in paths:
            if twice and not _is_file(path):
                raise UnsupportedFormatError(
                    f"{path}: expected a file, which can be read twice, got a pipe"
                )
        yield paths


def _is_file(path: _Path) -> bool:
    """True unless a source is a pipe, which is read once."""
    return is_url(path) or not is_pipe(path)


def _count(paths: Sequence[_Path], options: Options) -> int:
    with options.open_sources(paths) as sources:
        return sum(count or 0 for count in count_molecules(sources, "raise", exact=True))


def _groups(paths: Sequence[_Path], by: GroupBy, options: Options) -> Array:
    """Returns the number of the group of each molecule, (M,) uint64."""
    found: list[Array] = [np.zeros(0, np.uint64)]
    known: set[str] = set()
    first = 0
    with options.open_sources(paths) as sources:
        counts = count_molecules(sources, "raise", exact=False)
        total = None if None in counts else sum(count or 0 for count in counts)
        report = Report(n_sources=len(sources))
        blocks = ((source, columns) for source in sources for columns in source.read(report))
        with Progress(total, "molecules", label="reading groups", enabled=options.progress) as bar:
            for source, read in blocks:
                if len(read.ptr) == 1:
                    continue
                columns = _renamed(read, source, options)
                known |= names_in(columns)
                block = ColumnsBlock(columns, first)
                if not any(block.find(name) for name in by.fields):
                    by.check(known)
                found.append(by.numbers(block, first))
                first += len(columns.ptr) - 1
                bar.update(len(columns.ptr) - 1)
    return np.concatenate(found)


def _check_early(expression: Expression, paths: Sequence[_Path], options: Options) -> None:
    """Checks the names of an expression before all is read, where the sources know their fields."""
    if not all(map(_is_file, paths)):
        return
    with options.open_sources(paths) as sources:
        found = [_names(source, options) for source in sources]
    known = [names for names in found if names is not None]
    if len(known) == len(found):
        expression.check(set().union(*known))


def _names(source: Source, options: Options) -> set[str] | None:
    """Returns the names by which an expression may use the fields of a source; None: unknown."""
    example = source.example()
    if example is not None:
        return names_in(_renamed(example, source, options))
    names = source.names()
    if names is None:
        return None
    keys = source.other_keys(options.keys)
    return names_of([*names, *keys.values()])


def _renamed(columns: Columns, source: Source, options: Options) -> Columns:
    """Renames the fields of a source that does not itself map ``key_map``, and finds labels."""
    keys = source.other_keys(options.keys)
    return KeyMap(keys).apply(columns, Report())


class ColumnsBlock:
    """Columns as a block for expressions and groups.

    Args:
        columns: the molecules.
        first: number of the first one in all sources.
    """

    def __init__(self, columns: Columns, first: int) -> None:
        self._columns, self._first = columns, first
        self.ptr = columns.ptr

    @property
    def atomic_numbers(self) -> Array:
        """(N,) integers."""
        return self._columns.atomic_numbers

    @property
    def names(self) -> Set[str]:
        """Names of the fields of the block."""
        return names_in(self._columns)

    def find(self, name: str) -> Field | None:
        """Returns a field by its name, None if no molecule of the block has it."""
        if name == "index":
            n = len(self.ptr) - 1
            return Field(np.arange(self._first, self._first + n), is_per_atom=False)
        if name in ("positions", "atomic_numbers"):
            return Field(getattr(self._columns, name), is_per_atom=True)
        column = column_named(name, self._columns)
        if column is None or (column.mask is not None and not column.mask.any()):
            return None
        return Field(column.values, is_per_atom(column), column.mask)


def column_named(name: str, columns: Columns) -> Column | None:
    """Returns the column that a name denotes, as in ``selection.blocks.one_of``.

    Args:
        name: the name of a label or a property, with or without its scope.
        columns: a block.

    Returns:
        The column; None if missing.

    Raises:
        FieldError: atoms and molecules both have a property of that key.
    """
    by_label = {label_of(column): column for column in columns.fields}
    ids = [FieldId(column.scope, column.key) for column in columns.fields]
    found = one_of(name, ids, by_label)
    return None if found is None else by_label[found]


def names_in(columns: Columns) -> set[str]:
    """Returns the names by which expressions may use the fields of a block."""
    return names_of(map(label_of, columns.fields))


def names_of(labels: Iterable[str]) -> set[str]:
    """Returns the names by which expressions may use fields.

    Args:
        labels: names of the fields, as ``label_of`` gives them.

    Returns:
        The names, with and without scopes, and those of parts of every molecule.
    """
    labels = [*labels]
    keys = {scoped.key for label in labels if (scoped := prefixed_id(label)) is not None}
    return {"positions", "atomic_numbers", "index", *keys, *labels}


class Filter(Stage):
    """Drops the molecules for which an expression is not true.

    Args:
        expression: the expression.
    """

    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    def begin(self, run: Run) -> None:
        """Counts molecules from 0."""
        self._first = self._kept = 0
        self._known: set[str] = set()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Selects the molecules of a block."""
        self._known |= names_in(columns)
        keep = self._expression.evaluate(ColumnsBlock(columns, self._first))
        self._first += len(keep)
        self._kept += int(keep.sum())
        return columns if keep.all() else select(columns, keep)

    def finish(self, run: Run) -> None:
        """Checks that some molecule had each field."""
        if self._first:
            self._expression.check(self._known)
            if not self._kept:
                run.report.warn(f"the expression is true for none of {molecules(self._first)}")


class Numbers(Stage):
    """Drops all molecules but those with certain numbers.

    Args:
        numbers: (m,) numbers in all sources, ascending.
    """

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers

    def begin(self, run: Run) -> None:
        """Counts molecules from 0."""
        self._first = 0

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Selects the molecules of a block."""
        n = len(columns.ptr) - 1
        begin, end = np.searchsorted(self._numbers, [self._first, self._first + n])
        keep = np.zeros(n, bool)
        keep[self._numbers[begin:end] - self._first] = True
        self._first += n
        return columns if keep.all() else select(columns, keep)

    def finish(self, run: Run) -> None:
        """Checks that all numbers occurred."""
        if len(self._numbers) and self._numbers[-1] >= self._first:
            raise FieldError(
                f"expected at least {self._numbers[-1] + 1} molecules, got {self._first}"
            )


class Rename(Stage):
    """Renames fields; a field that exists already is not replaced.

    Args:
        keys: old name → new name.

    Raises:
        ValueError: two fields would get one name, or the name is that of a part of every molecule.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        if not keys:
            raise ValueError("key_map: expected at least one old=new, got none")
        self._keys = dict(keys)
        self._map = KeyMap(keys)

    def begin(self, run: Run) -> None:
        """Looks for the names again."""
        self._map = KeyMap(self._keys)
        self._known: set[str] = set()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Renames the fields of a block."""
        self._known |= names_in(columns)
        for new in self._keys.values():
            targets = {field_of(new, scope) for scope in (ATOM_PROPERTY, MOLECULE_PROPERTY)}
            targets.add(FieldId(BUILTIN, new))
            for column in columns.fields:
                is_renamed = {column.key, label_of(column)} & self._keys.keys()
                if FieldId(column.scope, column.key) in targets and not is_renamed:
                    raise FieldError(f"{new!r}: exists already: drop it first, or rename it too")
        return self._map.apply(columns, run.block_report)

    def finish(self, run: Run) -> None:
        """Checks that every old name occurred."""
        for key in self._map.missing:
            check_known(key, self._known - {key}, "key_map: ")
            raise FieldError(f"key_map: no molecule has a field {key!r}")


class Drop(Stage):
    """Drops fields.

    Args:
        names: names of labels and properties.

    Raises:
        ValueError: no name, or that of a part of every molecule.
    """

    def __init__(self, names: Collection[str]) -> None:
        if isinstance(names, str) or not names:
            raise ValueError(f"fields: expected at least one name in a list, got {names!r}")
        for name in names:
            if name in STRUCTURE:
                raise ValueError(f"fields: {name!r} is part of every molecule")
        self._names = [*names]

    def begin(self, run: Run) -> None:
        """Looks for the names again."""
        self._known: set[str] = set()
        self._found: set[str] = set()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Drops fields of a block."""
        self._known |= names_in(columns)
        dropped = []
        for name in self._names:
            column = column_named(name, columns)
            if column is not None:
                self._found.add(name)
                dropped.append(label_of(column))
        return columns._replace(
            fields=[column for column in columns.fields if label_of(column) not in dropped]
        )

    def finish(self, run: Run) -> None:
        """Checks that every name occurred."""
        for name in self._names:
            if name not in self._found:
                check_known(name, self._known - {name}, "fields: ")
                raise FieldError(f"fields: no molecule has {name!r}")
