"""Resident datasets: batches bit-equal to those of the dataset that was loaded."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from reference.batches import assert_same_batches
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.datasets.outputs import Output
from atompack_torch.datasets.resident import loading as _resident_memory
from atompack_torch.trainers._layout import Layout

INNER = Path(__file__).resolve().parents[1] / "fixtures"
N = 23
HALF = 12  # molecules in the first of two files; some shapes differ in the second
ORDER = [5, 3, 3, 0, 22, -1, 17, 8]


def molecule(i: int, *, wide: bool = False) -> apt.Molecule:
    """A molecule with fields that come and go, some of them jagged."""
    n = 1 + i % 5
    generator = torch.Generator().manual_seed(i)
    dtype = torch.float64 if wide else torch.float32
    positions = 3 * torch.rand((n, 3), generator=generator, dtype=dtype)
    properties: dict[str, Any] = {
        "charge": i,
        "tag": f"t{i}",
        "jagged": torch.arange(1.0 + i // HALF),
    }
    if i % 4:
        properties["moment"] = torch.rand(3, generator=generator)
    if i % 3 == 0:
        properties["note"] = "é" * (i % 7)
    has_cell = i % 2 == 0
    return apt.Molecule(
        positions,
        torch.randint(1, 9, (n,), generator=generator),
        energy=float(i),
        forces=torch.rand((n, 3), generator=generator, dtype=dtype) if i % 3 else None,
        cell=3.0 * torch.eye(3) + 0.1 * i if has_cell else None,
        pbc=torch.tensor([True, i % 4 == 0, True]) if has_cell else None,
        name=f"m{i}" if i % 5 else None,
        properties=properties,
        atom_properties={"spin": torch.arange(n) + i, "ragged": torch.ones(n, 1 + i // HALF)},
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resident")
    for name, numbers in (("a.atp", range(HALF)), ("b.atp", range(HALF, N))):
        with apt.AtpWriter(folder / name, mode="w") as writer:
            writer.write([molecule(i) for i in numbers])
    return folder


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files whose widths, fields and codecs differ."""
    folder = tmp_path_factory.mktemp("several")
    for number, (wide, codec) in enumerate([(False, None), (True, "zstd"), (False, "lz4")]):
        with apt.AtpWriter(folder / f"{number}.atp", mode="w", codec=codec) as writer:
            writer.write([molecule(i + number, wide=wide) for i in range(8)])
    return sorted(folder.iterdir())


@pytest.fixture(params=["native", "kernels"])
def resident(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class, with the native gather of the CPU or the kernels that run on other devices."""
    if request.param == "kernels":
        monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    return apt.ResidentDataset


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "float64": {"dtype": torch.float64},
    "casts": {"dtype": {"forces": torch.float64, "positions": torch.float64}},
    "fields": {"fields": ["energy", "forces", "tag"]},
    "fields without strings": {"fields": ["energy", "spin"]},
    "exclude": {"exclude": ["forces", "jagged"]},
    "drop": {"missing": "drop", "fields": ["energy", "forces", "moment"]},
    "nan": {"nan_is_missing": True},
    "edges": {"neighbors": apt.NeighborList(2.5)},
    "half": {"neighbors": apt.NeighborList(2.5, full=False, self_interaction=True)},
    "vectors": {"neighbors": apt.NeighborList(2.5, vectors=True), "dtype": torch.float64},
    "triplets": {"neighbors": apt.NeighborList(3.0, vectors=True, triplets=2.0)},
    "nearest": {"neighbors": apt.NeighborList(3.0, max_neighbors=3), "fields": ["energy"]},
    "one thread": {"num_threads": 1},
    "forces of some": {"force_subset": apt.ForceSubset(0.5)},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.filterwarnings("ignore:missing='drop'")
def test_batches_are_those_of_the_source(
    path: Path, options: dict[str, Any], resident: Any
) -> None:
    source = apt.AtpDataset(path, **options)
    loaded = resident(source)
    assert len(loaded) == N
    assert loaded.schema == source.schema
    assert torch.equal(loaded.n_atoms, source.n_atoms)
    for indices in (ORDER, range(N), [], [4], torch.arange(N) % 2 == 0):
        assert_same_batches(loaded.batch(indices), source.batch(indices))
    assert_same_batches(loaded[2:7], source[2:7])
    (batch,) = loaded.__getitems__([1, 0])
    assert_same_batches(batch, source.batch([1, 0]))


@pytest.mark.parametrize("options", [{}, {"neighbors": apt.NeighborList(2.5)}])
def test_files_that_differ(several: list[Path], options: dict[str, Any], resident: Any) -> None:
    source = apt.AtpDataset(several, **options)
    loaded = resident(source)
    for indices in ([0], [9, 10], [0, 9, 20, 3], range(24)):
        assert_same_batches(loaded.batch(indices), source.batch(indices))


def test_every_readable_fixture() -> None:
    n_loaded = 0
    for file in sorted(INNER.glob("*.atp")):
        source = apt.AtpDataset(file)
        try:
            expected = source.batch(range(len(source)))
        except apt.AtompackError:  # a damaged file, or values that no batch holds
            continue
        assert_same_batches(apt.ResidentDataset(source).batch(range(len(source))), expected)
        n_loaded += 1
    assert n_loaded >= 5


def test_features_and_derivatives(resident: Any) -> None:
    cache = INNER / "cache" / "water.h5"
    source = apt.TorchCacheDataset(cache)
    loaded = resident(source)
    assert "radial_dG_drij" in source.batch([0])
    n = len(source)
    for indices in (range(n), [n - 1, 0, 0]):
        assert_same_batches(loaded.batch(indices), source.batch(indices))


def test_computed_features(path: Path, resident: Any) -> None:
    descriptor = apt.ChebyshevDescriptor(
        ["H", "He", "Li", "Be", "B", "C", "N", "O"], 2, 2.5, 1, 2.0
    )
    for keeps in ("none", "all"):
        source = apt.AtpDataset(path, features=apt.Features(descriptor=descriptor, keep=keeps))
        part = source.subset([7, 2, 9, 2])
        loaded = resident(part)
        for _ in range(2):
            assert_same_batches(loaded.batch([2, 0, 3]), part.batch([2, 0, 3]))


def test_computed_derivatives(path: Path) -> None:
    descriptor = apt.ChebyshevDescriptor(
        ["H", "He", "Li", "Be", "B", "C", "N", "O"], 2, 2.5, 1, 2.0
    )
    fields = ["energy", "features", "force_derivatives"]
    source = apt.AtpDataset(path, features=descriptor, fields=fields)
    loaded = apt.ResidentDataset(source)
    assert_same_batches(loaded.batch(ORDER), source.batch(ORDER))


def test_subsets_and_splits(path: Path, resident: Any) -> None:
    source = apt.AtpDataset(path, neighbors=apt.NeighborList(2.5)).subset([9, 1, 1, 14, 6])
    loaded = resident(source)
    assert_same_batches(loaded.batch([4, 0, 2]), source.batch([4, 0, 2]))
    part = loaded.subset([3, 0])
    assert_same_batches(part.batch([1, 0, 1]), source.subset([3, 0]).batch([1, 0, 1]))
    assert torch.equal(part.n_atoms, source.n_atoms[[3, 0]])
    for mine, theirs in zip(loaded.split([0.6, 0.4], 3), source.split([0.6, 0.4], 3), strict=True):
        assert_same_batches(mine[:], theirs[:])


def test_subsets_with_forces_of_some(path: Path, resident: Any) -> None:
    numbers, options = range(1, N, 2), {"force_subset": apt.ForceSubset(0.5)}
    source = apt.AtpDataset(path, **options).subset(numbers)
    whole = apt.AtpDataset(path, **options)[numbers]
    loaded = resident(source)
    assert_same_batches(loaded[:], source[:])
    assert not torch.equal(source[:].mask("forces"), whole.mask("forces"))
    if loaded._is_elsewhere:
        with pytest.raises(ValueError, match="make the subset resident"):
            loaded.subset([3, 0])


def test_single_molecules(path: Path, resident: Any) -> None:
    source = apt.AtpDataset(path)
    loaded = resident(source)
    for number in (3, -1, 0):
        mine, theirs = loaded[number], source[number]
        assert list(mine.keys()) == list(theirs.keys())
        assert mine.tag == theirs.tag
        assert mine.name == theirs.name
        assert torch.equal(mine.positions, theirs.positions)
        assert (mine.forces is None) == (theirs.forces is None)
    with pytest.raises(IndexError, match="molecule 23"):
        loaded[23]
    with pytest.raises(IndexError, match="molecule -24"):
        loaded.batch([-24])


def test_transform_and_loader(path: Path, resident: Any) -> None:
    source = apt.AtpDataset(path, transform=lambda batch: batch.to_dict())
    loaded = resident(source)
    expected = [batch["index"] for batch in apt.Loader(source, 4, shuffle=True, seed=2)]
    found = [batch["index"] for batch in apt.Loader(loaded, 4, shuffle=True, seed=2)]
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]
    sampler = apt.AtomBudgetBatchSampler(loaded, 12)
    assert sum(len(batch["n_atoms"]) for batch in apt.Loader(loaded, batch_sampler=sampler)) == N


@pytest.mark.parametrize(
    "context", [None, "fork", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_dataloader(path: Path, context: str | None) -> None:
    source = apt.AtpDataset(path, neighbors=apt.NeighborList(2.5))
    loaded = apt.ResidentDataset(source)
    workers = 0 if context is None else 2
    batches = list(DataLoader(loaded, 5, num_workers=workers, multiprocessing_context=context))
    for first, batch in zip(range(0, N, 5), batches, strict=True):
        assert_same_batches(batch, source[first : first + 5])


def test_spawned_workers_share_the_memory(path: Path) -> None:
    loaded = apt.ResidentDataset(apt.AtpDataset(path))
    for _ in DataLoader(loaded, 5, num_workers=1, multiprocessing_context="spawn"):
        pass
    assert loaded._block.memory.is_shared()


def test_workers_cannot_use_a_device(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    loaded = apt.ResidentDataset(apt.AtpDataset(path))
    with pytest.raises(RuntimeError, match="num_workers=0"):
        list(DataLoader(loaded, 5, num_workers=1, multiprocessing_context="fork"))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(loaded)


def test_pickle_holds_the_data(path: Path, tmp_path: Path) -> None:
    copied = tmp_path / "gone"
    shutil.copytree(path, copied)
    loaded = apt.ResidentDataset(apt.AtpDataset(copied, neighbors=apt.NeighborList(2.5)))
    expected = loaded.batch(ORDER)
    shutil.rmtree(copied)
    assert_same_batches(pickle.loads(pickle.dumps(loaded)).batch(ORDER), expected)
    assert_same_batches(loaded.batch(ORDER), expected)


def test_edges_are_found_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edges in memory are used: what is stored there is what batches have."""
    loaded = apt.ResidentDataset(apt.AtpDataset(path, neighbors=apt.NeighborList(2.5)))
    edges = loaded._block.edge_tensors()
    edges["shift"].fill_(7)
    assert (loaded.batch(ORDER).edge_shift == 7).all()


def test_needed_bytes_are_told_before(path: Path, resident: Any) -> None:
    source = apt.AtpDataset(path, neighbors=apt.NeighborList(2.5))
    needed = resident(source).nbytes
    assert resident(source, max_bytes=needed).nbytes == needed
    with pytest.raises(MemoryError, match=f"{needed:,} bytes are needed.*{needed - 1:,}"):
        resident(source, max_bytes=needed - 1)


def test_free_memory(path: Path, monkeypatch: pytest.MonkeyPatch, resident: Any) -> None:
    free = _resident_memory.available_bytes(torch.device("cpu"))
    assert free is not None
    assert free > 2**20
    monkeypatch.setattr(_resident_memory, "available_bytes", lambda device: 100)
    with pytest.raises(MemoryError, match="bytes are needed on cpu, and 100 are free"):
        resident(apt.AtpDataset(path))


def test_missing_values_are_errors(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = apt.AtpDataset(path, fields=["forces"], missing="error")
    loaded = apt.ResidentDataset(source)
    assert_same_batches(loaded.batch([1, 2]), source.batch([1, 2]))
    for dataset in (source, loaded):
        with pytest.raises(
            apt.FieldError, match=r"drops the molecule \(molecule 3, field 'forces'"
        ):
            dataset.batch([1, 3])
    monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    with pytest.raises(apt.FieldError, match=r"drops the molecule \(molecule 0, field 'forces'"):
        apt.ResidentDataset(source)
    with pytest.raises(apt.FieldError, match=r"must have by fields= \(molecule 0, field 'forces'"):
        apt.ResidentDataset(apt.AtpDataset(path, exclude=["energy"], missing="error"))


def test_resampled_forces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = apt.AtpDataset(path, force_subset=apt.ForceSubset(0.4, resample=True))
    loaded = apt.ResidentDataset(source)
    for epoch in (0, 1, 5):
        source.set_epoch(epoch)
        loaded.set_epoch(epoch)
        assert_same_batches(loaded.batch(range(N)), source.batch(range(N)))
        part = [9, 3, 5, 3, 7, 11]
        assert_same_batches(loaded.subset(part)[:], source.subset(part)[:])
    monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    with pytest.raises(ValueError, match="resample=False"):
        apt.ResidentDataset(source)


def test_an_epoch_that_was_chosen_stays(tmp_path: Path) -> None:
    grown = tmp_path / "grown.atp"
    with apt.AtpWriter(grown) as writer:
        writer.write([molecule(i) for i in range(4)])
    source = apt.AtpDataset(grown, augment=apt.Augment(rotate="proper"))
    source.set_epoch(5)
    loaded = apt.ResidentDataset(source)
    (batch,) = apt.Loader(loaded, batch_size=4)
    assert torch.equal(batch.positions, source[:].positions)
    loaded.set_epoch(7)
    with apt.AtpWriter(grown, mode="a") as writer:
        writer.write([molecule(9)])
    assert loaded.refresh()
    assert loaded.current_epoch == 7


def test_refresh(path: Path, tmp_path: Path, resident: Any) -> None:
    grown = tmp_path / "grown.atp"
    with apt.AtpWriter(grown, mode="w") as writer:
        writer.write([molecule(i) for i in range(4)])
    loaded = resident(apt.AtpDataset(grown))
    assert not loaded.refresh()
    with apt.AtpWriter(grown, mode="a") as writer:
        writer.write([molecule(9)])
    assert len(loaded) == 4
    assert loaded.refresh()
    assert_same_batches(loaded.batch([4, 1]), apt.AtpDataset(grown).batch([4, 1]))


def test_trainers_take_resident_molecules(path: Path) -> None:
    """The tensors of a trainer are made in the native pass, from edges that are in memory."""
    source = apt.AtpDataset(path)

    class Tensors(Layout):
        outputs = (
            Output("energy", "value", torch.float32, field="energy"),
            Output("vectors", "edge_vector", torch.float32),
            Output("cell", "cell", torch.float32, field="cell"),
        )
        neighbors = apt.NeighborList(2.5)

        def assemble(self, batch: Any, made: Any) -> Any:
            return {**made, "index": batch.index, "edge_index": batch.edge_index}

    for options in ({}, {"neighbors": apt.NeighborList(2.5)}):
        loaded = apt.ResidentDataset(apt.AtpDataset(path, **options))
        expected = Tensors().dataset(source).batch(ORDER)
        found = Tensors().dataset(loaded).batch(ORDER)
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert torch.equal(found[name], value), name
    few = apt.AtpDataset(path, fields=["forces"])  # labels that are omitted are absent
    for data in (few, apt.ResidentDataset(few)):
        assert Tensors().dataset(data).batch(ORDER)["energy"].isnan().all()


def test_refusals(path: Path) -> None:
    source = apt.AtpDataset(path)
    with pytest.raises(TypeError, match="MixtureDataset of resident datasets"):
        apt.ResidentDataset(apt.MixtureDataset([source, source]))
    with pytest.raises(TypeError, match="expected a dataset of molecules"):
        apt.ResidentDataset([1, 2])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_bytes"):
        apt.ResidentDataset(source, max_bytes=1.5)  # type: ignore[arg-type]


def test_mixture_of_resident_data_sets(
    path: Path, several: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [apt.AtpDataset(path), apt.AtpDataset(several[0])]
    expected = apt.MixtureDataset(sources)
    found = apt.MixtureDataset([apt.ResidentDataset(source) for source in sources])
    assert_same_batches(found[:], expected[:])
    assert_same_batches(found.batch([7, 1]), expected.batch([7, 1]))
    monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    with pytest.raises(TypeError, match="expected molecules on the CPU"):
        apt.MixtureDataset([apt.ResidentDataset(source) for source in sources])


def test_progress(path: Path, resident: Any) -> None:
    for options, passes in (({}, 2), ({"neighbors": apt.NeighborList(2.5)}, 4)):
        done: list[int] = []
        resident(apt.AtpDataset(path, **options), progress=done.append)
        assert sum(done) == passes * N


@pytest.mark.parametrize("numbers", [range(N), [20, 3, 9, 4]])
def test_passes_over_resident_molecules(path: Path, resident: Any, numbers: Any) -> None:
    neighbors = apt.NeighborList(2.5)
    source = apt.AtpDataset(path).subset(numbers)
    loaded = resident(source)
    for mine, theirs in ((loaded, source), (loaded.subset([3, 1]), source.subset([3, 1]))):
        assert mine.statistics(cutoff=2.5) == theirs.statistics(cutoff=2.5)
        assert torch.equal(neighbors.count(mine), neighbors.count(theirs))


def test_what_was_not_loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error, or read from the files; never absent."""
    source = apt.AtpDataset(path, fields=["energy"])
    with pytest.raises(apt.FieldError, match="omitted by fields="):
        apt.ResidentDataset(source).filter("charge > 5")
    monkeypatch.setattr(apt.ResidentDataset, "_is_elsewhere", property(lambda self: True))
    found, expected = (each.filter("charge > 5") for each in (apt.ResidentDataset(source), source))
    assert 0 < len(expected) < N
    assert_same_batches(found[:], expected[:])
