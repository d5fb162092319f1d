"""ASE databases in LMDB as a dataset: batches equal those that ASE's rows give."""

from __future__ import annotations

import json
import pickle
import random
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import lmdb
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from reference.batches import assert_same_batches
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import convert
from atompack_torch.conversion.sources import ase_db
from atompack_torch.formats import records
from atompack_torch.formats.conversion_report import Report

pytestmark = pytest.mark.filterwarnings("ignore:.*omitted in:UserWarning")


def structures(n: int) -> list[tuple[ase.Atoms, dict[str, Any], dict[str, Any]]]:
    """Structures with all that a row can hold, each of it absent somewhere."""
    rng = np.random.default_rng(n)
    made = []
    for i in range(n):
        k = int(rng.integers(1, 9))
        atoms = ase.Atoms(rng.integers(1, 90, k), rng.normal(0, 9, (k, 3)))
        if i % 2:
            atoms.set_cell(rng.normal(0, 9, (3, 3)))
            atoms.pbc = rng.integers(0, 2, 3)
        if i % 3:
            atoms.set_tags(rng.integers(0, 3, k))
            atoms.set_initial_charges(rng.normal(size=k))
            atoms.set_initial_magnetic_moments(rng.normal(size=k))
        if i % 4:
            atoms.set_momenta(rng.normal(size=(k, 3)))
        if i % 6 == 1:
            atoms.set_masses(rng.uniform(1, 9, k))
            atoms.set_constraint(FixAtoms([0]))
        results: dict[str, Any] = {}
        if i % 5:
            results |= {"energy": rng.normal(), "forces": rng.normal(size=(k, 3))}
        if i % 7:
            results |= {"stress": rng.normal(size=6), "magmoms": rng.normal(size=k)}
            results |= {"dipole": rng.normal(size=3), "free_energy": rng.normal()}
            results |= {"charges": rng.normal(size=k), "magmom": 1.5}
        if i % 11 == 10:
            results |= {"energy": np.nan, "forces": np.full((k, 3), np.nan)}
        atoms.calc = SinglePointCalculator(atoms, **results)
        pairs = {"gap": rng.normal(), "label": f"run {i}", "step": i} if i % 2 else {"on": True}
        data: dict[str, Any] = {"charge": i % 3 - 1, "spin": 1, "origin": f"a/{i}", "none": None}
        if i % 3:
            data |= {"vector": rng.normal(size=4), "list": [1, 2, 3], "f4": np.float32([0.1, i])}
            data |= {"i4": np.arange(2, dtype=np.int32), "flags": np.array([True, False])}
            data |= {"nested": {"a": 1}, "complex": 1j, "atom_properties/q": rng.normal(size=k)}
            data |= {"mixed": [1, 2.5], "matrix": [[1, 2], [3, 4]], "gap": 7.0, "name": f"n{i}"}
        made.append((atoms, pairs, data))
    return made


def write(path: Path, rows: list[tuple[ase.Atoms, dict[str, Any], dict[str, Any]]]) -> Path:
    from ase_db_backends.aselmdb import LMDBDatabase

    with LMDBDatabase(path) as database:
        for atoms, pairs, data in rows:
            database.write(atoms, key_value_pairs=pairs, data=data)
    return path


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write(tmp_path / "x.aselmdb", structures(60))


def by_ase(path: Path, target: Path) -> apt.AtpDataset:
    """The rows as ASE reads them, converted one by one."""
    from ase_db_backends.aselmdb import LMDBDatabase

    from atompack_torch.conversion.schema_unification import SchemaUnifier

    fit, report = SchemaUnifier(), Report("raise")
    with LMDBDatabase(path, readonly=True) as database:
        rows = [ase_db.parts_of_row(row, report) for row in database.select(sort="id")]
    blocks = [*records.blocks(rows)]
    for block in blocks:
        fit.learn(block)
    with apt.AtpWriter(target) as writer:
        for block in blocks:
            writer.write_columns(fit.fit(block, report))
    return apt.AtpDataset(target)


def converted(path: Path) -> apt.AtpDataset:
    target = path.with_name(f"{path.name}.atp")
    convert(path, target, progress=False, mode="w")
    return apt.AtpDataset(target)


def test_as_converted_and_as_ase_reads(database: Path, tmp_path: Path) -> None:
    got, expected = apt.AseLmdbDataset(database), converted(database)
    assert_same_batches(expected[:], got[:])
    assert torch.equal(expected.n_atoms, got.n_atoms)
    for i in range(0, 60, 7):
        assert_same_batches(expected[i : i + 2], got[i : i + 2])
    slow = by_ase(database, tmp_path / "slow.atp")
    names = [name for name in slow.schema if name not in ("energy", "forces")]
    with_nan = apt.AtpDataset(slow.path, nan_is_missing=True)[:]
    batch = got[:]
    assert set(batch.keys()) == set(slow[:].keys())
    for name in names:
        x, y = with_nan[name], batch[name]
        assert (x == y) if isinstance(x, list) else torch.allclose(x, y, 0, 0, equal_nan=True), name
    assert batch.mask("energy").tolist() == [bool(i % 5) and i % 11 != 10 for i in range(60)]


def test_values_of_rows(database: Path) -> None:
    dataset = apt.AseLmdbDataset(database)
    for i, (atoms, pairs, data) in enumerate(structures(60)):
        molecule = dataset[i]
        assert np.array_equal(molecule.positions.numpy(), atoms.positions)
        assert molecule.atomic_numbers.tolist() == atoms.numbers.tolist()
        assert int(molecule["charge"]) == data["charge"]
        assert molecule["origin"] == data["origin"]
        if "forces" in atoms.calc.results and not np.isnan(atoms.calc.results["forces"]).any():
            assert np.array_equal(molecule.forces.numpy(), atoms.calc.results["forces"])
            assert float(molecule.energy) == atoms.calc.results["energy"]
        if "vector" in data:
            assert np.array_equal(molecule["vector"].numpy(), data["vector"])
            assert molecule["f4"].dtype == torch.float32
            assert molecule["i4"].dtype == torch.int32
            assert molecule["name"] == data["name"]
            assert np.array_equal(molecule["q"].numpy(), data["atom_properties/q"])
            gap = pairs.get("gap", 7.0)  # the pair comes first
            assert float(molecule["gap"]) == gap


def test_what_is_left_out_is_told(database: Path) -> None:
    with pytest.warns(UserWarning, match="constraints omitted in 10 rows"):
        dataset = apt.AseLmdbDataset(database)
    assert dataset.left_out == {"constraints": 10, "data/complex": 40, "data/nested": 40}


def test_deleted_and_updated_rows(tmp_path: Path) -> None:
    from ase_db_backends.aselmdb import LMDBDatabase

    path = write(tmp_path / "x.aselmdb", structures(20))
    with LMDBDatabase(path) as database:
        database.delete([3, 20, 1])
        database.update(5, extra=4.5)
    dataset = apt.AseLmdbDataset(path)
    assert len(dataset) == 17
    assert [int(i[2:]) for i in dataset[:]["origin"]] == [1, *range(3, 19)]
    assert dataset[:].mask("extra").tolist() == [i == 2 for i in range(17)]
    assert float(dataset[2]["extra"]) == 4.5
    assert_same_batches(converted(path)[:], dataset[:])


def test_many_rows_and_long_values(tmp_path: Path) -> None:
    path = tmp_path / "x.aselmdb"
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 28, lock=False)
    rng = np.random.default_rng(0)
    positions = [rng.normal(size=(1 + i % 3 if i % 500 else 3000, 3)) for i in range(5000)]
    with environment.begin(write=True) as transaction:
        for i, places in enumerate(positions):
            row = {
                "numbers": {"__ndarray__": [[len(places)], "int64", [6] * len(places)]},
                "positions": {"__ndarray__": [list(places.shape), "float64", places.tolist()]},
                "pbc": [True, False, True],
                "energy": i,
            }
            packed = json.dumps(row).encode()
            transaction.put(b"%d" % (i + 1), zlib.compress(packed) if i % 2 else packed)
        transaction.put(b"nextid", zlib.compress(b"5001"))
    environment.close()
    dataset = apt.AseLmdbDataset(path)
    assert dataset.n_atoms.tolist() == [len(places) for places in positions]
    batch = dataset[:]
    assert np.array_equal(batch.positions.numpy(), np.concatenate(positions))
    assert batch.energy.tolist() == list(range(5000))
    assert batch.pbc[0].tolist() == [True, False, True]


def test_files_and_folders(tmp_path: Path) -> None:
    rows = structures(12)
    (tmp_path / "set").mkdir()
    paths = [
        write(tmp_path / "set" / "b.aselmdb", rows[:5]),
        write(tmp_path / "set" / "a.aselmdb", rows[5:]),
    ]
    dataset = apt.open(tmp_path / "set")
    assert isinstance(dataset, apt.AseLmdbDataset)
    assert dataset.block_sizes.tolist() == [7, 5]
    assert_same_batches(dataset[:], apt.AseLmdbDataset(paths[::-1])[:])
    assert_same_batches(converted(tmp_path / "set")[:], dataset[:])
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \.aselmdb file"):
        apt.AseLmdbDataset(tmp_path / "none")


def test_key_map(database: Path) -> None:
    dataset = apt.AseLmdbDataset(database, key_map={"free_energy": "energy", "label": "name"})
    for i, (atoms, pairs, _) in enumerate(structures(60)):
        molecule = dataset[i]
        free = atoms.calc.results.get("free_energy")
        assert ("energy" in molecule) == (free is not None)
        assert free is None or float(molecule.energy) == free
        assert molecule["name"] == pairs.get("label") if "label" in pairs else True
    assert "free_energy" not in dataset.schema
    with pytest.raises(apt.FieldError, match="no row has a field 'absent'"):
        apt.AseLmdbDataset(database, key_map={"absent": "energy"})
    with pytest.raises(apt.FieldError, match="has rows for atoms, 'energy' has none"):
        apt.AseLmdbDataset(database, key_map={"tags": "energy"})
    with pytest.raises(apt.FieldError, match="'tags' has rows for atoms, 'properties/t' has none"):
        apt.AseLmdbDataset(database, key_map={"tags": "properties/t"})
    wanted = "'atom_properties/c' has rows for atoms, 'data/charge' has none"
    with pytest.raises(apt.FieldError, match=wanted):
        apt.AseLmdbDataset(database, key_map={"charge": "atom_properties/c"})


VALUES: dict[str, tuple[Any, str | None]] = {  # and what they are among text
    "real": (0.25, "0.25"),
    "integer": (7, "7"),
    "large": (2**53 + 1, "9007199254740993"),
    "flag": (True, "true"),
    "text": ("abc", "abc"),
    "array": (np.array([0.5, 1.5]), None),
    "matrix": (np.ones((2, 2)), None),
}


def test_pairs_and_data_of_one_name(tmp_path: Path) -> None:
    """Rows keep a property in different places, as values of any types."""
    atoms = structures(1)[0][0]
    names = {f"{a}_{b}": (a, b) for a in VALUES for b in VALUES}
    first = {name: VALUES[a][0] for name, (a, _) in names.items()}
    pairs = {name: value for name, value in first.items() if not isinstance(value, np.ndarray)}
    data = {name: value for name, value in first.items() if name not in pairs}
    last = {name: VALUES[b][0] for name, (_, b) in names.items()}
    path = write(tmp_path / "x.aselmdb", [(atoms, pairs, data), (atoms, {}, last)])
    lossy = ["text_array", "text_matrix", "array_text", "matrix_text"]
    with pytest.warns(UserWarning, match="arrays omitted, as other rows have text") as warned:
        batch = apt.AseLmdbDataset(path)[:]
    assert sorted(str(w.message).split(": ")[1] for w in warned) == sorted(
        f"data/{name}" for name in lossy
    )
    for name, kinds in names.items():
        for got, kind in zip(batch[name], kinds, strict=True):
            value, text = VALUES[kind]
            if "text" in kinds:
                assert got == text, name
            else:
                same = np.float64(value) if got.is_floating_point() else value
                assert np.array_equal(np.ravel(got), np.ravel(same)), name
    report = convert(path, tmp_path / "x.atp", progress=False)
    omitted = {what: n for (what, why), n in report.skipped.items() if "text" in why}
    assert omitted == {f"data {name!r}": 1 for name in lossy}


def test_the_molecule_and_its_atoms_have_one_name(tmp_path: Path) -> None:
    atoms = structures(1)[0][0]
    of_atoms = {"atom_properties/q": np.arange(float(len(atoms)))}
    path = write(tmp_path / "x.aselmdb", [(atoms, {"q": 1.5}, of_atoms), (atoms, {"q": 2.5}, {})])
    with pytest.warns(UserWarning, match="properties/q omitted where the atoms have a property of"):
        batch = apt.AseLmdbDataset(path)[:]
    report = convert(path, tmp_path / "x.atp", progress=False)
    assert report.skipped == {("properties/q", "the atoms have a property of this key"): 1}
    for found in (batch, apt.AtpDataset(tmp_path / "x.atp")[:]):
        assert found["properties/q"].tolist()[1] == 2.5
        assert found.mask("properties/q").tolist() == [False, True]
        assert found.mask("atom_properties/q").tolist() == [True, False]


def test_a_label_in_data(tmp_path: Path) -> None:
    rows = structures(6)
    for k, (atoms, _, data) in enumerate(rows):
        data["ref_forces"] = np.full((len(atoms), 3), float(k))
    path = write(tmp_path / "x.aselmdb", rows)
    dataset = apt.AseLmdbDataset(path, key_map={"ref_forces": "forces"})
    assert dataset[4].forces.tolist() == [[4.0] * 3] * len(dataset[4])
    rows[3][2]["ref_forces"] = np.ones((1, 1))
    wrong = write(tmp_path / "y.aselmdb", rows)
    with pytest.raises(apt.FieldError, match=r"forces: expected .* \(molecule 3"):
        apt.AseLmdbDataset(wrong, key_map={"ref_forces": "forces"})[:]


def test_a_dipole_in_data_is_the_label(tmp_path: Path) -> None:
    rows = [
        (atoms, pairs, {"dipole": [1.0, 2.0, float(k)]})
        for k, (atoms, pairs, _) in enumerate(structures(6))
    ]
    for atoms, _, _ in rows:
        atoms.calc = None
    path = write(tmp_path / "x.aselmdb", rows)
    dipoles = apt.AseLmdbDataset(path)[:].dipole
    assert dipoles.tolist() == [data["dipole"] for _, _, data in rows]
    assert torch.equal(dipoles, converted(path)[:].dipole)


@pytest.mark.parametrize(
    "method", [None, "fork", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_workers(database: Path, method: str | None) -> None:
    dataset = apt.AseLmdbDataset(database)
    dataset[0]
    options = {} if method is None else {"num_workers": 2, "multiprocessing_context": method}
    loader = DataLoader(dataset, batch_size=7, **options)  # type: ignore[arg-type]
    for k, batch in enumerate(loader):
        assert_same_batches(dataset[7 * k : 7 * k + 7], batch)


def test_loader_pickles_and_commands(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = apt.AseLmdbDataset(database, neighbors=apt.NeighborList(4.0))
    expected = apt.AtpDataset(converted(database).path, neighbors=apt.NeighborList(4.0))
    for batch in apt.Loader(dataset, batch_size=8, shuffle=True):
        assert_same_batches(expected.batch(batch.index), batch)
    assert_same_batches(dataset[:], pickle.loads(pickle.dumps(dataset))[:])
    assert apt.verify(database).ok
    assert repr(apt.statistics(database)) == repr(apt.statistics(expected.path))
    assert apt.info(database)["n_molecules"] == 60
    for command in (["info"], ["head", "-n", "1"], ["verify"], ["stats"]):
        assert main([command[0], str(database), *command[1:]]) == 0
    assert "60 molecules" in capsys.readouterr().out


@pytest.mark.parametrize("access", ["auto", "random", "sequential", "read"])
def test_access(database: Path, access: Any) -> None:
    expected = apt.AseLmdbDataset(database)
    assert_same_batches(expected[:], apt.AseLmdbDataset(database, access=access)[:])


def test_a_database_that_is_written_to(database: Path) -> None:
    from ase_db_backends.aselmdb import LMDBDatabase

    dataset = apt.AseLmdbDataset(database)
    dataset[0]
    with LMDBDatabase(database) as opened:
        opened.write(ase.Atoms("H"))
    with pytest.raises(OSError, match="written to since it was opened"):
        dataset[0]
    with pytest.raises(OSError, match="changed since it was opened"):
        pickle.loads(pickle.dumps(dataset))[0]
    assert dataset.refresh()
    assert len(dataset) == 61
    assert dataset[60].atomic_numbers.tolist() == [1]


def replaced(path: Path, change: Callable[[Any], object]) -> Path:
    """Applies a change to the keys of a database."""
    environment = lmdb.open(str(path), subdir=False, map_size=1 << 28, lock=False)
    with environment.begin(write=True) as transaction:
        change(transaction)
    environment.close()
    return path


def row(**changes: Any) -> bytes:
    entries: dict[str, Any] = {
        "numbers": {"__ndarray__": [[2], "int64", [1, 8]]},
        "positions": {"__ndarray__": [[2, 3], "float64", [0.0] * 6]},
        "pbc": {"__ndarray__": [[3], "bool", [True] * 3]},
        "cell": {"__ndarray__": [[3, 3], "float64", [0.0] * 9]},
    }
    text = json.dumps({k: v for k, v in (entries | changes).items() if v != "absent"})
    return zlib.compress(text.encode())


DAMAGE: list[tuple[bytes, type[Exception], str]] = [
    (b"", apt.CorruptFileError, "JSON: expected"),
    (b"\x78\x9cabc", apt.CorruptFileError, "zlib stream"),
    (zlib.compress(b"[1]"), apt.CorruptFileError, "expected a map"),
    (zlib.compress(b"{}"), apt.CorruptFileError, "expected numbers and positions"),
    (row(numbers="absent"), apt.CorruptFileError, "expected numbers and positions"),
    (row(numbers=[300, 1]), apt.CorruptFileError, "atomic number: expected 0 to 255, got 300"),
    (row(numbers=[1.5, 1]), apt.CorruptFileError, "numbers: expected integers"),
    (row(positions=[[0, 0, 0]]), apt.CorruptFileError, "positions: expected 6 numbers, got 3"),
    (row(positions="x"), apt.CorruptFileError, "positions: expected numbers"),
    (row(pbc=[True]), apt.CorruptFileError, "pbc: expected three flags"),
    (row(cell=[1, 2]), apt.CorruptFileError, "cell: expected nine numbers"),
    (row(tags=[1]), apt.CorruptFileError, "expected a row for each of 2 atoms"),
    (row(data=[1]), apt.CorruptFileError, "expected a map of values"),
    (
        row(positions={"__ndarray__": [[2, 3], "float64", [0.0] * 5]}),
        apt.CorruptFileError,
        "array: expected 6 values, got 5",
    ),
    (
        row(positions={"__ndarray__": [[-2, 3], "float64", []]}),
        apt.CorruptFileError,
        "shape of an array: expected sizes from 0",
    ),
    (
        row(data={"x": {"__ndarray__": [[9**18, 9**18], "int64", []]}}),
        apt.CorruptFileError,
        "array",
    ),
    (row(data={"x": json.loads("[" * 100 + "]" * 100)}), apt.CorruptFileError, "nest"),
]


@pytest.mark.parametrize(("stored", "kind", "message"), DAMAGE, ids=range(len(DAMAGE)))
def test_damaged_rows(tmp_path: Path, stored: bytes, kind: type[Exception], message: str) -> None:
    path = write(tmp_path / "x.aselmdb", structures(4))
    replaced(path, lambda transaction: transaction.put(b"3", stored))
    with pytest.raises(kind, match=message) as error:
        apt.AseLmdbDataset(path)
    assert f"{path}: " in str(error.value)
    assert "molecule 2" in str(error.value)
    assert "convert --on-error skip` keeps the other rows" in str(error.value)
    assert not apt.verify(path).ok
    report = convert(path, tmp_path / "out.atp", progress=False, on_error="skip")
    assert report.structures_written in (3, 4)  # ASE takes some of them


def test_labels_of_wrong_shape(tmp_path: Path) -> None:
    path = write(tmp_path / "x.aselmdb", structures(4))
    replaced(path, lambda transaction: transaction.put(b"3", row(energy=[1.0, 2.0])))
    with pytest.raises(apt.FieldError, match=r"energy: expected numbers of shape \(\), got"):
        apt.AseLmdbDataset(path)[:]


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "x.aselmdb", structures(4))
    replaced(path, lambda transaction: transaction.delete(b"3"))
    with pytest.raises(apt.CorruptFileError, match="nextid: expected rows for 4 ids, got 3"):
        apt.AseLmdbDataset(path)
    other = tmp_path / "graphs.lmdb"
    replaced(other, lambda transaction: transaction.put(b"0", pickle.dumps(1)))
    with pytest.raises(apt.UnsupportedFormatError, match="expected an ASE database"):
        apt.AseLmdbDataset(other)


def test_ids_that_are_there_twice(tmp_path: Path) -> None:
    """The number of rows is right, so that it does not tell."""
    path = write(tmp_path / "x.aselmdb", structures(4))
    replaced(path, lambda transaction: transaction.put(b"2", b"row of the key 2"))
    content = path.read_bytes()
    assert b"2row of the key 2" in content
    path.write_bytes(content.replace(b"2row of the key 2", b"1row of the key 2"))
    with pytest.raises(apt.CorruptFileError, match="expected each id once, got 1 twice"):
        apt.AseLmdbDataset(path)
    with pytest.raises(apt.CorruptFileError, match="expected each id once, got 1 twice"):
        convert(path, tmp_path / "x.atp", progress=False)


def error_of(path: Path) -> str | None:
    """The message of the error that reading all rows ends in."""
    try:
        apt.AseLmdbDataset(path, index=False)[:]
    except apt.AtompackError as error:
        return str(error)
    return None


def test_cut_files_and_mutants(tmp_path: Path) -> None:
    path = write(tmp_path / "x.aselmdb", structures(30))
    sound = path.read_bytes()
    mutant = tmp_path / "mutant.aselmdb"
    rng = random.Random(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(0, len(sound), 4096):
            mutant.write_bytes(sound[:n])
            message = error_of(mutant)
            assert n > len(sound) - 20 * 4096 or message is not None
            assert message is None or "mutant.aselmdb" in message
        for _ in range(300):
            changed = bytearray(sound)
            page = rng.choice([0, 4096, rng.randrange(len(sound)) // 4096 * 4096])
            for _ in range(rng.randrange(1, 4)):
                changed[page + rng.randrange(200)] = rng.randrange(256)
            mutant.write_bytes(changed)
            message = error_of(mutant)
            assert message is None or "mutant.aselmdb" in message


def test_a_file_that_is_cut_while_it_is_read(database: Path) -> None:
    dataset = apt.AseLmdbDataset(database)
    dataset[0]
    with database.open("r+b") as file:
        file.truncate(8192)
    with pytest.raises(apt.CorruptFileError, match="shrank"):
        dataset[:]
