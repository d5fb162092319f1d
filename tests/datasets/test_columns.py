"""``ds[key]``, ``ds.column`` and ``ds.to_pandas``: columns without their molecules."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import atompack_torch as apt
from atompack_torch.batch.elements import symbol
from atompack_torch.datasets import columns as _columns

NewPath = Callable[[], Path]
N = 50


def molecule(k: int) -> apt.Molecule:
    rng = np.random.default_rng(k)
    n = k % 7
    properties: dict[str, Any] = {"matrix": rng.normal(size=(2, 3))}
    if k % 4:
        properties |= {"config_type": f"kind {k % 5}", "step": k}
    return apt.Molecule(
        rng.normal(size=(n, 3)).astype(np.float32),
        rng.integers(1, 9, n),
        energy=float(k) if k % 3 else None,
        forces=rng.normal(size=(n, 3)).astype(np.float32) if k % 5 else None,
        cell=np.eye(3) * k if k % 2 else None,
        properties=properties,
        atom_properties={"tag": rng.integers(0, 5, n)},
    )


@pytest.fixture(scope="module", params=["none", "zstd"])
def path(request: pytest.FixtureRequest, new_path: NewPath) -> Path:
    written = new_path()
    with apt.AtpWriter(written, codec=request.param) as writer:
        writer.write([molecule(k) for k in range(N)])
    return written


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "many blocks":
        monkeypatch.setattr(_columns, "_BLOCK_MOLECULES", 7)
        monkeypatch.setattr(_columns, "_BLOCK_ATOMS", 15)


KEYS = ("energy", "forces", "cell", "matrix", "config_type", "step", "tag", "index", "positions")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("key", [*KEYS, "n_atoms", "atomic_numbers"])
def test_columns_are_those_of_a_batch(path: Path, key: str) -> None:
    whole = apt.AtpDataset(path)
    numbers = [41, 3, 3, 0, 17, 49, 8]
    for ds in (whole, whole.subset(numbers), apt.AtpDataset(path, fields=["cell"])):
        batch = apt.AtpDataset(path).batch(range(N) if len(ds) == N else numbers)
        values, mask = ds.column(key)
        expected = batch[key]
        if isinstance(expected, Tensor):
            assert isinstance(values, Tensor)
            assert values.dtype == expected.dtype
            assert torch.equal(values.nan_to_num(), expected.nan_to_num())
            assert torch.equal(values.isnan(), expected.isnan())
        else:
            assert values == list(expected)
        has_mask = key in batch._mask_rows
        assert torch.equal(mask, batch.mask(key) if has_mask else torch.ones(len(ds)).bool())
        got = ds[key]
        assert isinstance(got, Tensor) == isinstance(values, Tensor)


@pytest.mark.usefixtures("blocks")
def test_shapes_that_differ_make_a_list(new_path: NewPath) -> None:
    files = [new_path(), new_path()]
    for width, file in enumerate(files):
        with apt.AtpWriter(file) as writer:
            for k in range(9):
                has = {"properties": {"wide": np.arange(width)}} if k != 4 else {}
                ragged = {"ragged": np.full((k, 1 + width), k)}
                positions, numbers = np.zeros((k, 3)), np.ones(k, int)
                writer.write(apt.Molecule(positions, numbers, **has, atom_properties=ragged))
    ds = apt.AtpDataset(files)
    values, mask = ds.column("wide")
    expected = [None if k == 4 else list(range(width)) for width in range(2) for k in range(9)]
    assert [value if value is None else value.tolist() for value in values] == expected
    assert mask.tolist() == [value is not None for value in expected]
    values, mask = ds.column("ragged")
    shapes = [(k, 1 + width) for width in range(2) for k in range(9)]
    assert [tuple(value.shape) for value in values if len(value)] == [s for s in shapes if s[0]]
    assert bool(mask.all())
    frame = ds.subset(range(9, 18)).to_pandas(["ragged"])
    assert [row.shape for row in frame["ragged"]][1:] == [(k, 2) for k in range(1, 9)]


def test_options_of_the_dataset(path: Path) -> None:
    plain = apt.AtpDataset(path)
    ds = apt.AtpDataset(
        path,
        fields=["cell"],
        dtype=torch.float64,
        missing="error",
        transform=lambda batch: 1 / 0,
        neighbors=apt.NeighborList(2.0),
        augment=apt.Augment(rotate="all", noise=1.0, vectors=()),
    )
    assert ds["forces"].dtype == torch.float64
    assert torch.equal(ds["forces"].float().nan_to_num(), plain["forces"].nan_to_num())
    assert torch.equal(ds["positions"], plain["positions"].double())


def test_mixtures_resident_and_text(path: Path, new_path: NewPath) -> None:
    ds = apt.AtpDataset(path)
    mixture = apt.MixtureDataset([ds, ds.subset(range(9))])
    assert torch.equal(mixture["step"], mixture[:].step)
    assert torch.equal(mixture["source"], mixture[:].source)
    resident = apt.ResidentDataset(ds)
    assert resident["config_type"] == ds["config_type"]
    assert torch.equal(resident.subset([5, 2])["energy"], ds["energy"][[5, 2]])
    written = new_path().with_suffix(".extxyz")
    apt.convert(path, written, progress=False)
    text = apt.ExtxyzDataset(written)
    assert text["config_type"] == ds["config_type"]
    assert torch.equal(text["energy"].nan_to_num(), ds["energy"].nan_to_num())
    empty = ds.subset([])
    assert empty["energy"].shape == (0,)
    assert empty["forces"].shape == (0, 3)


def test_features(path: Path) -> None:
    descriptor = apt.ChebyshevDescriptor([symbol(z) for z in range(1, 9)], 2, 3.0, 1, 2.5, 0.0)
    ds = apt.AtpDataset(path, features=descriptor, fields=["energy"])
    with pytest.raises(apt.FieldError, match="no field 'features'"):
        ds.column("features")
    ds = apt.AtpDataset(path, features=descriptor)
    assert torch.equal(ds["features"], ds[:].features)


def test_unknown_names(path: Path) -> None:
    ds = apt.AtpDataset(path)
    with pytest.raises(apt.FieldError, match=r"no field 'enery': the file has 'energy'"):
        ds["enery"]
    with pytest.raises(apt.FieldError, match="batch: expected a field of molecules or atoms"):
        ds.column("batch")


def test_data_frames(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    ds = apt.AtpDataset(path)
    frame = ds.to_pandas(["energy", "config_type", "n_atoms", "step", "matrix", "forces"])
    assert len(frame) == N
    assert frame["energy"].isna().tolist() == [k % 3 == 0 for k in range(N)]
    assert frame["energy"].dtype == np.float64
    assert frame["n_atoms"].tolist() == [k % 7 for k in range(N)]
    assert frame["step"].dtype == pandas.Int64Dtype()
    assert [None if k is pandas.NA else k for k in frame["step"]] == [
        k if k % 4 else None for k in range(N)
    ]
    assert frame["config_type"].isna().tolist() == [k % 4 == 0 for k in range(N)]
    assert frame["config_type"].dropna().tolist() == [f"kind {k % 5}" for k in range(N) if k % 4]
    assert np.array_equal(frame["matrix"][3], molecule(3)["matrix"])
    assert frame["forces"][6].shape == (6, 3)
    assert frame["forces"][5] is None
    with pytest.raises(TypeError, match="keys: expected a list of names, got the string 'energy'"):
        ds.to_pandas("energy")


def test_without_pandas(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
        apt.AtpDataset(path).to_pandas(["energy"])


@pytest.mark.slow
def test_a_million_molecules_are_read_in_half_a_second(new_path: NewPath) -> None:
    written = new_path()
    n, atoms = 100_000, 12
    rng = np.random.default_rng(0)
    with apt.AtpWriter(written) as writer:
        for k in range(10):
            writer.write_arrays(
                positions=rng.normal(size=(n * atoms, 3)).astype(np.float32),
                atomic_numbers=np.ones(n * atoms, np.int64),
                n_atoms=np.full(n, atoms),
                energy=np.arange(k * n, (k + 1) * n, dtype=np.float64),
            )
    ds = apt.AtpDataset(written)
    seconds = []
    for _ in range(4):
        start = time.process_time()
        energy = ds["energy"]
        seconds.append(time.process_time() - start)
    assert torch.equal(energy, torch.arange(10 * n, dtype=torch.float64))
    assert min(seconds) < 4  # of all threads: half a second on two cores, and a minute item by item
