"""Features, derivatives and forces equal those that aenet-python has stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference import gradients
from reference.cache_fixture import READABLE

import atompack_torch as apt
from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.batch.molecule_batch import with_fields
from atompack_torch.fields import DERIVATIVES

# Those with numbers of a descriptor, of which one holds what the original gets wrong.
NAMES = [
    "v2_both_f64_blosc",
    *(n for n in READABLE if not n.startswith("plain_") and n != "v2_both_f64_unwrapped"),
]
# Keys of the fixtures, in the order of our names.
ROWS = ("r_center", "r_neighbor", "r_dG", "r_spin", "a_center", "a_j", "a_k")
ROWS += ("a_gi", "a_gj", "a_gk", "a_spin")


class Stored:
    """What a fixture says of its file."""

    def __init__(self, folder: Path, name: str) -> None:
        self.facts = json.loads((folder / f"{name}.expected.json").read_text())
        self.arrays = np.load(folder / f"{name}.expected.npz")
        self.entries = range(self.facts["entries"])

    def array(self, entry: int, key: str) -> Any:
        return self.arrays.get(f"e{entry}_{key}")

    def descriptor(self, **changed: Any) -> apt.ChebyshevDescriptor:
        given = self.facts["descriptor"]
        names = ("species", "rad_order", "rad_cutoff", "ang_order", "ang_cutoff", "min_cutoff")
        settings = {name: given[name] for name in (*names, "dtype")}
        return apt.ChebyshevDescriptor(**(settings | changed))

    def molecule(self, entry: int) -> apt.Molecule:
        numbers = [SYMBOLS.index(label) for label in self.facts["entry"][entry]["species"]]
        cell, pbc = self.array(entry, "cell"), self.array(entry, "pbc")
        return apt.Molecule(self.array(entry, "positions"), numbers, cell=cell, pbc=pbc)

    def rows(self, entry: int) -> dict[str, Any] | None:
        """None: aenet has stored none."""
        if self.array(entry, "r_dG") is None:
            return None
        stored = {name: self.array(entry, key) for name, key in zip(DERIVATIVES, ROWS, strict=True)}
        if not self.facts["descriptor"]["multi"]:
            stored |= {name: None for name in stored if name.endswith("typespin")}
        return stored


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


def rows_of(molecule: apt.Molecule) -> dict[str, Any]:
    return {n: molecule[n].numpy() if n in molecule else None for n in DERIVATIVES}


def probe(n_atoms: int, n_features: int) -> Any:
    """W of the fixtures."""
    return np.sin(0.5 + 0.37 * np.arange(n_atoms)[:, None] + 0.11 * np.arange(n_features))


def computed(stored: Stored, **changed: Any) -> apt.MoleculeBatch:
    """All entries of a file, in one batch."""
    batch = apt.MoleculeBatch.from_molecules([stored.molecule(k) for k in stored.entries])
    return stored.descriptor(**changed).compute(batch, derivatives=True)


@pytest.mark.parametrize("name", NAMES)
def test_hashes(name: str, folder: Path) -> None:
    stored = Stored(folder, name)
    descriptor = stored.descriptor()
    if stored.facts.get("descriptor_compat_json"):
        assert descriptor.compat_json == stored.facts["descriptor_compat_json"]
        assert descriptor.compat_sha256 == stored.facts["descriptor_compat_sha256"]
    assert descriptor.n_features == stored.facts["descriptor"]["n_features"]
    assert list(descriptor.typespin) == stored.facts["descriptor"]["typespin"]


@pytest.mark.parametrize("name", NAMES)
def test_features_derivatives_and_forces(name: str, folder: Path) -> None:
    stored = Stored(folder, name)
    loose = stored.facts["descriptor"]["dtype"] == "float32"  # aenet has computed in it
    batch = computed(stored, dtype="float64")
    compared = 0
    for entry in stored.entries:
        molecule, features = batch[entry], stored.array(entry, "features")
        if features is not None:
            limit = 2e-5 if loose else 1e-9
            np.testing.assert_allclose(molecule.features, features, rtol=0, atol=limit)
            compared += 1
        rows = stored.rows(entry)
        if rows is None:
            continue
        n_atoms = len(molecule)
        ours = gradients.dense(rows_of(molecule), n_atoms)
        limit = 2e-4 if loose else 1e-8
        theirs = gradients.dense(rows, n_atoms)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=limit)
        weights = torch.from_numpy(probe(n_atoms, ours.shape[1]))
        alone = apt.collate([molecule])
        forces = apt.contract_forces(alone, weights)
        np.testing.assert_allclose(forces, stored.array(entry, "forces"), rtol=0, atol=limit)
        compared += 1
    assert compared > 0


def test_rows_come_in_the_order_of_aenet_for_isolated_structures(folder: Path) -> None:
    stored = Stored(folder, "v2_both_f64_three")
    batch = computed(stored)
    n_compared = 0
    for entry in stored.entries:
        rows = stored.rows(entry)
        if rows is None or stored.array(entry, "cell") is not None:
            continue
        ours = rows_of(batch[entry])
        for name, value in rows.items():
            np.testing.assert_allclose(ours[name], value, rtol=0, atol=1e-9, err_msg=name)
            n_compared += len(value)
    assert n_compared > 100


def test_stored_rows_give_the_stored_forces(folder: Path) -> None:
    """``contract_forces`` by itself: from rows that aenet has made."""
    for name in ("v2_both_f64_three", "v2_both_f32_three", "v2_both_f64_single"):
        stored = Stored(folder, name)
        for entry in stored.entries:
            rows = stored.rows(entry)
            if rows is None:
                continue
            batch = computed(stored)
            alone = apt.collate([batch[entry]])
            fields = {n: torch.from_numpy(v) for n, v in rows.items() if v is not None}
            whole = with_fields(alone, fields, replaced=DERIVATIVES)
            dtype = fields["radial_dG_drij"].dtype
            weights = torch.from_numpy(probe(*alone.features.shape)).to(dtype)
            forces = apt.contract_forces(whole, weights)
            limit = 1e-12 if dtype == torch.float64 else 1e-5
            expected = stored.array(entry, "forces")
            np.testing.assert_allclose(forces, expected, rtol=0, atol=limit)


def test_atoms_outside_the_cell_are_where_they_are(folder: Path) -> None:
    """Entry 1 is entry 0 moved out of its cell; its stored derivatives are aenet's wrong ones."""
    stored = Stored(folder, "v2_both_f64_unwrapped")
    batch = computed(stored)
    right = stored.array(0, "features")
    assert np.abs(stored.array(1, "features") - right).max() > 1e-3
    for entry in stored.entries:
        np.testing.assert_allclose(batch[entry].features, right, rtol=0, atol=1e-9)
    expected = gradients.dense(stored.rows(0) or {}, len(batch[0]))
    for entry in stored.entries:
        ours = gradients.dense(rows_of(batch[entry]), len(batch[entry]))
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-8)


def test_float32_is_rounded_once(folder: Path) -> None:
    stored = Stored(folder, "v2_both_f64_three")
    double, single = computed(stored), computed(stored, dtype="float32")
    for name in ("features", *DERIVATIVES):
        if double[name].is_floating_point():
            assert single[name].dtype == torch.float32
            assert torch.equal(single[name], double[name].float()), name
        else:
            assert torch.equal(single[name], double[name]), name
