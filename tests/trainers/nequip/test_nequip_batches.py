"""Batches of NequIP's own data path, and ours of the same structures."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import ase
import pytest
import torch
from ase.build import bulk
from nequip.data import AtomicDataDict, deregister_fields, register_fields
from nequip.data.transforms import (
    NeighborListPruneTransform,
    NeighborListTransform,
    StressSignFlipTransform,
)
from nequip_cases import TYPES, model, stock_batch
from structures import (
    CUTOFF,
    structures,
    write_atp,
    write_extxyz,
)
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers import nequip

N = 12
EDGES = ("edge_index", "edge_cell_shift")


def ours(data: Any, **options: Any) -> Any:
    options = {"batch_size": 4, "shuffle": False} | options
    return nequip.loader(data, TYPES, CUTOFF, **options)


def edges_of(data: dict[str, Any]) -> Counter[tuple[int, ...]]:
    rows = torch.cat([data["edge_index"].T, data["edge_cell_shift"].long()], 1)
    return Counter(map(tuple, rows.tolist()))


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() - {"molecule_index"} == expected.keys()
    assert edges_of(found) == edges_of(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype, key
        assert found[key].shape == value.shape, key
        if key not in EDGES:
            torch.testing.assert_close(
                found[key], value, atol=1e-12, rtol=1e-12, equal_nan=True, msg=key
            )


def outputs(net: Any, data: dict[str, Any]) -> dict[str, Any]:
    made = net(dict(data))
    return {key: made[key].detach() for key in ("total_energy", "forces", "stress")}


@pytest.mark.parametrize("suffix", ["atp", "extxyz"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("kind", ["nequip", "allegro"])
def test_the_same_outputs(
    tmp_path: Path, kind: str, suffix: str, dtype: torch.dtype, tolerance: float
) -> None:
    made = structures(N)
    write = write_atp if suffix == "atp" else write_extxyz
    path = write(tmp_path / f"a.{suffix}", made)
    net = model(dtype, kind)
    if suffix == "extxyz":
        made = ase.io.read(path, ":")
    for number, data in enumerate(ours(path)):
        stock = stock_batch(made[4 * number : 4 * number + 4])
        assert_same(data, stock)
        expected, found = outputs(net, stock), outputs(net, data)
        for key, value in expected.items():
            torch.testing.assert_close(
                found[key], value, atol=tolerance, rtol=tolerance, equal_nan=True, msg=key
            )


def test_a_slab_of_one_atom(tmp_path: Path) -> None:
    """Two periodic directions, and neighbors that are images of the atom itself."""
    made = bulk("Cu")
    made.pbc = (True, True, False)
    path = write_atp(tmp_path / "a.atp", [made])
    (data,) = ours(path)
    expected = stock_batch([made])
    assert_same({k: v for k, v in data.items() if k in expected or k == "molecule_index"}, expected)
    assert data["forces"].isnan().all()


def test_batch_is_as_by_loader(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N))
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    numbers = [5, 0, 7]
    found = nequip.batch(dataset.batch(numbers), TYPES, CUTOFF)
    (expected,) = ours(path, batch_size=None, batch_sampler=[numbers])
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key].nan_to_num(7), value.nan_to_num(7)), key
    with pytest.raises(apt.FieldError, match="edges"):
        nequip.batch(apt.AtpDataset(path).batch(numbers), TYPES, CUTOFF)


def test_frames_of_a_batch(tmp_path: Path) -> None:
    """NequIP takes the batch apart again."""
    made = structures(4)
    (data,) = ours(write_atp(tmp_path / "a.atp", made))
    for number, atoms in enumerate(made):
        frame = AtomicDataDict.frame_from_batched(data, number)
        assert frame["molecule_index"].tolist() == [[number]]
        stock = stock_batch([atoms])
        assert_same(frame, stock | {"batch": torch.zeros_like(stock["batch"])})


def test_types_of_other_names(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N, periodic=True))
    names = ["x", "my_Cu", "my_Al"]
    types = {"Cu": "my_Cu", "Al": "my_Al"}
    loader = nequip.loader(
        path, names, CUTOFF, batch_size=N, chemical_species_to_atom_type_map=types
    )
    (data,) = loader
    expected = torch.where(data["atomic_numbers"] == 29, 1, 2)
    assert torch.equal(data["atom_types"], expected)
    with pytest.raises(ValueError, match=r"my_Ni"):
        nequip.loader(
            path, names, CUTOFF, batch_size=N, chemical_species_to_atom_type_map={"Ni": "my_Ni"}
        )


def test_missing_labels_are_nan(tmp_path: Path) -> None:
    made = structures(N, without=("energy", "forces"))
    (data,) = ours(write_atp(tmp_path / "a.atp", made), batch_size=N)
    lacks = torch.arange(N) % 3 == 1
    assert torch.equal(data["total_energy"].isnan(), lacks.unsqueeze(1))
    assert torch.equal(data["forces"].isnan().all(1), lacks[data["batch"]])
    assert data["stress"][1::2].isnan().all()


def test_labels_by_other_names(tmp_path: Path) -> None:
    made = structures(N, periodic=True)
    expected = [atoms.calc.results["energy"] for atoms in made]
    for number, atoms in enumerate(made):
        atoms.info["my_energy"] = atoms.calc.results["energy"] + 1
        atoms.info["charge"] = number % 3
        atoms.arrays["moment"] = atoms.positions[:, 0]
    path = write_extxyz(tmp_path / "a.extxyz", made)
    mapping = {"my_energy": "total_energy", "charge": "charge", "moment": "magmoms"}
    (data,) = ours(path, batch_size=N, key_map=mapping)
    assert data["total_energy"].flatten().tolist() == pytest.approx([e + 1 for e in expected])
    assert data["charge"].dtype == torch.int64
    assert data["charge"].tolist() == [[n % 3] for n in range(N)]
    torch.testing.assert_close(data["magmoms"], data["pos"][:, :1])
    with pytest.raises(ValueError, match="register_fields"):
        ours(path, key_map={"my_energy": "unheard_of"})
    register_fields(graph_fields=["unheard_of"])
    try:
        (data,) = ours(path, batch_size=N, key_map={"my_energy": "unheard_of"})
    finally:
        deregister_fields("unheard_of")
    assert data["unheard_of"].shape == (N, 1)


def test_a_missing_integer_is_an_error(tmp_path: Path) -> None:
    made = structures(3, periodic=True)
    for atoms in made[:2]:
        atoms.info["charge"] = 1
    path = write_extxyz(tmp_path / "a.extxyz", made)
    with pytest.raises(apt.FieldError, match=r"molecules \[2\].*'charge'"):
        list(ours(path, key_map={"charge": "charge"}))


def test_transforms(tmp_path: Path) -> None:
    made = structures(N, periodic=True)
    path = write_atp(tmp_path / "a.atp", made)
    cutoffs = {"Al": 3.0, "Cu": {"Al": 3.2, "Cu": CUTOFF}}
    prune = {"r_max": CUTOFF, "per_edge_type_cutoff": cutoffs, "type_names": list(TYPES)}
    transforms = [StressSignFlipTransform(), NeighborListPruneTransform(**prune)]
    (plain,) = ours(path, batch_size=N)
    (data,) = ours(path, batch_size=N, transforms=transforms)
    assert torch.equal(data["stress"], -plain["stress"])
    stock = stock_batch(made)
    expected = edges_of(transforms[1](stock))
    assert edges_of(data) == expected
    assert expected != edges_of(plain)
    sorting = NeighborListTransform(CUTOFF)
    assert edges_of(sorting(dict(plain))) == edges_of(plain)


def test_with_workers(tmp_path: Path) -> None:
    """The dataset of the loader in torch's DataLoader, and across processes."""
    loader = ours(write_atp(tmp_path / "a.atp", structures(N)))
    dataset = pickle.loads(pickle.dumps(loader.dataset))
    first = AtomicDataDict.batched_from_list
    for found, data in zip(
        DataLoader(dataset, 4, num_workers=1, collate_fn=first), loader, strict=True
    ):
        for key, value in data.items():
            assert torch.equal(found[key].nan_to_num(7), value.nan_to_num(7)), key
