"""``augment=``: molecules that turn, stretch and shake before their edges are found."""

from __future__ import annotations

import multiprocessing
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.compare import assert_same_batch
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt

NewPath = Callable[[], Path]

N = 40
CUTOFF = 3.0
VECTORS = apt.NeighborList(CUTOFF, vectors=True)
ALL = apt.Augment(rotate="all", noise=0.05, strain=0.03, keep_noise=True, seed=3)


def molecule(k: int, dtype: Any) -> apt.Molecule:
    rng = np.random.default_rng(k)
    n = int(rng.integers(0, 9))
    has_cell = k % 3 != 0
    rest = {} if k % 4 == 0 else {"forces": rng.normal(size=(n, 3)).astype(dtype)}
    return apt.Molecule(
        rng.uniform(-2, 2, (n, 3)).astype(dtype),
        rng.integers(1, 90, n),
        energy=float(k),
        velocities=rng.normal(size=(n, 3)).astype(dtype),
        cell=3 * np.eye(3) + rng.normal(size=(3, 3)) / 5 if has_cell else None,
        pbc=[True, True, k % 2 == 0] if has_cell else None,
        stress=rng.normal(size=(3, 3)),
        properties={"field": rng.normal(size=3), "alpha": rng.normal(size=(3, 3)), "tag": f"t{k}"},
        atom_properties={"magmom": rng.normal(size=(n, 3)), "charge": rng.normal(size=n)},
        **rest,
    )


def write(path: Path, dtype: Any, codec: Any = "none") -> Path:
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write([molecule(k, dtype) for k in range(N)])
    return path


@pytest.fixture(scope="module", params=["float32", "float64"])
def path(request: pytest.FixtureRequest, new_path: NewPath) -> Path:
    return write(new_path(), request.param, "zstd" if request.param == "float32" else "none")


@pytest.fixture(scope="module")
def single(new_path: NewPath) -> Path:
    return write(new_path(), "float32")


def opened(path: Any, augment: apt.Augment | None, **options: Any) -> apt.AtpDataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return apt.AtpDataset(path, augment=augment, **options)


def rotation_of(before: Tensor, after: Tensor) -> Tensor:
    """The matrix R of rows r → R r, from more than three rows."""
    solved = torch.linalg.lstsq(before.double(), after.double()).solution
    return solved.T


def test_everything_turns(path: Path) -> None:
    augment = apt.Augment(rotate="all", vectors=["field", "magmom"], tensors=["alpha"], seed=1)
    plain, moved = opened(path, None)[:], opened(path, augment)[:]
    tolerance = 1e-5 if plain.positions.dtype == torch.float32 else 1e-12
    signs = set()
    for k in range(N):
        one, other = plain[k], moved[k]
        rows = torch.cat([one.velocities.double(), one["field"][None]])
        turned = torch.cat([other.velocities.double(), other["field"][None]])
        if len(rows) < 4:
            continue
        rotation = rotation_of(rows, turned)
        signs.add(round(float(torch.linalg.det(rotation))))
        assert torch.allclose(rotation @ rotation.T, torch.eye(3).double(), atol=tolerance)
        vectors = [
            (one.positions, other.positions),
            (one.velocities, other.velocities),
            (one.forces, other.forces),
            (one.cell, other.cell),
            (one["magmom"], other["magmom"]),
        ]
        for value, changed in vectors:
            if value is not None:
                assert changed.dtype == value.dtype
                assert torch.allclose(value.double() @ rotation.T, changed.double(), atol=tolerance)
        for value, changed in (
            (one.stress, other.stress),
            (one["alpha"], other["alpha"]),
        ):
            made = rotation @ value.double() @ rotation.T
            assert torch.allclose(made, changed.double(), atol=tolerance)
        assert other.energy == one.energy
        assert other["tag"] == one["tag"]
        assert torch.equal(one["charge"], other["charge"])
    assert signs == {1, -1}


def morse(batch: apt.MoleculeBatch) -> tuple[Tensor, Tensor]:
    """Energies and forces of a pair potential over the edges of a batch."""
    positions = batch.positions.double().requires_grad_()
    i, j = batch.edge_index
    cell = batch.cell.double()[batch.batch[i]]
    shift = (batch.edge_shift.double()[:, None] @ cell)[:, 0]
    lengths = (positions[j] - positions[i] + shift).norm(dim=1)
    energies = ((1 - torch.exp(1 - lengths)) ** 2 * (1 - lengths / CUTOFF) ** 2) / 2
    total = torch.zeros(len(batch), dtype=torch.float64).index_add(0, batch.batch[i], energies)
    (gradient,) = torch.autograd.grad(total.sum(), positions)
    return total.detach(), -gradient


def test_invariant_potential(path: Path) -> None:
    plain = opened(path, None, neighbors=VECTORS)[:]
    moved = opened(path, apt.Augment(rotate="all", seed=4), neighbors=VECTORS)[:]
    energy, forces = morse(plain)
    turned_energy, turned_forces = morse(moved)
    tolerance = 2e-4 if plain.positions.dtype == torch.float32 else 1e-9
    assert torch.allclose(energy, turned_energy, atol=tolerance)
    for k in range(N):
        rows = slice(int(plain.ptr[k]), int(plain.ptr[k + 1]))
        velocities = plain.velocities[rows], moved.velocities[rows]
        if len(velocities[0]) > 3:
            rotation = rotation_of(*velocities)
            turned = forces[rows] @ rotation.T
            assert torch.allclose(turned, turned_forces[rows], atol=50 * tolerance)


def test_edges_are_those_of_a_file_of_the_moved_molecules(path: Path, new_path: NewPath) -> None:
    moved = opened(path, ALL, neighbors=VECTORS)[:]
    written = new_path()
    with apt.AtpWriter(written) as writer:
        writer.write(opened(path, ALL)[:])
    again = apt.AtpDataset(written, neighbors=VECTORS)[:]
    assert_same_batch(moved, again)
    assert len(moved.edge_index[0]) > 100


def test_strain_and_noise(path: Path) -> None:
    noisy = opened(path, ALL)[:]
    still = opened(path, apt.Augment(rotate="all", strain=0.03, seed=3))[:]
    plain = opened(path, None)[:]
    assert noisy.noise.dtype == plain.positions.dtype
    assert noisy.level("noise") == "atom"
    difference = noisy.positions.double() - still.positions.double() - noisy.noise.double()
    assert difference.abs().max() < 1e-6
    assert torch.equal(noisy.cell, still.cell)
    assert torch.equal(noisy.forces.nan_to_num(), still.forces.nan_to_num())
    for k in torch.nonzero(plain.mask("cell")).flatten().tolist():
        deformation = rotation_of(plain.cell[k], still.cell[k])
        rows = slice(int(plain.ptr[k]), int(plain.ptr[k + 1]))
        made = plain.positions[rows].double() @ deformation.T
        assert torch.allclose(made, still.positions[rows].double(), atol=1e-5)
        # R (1 + e): its right stretch is 1 + e, symmetric.
        stretch = torch.linalg.eigvalsh(deformation.T @ deformation).sqrt()
        assert (stretch - 1).abs().max() <= 3 * 0.03
    only = opened(path, apt.Augment(strain=0.2, seed=5))[:]
    strains = torch.stack(
        [
            rotation_of(plain.cell[k], only.cell[k]) - torch.eye(3)
            for k in torch.nonzero(plain.mask("cell")).flatten().tolist()
        ]
    )
    assert torch.allclose(strains, strains.transpose(1, 2), atol=1e-6)
    assert 0.15 < strains.abs().max() <= 0.2 + 1e-9
    assert torch.equal(only.stress, plain.stress)
    assert torch.equal(only.energy, plain.energy)


def test_draws_have_the_right_spread(new_path: NewPath) -> None:
    """10^5 draws: the moments of noise and strain, and rotations that are uniform."""
    n, sigma = 100_000, 0.1
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=np.zeros((n, 3)),
            atomic_numbers=np.ones(n, np.int64),
            n_atoms=np.ones(n, np.int64),
            cell=np.broadcast_to(np.eye(3), (n, 3, 3)).copy(),
        )
    noise = apt.AtpDataset(path, augment=apt.Augment(noise=sigma, seed=7))[:].positions
    assert noise.mean(0).abs().max() < 5 * sigma / n**0.5
    assert (noise.std(0) - sigma).abs().max() < 5 * sigma / (2 * n) ** 0.5
    kurtosis = ((noise / sigma) ** 4).mean(0)
    assert (kurtosis - 3).abs().max() < 5 * (96 / n) ** 0.5
    covariance = noise.T @ noise / n - sigma**2 * torch.eye(3)
    assert covariance.abs().max() < 8 * sigma**2 / n**0.5
    strain = apt.AtpDataset(path, augment=apt.Augment(strain=0.3, seed=7))[:].cell - torch.eye(3)
    assert strain.mean(0).abs().max() < 5 * 0.3 / (3 * n) ** 0.5
    assert (strain.std(0) - 0.3 / 3**0.5).abs().max() < 0.002
    for rotate in ("proper", "all"):
        cells = apt.AtpDataset(path, augment=apt.Augment(rotate=rotate, seed=7))[:].cell
        signs = torch.linalg.det(cells).round()
        share = (signs < 0).double().mean()
        assert share == 0 if rotate == "proper" else abs(share - 0.5) < 0.01
        proper = (cells * signs[:, None, None]).transpose(1, 2)
        # Each axis is uniform on the sphere: each coordinate is uniform in [-1, 1] ...
        ends = proper.reshape(n, 9).sort(dim=0).values
        uniform = torch.linspace(-1, 1, n, dtype=torch.float64)[:, None]
        assert (ends - uniform).abs().max() < 2 * 1.95 / n**0.5  # Kolmogorov and Smirnov, 0.1 %
        # ... and the angle has the density (1 - cos) / pi: the trace has mean 0 and variance 1.
        trace = proper.diagonal(dim1=1, dim2=2).sum(1)
        assert abs(trace.mean()) < 5 / n**0.5
        assert abs(trace.var() - 1) < 0.02


def passes(loader: Any) -> list[apt.MoleculeBatch]:
    return [batch for _ in range(2) for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_draws_depend_on_nothing_else(single: Path, workers: int) -> None:
    ds = opened(single, ALL, neighbors=VECTORS)
    whole = []
    for epoch in range(2):
        ds.set_epoch(epoch)
        whole.append(ds[:])
    assert not torch.equal(whole[0].positions, whole[1].positions)
    fresh = opened(single, ALL, neighbors=VECTORS, num_threads=1)
    sampler = apt.DistributedMoleculeSampler(fresh, shuffle=False)
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    batches = passes(DataLoader(fresh, 7, sampler=sampler, **options))
    assert_same_batch(apt.collate(batches[:6]), whole[0])
    assert_same_batch(apt.collate(batches[6:]), whole[1])


def test_loader_ranks_threads_and_resume(single: Path) -> None:
    ds = opened(single, ALL, neighbors=VECTORS)
    expected = {}
    for epoch in range(3):
        ds.set_epoch(epoch)
        expected[epoch] = ds[:]
    for threads in (1, 3):
        loader = apt.Loader(opened(single, ALL, neighbors=VECTORS), 6, num_threads=threads)
        for epoch in range(2):
            assert_same_batch(apt.collate(list(loader)), expected[epoch])
    for rank in range(2):
        part = opened(single, ALL, neighbors=VECTORS)
        sampler = apt.DistributedMoleculeSampler(part, shuffle=False, num_replicas=2, rank=rank)
        loader = apt.Loader(part, 4, sampler=sampler)
        for epoch in range(2):
            share = ds_at(single, epoch).batch(range(rank, N, 2))
            assert_same_batch(apt.collate(list(loader)), share)
    loader = apt.Loader(opened(single, ALL, neighbors=VECTORS), 6)
    list(loader)
    iterator = iter(loader)
    next(iterator)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    resumed = apt.Loader(opened(single, ALL, neighbors=VECTORS), 9)
    resumed.load_state_dict(state)
    assert_same_batch(apt.collate(list(resumed)), ds_at(single, 1).batch(range(6, N)))
    assert_same_batch(apt.collate(list(resumed)), expected[2])


def ds_at(path: Path, epoch: int) -> apt.AtpDataset:
    ds = opened(path, ALL, neighbors=VECTORS)
    ds.set_epoch(epoch)
    return ds


def test_molecules_and_iteration(single: Path) -> None:
    ds = opened(single, ALL)
    batch = ds[:]
    for k, one in enumerate(ds):
        assert torch.equal(one.positions, batch[k].positions)
        assert torch.equal(ds[k]["noise"], batch[k]["noise"])
    part = ds.subset([5, 9])
    assert torch.equal(part[1].positions, batch[9].positions)
    part.set_epoch(1)
    assert torch.equal(part[1].positions, ds_at(single, 1)[9].positions)
    copied = pickle.loads(pickle.dumps(ds))
    assert torch.equal(copied[3].positions, batch[3].positions)
    assert ds.schema["noise"] == ds.schema["positions"]
    chosen = opened(single, ALL, fields=["energy"])
    assert torch.equal(chosen[:].noise, batch.noise)


@pytest.mark.parametrize("neighbors", [None, VECTORS])
def test_mixtures_and_resident_datasets(single: Path, neighbors: Any) -> None:
    ds = opened(single, ALL, neighbors=neighbors)
    resident = apt.ResidentDataset(ds)
    mixture = apt.MixtureDataset([ds, opened(single, ALL, neighbors=neighbors)])
    part = mixture.subset(range(4))
    shown = []
    for epoch in range(2):
        for each in (ds, resident, mixture, part):
            each.set_epoch(epoch)
        assert_same_batch(ds[:], resident[:])
        assert_same_batch(ds.batch([7, 3, 3]), resident.batch([7, 3, 3]))
        whole = mixture[:]
        first = whole.source == 0
        rows = first[whole.batch]
        assert torch.equal(whole.positions[rows], ds[:].positions)
        assert not torch.equal(whole.positions[~rows], ds[:].positions)
        assert torch.equal(part[:].positions, mixture[:4].positions)
        shown.append(whole.positions)
    assert not torch.equal(*shown)
    loader = apt.Loader(part, 2)
    passed = [apt.collate(list(loader)).positions for _ in range(2)]
    assert torch.equal(passed[1], part[:].positions)  # set_epoch(1) was called


def test_an_epoch_that_was_chosen_stays_in_subsets(single: Path) -> None:
    ds = ds_at(single, 3)
    frozen = ds[:].positions
    for part in (ds.subset(range(len(ds))), ds.filter("n_atoms > 0"), ds.split([1.0], 0)[0]):
        whole = part[:]
        for _ in range(2):
            assert_same_batch(apt.collate(list(apt.Loader(part, 4))), whole)
        part.set_epoch(1)
    assert torch.equal(ds[:].positions, frozen)
    mixture = apt.MixtureDataset([ds])  # has epochs of its own
    assert torch.equal(mixture[:].positions, ds_at(single, 0)[:].positions)
    passed = [apt.collate(list(apt.Loader(mixture, 4))).positions for _ in range(2)]
    assert torch.equal(*passed)
    loader = apt.Loader(mixture, 4)
    first, second = (apt.collate(list(loader)).positions for _ in range(2))
    assert not torch.equal(first, second)
    mixture.set_epoch(3)
    part = mixture.subset(range(4))
    for _ in range(2):
        assert torch.equal(apt.collate(list(apt.Loader(part, 4))).positions, mixture[:4].positions)


def test_other_formats(single: Path, new_path: NewPath) -> None:
    written = new_path().with_suffix(".extxyz")
    apt.convert(single, written, progress=False)
    one, other = opened(single, ALL), apt.ExtxyzDataset(written, augment=ALL)
    assert torch.allclose(one[:].positions.double(), other[:].positions, atol=1e-6)
    assert torch.allclose(one[:].noise.double(), other[:].noise, atol=1e-6)


def test_passes_are_of_stored_molecules(single: Path) -> None:
    plain, ds = opened(single, None), opened(single, apt.Augment(noise=0.5, rotate="all"))
    assert ds.statistics(cutoff=CUTOFF) == plain.statistics(cutoff=CUTOFF)
    assert torch.equal(VECTORS.count(ds), VECTORS.count(plain))
    assert ds.digest() == plain.digest()
    assert len(ds.filter("max_force > 2")) == len(plain.filter("max_force > 2"))


def test_features_are_those_of_the_moved_molecules(single: Path, new_path: NewPath) -> None:
    numbers = sorted({int(z) for z in opened(single, None)[:].atomic_numbers})
    from atompack_torch.batch.elements import symbol

    descriptor = apt.ChebyshevDescriptor([symbol(z) for z in numbers], 3, 3.0, 2, 2.5, 0.0)
    ds = opened(single, ALL, features=descriptor, fields=["features"])
    for epoch in range(2):
        ds.set_epoch(epoch)
        batch = ds.batch(range(1, 9))
        with_cell = ds_at(single, epoch).batch(range(1, 9))
        assert torch.allclose(batch.features, descriptor.compute(with_cell).features)
    loader = apt.Loader(opened(single, ALL, features=descriptor, fields=["features"]), 8)
    begun = iter(loader)
    next(begun)
    loader.dataset.set_epoch(5)  # of later passes
    for first, batch in zip(range(8, N, 8), begun, strict=True):
        with_cell = ds_at(single, 0).batch(range(first, min(first + 8, N)))
        assert torch.allclose(batch.features, descriptor.compute(with_cell).features)
    cache = new_path().with_suffix(".h5")
    apt.build_cache(opened(single, ALL), descriptor, cache, progress=False)
    with pytest.raises(apt.FieldError, match="expected features that are computed after it"):
        opened(single, ALL, features=cache)
    with pytest.raises(apt.FieldError, match="keep: expected 'none' with augment="):
        opened(single, ALL, features=apt.Features(descriptor=descriptor, keep="all"))
    stored = apt.TorchCache(cache).load_features(1)
    assert torch.allclose(stored, descriptor.compute(opened(single, None).batch([1])).features)


def test_edges_on_a_device_come_after_it(single: Path) -> None:
    plain = apt.NeighborList(CUTOFF)
    own = apt.collate(list(apt.Loader(opened(single, ALL), 8, neighbors=plain, device="cpu")))
    assert torch.equal(own.edge_index, opened(single, ALL, neighbors=plain)[:].edge_index)


def test_vector_like_properties_warn_once(single: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ds = apt.AtpDataset(single, augment=apt.Augment(rotate="all"))
        ds[:]
        ds.set_epoch(1)
        ds[:]
    (text,) = [str(each.message) for each in seen]
    assert "stay as they are when molecules turn" in text
    assert all(repr(name) in text for name in ("field", "alpha", "magmom"))
    assert "charge" not in text
    tensors = single.with_name("tensors.atp")
    with apt.AtpWriter(tensors) as writer:
        rows = {"born": np.ones((2, 3, 3)), "descriptor": np.ones((2, 8))}
        writer.write(apt.Molecule(np.zeros((2, 3)), [1, 1], atom_properties=rows))
    with pytest.warns(UserWarning, match="augment: 'born' stay as they are"):
        apt.AtpDataset(tensors, augment=apt.Augment(rotate="all"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = {"vectors": ["field", "magmom"], "tensors": ["alpha"]}
        apt.AtpDataset(single, augment=apt.Augment(rotate="all", **names))
        apt.AtpDataset(single, augment=apt.Augment(noise=0.1))
        turning = apt.Augment(rotate="all")
        apt.AtpDataset(single, augment=turning, exclude=["field", "alpha", "magmom"])
        apt.AtpDataset(single, augment=turning, fields=["energy"], transform=lambda batch: None)


def test_properties_of_further_axes_warn(new_path: NewPath) -> None:
    path = new_path()
    atoms = {"born": np.ones((2, 3, 3)), "states": np.ones((2, 4, 3)), "fukui": np.ones((2, 5))}
    values = {"dipoles": np.ones((2, 3)), "counts": np.ones((2, 3), int), "label": "x"}
    made = apt.Molecule(np.zeros((2, 3)), [1, 8], properties=values, atom_properties=atoms)
    with apt.AtpWriter(path) as writer:
        writer.write(made)
    with pytest.warns(UserWarning, match="augment: 'born', 'states', 'dipoles' stay as they are"):
        apt.AtpDataset(path, augment=apt.Augment(rotate="proper"))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"rotate": True}, ValueError, "rotate"),
        ({"rotate": "some"}, ValueError, "rotate: expected"),
        ({"noise": -0.1}, ValueError, "noise: expected a finite number, at least 0"),
        ({"noise": float("nan")}, ValueError, "noise: expected a finite number, at least 0"),
        ({"strain": 0.34}, ValueError, "strain: expected .* at least 0.0 and less than 0.333"),
        ({"strain": "x"}, TypeError, "strain: expected a number"),
        ({"keep_noise": 2}, TypeError, "keep_noise: expected True or False"),
        ({"vectors": "field"}, TypeError, "vectors: expected a list of names"),
        ({"tensors": 3}, TypeError, "tensors: expected a list of names, got 3"),
        (
            {"vectors": ["a"], "tensors": ["a"]},
            ValueError,
            "expected each name once, got 'a' twice",
        ),
        ({"seed": -1}, ValueError, "seed"),
    ],
)
def test_options_are_checked(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        apt.Augment(**options)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.array, torch.tensor])
def test_seeds_of_numpy_and_torch(single: Path, kind: Any) -> None:
    drawn = opened(single, apt.Augment(rotate="all", seed=kind(3)))[:]
    assert torch.equal(
        drawn.positions, opened(single, apt.Augment(rotate="all", seed=3))[:].positions
    )
    masks = [
        apt.AtpDataset(single, force_subset=apt.ForceSubset(0.5, seed=seed))[:].mask("forces")
        for seed in (3, kind(3))
    ]
    assert torch.equal(*masks)


def test_names_and_shapes_are_checked(single: Path, new_path: NewPath) -> None:
    with pytest.raises(TypeError, match="augment: expected an Augment, got bool"):
        apt.AtpDataset(single, augment=True)
    with pytest.raises(apt.FieldError, match=r"no field 'fields'.*has 'field'"):
        apt.AtpDataset(single, augment=apt.Augment(rotate="all", vectors=["fields"]))
    wrong = opened(single, apt.Augment(rotate="all", tensors=["field"]))
    expected = "expected float32 or float64 of shape (3, 3), got float64 of shape (3,)"
    message = re.escape(f"augment: {expected}")
    with pytest.raises(apt.FieldError, match=message + r".*molecule 0, field 'field'"):
        wrong[:]
    kept = new_path()
    with apt.AtpWriter(kept) as writer:
        writer.write(opened(single, ALL)[:])
    with pytest.raises(apt.FieldError, match="keep_noise: expected no property of this name"):
        opened(kept, ALL)
    with pytest.raises(ValueError, match="expected one without augment for meta"):
        apt.ResidentDataset(opened(single, ALL), "meta")


def worker(path: Path, out: Any) -> None:
    out.put(ds_at(path, 1)[:].positions.numpy())


def test_equal_in_another_process(single: Path) -> None:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=worker, args=(single, out))
    process.start()
    got = out.get(timeout=120)
    process.join()
    assert np.array_equal(got, ds_at(single, 1)[:].positions.numpy())
