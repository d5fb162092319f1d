"""Property tests: batches of random files equal a slow reference, bit for bit.

atompack-db writes the files (all codecs, every property type, labels here and there), the
reference of ``tests/reference`` reads them again by itself and collates with plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.client import AtompackProcess
from reference import strategies
from reference.atp_file import AtpFile
from reference.collate import FieldClashError, ReferenceDataset
from reference.compare import assert_batch, assert_molecule, assert_same
from reference.names import reserved_names

import atompack_torch as apt

NewPath = Callable[[], Path]
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass
class Written:
    """Files written by the original, and the reference's view of them."""

    paths: list[Path]
    reference: ReferenceDataset

    @property
    def path(self) -> Path | list[Path]:
        """What an AtpDataset takes."""
        return self.paths[0] if len(self.paths) == 1 else self.paths

    def indices(self, data: st.DataObject) -> list[int]:
        """Any indices, with repeats, in any order, negative ones too."""
        n = len(self.reference)
        return data.draw(st.lists(st.integers(-n, n - 1), max_size=12)) if n else []


@pytest.fixture(scope="module")
def write(atompack: AtompackProcess, new_path: NewPath) -> Callable[..., Written]:
    """Draws the contents of some files and writes them."""

    def write_drawn(data: st.DataObject, n_files: int = 1) -> Written:
        recipe = data.draw(strategies.recipes())
        paths = []
        for f in range(n_files):
            own = recipe if f == 0 else data.draw(strategies.other_widths(recipe))
            molecules = data.draw(strategies.contents(own))
            commits = data.draw(strategies.commits(own, len(molecules)))
            codec = data.draw(st.sampled_from(strategies.CODECS))
            paths.append(atompack.write(new_path(), molecules, codec, commits=commits))
        return Written(paths, reference_of(paths))

    return write_drawn


def reference_of(paths: Sequence[Path]) -> ReferenceDataset:
    """The reference's reading of some files."""
    return ReferenceDataset([AtpFile.open(p) for p in paths], reserved_names())


@settings(max_examples=40)
@given(data=st.data())
def test_batch(write: Callable[..., Written], data: st.DataObject) -> None:
    written = write(data)
    dataset = apt.AtpDataset(written.path, num_threads=data.draw(st.sampled_from((None, 1, 2))))
    assert len(dataset) == len(written.reference)
    for _ in range(2):
        indices = written.indices(data)
        assert_batch(dataset.batch(indices), written.reference.batch(indices))


@settings(max_examples=40)
@given(data=st.data())
def test_molecules(write: Callable[..., Written], data: st.DataObject) -> None:
    written = write(data)
    dataset = apt.AtpDataset(written.path)
    for i in range(len(dataset)):
        assert_molecule(dataset[i], written.reference.molecule(i), apt.CorruptFileError)
    sizes = [written.reference.molecule(i).n_atoms for i in range(len(dataset))]
    assert_same(dataset.n_atoms, torch.tensor(sizes, dtype=torch.int64), "n_atoms")


@settings(max_examples=40)
@given(data=st.data())
def test_several_files(write: Callable[..., Written], data: st.DataObject) -> None:
    """Keys are the union over the files; widths are those of the files a batch touches."""
    written = write(data, n_files=3)
    dataset = apt.AtpDataset(written.path)
    assert len(dataset) == len(written.reference)
    indices = written.indices(data)
    assert_batch(dataset.batch(indices), written.reference.batch(indices))


@settings(max_examples=40)
@given(data=st.data())
def test_fields_and_exclude(write: Callable[..., Written], data: st.DataObject) -> None:
    written = write(data)
    names = sorted({written.reference.public_name(n) for n in written.reference.fields()})
    some = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    fields = data.draw(st.none() | some)
    exclude = data.draw(some)
    dataset = apt.AtpDataset(written.path, fields=fields, exclude=exclude)
    indices = written.indices(data)
    want = written.reference.batch(indices, fields=fields, exclude=exclude)
    assert_batch(dataset.batch(indices), want)


@settings(max_examples=40)
@given(data=st.data())
def test_one_dtype(write: Callable[..., Written], data: st.DataObject) -> None:
    """One dtype casts every floating field but the energy."""
    written = write(data)
    dtype = data.draw(st.sampled_from(FLOATS))
    indices = written.indices(data)
    batch = apt.AtpDataset(written.path, dtype=dtype).batch(indices)
    assert_batch(batch, written.reference.batch(indices, dtype=dtype), nan_bits=False)
    if "energy" in batch.keys():
        assert batch.energy.dtype == torch.float64


@settings(max_examples=40)
@given(data=st.data())
def test_dtype_by_field(write: Callable[..., Written], data: st.DataObject) -> None:
    """A dict casts what it names, energy too."""
    written = write(data)
    plain = written.reference.batch([])
    floating = [k for k, v in plain.values.items() if _is_floating(v)]
    dtype = data.draw(st.dictionaries(st.sampled_from(floating), st.sampled_from(FLOATS)))
    indices = written.indices(data)
    batch = apt.AtpDataset(written.path, dtype=dtype).batch(indices)
    assert_batch(batch, written.reference.batch(indices, dtype=dtype), nan_bits=False)


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


@settings(max_examples=40)
@given(data=st.data())
def test_missing(write: Callable[..., Written], data: st.DataObject) -> None:
    """``error`` raises, ``drop`` leaves the molecules out; both judge the chosen fields."""
    written = write(data)
    names = sorted({written.reference.public_name(n) for n in written.reference.fields()})
    some = st.lists(st.sampled_from(names), unique=True, max_size=2) if names else st.just([])
    fields = data.draw(st.none() | some)
    indices = written.indices(data)
    dropped = written.reference.batch(indices, fields=fields, missing="drop")
    dataset = apt.AtpDataset(written.path, fields=fields, missing="drop")
    assert_batch(dataset.batch(indices), dropped)

    strict = apt.AtpDataset(written.path, fields=fields, missing="error")
    try:
        want = written.reference.batch(indices, fields=fields, missing="error")
    except FieldClashError:
        with pytest.raises(apt.FieldError, match=r"molecule \d+"):
            strict.batch(indices)
    else:
        assert_batch(strict.batch(indices), want)


@settings(max_examples=40)
@given(data=st.data())
def test_slices_and_subsets(write: Callable[..., Written], data: st.DataObject) -> None:
    written = write(data)
    n = len(written.reference)
    dataset = apt.AtpDataset(written.path)
    chosen = data.draw(st.slices(n))
    assert_batch(dataset[chosen], written.reference.batch(range(n)[chosen]))
    members = written.indices(data)
    subset = dataset.subset(members)
    assert len(subset) == len(members)
    want = written.reference.batch(members)
    assert_batch(subset.batch(range(len(members))), want)
    assert_batch(subset[:], want)
    assert_same(subset.n_atoms, want.values["n_atoms"], "n_atoms")
    for i, number in enumerate(members):
        expected = written.reference.molecule(number % n)
        assert_molecule(subset[i], expected, apt.CorruptFileError)


@settings(max_examples=30)
@given(data=st.data())
def test_jagged_and_masks_agree_with_molecules(
    write: Callable[..., Written], data: st.DataObject
) -> None:
    """Taking a batch apart gives the molecules that ``ds[i]`` gives."""
    written = write(data)
    dataset = apt.AtpDataset(written.path)
    indices = written.indices(data)
    batch = dataset.batch(indices)
    for b, i in enumerate(indices):
        molecule = written.reference.molecule(i)
        assert_molecule(batch[b], molecule, apt.CorruptFileError, of_batch=True)
        assert set(batch[b].keys()) == set(dataset[i].keys())


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_large_batch_on_several_threads(
    atompack: AtompackProcess, new_path: NewPath, codec: str
) -> None:
    rng = np.random.default_rng(7)
    recipe = strategies.Recipe(
        "f4",
        {"energy": "f8", "forces": "f4", "cell": "f8", "pbc": "f8", "stress": "f8", "name": "f8"},
        {"gap": strategies.Kind("float"), "spectrum": strategies.Kind("tensor", "f4", ((3, 4),))},
        {"magmom": strategies.Kind("array", "f4")},
    )
    sizes = rng.integers(0, 120, 400)
    molecules = [strategies.molecule(rng, recipe, n, present=0.8) for n in sizes]
    path = atompack.write(new_path(), molecules, codec)
    reference = reference_of([path])
    indices = rng.integers(-400, 400, 1000)
    want = reference.batch(indices.tolist())
    for threads in (1, 2, 5):
        assert_batch(apt.AtpDataset(path, num_threads=threads).batch(indices), want)


def test_types_that_clash_between_files(atompack: AtompackProcess, new_path: NewPath) -> None:
    """One name, two kinds of value: fine as long as no batch needs both."""
    rng = np.random.default_rng(1)
    paths = []
    for value in (1.5, "text", 3, None):
        plain = strategies.molecule(rng, strategies.Recipe(), 2)
        paths.append(atompack.write(new_path(), [dict(plain, properties={"k": value})]))
    dataset, reference = apt.AtpDataset(paths), reference_of(paths)
    for i in range(4):
        assert_batch(dataset.batch([i, i]), reference.batch([i, i]))
    for pair in ([0, 1], [1, 0], [0, 2], [2, 0], [1, 3]):
        with pytest.raises(apt.FieldError, match="'k'"):
            dataset.batch(pair)
        without = apt.AtpDataset(paths, exclude=["k"])
        assert_batch(without.batch(pair), reference.batch(pair, exclude=["k"]))


def test_arrays_of_different_length(atompack: AtompackProcess, new_path: NewPath) -> None:
    rng = np.random.default_rng(1)
    paths = []
    for k in (2, 3):
        plain = strategies.molecule(rng, strategies.Recipe(), 2)
        values = {"a": rng.normal(size=k), "v": rng.normal(size=(k, 3)).astype("f4")}
        values["s"] = rng.normal(size=k) if k == 2 else 1.5
        paths.append(atompack.write(new_path(), [dict(plain, properties=values)]))
    dataset, reference = apt.AtpDataset(paths), reference_of(paths)
    jagged = dataset.batch([1, 0])
    assert_batch(jagged, reference.batch([1, 0]))
    assert [tuple(t.shape) for t in jagged["v"]] == [(3, 3), (2, 3)]
    assert dataset.batch([0, 0])["a"].shape == (2, 2)
    assert [tuple(t.shape) for t in jagged["s"]] == [(), (2,)]
    assert dataset.schema["a"].shape is None


def test_custom_names_that_clash(atompack: AtompackProcess, new_path: NewPath) -> None:
    """A canonical name always means the builtin; aliases yield to a custom key."""
    rng = np.random.default_rng(1)
    plain = strategies.molecule(rng, strategies.Recipe(builtins={"energy": "f8"}), 2)
    plain |= {"energy": -1.0}
    plain["properties"] = {"energy": 7.0, "to": 8.0, "z": 9.0, "free": 10.0}
    plain["properties"] |= {"properties/energy": 11.0}
    plain["atom_properties"] = {"forces": np.zeros(2), "pos": np.ones(2)}
    dataset = apt.AtpDataset(atompack.write(new_path(), [plain]))
    assert callable(dataset.batch([0]).to)
    for item in (dataset.batch([0]), dataset[0]):
        assert item["energy"].item() == item.energy.item() == -1.0
        assert item["properties/energy"].item() == 7.0
        assert item["properties/properties/energy"].item() == 11.0
        assert item["properties/to"].item() == 8.0
        assert item["z"].item() == item.z.item() == item["properties/z"].item() == 9.0
        assert item["free"].item() == item["properties/free"].item() == item.free.item() == 10.0
        assert item["atom_properties/forces"].tolist() == [0.0, 0.0]
        assert item["pos"].tolist() == item.pos.tolist() == [1.0, 1.0]
        assert item.natoms == item.n_atoms
        names = set(item.keys())
        assert {"energy", "properties/energy", "properties/to", "z", "free", "pos"} <= names
        assert not {"to", "forces", "natoms", "properties/z", "properties/free"} & names


def test_names_do_not_depend_on_what_is_selected(
    atompack: AtompackProcess, new_path: NewPath
) -> None:
    """A key of both scopes keeps its scope in front, as in ``schema``, even when read alone."""
    plain = strategies.molecule(np.random.default_rng(1), strategies.Recipe(), 2)
    first = dict(plain, properties={"q": 1.0})
    second = dict(plain, atom_properties={"q": np.ones(2)})
    path = atompack.write(new_path(), [first, second])
    names = {"properties/q", "atom_properties/q"}
    assert names <= set(apt.AtpDataset(path).schema)
    for name in names:
        other = (names - {name}).pop()
        for dataset in (
            apt.AtpDataset(path, fields=[name]),
            apt.AtpDataset(path, exclude=[other]),
        ):
            assert names & set(dataset.batch([0, 1]).keys()) == {name}
            present = [set(dataset[i].keys()) - {"positions", "atomic_numbers"} for i in (0, 1)]
            assert sorted(present, key=len) == [set(), {name}]
