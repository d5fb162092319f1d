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

import bz2
import contextlib
import gzip
import io
import itertools
import json
import lzma
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TextIO, cast

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array, Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion.keys import ELEMENTS, SourceNames, field_of
from atompack_torch.conversion.sources.public_sets import (
    ENTRY_SETS,
    PublicSet,
    public_set,
    stress_from_vasp,
    warn_of_stress,
)
from atompack_torch.conversion.sources.values import label_shape, levels_of
from atompack_torch.errors import AtompackError, CorruptFileError, UnsupportedFormatError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    MOLECULE_PROPERTY,
    check_targets,
    is_of_molecule,
    prefixed_id,
)
from atompack_torch.formats.conversion_report import Report, described
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import blocks, stress_of_six

_BLOCK_STRUCTURES, _SAMPLE = 1024, 32
_HEAD = 4096
_HINT_HEAD = 1 << 16
_MAX_PARTS = 1 << 20  # such as sites, of a structure that is read as one value
_ENTRY_KEYS = {"structure", "steps", "energy", "entry_id", "composition", "lattice"}
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
STRUCTURE = ("lattice", "sites")
# Keys of an entry that hold no values: names of classes, and the structure itself.
_IGNORED = frozenset(("@module", "@class", "structure"))
_LATTICE = _IGNORED | {"matrix", "pbc", "a", "b", "c", "alpha", "beta", "gamma", "volume"}
_SITE = _IGNORED | {"name", "label", "species", "xyz", "abc", "properties"}
_SPECIES = ("element", "occu", "properties")
_OCCUPANCY_TOLERANCE = 1e-8
MAX_VALUE_CHARACTERS = 1 << 26
_CHUNK = 1 << 20
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
_SPACE = re.compile(r"[ \t\r\n]*")
_TOKEN_CHARACTERS = 16  # longest token that is cut at the end of the text: -Infinity, \uXXXX


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
    """True if a file has pymatgen structures as JSON; also False if it cannot be read."""
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
        CorruptFileError: the file is damaged, or an entry is not a structure.
        UnsupportedFormatError: a site has fractional occupancies.
        FieldError: a key occurs in no entry.
    """
    yield from blocks(_parts(path, keys, report), _BLOCK_STRUCTURES)


def _parts(path: str, keys: Mapping[str, str], report: Report) -> Iterator[Parts]:
    reader = EntryReader(keys, report, _levels(path, keys))
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


def _levels(path: str, keys: Mapping[str, str]) -> dict[str, bool]:
    """Returns the levels of properties in the first entries; none if the file is damaged there."""
    with contextlib.suppress(AtompackError), JsonStream(path) as stream:
        entries = itertools.islice(_entries(stream, Report()), _SAMPLE)
        return levels_of(partial(EntryReader(keys, Report(), {}).parts, *one) for one in entries)
    return {}


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


class EntryReader:
    """Converts the entries of one file.

    Args:
        keys: key of an entry, or ``KEY.PART`` of an object in it → label or property.
        report: receives the interpretation of keys, and values that are omitted.
        levels: name of a property → True if it is of atoms; others are if they have a row for each.
    """

    def __init__(self, keys: Mapping[str, str], report: Report, levels: Mapping[str, bool]) -> None:
        check_targets(keys)
        self._keys, self._report = keys, report
        self.names = SourceNames(keys, report)
        self._levels = levels

    def parts(self, entry: Any, name: str, extra: Mapping[str, Any]) -> Parts:
        """Converts an entry.

        Args:
            entry: the entry, as parsed.
            name: its key in the file; empty if it has none.
            extra: values of the object around it.

        Returns:
            The structure.

        Raises:
            CorruptFileError: it is not a structure, or a label does not fit it.
            UnsupportedFormatError: a site has fractional occupancies.
        """
        found = located(entry)
        if found is None:
            raise CorruptFileError("expected an entry with a structure, got another value")
        entry, outer = found
        structure = entry["structure"]
        made = _structure(structure)
        values = {**extra, **entry}
        for around in (extra, outer):
            self._add(values, around, "around the entry")
        known = public_set(values, ENTRY_SETS)
        assert known is not None  # the last set needs a structure only
        self._report.note(f"read as {known.title}: {known.units}".removesuffix(": "))
        if isinstance(entry.get("data"), dict):
            self._add(values, values.pop("data"), "of 'data'")
        self._add(values, dict(_rest(structure)), "of the structure")
        own = _site_properties(structure["sites"], self._report)
        self._add(values, own, "of the structure")
        for key in structure.get("lattice") or ():
            if key not in _LATTICE:
                self._report.skip(f"key {key!r} of the lattice", "it is neither vectors nor pbc")
        if name:
            made.labels["name"] = name
        for key in self._keys:
            if key not in values and (found := _part(values, key)) is not None:
                values[key] = found
        for key, value in values.items():
            if key == "@version":
                self._report.skip(f"key {key!r}", "of the program that wrote the file")
            elif key not in _IGNORED and not is_empty(value):
                self._put(made, known, key, value)
        return made

    def _add(self, values: dict[str, Any], more: Mapping[str, Any], where: str) -> None:
        """Adds values to those of an entry, which take precedence."""
        for key, value in more.items():
            found = values.setdefault(key, value)
            if found is not value and found != value and not is_empty(value):
                self._report.skip(f"key {key!r} {where}", "the entry has another value")

    def _put(self, made: Parts, known: PublicSet, key: str, value: Any) -> None:
        name = self.names.here(key, known.names.get(key, key), "key")
        if name is None:
            return
        if key in known.derived and key not in self._keys:
            self._report.skip(f"key {key!r}", "it follows from the structure")
            return
        target = field_of(name, MOLECULE_PROPERTY)
        if target.scope == BUILTIN:
            self._put_label(made, known, key, target.key, value)
            return
        plain = _plain(value)
        if plain is None:
            what = (
                "an object: key_map can name its parts, KEY.PART" if isinstance(value, dict) else ""
            )
            self._report.skip(f"key {key!r}", what or "no string, number or array of numbers")
            return
        scope = target.scope
        is_open = prefixed_id(name) is None and not is_of_molecule(name, np.shape(plain))
        if is_open and isinstance(plain, np.ndarray) and plain.ndim:
            has_rows = len(plain) == len(made.positions) and self._levels.get(target.key, True)
            scope = ATOM_PROPERTY if has_rows else MOLECULE_PROPERTY
        if scope == ATOM_PROPERTY:
            if np.shape(plain)[:1] != (len(made.positions),):
                self._report.skip(f"key {key!r}", "expected a row for each atom, got others")
                return
            made.atom_properties[target.key] = plain
        else:
            made.properties[target.key] = plain

    def _put_label(self, made: Parts, known: PublicSet, key: str, label: str, value: Any) -> None:
        if label == "name":
            made.labels[label] = str(value)
            self._report.origin(label, key)
            return
        shape, array = label_shape(label, len(made.positions)), _floats(value)
        if label == "stress" and array is not None and array.shape == (6,):
            is_voigt = bool(known.units) and key not in self._keys
            array = stress_of_six(array, self._report, is_voigt=is_voigt)
        if array is None or array.shape != shape:
            got = "other values" if array is None else array.shape
            raise CorruptFileError(f"{key}: expected {shape} numbers, got {got}")
        if label == "stress" and key not in self._keys:
            if known.stress == "vasp":
                array = stress_from_vasp(array, self._report, key)
            else:
                warn_of_stress(known.title, key, self._report)
        self._report.origin(label, key)
        made.labels[label] = array


def is_empty(value: Any) -> bool:
    """True for null, and for a list or an object without members."""
    return value is None or value in ([], {})


def located(entry: Any, depth: int = 3) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Finds the structure of a document.

    Args:
        entry: a structure, an entry with one, or a document in which one object has one, such as
            ``output`` of a calculation, whose values then come to those of the document.
        depth: levels of objects to look at.

    Returns:
        The values of the entry, with the structure under ``structure``, and those of the objects
        around it; None if there is no structure.

    Raises:
        CorruptFileError: several objects have structures, and none of them is the output.
    """
    if not isinstance(entry, dict):
        return None
    if all(key in entry for key in STRUCTURE):
        return {"structure": entry}, {}
    if isinstance(entry.get("structure"), dict):
        return entry, {}
    parts = {key: found for key in entry if depth and (found := located(entry[key], depth - 1))}
    if len(parts) > 1 and "output" not in parts:
        raise CorruptFileError(f"expected one structure, got several: {', '.join(parts):.200}")
    if not parts:
        return None
    key = "output" if "output" in parts else next(iter(parts))
    around = {name: value for name, value in entry.items() if name != key}
    values, outer = parts[key]
    return around | values, around | outer


def _structure(structure: Mapping[str, Any]) -> Parts:
    """Converts a structure without its properties."""
    sites = structure.get("sites")
    lattice = structure.get("lattice")
    if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
        raise CorruptFileError("structure: expected a list of sites, got none")
    labels: dict[str, Any] = {}
    matrix = None
    if lattice is not None:
        if not isinstance(lattice, dict):
            raise CorruptFileError(f"lattice: expected an object, got {lattice!r:.40}")
        matrix = _floats(lattice.get("matrix"))
        if matrix is None or matrix.shape != (3, 3) or np.isnan(matrix).any():
            raise CorruptFileError("lattice: expected a matrix of 3 x 3 numbers, got none")
        pbc = lattice.get("pbc", [True] * 3)
        if not isinstance(pbc, list) or len(pbc) != 3 or not all(type(p) is bool for p in pbc):
            raise CorruptFileError(f"lattice: expected three booleans pbc, got {pbc!r:.40}")
        labels = {"cell": matrix, "pbc": np.array(pbc)}
    numbers = _numbers(sites)
    return Parts(_positions(sites, matrix), numbers, labels, {}, {})


def _numbers(sites: list[dict[str, Any]]) -> Array:
    """Returns the atomic numbers of the sites."""
    with contextlib.suppress(KeyError, TypeError):  # the loop below names the faulty site
        species = [site["species"] for site in sites]
        if all(len(one) == 1 and one[0]["occu"] == 1 for one in species):
            return np.array([ELEMENTS[one[0]["element"]] for one in species], dtype=np.uint8)
    return np.array([_number(i, site) for i, site in enumerate(sites)], dtype=np.uint8)


def _positions(sites: list[dict[str, Any]], matrix: Array | None) -> Array:
    places = _floats([site.get("xyz") for site in sites])
    if places is not None and places.shape == (len(sites), 3) and not np.isnan(places).any():
        return places
    fractions = _floats([site.get("abc") for site in sites])
    if not sites:
        return np.zeros((0, 3))
    is_whole = fractions is not None and fractions.shape == (len(sites), 3)
    if matrix is None or fractions is None or not is_whole or np.isnan(fractions).any():
        raise CorruptFileError("sites: expected three numbers xyz or abc for each, got others")
    return fractions @ matrix


def _number(i: int, site: Mapping[str, Any]) -> int:
    """Returns the atomic number of a site."""
    species = site.get("species")
    if not isinstance(species, list) or not all(isinstance(one, dict) for one in species):
        raise CorruptFileError(f"site {i}: expected species, got {species!r:.40}")
    occupancies = [one.get("occu", 1) for one in species]
    if len(species) != 1 or not _is_one(occupancies[0]):
        pairs = zip(species, occupancies, strict=True)
        shown = ", ".join(f"{one.get('element')} {occupancy}" for one, occupancy in pairs)
        raise UnsupportedFormatError(
            f"site {i}: expected one atom, got fractional occupancies: {shown:.80}"
        )
    element = species[0].get("element")
    if element not in ELEMENTS:
        raise CorruptFileError(f"site {i}: expected the symbol of an element, got {element!r:.40}")
    return ELEMENTS[element]


def _is_one(occupancy: Any) -> bool:
    return isinstance(occupancy, (int, float)) and abs(occupancy - 1) < _OCCUPANCY_TOLERANCE


def _rest(structure: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the values of a structure as a whole, such as its charge."""
    for key, value in structure.items():
        if key == "properties" and isinstance(value, dict):
            yield from value.items()
        elif key not in STRUCTURE and key not in _IGNORED:
            yield key, value


def _site_properties(sites: list[dict[str, Any]], report: Report) -> dict[str, list[Any]]:
    """Returns the properties of sites and their species, a list of all sites for each.

    Sites without one have None. Labels that only repeat the element are not a property
    """
    found: dict[str, list[Any]] = {}
    for i, site in enumerate(sites):
        species = site["species"][0]
        own = {key: value for key, value in species.items() if key not in _SPECIES}
        if site.get("label") not in (None, species["element"]):
            own["label"] = site["label"]
        lost = [key for key in site if key not in _SITE and not is_empty(site[key])]
        for properties in (species.get("properties"), site.get("properties")):
            if isinstance(properties, dict):
                for key, value in own.items():
                    if properties.get(key, value) != value:
                        report.skip(f"key {key!r} of a species", "a property has another value")
                own |= properties
            elif not is_empty(properties):
                lost.append("properties")
        for key in lost:
            report.skip(f"key {key!r} of a site", "no value that a site has")
        for key, value in own.items():
            if value is not None:
                found.setdefault(key, [None] * len(sites))[i] = value
    return found


def _part(values: Mapping[str, Any], key: str) -> Any:
    """Returns the value at ``KEY.PART`` of nested objects; None if missing."""
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _decoded(value: Any) -> Any:
    """Returns the numbers of arrays that monty encodes as objects; other values as they are."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_decoded(one) for one in value]
    is_array = isinstance(value, dict) and value.get("@class") in ("array", "Tensor")
    if not is_array or str(value.get("dtype", "")).startswith("complex"):
        return value
    return value.get("data")


def _floats(value: Any) -> Array | None:
    """Converts nested lists to float64, null to NaN; None if they are not numbers of one shape."""
    value = _decoded(value)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(value, (str, bool)) or value is None else array


def _plain(value: Any) -> Any:
    """Converts a value to a string or an array; None if a property cannot hold all of it."""
    value = _decoded(value)
    if isinstance(value, str):
        return value
    if not isinstance(value, (bool, int, float, list)) or value == []:
        return None
    try:
        array: Array | None = np.array(value)
    except (ValueError, OverflowError):
        return None
    if array is not None and array.dtype.kind == "O":  # null among numbers
        array = _floats(value)
    if array is None or array.dtype.kind not in "bif":
        return None
    if array.dtype.kind == "f" and (np.abs(array) >= 2**53).any():  # integers may be rounded
        exact = np.array(value, dtype=object)
        return array if ((exact == array) | np.isnan(array)).all() else None
    return array


def opened_text(path: str, errors: str = "strict") -> TextIO:
    """Opens a text, which may be compressed by gzip, bzip2 or xz.

    Args:
        path: the file.
        errors: treatment of bytes that are no UTF-8, as in ``open``.

    Returns:
        The text, UTF-8.

    Raises:
        UnsupportedFormatError: it is not a regular file.
        OSError: it cannot be opened.
    """
    check_regular_file(path)
    with Path(path).open("rb") as file:
        head = file.read(8)
    opener = next((known for magic, known in _OPENERS if head.startswith(magic)), open)
    stream = cast("IO[bytes]", opener(path, "rb"))
    return io.TextIOWrapper(stream, encoding="utf-8", errors=errors, newline="")


class JsonStream:
    """Values of a JSON text in order; a context manager.

    Args:
        path: the file, plain or compressed.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = opened_text(path)
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._before = "", 0, 0
        self._is_end = False

    def __enter__(self) -> JsonStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def head(self, n: int) -> str:
        """Returns up to ``n`` of the next characters, without moving on."""
        while len(self._text) - self._at < n and not self._is_end:
            self._fill()
        return self._text[self._at : self._at + n]

    def peek(self) -> str:
        """Returns the next character that is not a space, without moving on; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._at = match.end()
            if self._at < len(self._text) or self._is_end:
                return self._text[self._at : self._at + 1]
            self._fill()

    def skip(self, expected: str) -> None:
        """Moves past a character.

        Args:
            expected: the character.

        Raises:
            CorruptFileError: another follows.
        """
        got = self.peek()
        if got != expected:
            raise self.fault(f"expected {expected!r}, got {got!r}" if got else self._missing())
        self._at += 1

    def value(self) -> Any:
        """Reads the next value.

        Returns:
            The value.

        Raises:
            CorruptFileError: it is no JSON, is cut, or is larger than any molecule.
        """
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_end or not self._may_be_cut(error):
                    at = self._before + error.pos
                    text = self._missing() if self._may_be_cut(error) else error.msg
                    raise self.fault(text, at) from None
            except (ValueError, RecursionError) as error:  # numbers or nesting beyond limits
                raise self.fault(described(error)) from None
            else:
                if end < len(self._text) or self._is_end:
                    self._at = end
                    return value
            if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
                raise self.fault(f"expected values of at most {MAX_VALUE_CHARACTERS} characters")
            self._fill()

    def keys(self) -> Iterator[str]:
        """Yields the keys of an object; the caller reads the value of each.

        Yields:
            The keys.

        Raises:
            CorruptFileError: the object is damaged.
        """
        self.skip("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise self.fault(f"expected a key, got {key!r:.40}")
            self.skip(":")
            yield key
            if self.peek() != "}":
                self.skip(",")
        self.skip("}")

    def items(self) -> Iterator[Any]:
        """Yields the values of an array.

        Yields:
            The values.

        Raises:
            CorruptFileError: the array is damaged.
        """
        self.skip("[")
        while self.peek() != "]":
            yield self.value()
            if self.peek() != "]":
                self.skip(",")
        self.skip("]")

    def fault(self, text: str, at: int | None = None) -> CorruptFileError:
        """Builds an error.

        Args:
            text: the fault.
            at: character where it is; None: the next one.

        Returns:
            The error, to be raised.
        """
        where = self._before + self._at if at is None else at
        return CorruptFileError(f"{self._path}: JSON: {text} (character {where})")

    def _missing(self) -> str:
        return "expected the rest of a value, got the end of the file"

    def _may_be_cut(self, error: json.JSONDecodeError) -> bool:
        is_near_end = error.pos >= len(self._text) - _TOKEN_CHARACTERS
        return is_near_end or error.msg.startswith("Unterminated string")

    def _fill(self) -> None:
        """Reads more, as much as has already arrived, so that long values take few attempts."""
        rest = self._text[self._at :]
        try:
            more = self._stream.read(max(_CHUNK, len(rest)))
        except UnicodeDecodeError:
            raise CorruptFileError(f"{self._path}: expected UTF-8, got other bytes") from None
        except Exception as error:  # each compression has its own errors
            raise CorruptFileError(f"{self._path}: {described(error)}") from error
        self._is_end = not more
        self._before += self._at
        self._text, self._at = rest + more, 0
