"""``repr`` stays short, however much there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase
import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.conversion import Report, diff
from atompack_torch.formats.atlas_store.columns import ColumnScan
from atompack_torch.formats.verification import Fault, Verification

LONG = 1_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Objects with very many, or very long, parts."""
    root = tmp_path_factory.mktemp("large")
    with apt.AtpWriter(root / "a.atp") as writer:
        writer.write_arrays(
            positions=np.zeros((2, 3, 3)),
            atomic_numbers=np.ones((2, 3), np.uint8),
            properties={f"property {i} {'x' * 100}": np.zeros(2) for i in range(LONG)},
        )
    with apt.AtlasStore(root / "store", "x") as store:
        for i in range(LONG):
            store.create_dataset(f"dataset {i} {'x' * 100}")
        for i in range(60):
            name = f"array {i} {'x' * 80}"
            store.define_array(store.datasets[0], name, "float32", (100, 100))
        store.write(store.datasets[0], name, np.zeros((100, 100), np.float32))
        store.define_array(store.datasets[0], "s", "string", (1,))
        store.write(store.datasets[0], "s", ["y" * 100_000])
    store = apt.AtlasStore(root / "store")
    dataset = apt.AtpDataset(root / "a.atp")
    descriptor = apt.ChebyshevDescriptor([f"E{i}" for i in range(50)], 4, 4.0, 2, 3.0)
    faults = [Fault("a.atp", i, "z" * 100) for i in range(LONG)]
    return {
        "AtpDataset": dataset,
        "AtpDataset of many": apt.AtpDataset([root / "a.atp"] * 200),
        "subset": dataset.subset([0]),
        "molecule": dataset[0],
        "statistics": dataset.statistics(),
        "mixture": apt.MixtureDataset([dataset] * 50),
        "stacked": store.scan(name),
        "list": store.scan(name, layout="list"),
        "strings": store.scan("s", layout="list"),
        "jagged": store.scan(name, layout="jagged"),
        "store": store,
        "array statistics": store.stats("s")[store.datasets[0]],
        "AtlasDataset": apt.AtlasDataset(store, store.arrays),
        "verification": Verification(["a.atp"] * LONG, n_faults=LONG, faults=faults),
        "cache verification": Verification(["a.h5"], n_faults=LONG, differences=[]),
        "descriptor": descriptor,
    }


def test_all_are_short(large: dict[str, Any]) -> None:
    most = {"statistics": 6_000, "mixture": 2_000}
    for name, value in large.items():
        assert 10 < len(repr(value)) < most.get(name, 1_000), (name, len(repr(value)))


def test_a_scan_says_what_it_is(large: dict[str, Any]) -> None:
    for layout in ("stacked", "jagged", "list"):
        text = repr(large[layout])
        assert text.startswith(f"ColumnScan({layout}, values: ")
        assert "1,000 datasets (999 without the array)" in text
    assert "float32" in repr(large["stacked"])
    small = ColumnScan(torch.zeros(2, 3), None, torch.ones(2, dtype=torch.bool), ["a", "b"])
    assert repr(small) == "ColumnScan(stacked, values: (2, 3) float32, 2 datasets: a, b)"


def test_what_is_not_open_shows_its_path(tmp_path: Path) -> None:
    store = apt.AtlasStore(tmp_path / "s", "x")
    store.discard()
    assert repr(store) == f"AtlasStore('{tmp_path / 's'}', not open)"


def test_control_characters_of_files_are_escaped() -> None:
    """A key may hold escape sequences of a terminal, or turn the direction of what follows."""
    key = "a\x1b[31m\x9b\u202eb"
    batch = apt.MoleculeBatch.from_molecules([_molecule(key)])
    report = Report()
    report.skip(f"array {key}", "why")
    shown = [repr(batch), repr(batch[0]), batch._repr_html_(), batch[0]._repr_html_(), str(report)]
    with pytest.raises(apt.FieldError) as error:
        batch[f"{key}?"]
    for text in (*shown, str(error.value), str(apt.CorruptFileError(key))):
        assert all(c.isprintable() or c == "\n" for c in text)
    assert all("\\x1b[31m\\x9b\\u202e" in text for text in shown)


def test_everything_public_shows_itself_on_printable_lines(tmp_path: Path) -> None:
    """Whatever the names of files, datasets and keys: in text, and in the HTML of notebooks."""
    key = "k\x1b[2J\u202e<b>"
    folder = tmp_path / "f\x1b[31m\x9b"
    folder.mkdir()
    file, store_path, shards = folder / "a.atp", folder / "a.atlas", folder / "shards"
    with apt.AtpWriter(file) as writer:
        writer.write(_molecule(key))
    with apt.AtlasStore(store_path, "x") as store:
        store.create_dataset(key)
        store.define_array(key, "t", "float64", (3,))
        store.write(key, "t", np.arange(3.0))
    with apt.ShardWriter(shards, 20, 5) as shard_writer:
        shard_writer.write({"x": 1.0, key: 2.0})
    array_file = next(store_path.rglob("*.af"))
    dataset = apt.open(file)
    loader = apt.Loader(dataset, batch_size=1)
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 3.0, 1, 2.0)
    apt.build_cache(dataset, descriptor, folder / "c.h5", progress=False)
    stored = apt.AtlasStore(store_path)
    values = [
        *(dataset, dataset.subset([0]), dataset[:], dataset[0], dataset.column("n_atoms")),
        *(dataset.statistics(), apt.verify(file), apt.report(file), writer, shard_writer),
        *(apt.MixtureDataset([dataset]), apt.ResidentDataset(dataset), loader),
        *(stored, stored.scan("t"), apt.open(store_path, arrays=["t"]), apt.open(shards)),
        *(
            apt.ArrayFile(array_file),
            apt.BlockCache(1),
            descriptor,
            apt.TorchCache(folder / "c.h5"),
        ),
        *(apt.TorchCacheDataset(folder / "c.h5"), apt.NeighborList(3.0), apt.Augment()),
        *(apt.Features(), apt.ForceSubset(0.5), apt.AtomBudgetBatchSampler(dataset, 9)),
        *(apt.BucketBatchSampler(dataset, 9), apt.EqualSizeBatchSampler(dataset, 1)),
        *(apt.BlockShuffleSampler(dataset, window=1), apt.DistributedMoleculeSampler(dataset)),
        apt.convert(file, folder / "b.xyz", progress=False),
        diff(file, folder / "b.xyz"),
    ]
    found = []
    public = [getattr(apt, name) for name in apt.__all__]
    classes = {
        kind for kind in public if isinstance(kind, type) and not issubclass(kind, Exception)
    }
    assert classes - {type(value) for value in values} == {apt.AseLmdbDataset, apt.ExtxyzDataset}
    for value in [*values, apt.open(folder / "b.xyz")]:
        html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        shown = repr(value) + str(value) + html
        if " object at 0x" in shown or not all(c.isprintable() or c == "\n" for c in shown):
            found.append(shown)
    assert not found


def _molecule(key: str) -> apt.Molecule:
    atoms = ase.Atoms("H")
    atoms.info[key] = 1.0
    return apt.MoleculeBatch.from_ase([atoms])[0]
