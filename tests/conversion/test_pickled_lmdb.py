"""LMDB files of pickles: torch-geometric graphs, as in OC20, and dicts, as of NequIP."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
import torch
from reference.foreign import assert_refused, converted
from torch_geometric.data import Data

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.sources.pickled_lmdb import open_source
from atompack_torch.formats.aselmdb.rows import is_pickled
from atompack_torch.formats.converter import SourceOptions


def graph(i: int, n: int) -> dict[str, Any]:
    """The attributes of a structure of OC20's S2EF."""
    torch.manual_seed(i)
    return {
        "pos": torch.randn(n, 3),
        "atomic_numbers": torch.randint(1, 80, (n,)).float(),
        "cell": torch.eye(3)[None] * 5,
        "natoms": n,
        "y": float(i) - 0.1,
        "force": torch.randn(n, 3),
        "tags": torch.arange(n) % 3,
        "fixed": torch.zeros(n),
        "sid": i,
        "fid": torch.tensor([i]),
        "edge_index": torch.zeros(2, 4, dtype=torch.long),
        "cell_offsets": torch.zeros(4, 3),
        "edge_attr": None,
    }


def old_graph(attributes: Mapping[str, Any]) -> bytes:
    """A pickle of ``Data`` of torch-geometric 1, whose tensors are attributes."""
    state = pickle.dumps(dict(attributes), protocol=2)
    return b"\x80\x02ctorch_geometric.data.data\nData\n)\x81" + state[2:-1] + b"b."


def new_graph(attributes: Mapping[str, Any]) -> bytes:
    return pickle.dumps(Data(**attributes), protocol=-1)


def plain(attributes: Mapping[str, Any]) -> bytes:
    return pickle.dumps(dict(attributes), protocol=-1)


def written(path: Path, values: list[bytes], **more: bytes) -> Path:
    """Writes a file; more: other keys."""
    with (
        lmdb.open(str(path), subdir=False, map_size=1 << 28) as environment,
        environment.begin(write=True) as transaction,
    ):
        for i, value in enumerate(values):
            transaction.put(b"%d" % i, value)
        for key, value in more.items():
            transaction.put(key.encode(), value)
    return path


@pytest.mark.parametrize("pickled", [old_graph, new_graph, plain])
def test_graphs_of_oc20(tmp_path: Path, pickled: Callable[[Mapping[str, Any]], bytes]) -> None:
    graphs = [graph(i, 1 + i % 3) for i in range(12)]
    length = pickle.dumps(len(graphs), protocol=-1)
    path = written(tmp_path / "data.0000.lmdb", [*map(pickled, graphs)], length=length)
    assert is_pickled(str(path))
    dataset, report = converted(path)
    source = open_source(str(path), SourceOptions("pickled-lmdb", {}))
    assert report.structures_written == source.count() == 12
    assert not report.skipped
    for i, want in enumerate(graphs):
        molecule = dataset[i]
        assert torch.equal(molecule.positions, want["pos"])
        assert molecule.atomic_numbers.tolist() == want["atomic_numbers"].tolist()
        assert torch.equal(molecule.forces, want["force"])
        assert molecule.energy.item() == want["y"]
        assert molecule.cell.tolist() == want["cell"][0].tolist()
        assert molecule.pbc.all()
        assert molecule["tags"].tolist() == want["tags"].tolist()
        assert molecule["fixed"].tolist() == want["fixed"].tolist()
        assert (molecule["sid"].item(), molecule["fid"].item()) == (i, i)
        assert {"edge_index", "cell_offsets", "edge_attr", "natoms"}.isdisjoint(molecule.keys())
    assert report.sources["energy"] == ["y"]
    assert any(note.startswith("pbc: T T T") for note in report.notes)


def test_dicts_of_nequip(tmp_path: Path) -> None:
    """As NequIPLMDBDataset.save_from_iterator of 0.19 writes them."""
    entries = []
    for i in range(5):
        torch.manual_seed(i)
        entries.append(
            {
                "pos": torch.randn(3, 3, dtype=torch.float64),
                "atomic_numbers": torch.tensor([8, 1, 1]),
                "cell": torch.eye(3, dtype=torch.float64)[None] * 4,
                "pbc": torch.tensor([[True, True, False]]),
                "total_energy": torch.tensor([[0.1 + i]], dtype=torch.float64),
                "forces": torch.randn(3, 3, dtype=torch.float64),
                "stress": torch.randn(1, 3, 3, dtype=torch.float64),
                "num_atoms": torch.tensor([3]),
                "edge_index": torch.zeros(2, 0, dtype=torch.long),
                "charge": torch.tensor([[1.5]]),
            }
        )
    metadata = {"num_atoms_per_entry": [3] * 5, "num_edges_per_entry": [0] * 5, "num_frames": 5}
    path = written(tmp_path / "x.lmdb", [*map(plain, entries)], __metadata__=plain(metadata))
    assert main(["convert", str(path), str(tmp_path / "a.atp"), "--quiet"]) == 0
    dataset = apt.AtpDataset(tmp_path / "a.atp")
    assert len(dataset) == 5
    for i, want in enumerate(entries):
        molecule = dataset[i]
        assert torch.equal(molecule.positions, want["pos"])
        assert molecule.energy.item() == want["total_energy"].item()
        assert torch.equal(molecule.forces, want["forces"])
        assert torch.equal(molecule.stress, want["stress"][0])
        assert molecule.pbc.tolist() == [True, True, False]
        assert molecule["charge"].tolist() == [1.5]


def test_keys_come_first(tmp_path: Path) -> None:
    entry = graph(0, 3) | {"y_relaxed": -7.5, "pos_relaxed": torch.ones(3, 3), "name": "text"}
    path = written(tmp_path / "x.lmdb", [plain(entry)])
    keys = {"y": "initial", "y_relaxed": "energy"}
    molecule = converted(path, key_map=keys)[0][0]
    assert molecule.energy.item() == -7.5
    assert molecule["initial"].item() == entry["y"]
    assert molecule["pos_relaxed"].shape == (3, 3)


def test_a_dipole_of_three_atoms(tmp_path: Path) -> None:
    dipoles = torch.arange(6.0).reshape(2, 3)
    entries = [graph(i, 3 + i) | {"dipole": dipoles[i], "mu": dipoles[i]} for i in range(2)]
    path = written(tmp_path / "x.lmdb", [*map(plain, entries)])
    assert torch.equal(converted(path)[0][:].dipole, dipoles)
    entries = [entry | {"dipole": None} for entry in entries]
    path = written(tmp_path / "y.lmdb", [*map(plain, entries)])
    assert torch.equal(converted(path, key_map={"mu": "dipole"})[0][:].dipole, dipoles)


def test_vectors_as_long_as_some_molecules(tmp_path: Path) -> None:
    mu = torch.arange(15.0).reshape(5, 3)
    entries = [graph(i, 1 + i) | {"mu": mu[i], "q": torch.arange(1.0 + i)} for i in range(5)]
    dataset, report = converted(written(tmp_path / "x.lmdb", [*map(plain, entries)]))
    assert not report.skipped
    assert torch.equal(dataset[:]["mu"], mu)
    assert torch.equal(dataset[:]["q"], torch.cat([entry["q"] for entry in entries]))


def test_positions_and_cell_of_other_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = graph(0, 3)
    entry |= {"cart_coords": entry.pop("pos"), "Z": entry.pop("atomic_numbers")}
    entry["box"] = entry.pop("cell")[0]
    path = written(tmp_path / "x.lmdb", [plain(entry)])
    with pytest.raises(apt.CorruptFileError, match=r"there are .*cart_coords, .*NAME=positions"):
        convert(path, tmp_path / "a.atp", progress=False)
    keys = {"cart_coords": "positions", "Z": "atomic_numbers", "box": "cell"}
    dataset, report = converted(path, key_map=keys)
    molecule = dataset[0]
    assert torch.equal(molecule.positions, entry["cart_coords"])
    assert molecule.cell.tolist() == entry["box"].tolist()
    assert molecule.pbc.all()
    assert any(note.startswith("pbc: T T T") for note in report.notes)
    with pytest.raises(apt.CorruptFileError, match="expected xyz, got none"):
        convert(path, tmp_path / "b.atp", key_map={"xyz": "positions"}, progress=False)
    assert main(["info", str(path)]) == 1
    assert f"convert {path} {path.with_suffix('.atp')}` reads graphs" in capsys.readouterr().err


def test_ranges(tmp_path: Path) -> None:
    path = written(tmp_path / "x.lmdb", [plain(graph(i, 2)) for i in range(9)])
    source = open_source(str(path), SourceOptions("pickled-lmdb", {}))
    assert source.count() == 9
    assert source.read_range is not None
    (block,) = source.read_range(Report(), 3, 7)
    assert block.positions.shape == (8, 3)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/made_by_a_pickle",)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4096])


def other(entry: Any, **more: bytes) -> Callable[[Path], object]:
    value = entry if isinstance(entry, bytes) else pickle.dumps(entry, protocol=4)
    return lambda path: written(path, [value], **more)


def changed(**changes: Any) -> Callable[[Path], object]:
    entry = {key: value for key, value in (graph(0, 3) | changes).items() if value is not None}
    return other(entry)


Harm = Callable[[Path], object]
CORRUPT = apt.CorruptFileError
DAMAGE: list[tuple[Harm, type[Exception], str]] = [
    (cut, CORRUPT, "it was cut"),
    (other(Evil()), CORRUPT, "posix.mkdir"),
    (other(graph(0, 3) | {"x": Evil()}), CORRUPT, "posix.mkdir"),
    (other(Report), CORRUPT, "atompack_torch"),
    (other([1]), CORRUPT, "expected a graph or a dict, got list"),
    (other(plain(graph(0, 3))[:200]), CORRUPT, "key 0: pickle"),
    (other(b"\x80\x04."), CORRUPT, "key 0: pickle"),
    (changed(pos=None), CORRUPT, "expected pos, got none"),
    (changed(atomic_numbers=None), CORRUPT, "expected atomic_numbers, got none"),
    (
        changed(atomic_numbers=None, atom_types=torch.zeros(3)),
        CORRUPT,
        "types of atoms are not elements",
    ),
    (changed(atomic_numbers=torch.ones(2)), CORRUPT, "expected 3 integers"),
    (changed(atomic_numbers=torch.ones(3) / 2), CORRUPT, "expected 3 integers"),
    (changed(pos=torch.ones(3, 2)), CORRUPT, r"expected floats \(n, 3\)"),
    (changed(pos="text"), CORRUPT, "pos: expected numbers"),
    (changed(force=torch.ones(2, 3)), CORRUPT, r"force: expected \(3, 3\)"),
    (changed(y=torch.ones(2)), CORRUPT, r"y: expected \(\)"),
    (changed(cell="x"), CORRUPT, "cell: expected"),
    (other(graph(0, 3), length=pickle.dumps(99)), CORRUPT, "at most 2 molecules"),
    (other(graph(0, 3), length=pickle.dumps("x")), CORRUPT, "at most 2 molecules"),
    (other(graph(0, 3), length=pickle.dumps(Evil())), apt.UnsafePickleError, "posix.mkdir"),
    (other(graph(0, 3), length=pickle.dumps(2)), CORRUPT, "under this key, got none"),
]


@pytest.mark.parametrize(("harm", "kind", "message"), DAMAGE)
def test_damage(tmp_path: Path, harm: Harm, kind: type[Exception], message: str) -> None:
    path = written(tmp_path / "x.lmdb", [plain(graph(0, 3))])
    harm(path)
    assert_refused(path, kind, message, format="pickled-lmdb")
    assert not Path("/tmp/made_by_a_pickle").exists()


def test_structures_that_cannot_be_read_are_skipped(tmp_path: Path) -> None:
    values = [plain(graph(0, 3)), pickle.dumps(Evil()), plain({}), plain(graph(3, 1))]
    path = written(tmp_path / "x.lmdb", values)
    dataset, report = converted(path, on_error="skip")
    assert sum(report.skipped.values()) == 2
    assert dataset[:].energy.tolist() == [-0.1, 2.9]


def test_values_without_a_place(tmp_path: Path) -> None:
    entry = graph(0, 3) | {"nested": {"a": 1}, "ragged": [[1], [1, 2]], "ones": np.ones(4)}
    dataset, report = converted(written(tmp_path / "x.lmdb", [plain(entry)]))
    assert {what for what, _ in report.skipped} == {"nested", "ragged"}
    assert dataset[0]["ones"].tolist() == [1.0] * 4
