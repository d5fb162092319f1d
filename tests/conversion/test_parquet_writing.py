"""Parquet as a target, read by pyarrow and by our own converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference.compare import assert_same_batch
from reference.foreign import written_as

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.targets import parquet as parquet_writing
from atompack_torch.conversion.targets.parquet import fields_of


def written(blocks: list[list[Parts]], tmp_path: Path, **options: Any) -> tuple[pa.Table, Report]:
    """Writes blocks to ``x.parquet``, by way of ``.atp`` files."""
    path, report = written_as("parquet", tmp_path / "x.parquet", *blocks, **options)
    return pq.read_table(path), report


def test_there_and_back(images: list[ase.Atoms], tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write(images)
    report = convert(tmp_path / "1.atp", tmp_path / "2.parquet", progress=False)
    assert not report.skipped
    assert report.structures_written == len(images)
    convert(tmp_path / "2.parquet", tmp_path / "3.atp", progress=False)
    got, want = apt.AtpDataset(tmp_path / "3.atp"), apt.AtpDataset(tmp_path / "1.atp")
    for i in range(len(images)):
        assert_same_batch(got[i : i + 1], want[i : i + 1])
    file = pq.ParquetFile(tmp_path / "2.parquet")
    types = {field.name: str(field.type) for field in file.schema_arrow}
    rows = "fixed_size_list<element: double>[3]"
    assert types == {
        "positions": f"list<element: {rows}>",
        "atomic_numbers": "list<element: uint8>",
        "forces": f"list<element: {rows}>",
        "energy": "double",
        "cell": f"fixed_size_list<element: {rows}>[3]",
        "stress": f"fixed_size_list<element: {rows}>[3]",
        "pbc": "fixed_size_list<element: bool>[3]",
        "spin": "list<element: double>",
        "gap": "double",
        "step": "int64",
        "origin": "string",
        "weights": "list<element: double>",
    }
    told = fields_of(file.metadata.metadata)
    of_all = {"level": "atom", "dtype": "float64"}
    assert told["spin"] == of_all | {"field": "atom_properties/spin", "shape": []}
    of_all["level"] = "molecule"
    assert told["weights"] == of_all | {"field": "properties/weights", "shape": [4]}
    table = file.read().to_pydict()
    for i, image in enumerate(images):
        assert table["positions"][i] == image.positions.tolist()
        assert table["atomic_numbers"][i] == image.numbers.tolist()
        energy = None if image.calc is None else image.get_potential_energy()
        assert table["energy"][i] == energy
        assert table["origin"][i] == image.info.get("origin")
        assert table["cell"][i] == (image.cell.tolist() if image.cell.any() else None)


def test_values_of_many_kinds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = {"forces": rng.normal(size=(2, 3)).astype("float32"), "name": "a"}
    properties = {
        "forces": 1.5,
        "q": 2,
        "properties/x": "text",
        "tensor": np.arange(8, dtype="int32").reshape(2, 2, 2),
        "matrices": np.ones((2, 4)),
        "nan": float("nan"),
        "none": None,
    }
    arrays = {
        "z": np.arange(2, dtype="int32"),
        "m": rng.normal(size=(2, 3, 3)).astype("float32"),
        "keys": np.array([1.0, -0.0]),
    }
    first = Parts(rng.normal(size=(2, 3)), np.array([0, 118]), labels, properties, arrays)
    second = Parts(
        np.zeros((0, 3)),
        np.zeros(0, int),
        {"cell": np.eye(3)},
        {"matrices": np.zeros((0, 5)), "tensor": -np.ones((2, 2, 2), "int32")},
        {"z": np.zeros(0, "int32")},
    )
    table, report = written([[first, second]], tmp_path)
    rows = table.to_pylist()
    assert rows[0]["forces"] == labels["forces"].tolist()  # type: ignore[attr-defined]
    assert rows[0]["properties/forces"] == 1.5
    assert rows[0]["properties/properties/x"] == "text"
    assert rows[0]["atom_properties/keys"] == [1.0, -0.0]
    assert np.signbit(rows[0]["atom_properties/keys"][1])
    assert np.isnan(rows[0]["nan"])
    assert rows[0]["m"] == arrays["m"].tolist()
    assert rows[0]["tensor"] == np.arange(8).reshape(2, 2, 2).tolist()
    assert [row["matrices"] for row in rows] == [[[1.0] * 4] * 2, []]
    assert [row["z"] for row in rows] == [[0, 1], []]
    assert [row["cell"] for row in rows] == [None, np.eye(3).tolist()]
    assert rows[1]["positions"] == []
    assert "none" not in rows[0]
    assert report.skipped == {("properties/none", "None is null, like a missing value"): 1}
    assert any("tensors of various shapes" in note for note in report.notes)
    convert(tmp_path / "x.parquet", tmp_path / "back.atp", progress=False)
    want = apt.AtpDataset(tmp_path / "0.atp", exclude=["none"])[:1]
    assert_same_batch(apt.AtpDataset(tmp_path / "back.atp")[:1], want)
    told = fields_of(pq.ParquetFile(tmp_path / "x.parquet").metadata.metadata)
    assert told["matrices"]["shape"] is None
    assert (told["m"]["dtype"], told["m"]["shape"]) == ("float32", [3, 3])


def test_names_of_the_structure_and_values_without_numbers(tmp_path: Path) -> None:
    own: dict[str, Any] = {"positions": 2.5, "atomic_numbers": 7, "none": np.zeros((0, 3))}
    of_atoms = {"zero": np.zeros((2, 0))}
    parts = Parts(np.ones((2, 3)), np.array([1, 8]), {}, own, of_atoms)
    written([[parts, parts]], tmp_path)
    convert(tmp_path / "x.parquet", tmp_path / "y.atp", progress=False)
    got, want = apt.AtpDataset(tmp_path / "y.atp"), apt.AtpDataset(tmp_path / "0.atp")
    assert_same_batch(got[:], want[:])


def test_rows_of_atoms_that_vary_in_width(tmp_path: Path) -> None:
    parts = [
        Parts(np.ones((n, 3)), np.ones(n, int), {}, {}, {"a": np.full((n, k), 1.5)})
        for n, k in ((1, 2), (3, 1))
    ]
    written([parts], tmp_path)
    report = convert(tmp_path / "x.parquet", tmp_path / "y.atp", progress=False)
    assert not report.skipped
    got, want = apt.AtpDataset(tmp_path / "y.atp"), apt.AtpDataset(tmp_path / "0.atp")
    assert_same_batch(got[:], want[:])


def test_fields_that_come_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writing, "_GROUP_ROWS", 2)
    rng = np.random.default_rng(1)
    blocks = []
    for i in range(6):
        fields: dict[str, Any] = {f"k{j}": float(10 * i + j) for j in range(i // 2)}
        labels = {"forces": rng.normal(size=(1, 3))} if i > 2 else {}
        blocks.append([Parts(rng.normal(size=(1, 3)), np.array([i]), labels, fields, {})] * 3)
    table, report = written(blocks, tmp_path)
    assert not report.skipped
    rows = table.to_pylist()
    assert [row["atomic_numbers"] for row in rows] == [[i] for i in range(6) for _ in range(3)]
    assert [row["k0"] for row in rows] == [None] * 6 + [20.0] * 3 + [30.0] * 3 + [40.0] * 3 + [
        50.0
    ] * 3
    assert [row["k1"] for row in rows] == [None] * 12 + [41.0] * 3 + [51.0] * 3
    assert [row["forces"] is not None for row in rows] == [False] * 9 + [True] * 9
    want = [block[0].positions.tolist() for block in blocks for _ in range(3)]
    assert [row["positions"] for row in rows] == want
    assert {path.suffix for path in tmp_path.iterdir()} == {".atp", ".parquet"}


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writing, "_GROUP_BYTES", 1 << 16)
    rng = np.random.default_rng(2)
    n_atoms = rng.integers(1, 9, 10_000)
    positions = rng.normal(size=(n_atoms.sum(), 3)).astype("float32")
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write_arrays(
            positions=positions,
            atomic_numbers=np.ones(len(positions), int),
            n_atoms=n_atoms,
            energy=np.arange(10_000.0),
        )
    convert(tmp_path / "1.atp", tmp_path / "2.parquet", progress=False)
    metadata = pq.ParquetFile(tmp_path / "2.parquet").metadata
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 4096
    table = pq.read_table(tmp_path / "2.parquet")
    made = np.concatenate([*map(np.vstack, table["positions"].to_pylist())])
    assert np.array_equal(made.astype("float32"), positions)
    assert table["energy"].to_pylist() == list(range(10_000))


@pytest.mark.parametrize(
    ("codec", "name"), [(None, "ZSTD"), ("zstd", "ZSTD"), ("lz4", "LZ4"), ("none", "UNCOMPRESSED")]
)
def test_codecs(tmp_path: Path, codec: Any, name: str) -> None:
    part = Parts(np.zeros((1, 3)), np.array([1]), {}, {}, {})
    written([[part]], tmp_path, codec=codec)
    metadata = pq.ParquetFile(tmp_path / "x.parquet").metadata
    assert metadata.row_group(0).column(0).compression == name


def test_metadata_of_other_files() -> None:
    assert fields_of(None) == {}
    assert fields_of({b"atompack_torch": b"[1]"}) == {}
    assert fields_of({b"atompack_torch": b"{"}) == {}
