"""build_cache: what is written is what was computed, read by us, h5py, PyTables and pickle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
import torch
from reference import cache_molecules
from reference.cache_file import (
    CACHE,
    FORCES,
    Contents,
    path_of,
    read_with_h5py,
    read_with_tables,
    unpickled,
)
from reference.cache_fixture import DERIVATIVES
from reference.cache_molecules import MULTI, descriptor
from reference.compare import assert_same

import atompack_torch as apt
from atompack_torch.batch.elements import SYMBOLS

NewPath = Callable[[], Path]
N = 43
CASES = [
    pytest.param(features, derivatives, dtype, species, id=f"{dtype}-{len(species)}-{name}")
    for features, derivatives, name in ((1, 0, "features"), (0, 1, "derivatives"), (1, 1, "both"))
    for dtype in ("float64", "float32")
    for species in (MULTI, ("H",))
]
cases = pytest.mark.parametrize(("features", "derivatives", "dtype", "species"), CASES)


def built(new_path: NewPath, n: int = N, labels: bool = True, **options: Any) -> Any:
    """A dataset and its cache's path."""
    species = options.pop("species", MULTI)
    dataset = apt.AtpDataset(cache_molecules.write(new_path(), n, species, labels))
    path = new_path().with_suffix(".h5")
    cache = apt.build_cache(dataset, descriptor(species), path, progress=False, **options)
    assert cache.path == path
    assert len(cache) == n
    return dataset, path


def plain(tensor: torch.Tensor, dtype: str) -> Any:
    array = tensor.numpy()
    return array.astype(dtype) if array.dtype.kind == "f" else array


def same(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.tobytes() == want.tobytes()


@cases
def test_rows_are_those_computed(
    new_path: NewPath, features: bool, derivatives: bool, dtype: Any, species: Any
) -> None:
    asked = {"features": bool(features), "force_derivatives": bool(derivatives), "dtype": dtype}
    dataset, path = built(new_path, species=species, **asked)
    found = read_with_h5py(path)
    assert found.same_as(read_with_tables(path))
    cache = apt.TorchCache(path)
    row = 0
    for k in range(N):
        made = descriptor(species).compute(dataset.batch([k]), derivatives=True)
        if features:
            want = plain(made.features, dtype)
            same(cache.load_features(k), want)
            assert found.features is not None
            same(found.features["values"][k], want.ravel())
        if derivatives and not bool(made.mask("forces")[0]):
            assert cache.load_force_derivatives(k) is None
        elif derivatives:
            rows = cache.load_force_derivatives(k)
            check_derivatives(found, row, made, dtype, rows)
            row += 1
    check_indexes(found, dataset)


def check_derivatives(found: Contents, row: int, made: Any, dtype: str, rows: Any) -> None:
    assert found.derivatives is not None
    for column in DERIVATIVES:
        stored = found.derivatives[column][row]
        if column not in made:  # one species
            assert column not in rows
            assert len(stored) == 0
            continue
        want = plain(made[column], dtype)
        same(rows[column], want)
        same(stored, want.ravel())


def check_indexes(found: Contents, dataset: Any) -> None:
    """Section 7 and 8: rows in entry order, and cache_row counts them."""
    batch = dataset.batch(range(N))
    n_atoms, forces = batch.n_atoms.numpy(), np.flatnonzero(batch.mask("forces").numpy())
    assert np.array_equal(found.meta["n_atoms"], n_atoms)
    assert np.array_equal(found.meta["has_forces"], batch.mask("forces").numpy())
    same(found.meta["energy"], batch.energy)
    for section, entries in ((found.features, np.arange(N)), (found.derivatives, forces)):
        if section is not None:
            assert section["cache_row"].tolist() == [*range(len(entries))]
            assert section["entry_idx"].tolist() == entries.tolist()
            assert section["n_atoms"].tolist() == n_atoms[entries].tolist()
    if found.derivatives is not None:
        for count, column in (("n_radial_edges", "radial"), ("n_angular_triplets", "angular")):
            lengths = [len(row) for row in found.derivatives[f"{column}_center_idx"]]
            assert found.derivatives[count].tolist() == lengths


KEYS = ["positions", "species", "energy", "forces", "cell", "pbc", "name"]


@pytest.mark.parametrize("labels", [True, False])
def test_structures_are_the_molecules(new_path: NewPath, labels: bool) -> None:
    dataset, path = built(new_path, labels=labels, force_derivatives=True)
    found = read_with_h5py(path)
    whole = apt.TorchCacheDataset(path)
    for k, structure in enumerate(unpickled(found)):
        molecule = dataset[k]
        assert list(structure) == KEYS
        assert structure["species"] == [SYMBOLS[z] for z in molecule.atomic_numbers]
        assert structure["positions"].flags.writeable
        for name in ("positions", "forces", "cell", "pbc", "energy"):
            want = getattr(molecule, name)
            assert (structure[name] is None) == (want is None)
            if want is not None:
                same(structure[name], want)
        assert structure["name"] == molecule.name
        ascii_name = (molecule.name or "").isascii() and len(molecule.name or "") <= 1024
        assert found.meta["name"][k].decode() == (molecule.name or "" if ascii_name else "")
        for name in ("positions", "atomic_numbers", "forces", "cell", "energy", "name"):
            assert_same(whole[k][name], getattr(molecule, name), name)
        if molecule.cell is not None and molecule.pbc is None:  # the format's own reading of it
            assert whole[k].pbc.all()
    assert found.meta["frame_idx"].tolist() == [*range(N)]
    assert np.isnan(found.meta["energy"]).any()
    assert labels or not found.meta["has_forces"].any()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_few_entries(new_path: NewPath, n: int) -> None:
    _, path = built(new_path, n=n, force_derivatives=True)
    found = read_with_h5py(path)
    assert found.same_as(read_with_tables(path))
    assert len(found.structures) == n
    cache = apt.TorchCache(path)
    assert cache.has_features
    assert cache.has_force_derivatives
    assert len(apt.TorchCacheDataset(path).batch(range(n))) == n


def test_rows_of_every_length(new_path: NewPath) -> None:
    """Heap collections round the shortest length that libhdf5 makes them of."""
    path, n = new_path(), 120
    with apt.AtpWriter(path) as writer:
        for k in range(n):
            name = "n" * (3400 + 4 * k)
            writer.write(apt.Molecule(np.zeros((1, 3)), [1], name=name))
    target = path.with_suffix(".h5")
    apt.build_cache(apt.AtpDataset(path), descriptor(), target, progress=False)
    sizes = [int.from_bytes(c[8:16], "little") for c in collections(target)]
    assert min(sizes) == 4096 < max(sizes)
    for read in (read_with_h5py, read_with_tables):
        for k, structure in enumerate(unpickled(read(target))):
            assert structure["name"] == "n" * (3400 + 4 * k)


def collections(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[i : i + 16] for i in range(0, len(data), 8) if data[i : i + 4] == b"GCOL"]


# Section 5, 6 and 8: every attribute, and its type.
def expected_attributes(given: apt.ChebyshevDescriptor, dtype: str) -> dict[str, dict[str, Any]]:
    text = given.compat_json, given.compat_sha256
    own = {"descriptor_compat_json": text[0], "descriptor_compat_sha256": text[1]}
    return {
        CACHE: {
            "schema_version": 2,
            "cache_format": "aenet.torch_training.cache.v2",
            "storage_dtype": dtype,
            "contains_features": True,
            "contains_force_derivatives": True,
            **own,
        },
        FORCES: {
            "schema_version": 1,
            "payload_format": "aenet.torch_training.local_derivatives.v1",
            "storage_dtype": dtype,
            "n_radial_features": 4,
            "n_angular_features": 3,
            "multi": given.multi,
            "contains_features": False,
            "contains_positions": False,
            **own,
        },
    }


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("species", [MULTI, ("H",)])
def test_attributes(new_path: NewPath, species: Any, dtype: Any) -> None:
    _, path = built(new_path, species=species, force_derivatives=True, dtype=dtype, n=3)
    groups = expected_attributes(descriptor(species), dtype)
    with h5py.File(path) as file, tables.open_file(str(path)) as other:
        for group, wanted in groups.items():
            assert set(file[group].attrs) == set(wanted)
            for name, value in wanted.items():
                check_attribute(file[group], name, value)
                seen = getattr(other.get_node(f"/{group}")._v_attrs, name)
                assert bool(seen == value)
                assert isinstance(seen, (str, np.integer, np.bool_))
    manifest = apt.TorchCache(path).info["descriptor_manifest"]
    assert manifest["descriptor_class"].endswith("featurize.ChebyshevDescriptor")
    assert apt.TorchCache(path).descriptor == descriptor(species, dtype=dtype)


def check_attribute(group: Any, name: str, value: Any) -> None:
    kind = group.attrs.get_id(name).get_type()
    if isinstance(value, str):
        assert kind.get_class() == h5py.h5t.STRING
        assert kind.get_cset() == h5py.h5t.CSET_UTF8
        assert group.attrs[name].decode() == value
    elif isinstance(value, bool):
        assert kind.get_class() == h5py.h5t.BITFIELD
        assert kind.get_size() == 1
    else:
        assert kind == h5py.h5t.STD_I64LE
        assert group.attrs[name] == value


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_of_tables_and_rows(new_path: NewPath, dtype: Any) -> None:
    _, path = built(new_path, force_derivatives=True, dtype=dtype, n=5)
    with h5py.File(path) as file:
        vlen = {"entries/structures": "|u1", f"{CACHE}/features/values": np.dtype(dtype).str}
        for column in DERIVATIVES:
            vlen[path_of(column)] = "<i8" if column.endswith("idx") else np.dtype(dtype).str
        for name, base in vlen.items():
            dataset = file[name]
            assert h5py.check_vlen_dtype(dataset.dtype) == np.dtype(base)
            assert dataset.chunks is not None
            assert dataset.maxshape == (None,)
        for name, members in TABLES.items():
            assert file[name].maxshape == (None,)
            check_members(file[name].id.get_type(), members)


TABLES = {
    "entries/meta": {
        "display_name": "S",
        "energy": "<f8",
        "frame_idx": "<i8",
        "has_forces": "flag",
        "n_atoms": "<i4",
        "name": "S",
        "source_id": "S",
        "source_kind": "S",
    },
    f"{CACHE}/features/index": {
        "cache_row": "<i8",
        "entry_idx": "<i8",
        "n_atoms": "<i4",
        "n_features": "<i4",
    },
    f"{FORCES}/index": {
        "cache_row": "<i8",
        "entry_idx": "<i8",
        "n_angular_triplets": "<i4",
        "n_atoms": "<i4",
        "n_radial_edges": "<i4",
    },
}


def check_members(compound: Any, members: dict[str, str]) -> None:
    names = [compound.get_member_name(i).decode() for i in range(compound.get_nmembers())]
    assert names == list(members) == sorted(members)
    for i, kind in enumerate(members.values()):
        member = compound.get_member_type(i)
        if kind == "flag":
            assert member.get_class() == h5py.h5t.BITFIELD
            assert member.get_size() == 1
        elif kind == "S":
            assert member.get_class() == h5py.h5t.STRING
            assert not member.is_variable_str()
        else:
            assert member.dtype == np.dtype(kind)


def test_batches_of_a_built_cache(new_path: NewPath) -> None:
    """By itself and next to the molecules, what compute() gives for the same batch."""
    dataset, path = built(new_path, force_derivatives=True)
    cache = apt.TorchCache(path)
    with_rows = [k for k in range(N) if k % 3 != 1]
    made = descriptor().compute(dataset.batch(with_rows), derivatives=True)
    joined = apt.AtpDataset(dataset._path, features=cache).batch(with_rows)
    for batch in (joined, cache.batch(with_rows), apt.TorchCacheDataset(cache).batch(with_rows)):
        for name in ("features", *DERIVATIVES):
            assert_same(batch[name], made[name], name)
    weights = torch.randn(made.features.shape, generator=torch.Generator().manual_seed(0)).double()
    assert_same(apt.contract_forces(joined, weights), apt.contract_forces(made, weights), "forces")


def test_a_cache_of_a_cache_and_of_a_subset(new_path: NewPath) -> None:
    dataset, path = built(new_path, force_derivatives=True)
    again = path.with_name("again.h5")
    apt.build_cache(apt.TorchCacheDataset(path), descriptor(), again, progress=False)
    same_rows = [apt.TorchCache(p).load_features(k) for p in (path, again) for k in range(N)]
    for k in range(N):
        assert_same(same_rows[k], same_rows[N + k], "features")
    part = path.with_name("part.h5")
    apt.build_cache(dataset.subset([40, 2, 2]), descriptor(), part, progress=False)
    for row, k in enumerate([40, 2, 2]):
        assert_same(apt.TorchCache(part).load_features(row), same_rows[k], "features")
