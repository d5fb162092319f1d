"""Hypothesis strategies for the contents of .atp files, as plain dicts that atompack-db takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference.names import BUILTINS

CODECS = ("none", "lz4", "zstd")
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1e-45, 1.0, -1.5, 1e300)
# What record format 2 holds; anything else makes a new file one of format 3.
USUAL = {"positions": "f4", "energy": "f8", "forces": "f4", "velocities": "f4", "charges": "f8"}
USUAL |= {"cell": "f8", "stress": "f8", "pbc": "f8", "name": "f8"}
USUAL |= {key: "f8" for key, builtin in BUILTINS.items() if builtin.is_property}
FLOATS = tuple(k for k, b in BUILTINS.items() if b.kind == "real" and b[:2] != ("molecule", ()))
WIDTHS = {"f4": "f8", "f8": "f4", "i4": "i8", "i8": "i4"}

# Names that clash with fields, methods, aliases and the other scope, and names that are odd.
ODD_KEYS: tuple[str, ...] = (
    "q",
    "r",
    "",
    "é中",
    "a\0b",
    "energy",
    "forces",
    "batch",
    "to",
    "keys",
    "pos",
    "z",
)
ODD_KEYS += ("natoms", "name", "ptr", "index", "features", "k" * 255, "a b", "_x", "class")

FLOAT_SHAPES = ((2, 2), (1, 4), (0, 2), (2, 0, 1), (1, 3, 3), (2, 3, 1, 2))
FLOAT_SUFFIXES = ((2,), (1,), (0,), (3, 3), (1, 2))


@dataclass(frozen=True)
class Kind:
    """What the values of one custom property look like, everywhere in a file.

    Attributes:
        form: float, int, str, none, array, vectors or tensor.
        dtype: of the array forms.
        shapes: whole shapes in molecule scope, suffixes in atom scope; several make it ragged.
    """

    form: str
    dtype: str = "f8"
    shapes: tuple[tuple[int, ...], ...] = ((),)


@dataclass(frozen=True)
class Recipe:
    """The fields of one file and their types."""

    positions: str = "f4"
    builtins: dict[str, str] = field(default_factory=dict)
    molecule: dict[str, Kind] = field(default_factory=dict)
    atom: dict[str, Kind] = field(default_factory=dict)


def keys() -> st.SearchStrategy[str]:
    """Custom keys. "stress" is the one key that the original refuses."""
    text = st.text(st.characters(codec="utf-8"), max_size=5)
    return st.one_of(
        st.sampled_from(ODD_KEYS), text.filter(lambda k: k != "stress" and "/" not in k)
    )


@st.composite
def molecule_kinds(draw: st.DrawFn) -> Kind:
    """A type of molecule scope."""
    form = draw(st.sampled_from(("float", "int", "str", "none", "array", "vectors", "tensor")))
    if form == "array":
        k = draw(st.integers(0, 3))
        return Kind(form, draw(st.sampled_from(("f4", "f8", "i4", "i8"))), ((k,),))
    if form == "vectors":
        return Kind(form, draw(st.sampled_from(("f4", "f8"))), ((draw(st.integers(0, 2)), 3),))
    if form == "tensor":
        dtype = draw(st.sampled_from(("f4", "f8", "i4", "i8")))
        shapes = st.sampled_from(FLOAT_SHAPES if dtype[0] == "f" else (*FLOAT_SHAPES, (2, 3)))
        return Kind(form, dtype, tuple(draw(st.lists(shapes, min_size=1, max_size=2))))
    return Kind(form)


@st.composite
def atom_kinds(draw: st.DrawFn) -> Kind:
    """A type of atom scope; ``shapes`` are what follows the atom count."""
    form = draw(st.sampled_from(("array", "vectors", "tensor")))
    if form == "array":
        return Kind(form, draw(st.sampled_from(("f4", "f8", "i4", "i8"))), ((),))
    if form == "vectors":
        return Kind(form, draw(st.sampled_from(("f4", "f8"))), ((3,),))
    dtype = draw(st.sampled_from(("f4", "f8", "i4", "i8")))
    shapes = st.sampled_from(FLOAT_SUFFIXES if dtype[0] == "f" else (*FLOAT_SUFFIXES, (3,)))
    return Kind(form, dtype, tuple(draw(st.lists(shapes, min_size=1, max_size=2))))


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """The fields of a file."""
    widths = st.sampled_from(("f4", "f8"))
    builtins = draw(st.dictionaries(st.sampled_from(FLOATS), widths, max_size=5))
    for name in sorted(draw(st.sets(st.sampled_from(("energy", "pbc", "name"))))):
        builtins[name] = "f8"
    return Recipe(
        draw(widths),
        builtins,
        draw(st.dictionaries(keys(), molecule_kinds(), max_size=4)),
        draw(st.dictionaries(keys(), atom_kinds(), max_size=3)),
    )


@st.composite
def other_widths(draw: st.DrawFn, recipe: Recipe) -> Recipe:
    """The same fields, or some of them, some in the other width."""

    def kinds(held: dict[str, Kind]) -> dict[str, Kind]:
        kept = {k: v for k, v in held.items() if draw(st.booleans())}
        return {
            k: Kind(v.form, WIDTHS[v.dtype] if draw(st.booleans()) else v.dtype, v.shapes)
            for k, v in kept.items()
        }

    builtins = {k: draw(st.sampled_from((v, WIDTHS[v]))) for k, v in recipe.builtins.items()}
    positions = draw(st.sampled_from(("f4", "f8")))
    return Recipe(positions, builtins, kinds(recipe.molecule), kinds(recipe.atom))


def commits(recipe: Recipe, n_molecules: int) -> st.SearchStrategy[list[int]]:
    """Where to flush in between. The first molecules settle a file's record format for good."""
    unusual = any(dtype != USUAL[name] for name, dtype in recipe.builtins.items())
    if unusual and recipe.positions == USUAL["positions"]:
        return st.just([])
    return st.lists(st.integers(0, n_molecules), max_size=1)


@st.composite
def contents(draw: st.DrawFn, recipe: Recipe, max_molecules: int = 6) -> list[dict[str, Any]]:
    """Molecules for one file; every field is present or absent molecule by molecule."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, max_molecules))
    present = draw(st.sampled_from((1.0, 0.7, 0.3)))
    return [molecule(rng, recipe, n, present) for n in rng.integers(0, 9, count)]


def molecule(
    rng: np.random.Generator, recipe: Recipe, n_atoms: int, present: float = 1.0
) -> dict[str, Any]:
    """One molecule with each field there with a certain probability."""
    plain: dict[str, Any] = {
        "positions": array(rng, recipe.positions, (n_atoms, 3)),
        "atomic_numbers": rng.integers(0, 256, n_atoms).astype("u1"),
        "properties": {},
        "atom_properties": {},
    }
    for name, dtype in recipe.builtins.items():
        if rng.random() < present:
            plain[name] = _builtin(rng, name, dtype, n_atoms)
    for key, kind in recipe.molecule.items():
        if rng.random() < present:
            plain["properties"][key] = _molecule_value(rng, kind)
    for key, kind in recipe.atom.items():
        # One record may hold a key in one scope only; other records may have it in the other.
        if rng.random() < present and key not in plain["properties"]:
            suffix = kind.shapes[rng.integers(len(kind.shapes))]
            plain["atom_properties"][key] = array(rng, kind.dtype, (n_atoms, *suffix))
    return plain


def _builtin(rng: np.random.Generator, name: str, dtype: str, n_atoms: int) -> Any:
    if name == "pbc":
        return tuple(bool(x) for x in rng.integers(0, 2, 3))
    if name == "name":
        return _text(rng)
    if name == "energy":
        return float(array(rng, "f8", (1,))[0])
    row = BUILTINS[name].shape
    return array(rng, dtype, (n_atoms, *row) if BUILTINS[name].level == "atom" else row)


def _molecule_value(rng: np.random.Generator, kind: Kind) -> Any:
    if kind.form == "float":
        return float(array(rng, "f8", (1,))[0])
    if kind.form == "int":
        return int(array(rng, "i8", (1,))[0])
    if kind.form == "str":
        return _text(rng)
    if kind.form == "none":
        return None
    return array(rng, kind.dtype, kind.shapes[rng.integers(len(kind.shapes))])


def _text(rng: np.random.Generator) -> str:
    return str(rng.choice(["", "x", "grüße", "\U0001f9ea", "a\0b", "long " * 40]))


def array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any bit pattern: special floats, NaNs with payloads, extremes."""
    count = int(np.prod(shape, dtype=int))
    raw = np.frombuffer(rng.bytes(count * int(dtype[1])), "<" + dtype).copy()
    if dtype[0] == "f":
        with np.errstate(over="ignore", under="ignore"):
            usual = rng.normal(size=count).astype(dtype)
            special = rng.choice(SPECIAL, count).astype(dtype)
        which = rng.integers(0, 4, count)
        raw = np.where(which == 0, raw, np.where(which == 1, special, usual))
    return raw.reshape(shape)
