"""dataset.statistics() against a slow reference; whatever the threads, files and gaps."""

from __future__ import annotations

import json
import math
import multiprocessing
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.client import AtompackProcess
from reference import atp_record as rec
from reference import strategies
from reference.atp_file import SLOT_BYTES
from reference.atp_forge import (
    atom_property,
    atp_file,
    builtin,
    molecule_property,
    schema_blob,
    slot,
)
from reference.fixture_files import present
from reference.statistics import Plain, assert_spread, assert_statistics, plain_of

import atompack_torch as apt
from atompack_torch.datasets.statistics import Statistics

NewPath = Callable[[], Path]
STRUCTURE = {"positions", "atomic_numbers"}
CHUNK = 2048  # of csrc/passes/sweep.h
ELEMENTS = {1: -13.6, 6: -1030.0, 8: -2040.0, 26: -34500.0, 79: -535000.0}
RECIPE = strategies.Recipe(
    "f4",
    {"energy": "f8", "forces": "f4", "cell": "f8", "name": "f8"},
    {"gap": strategies.Kind("float"), "t": strategies.Kind("tensor", "f4", ((2, 2), (1, 4)))},
    {"q": strategies.Kind("array", "f8")},
)


def record(numbers: Sequence[int], sections: Sequence[bytes]) -> bytes:
    """A record of these elements."""
    n = len(numbers)
    head = struct.pack("<I", n) + np.zeros(3 * n, "<f4").tobytes() + bytes(numbers)
    return head + struct.pack("<H", len(sections)) + b"".join(sections)


def energy_of(value: float) -> bytes:
    """An energy section."""
    return builtin("energy", rec.F64, struct.pack("<d", value))


def forces_of(values: np.ndarray) -> bytes:
    """A forces section in the dtype of the array."""
    tag = rec.F32_VECTORS if values.dtype == np.float32 else rec.F64_VECTORS
    return builtin("forces", tag, np.ascontiguousarray(values).tobytes())


def written(path: Path, molecules: Sequence[Plain], codec: str = "none", forces: int = 4) -> Path:
    """A file of molecules with energies and forces where they have them."""
    records = []
    for m in molecules:
        sections = [] if m.energy is None else [energy_of(m.energy)]
        sections += [] if m.forces is None else [forces_of(m.forces)]
        records.append(record(m.atomic_numbers.tolist(), sections))
    tag, slot = (rec.F32_VECTORS, 12) if forces == 4 else (rec.F64_VECTORS, 24)
    schema = schema_blob([(0, "energy", rec.F64, 8), (0, "forces", tag, slot)])
    data = atp_file(records, codec=codec, schema=schema, record_format=2 if forces == 4 else 3)
    path.write_bytes(data)
    return path


def all_electron(n_molecules: int, seed: int = 0) -> list[Plain]:
    """Total energies of many thousand eV, with a millielectronvolt of noise in them."""
    rng = np.random.default_rng(seed)
    molecules = []
    for _ in range(n_molecules):
        numbers = rng.choice(list(ELEMENTS), rng.integers(1, 12)).astype(np.uint8)
        energy = sum(ELEMENTS[int(z)] for z in numbers) + rng.normal(0, 1e-3)
        forces = rng.normal(0, 1, (len(numbers), 3)).astype(np.float32)
        has_energy, has_forces = rng.random(2) < 0.9
        molecules.append(
            Plain(numbers, energy if has_energy else None, forces if has_forces else None)
        )
        molecules[-1].labels = {
            *(["energy"] * bool(has_energy)),
            *(["forces"] * bool(has_forces)),
        }
    return molecules


@pytest.fixture(scope="module")
def many() -> list[Plain]:
    """More molecules than one chunk holds."""
    return all_electron(2 * CHUNK + 300)


@pytest.fixture(scope="module")
def many_path(many: list[Plain], new_path: NewPath) -> Path:
    """Their file."""
    return written(new_path(), many)


def labels_of(dataset: apt.AtpDataset) -> list[str]:
    """The labels of the schema."""
    return [name for name in dataset.schema if name not in STRUCTURE]


def plain_molecules(dataset: apt.AtpDataset) -> list[Plain]:
    """All molecules, read one by one."""
    return [plain_of(dataset[i]) for i in range(len(dataset))]


@pytest.mark.parametrize(
    "name",
    present(
        [
            *("minimal", "gen3", "codec_lz4", "codec_zstd", "sizes_mixed", "custom_all_types"),
            *("custom_edge_values", "optional_sections", "optional_lookup", "tensor_ragged"),
            *("legacy_v020", "v3_f64_all", "v3_f32_energy", "scope_differs", "odd_dup_builtin"),
            *("only_geometry", "odd_schema_incomplete", "empty_created", "empty_flushed"),
        ],
        "atp/{}.atp",
    ),
)
def test_fixtures(fixtures: Path, name: str) -> None:
    dataset = apt.AtpDataset(fixtures / f"{name}.atp")
    molecules = plain_molecules(dataset)
    labels = dict.fromkeys([*labels_of(dataset), *(n for m in molecules for n in sorted(m.labels))])
    assert_statistics(dataset.statistics(), molecules, list(labels))


@pytest.mark.parametrize("name", ["v2_both_f64_three", "v2_both_f32_three", "legacy_v1_f64_two"])
def test_feature_caches(fixtures: Path, name: str) -> None:
    """Their molecules are decoded one by one into memory that the next one takes."""
    path = fixtures.parent / "torch_cache" / f"{name}.h5"
    labels = ["energy", "forces"]
    dataset = apt.TorchCacheDataset(path, fields=labels)
    for one, more in ((dataset, []), (apt.MixtureDataset([dataset]), ["source"])):
        molecules = [plain_of(one[i]) for i in range(len(one))]
        assert_statistics(one.statistics(), molecules, [*labels, *more])


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_random_files(atompack: AtompackProcess, new_path: NewPath, codec: str) -> None:
    rng = np.random.default_rng(len(codec))
    sizes = rng.integers(0, 20, 60)
    molecules = [strategies.molecule(rng, RECIPE, n, present=0.7) for n in sizes]
    for molecule in molecules:  # huge energies leave no digits for a fit
        if abs(molecule.get("energy", 0)) > 1e6:
            molecule["energy"] = math.nan
    dataset = apt.AtpDataset(atompack.write(new_path(), molecules, codec))
    found = dataset.statistics()
    assert_statistics(found, plain_molecules(dataset), labels_of(dataset))
    assert found.energy is not None
    assert found.energy.n_non_finite > 0
    assert found.forces is not None
    assert found.forces.n_non_finite > 0


def test_many_molecules(many: list[Plain], many_path: Path) -> None:
    assert_statistics(
        apt.AtpDataset(many_path).statistics(),
        [Plain(m.atomic_numbers, m.energy, m.forces, m.labels) for m in many],
        ["energy", "forces"],
    )


def test_reference_energies_of_all_electron_totals(many: list[Plain], many_path: Path) -> None:
    """A millielectronvolt of noise is found on top of 500,000 eV an atom."""
    fit = apt.AtpDataset(many_path).statistics().reference_energies
    assert fit is not None
    assert fit.rank == len(ELEMENTS)
    for z, energy in ELEMENTS.items():
        assert fit.energies[z] == pytest.approx(energy, abs=1e-4)
    assert fit.residual_rms == pytest.approx(1e-3, rel=0.05)
    n_atoms = np.array([len(m.atomic_numbers) for m in many if m.energy is not None])
    per_atom = 1e-3 * math.sqrt(np.mean(1 / n_atoms**2.0))
    assert fit.residual_rms_per_atom == pytest.approx(per_atom, rel=0.1)


def test_an_element_that_only_one_molecule_has(new_path: NewPath) -> None:
    """No sample of the energies would show it."""
    molecules = all_electron(3 * 4096 + 5)
    odd = len(molecules) - 3
    molecules[odd] = Plain(np.array([92, 1], np.uint8), -800_000.0, None, {"energy"})
    fit = apt.AtpDataset(written(new_path(), molecules)).statistics().reference_energies
    assert fit is not None
    assert fit.energies[92] == pytest.approx(-800_000.0 - ELEMENTS[1], abs=1e-3)
    assert fit.residual_rms == pytest.approx(1e-3, rel=0.05)


def test_same_on_any_number_of_threads(many_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        found = []
        for n_threads in (1, 2, 3):
            torch.set_num_threads(n_threads)
            found.append(apt.AtpDataset(many_path).statistics())
        found.append(apt.AtpDataset(many_path, num_threads=1).statistics())
    finally:
        torch.set_num_threads(before)
    assert all(f == found[0] for f in found[1:])  # bit for bit


def test_large_means_keep_their_spread(new_path: NewPath) -> None:
    rng = np.random.default_rng(3)
    molecules = [
        Plain(np.array([1], np.uint8), 1e9 + e, 1e6 + rng.normal(0, 1e-3, (1, 3)))
        for e in rng.normal(0, 1e-3, CHUNK + 200)
    ]
    found = apt.AtpDataset(written(new_path(), molecules, forces=8)).statistics()
    assert_spread(found.forces, np.concatenate([m.forces for m in molecules]).flatten())
    assert found.energy is not None
    assert found.energy.std == pytest.approx(np.std([m.energy - 1e9 for m in molecules]), rel=1e-4)


def test_compositions_that_are_not_independent(new_path: NewPath) -> None:
    """Water alone does not tell hydrogen from oxygen: of all solutions the shortest is given."""
    molecules = [Plain(np.array([8, 1, 1] * k, np.uint8), -14.5 * k) for k in (1, 2, 3, 5)]
    found = apt.AtpDataset(written(new_path(), molecules)).statistics()
    fit = found.reference_energies
    assert fit is not None
    assert fit.rank == 1
    assert fit.energies == pytest.approx({1: -5.8, 8: -2.9})
    assert fit.residual_rms == pytest.approx(0, abs=1e-7)
    assert "not unique" in repr(found)


def test_energies_that_are_not_finite(new_path: NewPath) -> None:
    values = [math.nan, math.inf, -math.inf]
    none_finite = [Plain(np.array([1], np.uint8), e) for e in values]
    path = written(new_path(), none_finite)
    found = apt.AtpDataset(path).statistics()
    assert found.energy is not None
    assert (found.energy.count, found.energy.n_non_finite) == (0, 3)
    assert math.isnan(found.energy.mean)
    assert found.reference_energies is None
    assert found.coverage["energy"] == 3  # they are stored
    assert found.as_dict()["energy"]["mean"] is None
    both = apt.AtpDataset([path, written(new_path(), [Plain(np.array([1], np.uint8), 2.0)])])
    energy = both.statistics().energy
    assert energy is not None
    assert (energy.count, energy.n_non_finite, energy.mean, energy.std) == (1, 3, 2.0, 0.0)


def test_forces_that_are_not_finite(new_path: NewPath) -> None:
    forces = np.array([[1, math.nan, 2], [3, 4, 0], [math.inf, 0, 0]], np.float32)
    path = written(new_path(), [Plain(np.array([1, 1, 1], np.uint8), None, forces)])
    found = apt.AtpDataset(path).statistics()
    assert_spread(found.forces, forces.flatten())
    assert found.max_force == 5


def test_subset_and_several_files(many: list[Plain], many_path: Path, new_path: NewPath) -> None:
    other = all_electron(50, seed=8)
    both = apt.AtpDataset([many_path, written(new_path(), other, "zstd")])
    everything = [*many, *other]
    labels = ["energy", "forces"]
    assert_statistics(both.statistics(), everything, labels)
    order = np.random.default_rng(0).permutation(len(everything))[:3000]
    chosen = [everything[i] for i in order]
    assert_statistics(both.subset(order).statistics(), chosen, labels)
    assert_statistics(
        both.subset(order).subset([5, 5, -1]).statistics(), [chosen[i] for i in (5, 5, -1)], labels
    )


def test_missing(many: list[Plain], many_path: Path) -> None:
    complete = [m for m in many if m.labels == {"energy", "forces"}]
    labels = ["energy", "forces"]
    assert len(complete) < len(many)
    dropped = apt.AtpDataset(many_path, missing="drop").statistics()
    assert_statistics(dropped, complete, labels)
    with_energy = [Plain(m.atomic_numbers, m.energy, None, {"energy"}) for m in many if m.energy]
    alone = apt.AtpDataset(many_path, fields=["energy"], missing="drop").statistics()
    assert_statistics(alone, with_energy, ["energy"])
    first = next(i for i, m in enumerate(many) if m.labels != {"energy", "forces"})
    with pytest.raises(apt.FieldError, match=rf"by fields= \(molecule {first}, field '"):
        apt.AtpDataset(many_path, missing="error").statistics()


def test_only_the_fields_asked_for(many_path: Path) -> None:
    found = apt.AtpDataset(many_path, exclude=["energy"]).statistics()
    assert found.energy is None
    assert found.reference_energies is None
    assert list(found.coverage) == ["forces"]
    assert found.forces is not None


def test_empty(fixtures: Path) -> None:
    found = apt.AtpDataset(fixtures / "empty_created.atp").statistics()
    assert (found.n_molecules, found.n_atoms, found.min_atoms, found.max_atoms) == (0, 0, 0, 0)
    assert math.isnan(found.mean_atoms)
    json.dumps(found.as_dict(), allow_nan=False)
    assert repr(found)


def test_as_dict_and_repr(many: list[Plain], many_path: Path) -> None:
    found = apt.AtpDataset(many_path).statistics()
    assert isinstance(found, Statistics)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["n_molecules"] == len(many)
    assert plain["elements"]["79"] == {
        "n_atoms": found.elements[79].n_atoms,
        "n_molecules": found.elements[79].n_molecules,
        "force_rms": found.elements[79].force_rms,
    }
    assert plain["reference_energies"]["rank"] == 5
    assert plain["sizes"] == {str(n): count for n, count in found.sizes.items()}
    assert plain["energy"]["std"] == found.energy.std  # type: ignore[union-attr]
    text = repr(found)
    for word in ("Au", "energy_per_atom", "residual RMS", f"{found.n_atoms:,} atoms"):
        assert word in text


def test_progress(many_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[int] = []
    dataset = apt.AtpDataset(many_path)
    dataset.statistics(progress=steps.append)
    assert sum(steps) == len(dataset)
    dataset.statistics()
    assert capsys.readouterr().err == ""
    dataset.statistics(progress=True)
    assert f"{len(dataset):,} molecules" in capsys.readouterr().err


def test_in_several_steps(new_path: NewPath) -> None:
    """A file that takes longer than one step: one record, and an index that lists it often."""
    n, n_atoms = 300_000, 100
    forces = np.ones((n_atoms, 3), np.float32)
    raw = record([6] * n_atoms, [energy_of(-1.0), forces_of(forces)])
    rows = [(0, "energy", rec.F64, 8), (0, "forces", rec.F32_VECTORS, 12)]
    one = atp_file([raw], schema=schema_blob(rows))
    index_at = len(one) - 28
    index = struct.pack("<Q", n) + n * one[index_at + 8 :]
    schema = schema_blob(rows)
    newest = slot(
        1,
        index=(index_at, len(index)),
        n_molecules=n,
        schema=(index_at - len(schema), len(schema)),
    )
    path = new_path()
    path.write_bytes(one[:SLOT_BYTES] + newest + one[2 * SLOT_BYTES : index_at] + index)
    steps: list[int] = []
    found = apt.AtpDataset(path, num_threads=1).statistics(progress=steps.append)
    assert len(steps) > 1
    assert sum(steps) == n
    assert (found.n_molecules, found.n_atoms, found.sizes) == (n, n * n_atoms, {n_atoms: n})
    assert found.coverage == {"energy": n, "forces": n}
    assert found.forces is not None
    assert (found.forces.count, found.forces.mean, found.forces.std) == (3 * n * n_atoms, 1.0, 0.0)


def test_the_first_damaged_molecule_is_named(new_path: NewPath) -> None:
    good, bad = record([1, 2], [energy_of(1.0)]), record([1, 2], [energy_of(1.0)[:-1]])
    records = [bad if i in (700, 3000, 4500) else good for i in range(5000)]
    path = new_path()
    path.write_bytes(atp_file(records, schema=schema_blob([(0, "energy", rec.F64, 8)])))
    for _ in range(5):
        with pytest.raises(apt.CorruptFileError, match="molecule 700"):
            apt.AtpDataset(path).statistics()
        with pytest.raises(apt.CorruptFileError, match="molecule 3000"):
            apt.AtpDataset(path).subset(range(701, 5000)).statistics()


@pytest.mark.parametrize("first", [100, CHUNK - 1])
def test_of_two_damaged_molecules_the_first_is_named(new_path: NewPath, first: int) -> None:
    """Even where another thread meets the second one earlier."""
    good, bad = record([1, 2], [energy_of(1.0)]), record([1, 2], [energy_of(1.0)[:-1]])
    records = [bad if i in (first, CHUNK) else good for i in range(2 * CHUNK)]
    path = new_path()
    path.write_bytes(atp_file(records, schema=schema_blob([(0, "energy", rec.F64, 8)])))
    dataset = apt.AtpDataset(path)
    for _ in range(20):
        with pytest.raises(apt.CorruptFileError, match=rf"molecule {first}\b"):
            dataset.statistics()


def test_fields_that_no_schema_lists(new_path: NewPath) -> None:
    """They count too, whichever of them a thread sees first."""

    def integer(key: str) -> bytes:
        return molecule_property(key, rec.I64, struct.pack("<q", 1))

    head = [record([1], [integer("listed"), integer("a")])] * CHUNK
    tail = [record([1], [integer("b"), integer("a"), integer("listed")])] * 5
    path = new_path()
    path.write_bytes(
        atp_file([*head, *tail], schema=schema_blob([(2, "listed", rec.I64, 8)])),
    )
    found = apt.AtpDataset(path).statistics()
    assert found.coverage == {"listed": CHUNK + 5, "a": CHUNK + 5, "b": 5}
    without = apt.AtpDataset(path, exclude=["a"]).statistics()
    assert without.coverage == {"listed": CHUNK + 5, "b": 5}


def test_damaged_properties(new_path: NewPath) -> None:
    """As in a batch: an error unless they are omitted."""
    damaged = molecule_property("k", rec.F64, b"123")
    twice = 2 * [atom_property("q", rec.F64_ARRAY, struct.pack("<d", 1.0))]
    for name, sections in (("k", [damaged]), ("q", twice)):
        path = new_path()
        path.write_bytes(atp_file([record([1], sections)], schema=schema_blob()))
        with pytest.raises(apt.CorruptFileError, match=rf"molecule 0, field '{name}'"):
            apt.AtpDataset(path).statistics()
        assert apt.AtpDataset(path, exclude=[name]).statistics().n_molecules == 1


def _child(dataset: apt.AtpDataset, queue: Any) -> None:
    queue.put(dataset.statistics().as_dict())


def test_in_a_forked_child(many_path: Path) -> None:
    """A thread pool does not survive a fork: the child must not wait for it."""
    dataset = apt.AtpDataset(many_path)
    expected = dataset.statistics().as_dict()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(dataset, queue))
    child.start()
    assert queue.get(timeout=200) == expected
    child.join(200)
    assert child.exitcode == 0
