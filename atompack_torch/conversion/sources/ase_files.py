"""Reader of molecules from any file that ASE can read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts, full_stress, parts_of, plain_value
from atompack_torch.conversion.sources import pymatgen_json
from atompack_torch.conversion.sources.values import label_shape
from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.fields import BUILTIN, MOLECULE_PROPERTY, RESULTS, prefixed_id
from atompack_torch.formats import by_suffix, recognize
from atompack_torch.formats.aselmdb.rows import BOOKKEEPING, take_metadata
from atompack_torch.formats.conversion_report import Report, described
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import convert_each

_WAY_OUT = (
    "if the file is whole, convert extended XYZ that another program (dpdata, pymatgen) makes of "
    "it, or name the format with --from (ase:NAME, or pymatgen-json for JSON of pymatgen)"
)
_LIMIT = re.compile(rb'(?:NELM\s*=|name="NELM">)\s*(\d+)')
_ITERATION = re.compile(rb"Iteration\s+(\d+)\(\s*(\d+)\)")


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file; ``options.format`` may name its format for ASE, as ``ase:NAME``.

    JSON of pymatgen, which ASE does not read, may be compressed.
    """
    if options.format == "ase" and Path(path).is_file() and pymatgen_json.is_pymatgen(path):
        return pymatgen_json.open_source(path, options)
    name = options.format.partition(":")[2] or _name_for_ase(path)
    return Source(path, lambda report: read(path, report=report, ase_format=name))


def _name_for_ase(path: str) -> str | None:
    """Returns ASE's name of a trajectory whose suffix would mislead ASE; None: ASE detects it."""
    found, named = recognize(path), by_suffix(path)
    is_misnamed = named is not None and named is not found
    return "traj" if found is not None and found.name == "ulm" and is_misnamed else None


def read(
    path: str | os.PathLike[str], *, report: Report, ase_format: str | None = None
) -> Iterator[Columns]:
    """Yields the molecules of a file in blocks, in order, as float64.

    Memory is bounded if ASE's reader for the format yields one molecule at a time (trajectories,
    extended XYZ, most relaxation logs).

    Args:
        path: the file.
        report: receives values that columns cannot represent.
        ase_format: ASE's name of the format; None: ASE detects it.

    Returns:
        Blocks of molecules.

    Raises:
        UnsupportedFormatError: ASE's reader failed; it cannot continue after a fault.
        OSError: the file cannot be opened.
    """
    return convert_each(path, _makes(path, report, ase_format), report)


def _makes(
    path: str | os.PathLike[str], report: Report, ase_format: str | None
) -> Generator[Callable[[], Parts]]:
    import ase.io
    from ase.io.formats import UnknownFileTypeError

    if not Path(path).is_dir():  # some ASE formats are folders
        check_regular_file(os.fspath(path))
    name = ase_format or _name_by_ase(path)
    is_database = name == "json"  # ASE's own reader drops what is no part of ase.Atoms
    make: Callable[[Any, Report], Parts] = parts_of_row if is_database else labelled_parts
    options = {"format": ase_format, "parallel": False, "do_not_split_by_at_sign": True}
    read = partial(ase.io.iread, os.fspath(path), ":", **options)
    images = _rows(path, report) if is_database else iter(read())
    number = 0
    while True:
        try:
            image = next(images, None)
        except (OSError, ImportError):
            raise
        except Exception as error:  # whatever a parser stumbles over, in whole files too
            if isinstance(error, UnknownFileTypeError):
                known = by_suffix(path)
                expected = known.title if known else "a format that is read"
                fault = f"{path}: expected {expected}, got a file that ASE does not know either"
                way_out = "name its format with --from (format=), such as ase:NAME"
            else:
                reader = f"ASE's reader for {name}" if name else "ASE"
                fault = (
                    f"{path}: {reader} could not read it: {described(error)} (molecule {number})"
                )
                way_out = _WAY_OUT
            if report.on_error == "raise":
                raise UnsupportedFormatError(f"{fault}: {way_out}") from error
            report.skip("the rest of a file", fault)
            return
        if image is None:
            break
        yield partial(make, image, report)
        number += 1
    missed = [step for step in _unconverged_steps(os.fspath(path), name) if step < number]
    if missed:
        first = ", ".join(map(str, missed[:10])) + (", ..." if len(missed) > 10 else "")
        report.warn(
            f"{path}: kept {len(missed)} molecules whose electronic iterations stopped at their "
            f"largest number (NELM), so that labels may be wrong: {first}"
        )


def _rows(path: str | os.PathLike[str], report: Report) -> Iterator[Any]:
    """Yields the rows of a JSON database, plain or compressed."""
    import ase.db
    from ase.io.formats import open_with_compression

    with open_with_compression(os.fspath(path), "r") as file:
        database = ase.db.connect(file, "json", use_lock_file=False)
        rows = [*database.select()]
        report.note(BOOKKEEPING)
        take_metadata(str(path), lambda: database.metadata, report)
    yield from rows


def _name_by_ase(path: str | os.PathLike[str]) -> str:
    """Returns ASE's name of a format; empty if it knows none, which its reader reports."""
    from ase.io.formats import UnknownFileTypeError, filetype, ioformats

    try:
        name = str(filetype(os.fspath(path)))
    except UnknownFileTypeError:
        return ""
    return name if name in ioformats else ""  # else it is the suffix


def labelled_parts(atoms: Any, report: Report) -> Parts:
    """Collects the contents of an ``ase.Atoms``; labels may be in ``info`` and ``arrays``, too."""
    parts = parts_of(atoms, report.skip)
    for label in RESULTS:
        for values in (parts.properties, parts.atom_properties):
            take_label(parts, values, label, report)
    return parts


def parts_of_row(row: Any, report: Report) -> Parts:
    """Returns the contents of a row as ASE reads it; ``report`` receives what has no place."""
    parts = labelled_parts(row.toatoms(), report)
    stress = parts.labels.get("stress")
    if stress is not None and np.shape(stress) == (9,):  # SQLite keeps numbers, not shapes
        parts.labels["stress"] = stress.reshape(3, 3)
    for what, values in (("key-value pair", row.key_value_pairs), ("data", row.data)):
        for key, value in values.items():
            _put(parts, key, value, f"{what} {key!r}", report)
            if key in RESULTS:
                take_label(parts, parts.properties, key, report)
    return parts


def _put(parts: Parts, key: str, value: Any, what: str, report: Report) -> None:
    plain = plain_value(value)
    if plain is None and value is not None:
        report.skip(what, f"no number, string or array of numbers: {type(value).__name__}")
        return
    key = str(key)  # ASE reads a key of digits as an integer
    is_name = key == "name" and isinstance(plain, str)
    scope, own = prefixed_id(key) or (BUILTIN if is_name else MOLECULE_PROPERTY, key)
    target = (parts.labels, parts.atom_properties, parts.properties)[scope]
    if own in target:
        report.skip(what, "the row has another value of that name")
    else:
        target[own] = plain


def take_label(parts: Parts, values: dict[str, Any], label: str, report: Report) -> None:
    """Moves a value with the name and shape of a label to the labels, unless there is another."""
    value, shape = values.get(label), label_shape(label, len(parts.positions))
    if value is None or isinstance(value, str) or label in parts.labels:
        return
    found = full_stress(np.asarray(value)) if label == "stress" else np.asarray(value)
    if found.shape == shape:
        parts.labels[label] = values.pop(label) if found.ndim == 0 else found
        values.pop(label, None)
        report.note(f"{label}: read from a value of that name that is no result of a calculator")


def _unconverged_steps(path: str, ase_format: str) -> list[int]:
    """Finds the ionic steps that stopped at the largest number of electronic iterations.

    In an ``OUTCAR`` these are steps with NELM iterations and no line that EDIFF is reached, or with
    one that it was not; in a ``vasprun.xml``, which has no such line, steps with NELM iterations.

    Args:
        path: the file, plain or compressed.
        ase_format: ASE's name of its format.

    Returns:
        Numbers of the steps, from 0; empty for files of other programs.
    """
    from ase.io.formats import open_with_compression

    if ase_format not in ("vasp-out", "vasp-xml"):
        return []
    limit = 0
    found: list[int] = []
    step, n_iterations, is_reached, is_missed = 0, 0, False, False
    with open_with_compression(path, "rb") as file:
        for line in file:
            if not limit and (stated := _LIMIT.search(line)):
                limit = int(stated[1])
            n_iterations += line.count(b"<scstep>")
            if iteration := _ITERATION.search(line):
                n_iterations = int(iteration[2])
            is_reached |= b"EDIFF is reached" in line
            is_missed |= b"EDIFF was not reached" in line
            if b"</calculation>" in line or b"FREE ENERGIE OF THE ION-ELECTRON SYSTEM" in line:
                if is_missed or (0 < limit <= n_iterations and not is_reached):
                    found.append(step)
                step, n_iterations, is_reached, is_missed = step + 1, 0, False, False
    return found
