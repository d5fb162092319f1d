"""``ChebyshevDescriptor``: what its features must and must not depend on, and what it refuses."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES

CELL = np.array([[4.1, 0.0, 0.0], [0.9, 3.8, 0.0], [-0.6, 0.7, 4.4]])
DESCRIPTOR = apt.ChebyshevDescriptor(["Si", "O", "H"], 5, 4.0, 3, 3.2)


def molecule(n: int = 7, seed: int = 0, cell: Any = None, pbc: Any = None) -> apt.Molecule:
    rng = np.random.default_rng(seed)
    numbers = rng.choice([14, 8, 1], n)
    return apt.Molecule(rng.random((n, 3)) * 4, numbers, cell=cell, pbc=pbc)


def features(molecule: apt.Molecule, descriptor: apt.ChebyshevDescriptor = DESCRIPTOR) -> Any:
    return descriptor.compute(apt.collate([molecule])).features.numpy()


def assert_close(got: Any, want: Any, limit: float = 1e-11) -> None:
    np.testing.assert_allclose(got, want, rtol=0, atol=limit)


@pytest.mark.parametrize("cell", [None, CELL], ids=["open", "periodic"])
def test_motions_change_nothing(cell: Any) -> None:
    """Turned, shifted, and with each atom in any cell."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    whole = molecule(cell=cell)
    positions = whole.positions.numpy()
    turned = None if cell is None else cell @ rotation
    moved = [(positions @ rotation, turned), (positions + np.array([3.3, -7.1, 0.4]), cell)]
    if cell is not None:
        moved.append((positions + rng.integers(-3, 4, (7, 3)) @ cell, cell))
    for there, its_cell in moved:
        other = apt.Molecule(there, whole.atomic_numbers, cell=its_cell)
        assert_close(features(other), features(whole))


def test_open_directions_of_a_cell_are_open() -> None:
    """An atom beyond the top of a slab's cell stays there, next to the one below."""
    cell = np.diag([20.0, 20, 5])
    pair = np.array([[1.0, 1, 4.6], [1, 1, 5.6]])
    slab = apt.Molecule(pair, [14, 1], cell=cell, pbc=[True, True, False])
    assert_close(features(slab), features(apt.Molecule(pair, [14, 1])))
    without_flags = apt.Molecule(pair, [14, 1], cell=cell, pbc=[False] * 3)
    assert_close(features(without_flags), features(apt.Molecule(pair, [14, 1])))


def test_permutation_permutes() -> None:
    whole = molecule()
    order = np.random.default_rng(3).permutation(7)
    other = apt.Molecule(whole.positions[order], whole.atomic_numbers[order])
    assert_close(features(other), features(whole)[order])


def test_a_repeated_cell_repeats_the_features() -> None:
    whole = molecule(n=3, cell=CELL)
    shifts = [np.array(s) @ CELL for s in itertools.product(range(2), repeat=3)]
    positions = np.concatenate([whole.positions.numpy() + shift for shift in shifts])
    larger = apt.Molecule(positions, whole.atomic_numbers.repeat(8), cell=2 * CELL)
    assert_close(features(larger), np.tile(features(whole), (8, 1)), 1e-10)


def test_a_cell_without_pbc_repeats_in_all_directions() -> None:
    explicit = molecule(cell=CELL, pbc=[True] * 3)
    assert_close(features(molecule(cell=CELL)), features(explicit), 0)


def test_molecules_of_every_kind_share_a_batch() -> None:
    kinds = [
        molecule(seed=1),
        molecule(seed=2, cell=CELL),
        molecule(n=0),
        molecule(n=1),
        molecule(seed=4, cell=CELL, pbc=[True, False, True]),
        molecule(n=1, cell=CELL * 0.6),
        molecule(n=40, seed=5),
    ]
    batch = DESCRIPTOR.compute(apt.collate(kinds), derivatives=True)
    for whole, alone in zip(kinds, batch, strict=True):
        single = DESCRIPTOR.compute(apt.collate([whole]), derivatives=True)
        for name in ("features", *DERIVATIVES):
            assert torch.equal(alone[name], single[name]), name
    assert (batch[3].features == 0).all()
    assert len(batch[3].radial_center_idx) == 0
    assert len(batch[5].radial_center_idx) > 0


def test_one_species_has_no_weighted_features() -> None:
    descriptor = apt.ChebyshevDescriptor(["Si"], 5, 4.0, 3, 3.2)
    whole = molecule()
    alike = apt.Molecule(whole.positions, [14] * 7)
    batch = descriptor.compute(apt.collate([alike]), derivatives=True)
    assert (descriptor.multi, descriptor.n_features) == (False, 10)
    assert "radial_neighbor_typespin" not in batch
    assert "angular_triplet_typespin" not in batch
    assert_close(batch.features, features(whole)[:, :10], 0)  # the plain ones ignore species


def test_the_angular_cutoff_may_be_the_larger_one() -> None:
    descriptor = apt.ChebyshevDescriptor(["Si", "O", "H"], 5, 2.0, 3, 3.2)
    whole = molecule()
    batch = descriptor.compute(apt.collate([whole]), derivatives=True)
    vectors = batch.positions[batch.radial_neighbor_idx] - batch.positions[batch.radial_center_idx]
    far = vectors.norm(dim=1) > 2
    assert far.any()
    assert (~far).any()
    assert (batch.radial_dG_drij[far] == 0).all()
    assert (batch.radial_dG_drij[~far] != 0).any()
    assert_close(batch.features[:, 6:10], features(whole)[:, 6:10], 0)


def test_finite_differences() -> None:
    whole = molecule(n=5, cell=CELL)
    batch = DESCRIPTOR.compute(apt.collate([whole]), derivatives=True)
    weights = torch.randn(5, DESCRIPTOR.n_features, dtype=torch.float64)
    forces = apt.contract_forces(batch, weights)
    step = 1e-5
    for atom, axis in itertools.product(range(5), range(3)):
        energies = []
        for sign in (1, -1):
            positions = whole.positions.clone()
            positions[atom, axis] += sign * step
            there = apt.Molecule(positions, whole.atomic_numbers, cell=CELL)
            energies.append(float((torch.from_numpy(features(there)) * weights).sum()))
        assert_close(-(energies[0] - energies[1]) / (2 * step), forces[atom, axis], 1e-7)


def test_threads_change_no_bit(threads: Any) -> None:
    kinds = [molecule(n=n, seed=n, cell=CELL * (n / 8 + 1)) for n in (3, 60, 9, 1, 30, 12)]
    batch = apt.collate(kinds)
    threads(1)
    serial = DESCRIPTOR.compute(batch, derivatives=True)
    threads(2)
    for _ in range(4):  # the first may run on one thread, to know its pace
        parallel = DESCRIPTOR.compute(batch, derivatives=True)
        for name in ("features", *DERIVATIVES):
            assert torch.equal(parallel[name], serial[name]), name


def test_the_old_batch_stays_as_it_was() -> None:
    old = apt.collate([molecule(cell=CELL), molecule(seed=1, cell=CELL)])
    names = list(old.keys())
    new = DESCRIPTOR.compute(old, derivatives=True)
    assert list(old.keys()) == names
    assert list(new.keys()) == [*names, "features", *DERIVATIVES]
    assert new.positions is old.positions
    assert new.mask("features").all()
    levels = {name: new.level(name) for name in ("features", *DERIVATIVES)}
    assert levels == {"features": "atom", **DERIVATIVES}
    again = DESCRIPTOR.compute(new)
    assert list(again.keys()) == [*names, *DERIVATIVES, "features"]


def test_batches_with_derivatives_join_and_come_apart() -> None:
    kinds = [molecule(seed=k, n=4 + k) for k in range(4)]
    whole = DESCRIPTOR.compute(apt.collate(kinds), derivatives=True)
    parts = [
        DESCRIPTOR.compute(apt.collate(some), derivatives=True) for some in (kinds[:1], kinds[1:])
    ]
    for joined in (apt.collate(parts), apt.collate(list(whole)), whole.clone()):
        for name in ("features", *DERIVATIVES):
            assert torch.equal(joined[name], whole[name]), name
            assert joined.level(name) == whole.level(name)
    restored = pickle.loads(pickle.dumps(whole))
    assert torch.equal(restored.angular_grads_k, whole.angular_grads_k)
    some = apt.collate([parts[0], apt.collate(kinds)])
    assert some.mask("angular_grads_k").tolist() == [True, False, False, False, False]
    assert torch.equal(some.angular_center_idx, parts[0].angular_center_idx)
    assert some[1].radial_center_idx is None


def test_no_forces_are_made_up() -> None:
    """Molecules without derivatives have forces of NaN, and give no gradient."""
    kinds = [molecule(seed=k, n=4 + k) for k in range(2)]
    one = DESCRIPTOR.compute(apt.collate(kinds[:1]), derivatives=True)
    both = apt.collate([one, apt.collate(kinds[1:])])
    weights = torch.ones(9, DESCRIPTOR.n_features, dtype=torch.float64, requires_grad=True)
    forces = apt.contract_forces(both, weights)
    assert torch.equal(forces[:4], apt.contract_forces(one, weights[:4]))
    assert forces[4:].isnan().all()
    forces[both.mask("radial_center_idx")[both.batch]].sum().backward()
    assert weights.grad is not None
    assert not weights.grad.isnan().any()


def test_files_hold_no_features(tmp_path: Path) -> None:
    batch = DESCRIPTOR.compute(apt.collate([molecule(), molecule(n=5)]), derivatives=True)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(batch)
    assert "features" not in apt.AtpDataset(tmp_path / "a.atp").batch([0, 1])


def test_float32_positions_are_widened() -> None:
    whole = molecule()
    narrow = apt.Molecule(whole.positions.float(), whole.atomic_numbers)
    wide = apt.Molecule(whole.positions.float().double(), whole.atomic_numbers)
    assert features(narrow).dtype == np.float64
    assert_close(features(narrow), features(wide), 0)


def test_compatibility() -> None:
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 2, 4, 1, 1.5)
    assert descriptor.compat_sha256 == (
        "517a1e0e4df3c6bc982a3f463a0e31ebbf08042240e02bbc3ef2ae84b0eaa702"
    )
    assert json.loads(descriptor.compat_json) == descriptor.compat
    odd = apt.ChebyshevDescriptor(['é"\n'], 2, 1e16, 1, 1.5, min_cutoff=1e-5)
    assert '"min_cutoff":1e-05,' in odd.compat_json
    assert '"rad_cutoff":1e+16,' in odd.compat_json
    assert '"species":["\\u00e9\\"\\n"]' in odd.compat_json


def test_descriptors_are_values() -> None:
    for same in (copy.copy(DESCRIPTOR), pickle.loads(pickle.dumps(DESCRIPTOR))):
        assert same == DESCRIPTOR
        assert hash(same) == hash(DESCRIPTOR)
        assert repr(same) == repr(DESCRIPTOR)
    assert apt.ChebyshevDescriptor(["O"], 1, 2.0, 1, 2.0) != DESCRIPTOR
    assert DESCRIPTOR != "a descriptor"


@pytest.mark.parametrize(
    ("changed", "kind", "message"),
    [
        ({"species": []}, ValueError, "species: expected at least one label, got none"),
        ({"species": ["O", "O"]}, ValueError, "species: expected different labels"),
        ({"species": ["O", "o"]}, ValueError, "species: expected different labels"),
        ({"species": "OH"}, TypeError, "species: expected a list of labels"),
        ({"species": [8]}, TypeError, "species: expected a list of labels"),
        ({"rad_order": -1}, ValueError, "rad_order: expected at least 0, got -1"),
        ({"rad_order": 2.0}, TypeError, "rad_order: expected an int, got 2.0"),
        ({"ang_order": 1001}, ValueError, "ang_order: expected 0 to 1000, got 1001"),
        ({"ang_order": True}, TypeError, "ang_order: expected an int, got True"),
        ({"rad_cutoff": 0}, ValueError, "rad_cutoff: expected a finite number, at least 0.001"),
        ({"rad_cutoff": "4"}, TypeError, "rad_cutoff: expected a number, got '4'"),
        ({"ang_cutoff": float("inf")}, ValueError, "ang_cutoff: expected a finite number"),
        ({"min_cutoff": -0.1}, ValueError, "min_cutoff: expected a finite number, at least 0.0"),
        ({"dtype": "float16"}, ValueError, "dtype: expected one of float32, float64, got"),
    ],
)
def test_settings_are_checked(changed: dict[str, Any], kind: type, message: str) -> None:
    settings = {
        "species": ["O", "H"],
        "rad_order": 2,
        "rad_cutoff": 4.0,
        "ang_order": 1,
        "ang_cutoff": 1.5,
    }
    with pytest.raises(kind, match=message):
        apt.ChebyshevDescriptor(**(settings | changed))


def test_unknown_species_are_named() -> None:
    carbon = apt.Molecule(np.zeros((1, 3)), [6])
    with pytest.raises(apt.FieldError) as caught:
        DESCRIPTOR.compute(apt.collate([molecule(), molecule(n=0), carbon]))
    assert str(caught.value) == (
        "atomic_numbers: expected one of the species Si, O, H, got number 6 "
        "(molecule 2, field 'atomic_numbers')"
    )


@pytest.mark.parametrize(
    ("positions", "cell", "message"),
    [
        ([[0, 0, 0], [float("nan"), 0, 0]], None, "got nan for atom 1 .molecule 1, field 'pos"),
        ([[0, 0, 0]], np.zeros((3, 3)), "got a singular cell .molecule 1, field 'cell'"),
        ([[0, 0, 0]], np.full((3, 3), np.inf), "expected finite numbers, got inf .molecule 1"),
        ([[0, 0, 0]], np.eye(3) * 0.2, "within ang_cutoff of an atom, got 16996 for atom 0"),
        ([[0, 0, 0]], np.eye(3) * 1e-3, "expected at most .* images for 1 atoms, got "),
    ],
)
def test_bad_structures_are_named(positions: Any, cell: Any, message: str) -> None:
    wrong = apt.Molecule(np.array(positions, dtype=float), [1] * len(positions), cell=cell)
    with pytest.raises(apt.FieldError, match=message):
        DESCRIPTOR.compute(apt.collate([molecule(), wrong]))


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a MoleculeBatch, got Molecule"):
        DESCRIPTOR.compute(molecule())  # type: ignore[arg-type]
    batch = apt.collate([molecule(), molecule()])
    batch.ptr = torch.tensor([0, 20, 14])
    with pytest.raises(apt.FieldError, match="ptr: expected ascending numbers from 0 to 14"):
        DESCRIPTOR.compute(batch)
    for name, shape in (("positions", (14, 2)), ("atomic_numbers", (14, 1)), ("cell", (2, 3))):
        batch = apt.collate([molecule(cell=CELL), molecule(cell=CELL)])
        batch._fields[name] = torch.ones(shape, dtype=batch[name].dtype)  # around its own check
        with pytest.raises(apt.FieldError, match=f"{name}: expected .*shape"):
            DESCRIPTOR.compute(batch)
    away = apt.collate([molecule()]).to("meta")
    with pytest.raises(apt.FieldError, match="expected a batch on cpu, got meta"):
        DESCRIPTOR.compute(away)
