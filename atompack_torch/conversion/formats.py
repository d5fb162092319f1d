"""Choice of the converter for each source and target of a conversion, from the registry."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from atompack_torch import formats
from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns, of_batch
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError, UnsupportedFormatError
from atompack_torch.formats import Format
from atompack_torch.formats.aselmdb.rows import is_pickled
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import (
    Source,
    SourceOptions,
    Target,
    TargetOptions,
    TargetTraits,
    readable,
)
from atompack_torch.formats.extxyz.dataset import extxyz_files
from atompack_torch.formats.paths import STDIN, is_pipe
from atompack_torch.formats.records import BLOCK_STRUCTURES
from atompack_torch.options import is_url

_Path = str | os.PathLike[str]


def source_names() -> list[str]:
    """Returns the names of all formats that are read: ``"ase"`` is any format that ASE reads."""
    return [*dict.fromkeys(known.source for known in formats.FORMATS if known.source)]


def target_names() -> list[str]:
    """Returns the names of all formats that are written."""
    return [known.source for known in formats.FORMATS if known.is_target]


def _module(known: Format) -> ModuleType:
    return importlib.import_module(known.converter or known.entry)


def open_source(path: _Path, name: str | None, given: SourceOptions) -> Source:
    """Opens a source, its format detected by content and suffix unless given.

    Args:
        path: the file or folder; ``"-"`` for standard input; a URL only of ``.atp`` files.
        name: name of the format, or ``ase:NAME``; None: it is detected.
        given: options of the source; their format is ``name``, or the one that is detected.

    Returns:
        The source, which the caller closes.

    Raises:
        FileNotFoundError: there is no such file.
        UnsupportedFormatError: a socket or a device, a pipe for a format that is not text, or a
            format that is not converted.
        ValueError: the format is unknown, or has no padding.
    """
    is_remote = is_url(path)
    if os.fspath(path) != STDIN and not is_remote and not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    if name is not None and name not in source_names() and not name.startswith("ase:"):
        expected = ", ".join((*source_names(), "ase:NAME"))
        raise ValueError(f"format: expected one of {expected}, got {name!r}")
    streams = not is_remote and is_pipe(path)
    if is_remote:
        known = _named("atp")
    else:
        known = _named(name) if name else _of_pipe(path) if streams else _detected(path)
    if streams and not known.is_stream:
        raise UnsupportedFormatError(
            f"{path}: expected a regular file, got a pipe: only extended XYZ is read from pipes, "
            f"not format {name or known.source}"
        )
    options = given._replace(format=name or known.source)
    module = _module(known)
    if known.source == "aselmdb" and Path(path).is_file():
        module = _module(_named("pickled-lmdb")) if is_pickled(os.fspath(path)) else module
    if hasattr(module, "open_source"):
        source: Source = module.open_source(os.fspath(path), options)
    else:
        source = _of_dataset(os.fspath(path), module.open_dataset)
    if options.padding is not None and not source.takes_padding:
        source.close()
        raise ValueError(f"padding: only arrays have it, {path} is of format {options.format}")
    named = formats.by_suffix(path)
    if name is None and not is_remote and named is not None and named.source != known.source:
        source.note = f"{path}: read as {known.title} by its content, not by its suffix"
    return source


def sources_at(path: _Path, name: str | None) -> list[_Path]:
    """Returns the files of a folder of extended XYZ files, which are sources each, or the path.

    Args:
        path: the file or folder.
        name: name of the format; None: it is detected.

    Returns:
        The paths.

    Raises:
        FileNotFoundError: there is no such file in the folder.
    """
    if name not in (None, "extxyz") or is_url(path) or not Path(path).is_dir():
        return [path]
    found = formats.recognize(path)
    if found is None or found.name != "extxyz-folder":
        return [path]
    return [*extxyz_files(os.fspath(path))]


def _named(name: str) -> Format:
    source = name.partition(":")[0]
    return next(known for known in formats.FORMATS if known.source == source)


def _of_pipe(path: _Path) -> Format:
    """Returns the format of a pipe: extended XYZ by default, as pipes are not inspected."""
    known = formats.by_suffix(path)
    if known is None and Path(path).suffix:
        raise UnsupportedFormatError(
            f"{path}: expected a regular file, got a pipe; give --from extxyz if it delivers "
            "extended XYZ"
        )
    return _named("extxyz") if known is None or known.is_compression else known


def _detected(path: _Path) -> Format:
    """Returns the format of a file or folder; what is not recognized is left to ASE."""
    if Path(path).is_dir():
        found = formats.recognize(path)
        if found is None:
            raise FileNotFoundError(
                f"{path}: expected a folder of .atp, .aselmdb, Parquet or extended XYZ files, or "
                f"one that another program wrote, got none of them{formats.other_files(path)}"
            )
        return found if found.source else _named("atp")
    if Path(path).stat().st_size == 0:  # files in /proc have no size, and reading them may block
        return formats.by_suffix(path) or _named("ase")
    check_regular_file(os.fspath(path))
    found, named = formats.detect(path), formats.by_suffix(path)
    if found is not None and found.source:
        return found
    if found is not None and found.advice:
        raise UnsupportedFormatError(
            f"{path}: expected a format that is converted, got {found.title}: {found.advice}"
        )
    if found is not None and named is not None and named.source:
        raise UnsupportedFormatError(f"{path}: expected {named.title}, got {found.title}")
    return _named("ase")


def _of_dataset(path: str, open_dataset: Callable[[str, Mapping[str, Any]], Any]) -> Source:
    """Returns the molecules of a dataset as a source."""
    dataset = open_dataset(path, {})
    read = partial(_blocks, path, dataset)
    return Source(
        path,
        lambda report: read(report, 0, len(dataset)),
        partial(len, dataset),
        read_range=read,
        keeps_open=True,
    )


def _blocks(path: str, dataset: Any, report: Report, first: int, last: int) -> Iterator[Columns]:
    read = partial(_molecules, path, dataset)
    for begin in range(first, last, BLOCK_STRUCTURES):
        yield from readable(read, begin, min(begin + BLOCK_STRUCTURES, last), report)


def _molecules(path: str, dataset: Any, first: int, last: int) -> Columns:
    try:
        batch = MoleculeBatch.from_molecules([dataset[i] for i in range(first, last)])
    except TypeError as error:  # something else than molecules
        raise FieldError(f"{path}: {error} (items {first} to {last - 1})") from None
    return of_batch(batch)


def target_format(path: _Path, name: str | None) -> Format:
    """Returns the format of a file to write, by its suffix unless given; shards have no suffix.

    Args:
        path: the file to write.
        name: name of the format; None: by the suffix.

    Returns:
        The format.

    Raises:
        ValueError: the format is unknown, or cannot be written.
    """
    targets = [known for known in formats.FORMATS if known.is_target]
    named = formats.by_suffix(path)
    found = next((known for known in targets if known.source == name), None) if name else named
    other_kind = named is not None and found is not None and named.source == found.source
    if found not in targets or (other_kind and named not in targets):
        got = f"the suffix {Path(path).suffix!r}" if name is None else repr(name)
        expected = ", ".join(target_names())
        raise ValueError(f"{path}: target format: expected one of {expected}, got {got}")
    assert found is not None
    return found


def traits_of(known: Format) -> TargetTraits:
    """Returns the properties of the targets of a format."""
    traits: TargetTraits = getattr(_module(known), "TARGET", TargetTraits())
    return traits


def open_target(
    path: _Path, known: Format, options: TargetOptions
) -> AbstractContextManager[Target]:
    """Opens the target; an existing file is replaced at the end, or appended to."""
    target: AbstractContextManager[Target] = _module(known).open_target(os.fspath(path), options)
    return target
