"""Structures from JSON files of pymatgen dictionaries: MPtrj, MatPES, Alexandria and others.

A structure has ``lattice`` (``matrix``, rows in Å, and ``pbc``) and ``sites``, each with
``species`` (``element`` and ``occu``), ``xyz`` in Å or ``abc``, and ``properties``. Layouts of
files, plain or compressed by gzip, bzip2 or xz:

- a list of entries, or one entry after another (JSON lines): MatPES;
- ``{"entries": [entry, ...]}``: Alexandria;
- ``{material: {frame: entry}}``: MPtrj;
- ``{material: [{"steps": [entry, ...], ...}, ...]}``: relaxations of Alexandria.

An entry is a dictionary with a ``structure``, labels and other values, or with an object that has
them (``output`` of a task of the Materials Project); or the structure itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion.sources.json_stream import JsonStream, opened_text
from atompack_torch.conversion.sources.pymatgen_entries import (
    STRUCTURE,
    EntryReader,
    is_empty,
    located,
)
from atompack_torch.errors import AtompackError
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import blocks, stack

_BLOCK_STRUCTURES = 1024
_HEAD = 4096
_HINT_HEAD = 1 << 16
_MAX_PARTS = 1 << 20  # such as sites, of a structure that is read as one value
_ENTRY_KEYS = {"structure", "steps", "energy", "entry_id", "composition", *STRUCTURE[:1]}
_STRING = r'"(?:[^"\\]|\\.)*"'
_OBJECT = r"\s*\{\s*"
_FRAMES = re.compile(
    rf"{_OBJECT}{_STRING}\s*:{_OBJECT}{_STRING}\s*:{_OBJECT}"
    r'"(structure|(un)?corrected_total_energy|\w*energy_per_atom\w*|e[f_]\w*per_atom\w*|force|stress'
    r'|magmom|bandgap|mp_id)"'
)
_KEYED_LISTS = re.compile(
    rf"{_OBJECT}(?:{_STRING}\s*:\s*{_STRING}\s*,\s*)*{_STRING}\s*:\s*\[\s*\{{"
)
_HINT = re.compile(
    r'"@module"\s*:\s*"pymatgen\.|"(matpes_id|emmet_version|pymatgen_version)"\s*:'
    r'|"lattice"\s*:\s*\{\s*"(matrix|pbc|a)"|"sites"\s*:\s*\[\s*\{\s*"(species|xyz|abc)"'
)


class _Entry(NamedTuple):
    """An entry of a file.

    Attributes:
        value: its value.
        name: its key in the file, or that of its material; empty if it has none.
        extra: values of the object around it.
    """

    value: Any
    name: str
    extra: Mapping[str, Any]


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file."""
    return Source(path, partial(read, path, options.keys), maps_keys=True, is_arrays=True)


def is_pymatgen(path: str) -> bool:
    """True if a file has pymatgen structures as JSON; False also if it cannot be read."""
    try:
        with opened_text(path, "replace") as text:
            head = text.read(_HINT_HEAD)
    except (AtompackError, OSError, EOFError, ValueError):
        return False  # the reader chosen next reports the problem
    except Exception:  # errors of compressions
        return False
    return head.lstrip()[:1] in ("{", "[") and bool(_FRAMES.match(head) or _HINT.search(head))


def read(path: str, keys: Mapping[str, str], report: Report) -> Iterator[Columns]:
    """Yields the structures in blocks, in order, as float64.

    Memory holds one entry (of relaxations of Alexandria: one relaxation) and a block.

    Args:
        path: the file.
        keys: key of an entry, or ``KEY.PART`` of an object in it → a label, or a property, with its
            scope (``atom_properties/q``) where the shape is ambiguous. Their values stay as they
            are, whatever the set.
        report: receives the interpretation of keys, and structures that are refused.

    Yields:
        Blocks of structures.

    Raises:
        CorruptFileError: the file is damaged, or an entry is no structure.
        UnsupportedFormatError: a site has fractional occupancies.
        FieldError: a key occurs in no entry.
    """
    for columns in blocks(_parts(path, keys, report), _BLOCK_STRUCTURES):
        n_atoms = np.diff(columns.ptr)
        yield columns._replace(fields=[stack(column, n_atoms) for column in columns.fields])


def _parts(path: str, keys: Mapping[str, str], report: Report) -> Iterator[Parts]:
    reader = EntryReader(keys, report)
    with JsonStream(path) as stream:
        for number, entry in enumerate(_entries(stream, report)):
            try:
                made = reader.parts(entry.value, entry.name, entry.extra)
            except AtompackError as error:
                what = f" of {entry.name!r}" if entry.name else ""
                fault = type(error)(f"{path}: {error} (molecule {number}{what})")
                fault.__cause__ = error
                report.refuse(fault)
                continue
            yield made
    reader.names.check_all_found(path, "no entry has a value")


def _entries(stream: JsonStream, report: Report) -> Iterator[_Entry]:
    """Yields the entries of a file of any layout."""
    head = stream.head(_HEAD)
    if stream.peek() == "[":
        for value in stream.items():
            yield from _steps(value, "", report)
    elif _FRAMES.match(head):
        for material in stream.keys():
            if stream.peek() != "{":
                raise stream.fault(f"expected frames of {material!r}, got {stream.peek()!r}")
            for frame in stream.keys():
                yield _Entry(stream.value(), frame, {"mp_id": material})
    elif _KEYED_LISTS.match(head):
        document: dict[str, Any] = {}
        for material in stream.keys():
            if stream.peek() != "[":
                document[material] = stream.value()
                continue
            name = "" if material == "entries" else material
            for value in stream.items():
                if material in document or not _may_be_entry(value):
                    document.setdefault(material, []).append(value)
                    if len(document[material]) > _MAX_PARTS:
                        raise stream.fault(f"expected entries in {material!r:.40}, got others")
                else:
                    yield from _steps(value, name, report)
        if located(document):
            yield _Entry(document, "", {})
            return
        for material, values in document.items():
            if isinstance(values, list):
                for value in values:
                    yield _Entry(value, material, {})
            elif not is_empty(values):
                report.skip(f"key {material!r}", "of the whole file")
    else:
        while stream.peek():
            yield from _steps(stream.value(), "", report)
    if stream.peek():
        raise stream.fault(f"expected the end of the file, got {stream.peek()!r}")


def _may_be_entry(value: Any) -> bool:
    """True unless an object of a list is part of one structure, such as a site."""
    return not isinstance(value, dict) or not _ENTRY_KEYS.isdisjoint(value)


def _steps(value: Any, name: str, report: Report) -> Iterator[_Entry]:
    """Yields an entry, or the steps of a relaxation."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        yield _Entry(value, name, {})
        return
    for key, lost in value.items():
        if key not in ("steps", "functional") and not is_empty(lost):
            report.skip(f"key {key!r} of a relaxation", "of all its steps")
    extra = {"material": name, "functional": value.get("functional")}
    for i, step in enumerate(value["steps"]):
        yield _Entry(step, f"{name}-{i}" if name else "", {**extra, "step": i})
