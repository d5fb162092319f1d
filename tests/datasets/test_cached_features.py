"""Features that are computed for batches and kept in memory, and forces of a part of the data."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES

N = 24
SETTINGS: tuple[Any, ...] = (["O", "H", "C"], 4, 3.5, 2, 2.5)
EVERYTHING = ["energy", "forces", "features", "force_derivatives"]


class Counting(apt.ChebyshevDescriptor):
    """Counts the molecules that it is asked for."""

    n = 0

    def compute(self, batch: apt.MoleculeBatch, derivatives: bool = False) -> apt.MoleculeBatch:
        self.n += len(batch)
        return super().compute(batch, derivatives)


class Sources:
    """The same molecules: as .atp, with all rows stored, or with rows of a different descriptor."""

    def __init__(self, folder: Path) -> None:
        self.atp = folder / "molecules.atp"
        write(self.atp)
        self.descriptor = apt.ChebyshevDescriptor(*SETTINGS)
        plain = apt.AtpDataset(self.atp)
        other = apt.ChebyshevDescriptor(SETTINGS[0], 1, 3.0, 1, 2.0)
        self.stored = folder / "stored.h5"
        self.other = folder / "other.h5"
        options: Any = {"force_derivatives": True, "progress": False}
        apt.build_cache(plain, self.descriptor, self.stored, **options)
        apt.build_cache(plain, other, self.other, **options)


def write(path: Path) -> None:
    """Molecules with and without a cell; two in three have forces."""
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        for number in range(N):
            n = int(rng.integers(1, 8))
            labels: dict[str, Any] = {"energy": float(number)}
            if number % 2:
                labels |= {"cell": np.eye(3) * 5.0, "pbc": (True, number % 4 == 1, True)}
            if number % 3:
                labels["forces"] = rng.normal(size=(n, 3))
            positions = rng.uniform(0, 5, (n, 3))
            writer.write(apt.Molecule(positions, rng.choice([1, 6, 8], n), **labels))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(tmp_path_factory.mktemp("cached"))


@pytest.fixture(scope="module")
def caches(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


def has_forces(numbers: Tensor) -> Tensor:
    return numbers % 3 > 0


def assert_same(a: apt.MoleculeBatch, b: apt.MoleculeBatch, names: Any = None) -> None:
    for name in names or a.keys() | b.keys():
        assert a[name].dtype == b[name].dtype, name
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(a.mask(name), b.mask(name)), name
        assert a.level(name) == b.level(name), name


def computing(sources: Sources, keep: Any = "none", **options: Any) -> list[Any]:
    """Datasets that compute features and derivatives."""
    options = {"fields": EVERYTHING, **options}
    features = apt.Features(descriptor=sources.descriptor, keep=keep)
    joined = dataclasses.replace(features, cache=sources.other)
    return [
        apt.AtpDataset(sources.atp, features=features, **options),
        apt.TorchCacheDataset(sources.other, features=features, **options),
        apt.AtpDataset(sources.atp, features=joined, **options),
    ]


@pytest.mark.parametrize("numbers", [range(N), [5, 0, 5, 23, -1, 2], [0], [3, 6, 9], [1, 2], []])
def test_computed_is_what_is_stored(sources: Sources, numbers: Any) -> None:
    stored = apt.TorchCacheDataset(sources.stored, fields=EVERYTHING)
    for dataset in computing(sources):
        assert_same(dataset.batch(numbers), stored.batch(numbers))
        for name in ("features", *DERIVATIVES):
            assert dataset.schema[name] == stored.schema[name]


def test_stored_rows_are_used_where_they_fit(sources: Sources) -> None:
    descriptor = Counting(*SETTINGS)
    dataset = apt.TorchCacheDataset(
        sources.stored, fields=EVERYTHING, features=apt.Features(descriptor=descriptor, keep="all")
    )
    plain = apt.TorchCacheDataset(sources.stored, fields=EVERYTHING)
    assert_same(dataset[:], plain[:])
    assert descriptor.n == 0
    assert dataset.cached_bytes == plain[:].features.nbytes


@pytest.mark.parametrize("dtype", [None, torch.float32, {"features": torch.float32}])
@pytest.mark.parametrize("fields", [None, EVERYTHING, ["features"]])
@pytest.mark.parametrize("joined", [False, True])
def test_stored_rows_are_kept(sources: Sources, joined: bool, fields: Any, dtype: Any) -> None:
    def opened(**keeps: Any) -> Any:
        options: Any = {"fields": fields, "dtype": dtype}
        if not joined:
            features = apt.Features(**keeps)
            return apt.TorchCacheDataset(sources.stored, features=features, **options)
        features = apt.Features(apt.TorchCache(sources.stored), **keeps)
        return apt.AtpDataset(sources.atp, features=features, **options)

    def expect(a: apt.MoleculeBatch, b: apt.MoleculeBatch) -> None:
        assert set(a.keys()) == set(b.keys())
        assert_same(a, b, set(a.keys()) - {"name"})

    plain, kept = opened(), opened(keep="all")
    assert kept.schema == plain.schema
    for numbers in ([5, 0, 5], [], range(N), [23, 1], range(N)):
        expect(kept.batch(numbers), plain.batch(numbers))
    rows = plain[:].features.nbytes
    assert kept.cached_bytes == rows
    inputs = kept._feature_input()
    unread = SimpleNamespace(batch=lambda _: pytest.fail("the file is read again"))
    kept._feature_input = lambda: unread
    expect(kept.batch(range(N)), plain.batch(range(N)))
    assert torch.equal(kept[3].features, plain[3].features)
    del kept._feature_input
    assert inputs.cached_bytes == 0
    limited = opened(keep="all", max_bytes=rows // 2)
    for _ in range(2):
        expect(limited.batch(range(N)), plain.batch(range(N)))
    assert 0 < limited.cached_bytes <= rows // 2
    train, test = opened(keep="train").split([0.5, 0.5], 0)
    expect(train[:], opened().split([0.5, 0.5], 0)[0][:])
    in_training = train.cached_bytes
    expect(test[:], opened().split([0.5, 0.5], 0)[1][:])
    assert train.cached_bytes == in_training == train[:].features.nbytes
    batches = list(apt.Loader(opened(keep="all"), 5, num_threads=2))
    expect(apt.collate(batches), plain[:])


def test_stored_rows_that_cannot_be_kept(sources: Sources, tmp_path: Path) -> None:
    for missing in ("error", "drop"):
        with pytest.raises(apt.FieldError, match=f"missing='{missing}' reads every row"):
            apt.TorchCacheDataset(
                sources.stored, missing=missing, features=apt.Features(keep="all")
            )
    only_features = tmp_path / "features.h5"
    apt.build_cache(apt.AtpDataset(sources.atp), sources.descriptor, only_features, progress=False)
    with pytest.raises(apt.FieldError, match="derivatives that the file does not store"):
        apt.TorchCacheDataset(only_features, fields=EVERYTHING, features=apt.Features(keep="train"))


def test_rows_of_another_descriptor_are_left_out(sources: Sources) -> None:
    batch = apt.TorchCacheDataset(sources.other, features=sources.descriptor)[:]
    assert batch.features.shape[1] == sources.descriptor.n_features
    assert not DERIVATIVES.keys() & batch.keys()
    none = apt.TorchCacheDataset(sources.other, features=sources.descriptor, exclude=["features"])
    assert "features" not in none[:]


@pytest.mark.parametrize(
    ("name", "computed"),
    [
        ("plain_manifest_only", ["features", "force_derivatives"]),
        ("v2_derivatives_f64_two", ["features"]),
        ("legacy_v1_f64_two", ["features"]),
        ("v2_features_f64_single", ["force_derivatives"]),
    ],
)
def test_the_descriptor_of_the_file(caches: Path, name: str, computed: list[str]) -> None:
    cache = apt.TorchCache(caches / f"{name}.h5")
    descriptor = cache.descriptor
    assert descriptor is not None
    batch = apt.TorchCacheDataset(cache, fields=EVERYTHING)[:]
    structures = apt.TorchCacheDataset(cache, fields=["cell", "pbc", "forces"])
    if "features" in computed:
        expected = descriptor.compute(structures[:]).features
        assert torch.equal(batch.features, expected)
        assert not (apt.TorchCacheDataset(cache)[:].keys() & {"features"})
        kept = apt.TorchCacheDataset(cache, features=apt.Features(keep="all"))[:]
        assert torch.equal(kept.features, expected)
    else:
        numbers = structures[:].mask("forces").nonzero().flatten()
        made = descriptor.compute(structures.batch(numbers), derivatives=True)
        assert torch.equal(batch.radial_dG_drij, made.radial_dG_drij)
    with pytest.raises(apt.FieldError, match=f"no {computed[0]} are stored"):
        cache.batch([0], fields=computed)


def test_without_any_descriptor(caches: Path) -> None:
    file = caches / "plain_no_cache.h5"
    with pytest.raises(apt.FieldError, match="no field 'features'"):
        apt.TorchCacheDataset(file, fields=["features"])
    with pytest.raises(apt.FieldError, match="keep: expected a descriptor, got none"):
        apt.TorchCacheDataset(file, features=apt.Features(keep="all"))


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        {"features": torch.float32, "radial_dG_drij": torch.float32},
        {"features": torch.float32, "positions": torch.float32, "angular_grads_j": torch.float32},
    ],
)
def test_dtypes_are_those_of_the_results(sources: Sources, dtype: Any) -> None:
    """Positions are not rounded before."""
    expected = stored(sources, dtype)[:]
    for dataset in computing(sources, dtype=dtype):
        batch = dataset[:]
        assert_same(batch, expected, ["features", *DERIVATIVES])
        assert {name: batch[name].dtype for name in ["features", *DERIVATIVES]} == {
            name: dataset.schema[name].dtype for name in ["features", *DERIVATIVES]
        }


@pytest.mark.parametrize(
    ("name", "dtype"), [("features", torch.int64), ("radial_center_idx", torch.float32)]
)
def test_dtypes_that_do_not_fit(sources: Sources, name: str, dtype: torch.dtype) -> None:
    with pytest.raises(apt.FieldError, match=name):
        computing(sources, dtype={name: dtype})
    with pytest.raises(apt.FieldError, match=name):
        stored(sources, {name: dtype})[:]


def stored(sources: Sources, dtype: Any) -> apt.TorchCacheDataset:
    return apt.TorchCacheDataset(sources.stored, fields=EVERYTHING, dtype=dtype)


def test_missing(sources: Sources) -> None:
    for dataset in computing(sources, missing="drop", fields=["features", "force_derivatives"]):
        assert dataset[:].index.tolist() == [k for k in range(N) if k % 3]
    for dataset in computing(sources, missing="error", fields=["features", "force_derivatives"]):
        assert len(dataset.batch([1, 2])) == 2
        with pytest.raises(apt.FieldError, match="forces"):
            dataset.batch([1, 3])
    for dataset in computing(sources, missing="error", fields=["features"]):
        assert len(dataset[:]) == N  # a cell that is not there is none that is missing


def test_one_molecule(sources: Sources) -> None:
    stored = apt.TorchCacheDataset(sources.stored, fields=EVERYTHING)
    for dataset in computing(sources):
        for number in (0, 1, -1):
            assert torch.equal(dataset[number].features, stored[number].features)
        assert torch.equal(dataset[5].angular_grads_k, stored[5].angular_grads_k)
        assert dataset[3].radial_dG_drij is None


def test_what_is_kept(sources: Sources) -> None:
    for policy, again in (("none", N), ("train", 0), ("all", 0)):
        descriptor = Counting(*SETTINGS)
        features = apt.Features(descriptor=descriptor, keep=policy)  # type: ignore[arg-type]
        dataset = apt.AtpDataset(sources.atp, fields=[], features=features)
        assert "features" not in dataset[:]  # not asked for
        dataset = apt.AtpDataset(
            sources.atp, features=apt.Features(descriptor=descriptor, keep=policy)
        )
        first = dataset[:]
        assert descriptor.n == N
        assert dataset.cached_bytes == (0 if again else first.features.nbytes)
        assert_same(dataset[:], first)
        assert descriptor.n == N + again


@pytest.mark.parametrize(("policy", "n_again"), [("none", N), ("train", N // 4), ("all", 0)])
@pytest.mark.parametrize("aenets", [False, True])
def test_parts(sources: Sources, policy: Any, n_again: int, aenets: bool) -> None:
    descriptor = Counting(*SETTINGS)
    dataset = apt.TorchCacheDataset(
        sources.other,
        fields=["features"],
        features=apt.Features(descriptor=descriptor, keep=policy),
    )
    parts = dataset.aenet_split(0.25, 1) if aenets else dataset.split([0.75, 0.25], seed=1)
    assert [len(part) for part in parts] == [N * 3 // 4, N // 4]
    for part in parts:
        assert descriptor.n < N
        part[:]
    assert descriptor.n == N
    batches = [part[:] for part in parts]
    assert descriptor.n == N + n_again
    for batch in batches:
        assert torch.equal(batch.features, dataset.batch(batch.index).features)


def test_bytes_are_limited(sources: Sources) -> None:
    sizes = apt.AtpDataset(sources.atp).n_atoms * sources.descriptor.n_features * 8
    for limit in (0, int(sizes.sum()) // 2, int(sizes.sum())):
        descriptor = Counting(*SETTINGS)
        dataset = apt.AtpDataset(
            sources.atp, features=apt.Features(descriptor=descriptor, keep="all", max_bytes=limit)
        )
        first = dataset[:]
        n_kept = int((sizes.cumsum(0) <= limit).sum())
        assert dataset.cached_bytes == int(sizes[:n_kept].sum())
        assert_same(dataset[:], first)
        assert descriptor.n == 2 * N - n_kept


def test_threads_share_what_is_kept(sources: Sources) -> None:
    limit = 5000
    dataset = apt.AtpDataset(
        sources.atp,
        features=apt.Features(descriptor=sources.descriptor, keep="all", max_bytes=limit),
    )
    expected = apt.AtpDataset(sources.atp, features=sources.descriptor)[:]
    with ThreadPoolExecutor(8) as pool:
        for batch in pool.map(lambda _: dataset[:], range(40)):
            assert_same(batch, expected)
    assert 0 < dataset.cached_bytes <= limit


def test_a_pickle_leaves_the_rows_behind(sources: Sources) -> None:
    dataset = apt.AtpDataset(
        sources.atp,
        features=apt.Features(descriptor=sources.descriptor, keep="all", max_bytes=1 << 20),
    )
    first = dataset[:]
    sent = pickle.dumps(dataset)
    assert len(sent) < 2000
    loaded = pickle.loads(sent)
    assert (loaded.cached_bytes, dataset.cached_bytes) == (0, first.features.nbytes)
    assert_same(loaded[:], first)
    assert loaded.cached_bytes == dataset.cached_bytes


def test_refresh_forgets(sources: Sources, new_path: Callable[[], Path]) -> None:
    path = new_path()
    write(path)
    dataset = apt.AtpDataset(path, features=apt.Features(descriptor=sources.descriptor, keep="all"))
    before = dataset[0].features
    molecule = apt.Molecule(torch.tensor([[0.0, 0, 0], [0, 0, 1.2]]), torch.tensor([1, 8]))
    with apt.AtpWriter(path, mode="w") as writer:
        writer.write(molecule)
    assert dataset.refresh()
    assert dataset.cached_bytes == 0
    assert len(dataset[0].features) == 2 != len(before)


@pytest.mark.parametrize(
    "start", [None, "fork", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_loaders(sources: Sources, start: str | None) -> None:
    dataset = computing(sources, "all")[1]
    workers: Any = {"num_workers": 2, "multiprocessing_context": start} if start else {}
    expected = apt.TorchCacheDataset(sources.stored, fields=EVERYTHING)
    for _ in range(2):
        for batch in DataLoader(dataset, 5, shuffle=True, **workers):
            assert_same(batch, expected.batch(batch.index))
    if start is None:
        for _ in range(2):
            for batch in apt.Loader(dataset, 5, shuffle=True, num_threads=2):
                assert_same(batch, expected.batch(batch.index))
        assert dataset.cached_bytes > 0


def test_a_transform_sees_features(sources: Sources) -> None:
    def total(batch: apt.MoleculeBatch) -> Tensor:
        return batch.features.sum()

    dataset = apt.AtpDataset(sources.atp, features=sources.descriptor, transform=total)
    for loader in (DataLoader(dataset, 7), apt.Loader(dataset, 7)):
        assert sum(loader) == pytest.approx(float(dataset[:]), rel=1e-12)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"keep": "some"}, ValueError, "one of none, train, all, got 'some'"),
        ({"max_bytes": -1}, ValueError, "max_bytes: expected at least 0, got -1"),
        ({"max_bytes": 1.5}, TypeError, "max_bytes: expected an int, got 1.5"),
        ({"descriptor": 3}, TypeError, "expected a ChebyshevDescriptor, got int"),
        ({"cache": 3}, TypeError, "expected a TorchCache, got int"),
        ({"fraction": 1.5}, ValueError, "expected a number from 0 to 1, got 1.5"),
        ({"fraction": float("nan")}, ValueError, "fraction: expected a finite number.*got nan"),
        ({"fraction": 0.5, "seed": -1}, ValueError, "seed: expected at least 0, got -1"),
        ({"fraction": 0.5, "resample": "no"}, TypeError, "resample: expected True or False"),
    ],
)
def test_wrong_options_on_features_and_forces(options: Any, error: Any, message: str) -> None:
    made = apt.ForceSubset if "fraction" in options else apt.Features
    with pytest.raises(error, match=message):
        made(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": 3}, TypeError, "features: expected a TorchCache.*got int"),
        ({"force_subset": 0.5}, TypeError, "force_subset: expected a ForceSubset, got float"),
        (
            {"force_subset": apt.ForceSubset(0.5), "missing": "drop"},
            ValueError,
            "missing='nan'.*got 'drop'",
        ),
        ({"cache_features": "all"}, TypeError, r"use features=Features\(..., keep=...\)"),
        ({"populate": True}, TypeError, "use access='populate'"),
        ({"colour": "red"}, TypeError, "colour: unknown option: .*, storage_options$"),
        ({"stress_from": "virial"}, TypeError, "unknown option: .*; apt.convert has it"),
    ],
)
def test_wrong_options(sources: Sources, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        apt.TorchCacheDataset(sources.stored, **options)
    with pytest.raises(error, match=message):
        apt.AtpDataset(sources.atp, **options)


def test_a_cache_of_a_cache(sources: Sources) -> None:
    with pytest.raises(ValueError, match="features: expected a descriptor, got a cache"):
        apt.TorchCacheDataset(sources.stored, features=sources.stored)


def test_a_path_is_a_cache(sources: Sources) -> None:
    found = apt.AtpDataset(sources.atp, fields=EVERYTHING, features=sources.stored)[:]
    assert_same(found, apt.TorchCacheDataset(sources.stored, fields=EVERYTHING)[:])


def test_mixtures_take_stored_fields(sources: Sources) -> None:
    parts = computing(sources)[:1] * 2
    with pytest.raises(ValueError, match="expected stored fields, got features computed"):
        apt.MixtureDataset(parts)


def test_split_of_aenet(sources: Sources) -> None:
    dataset = apt.TorchCacheDataset(sources.stored).subset(range(11))
    train, test = dataset.aenet_split(0.3, 42)
    assert test[:].index.tolist() == [7, 3, 2]
    assert train[:].index.tolist() == [8, 5, 6, 9, 4, 0, 1, 10]
    with pytest.raises(ValueError, match="test_fraction: expected a number from 0 to 1"):
        dataset.aenet_split(1.2, 42)


# Forces of a part


def supervised(sources: Sources, kind: str, **options: Any) -> Any:
    if kind == "stored":
        return apt.TorchCacheDataset(sources.stored, fields=EVERYTHING, **options)
    if kind == "joined":
        cache = apt.TorchCache(sources.stored)
        return apt.AtpDataset(sources.atp, fields=EVERYTHING, features=cache, **options)
    options |= {"fields": EVERYTHING, "features": sources.descriptor}
    if kind == "computed":
        return apt.TorchCacheDataset(sources.other, **options)
    return apt.AtpDataset(sources.atp, **options)


kinds = pytest.mark.parametrize("kind", ["stored", "joined", "computed", "plain"])


@kinds
@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 1.0])
def test_a_share_of_the_forces(sources: Sources, kind: str, fraction: float) -> None:
    dataset = supervised(sources, kind, force_subset=apt.ForceSubset(fraction))
    whole = supervised(sources, kind)[:]
    for batch in (dataset[:], next(iter(apt.Loader(dataset, N)))):
        chosen = batch.mask("forces")
        assert int(chosen.sum()) == round(fraction * int(has_forces(batch.index).sum()))
        assert not (chosen & ~has_forces(batch.index)).any()
        assert_same(batch, whole, ["energy", "features", "positions"])
        of_atoms = chosen[batch.batch]
        assert batch.forces[~of_atoms].isnan().all()
        assert torch.equal(batch.forces[of_atoms], whole.forces[of_atoms])
        for name in DERIVATIVES:
            assert torch.equal(batch.mask(name), chosen)
            level = whole.level(name)
            centers = f"{'radial' if level == 'edge' else 'angular'}_center_idx"
            assert torch.equal(batch[name], whole[name][of_atoms[whole[centers]]])


@kinds
def test_fixed_or_drawn_anew(sources: Sources, kind: str) -> None:
    def chosen(dataset: Any, epoch: int) -> list[int]:
        dataset.set_epoch(epoch)
        batch = dataset[:]
        return batch.index[batch.mask("forces")].tolist()

    fixed = supervised(sources, kind, force_subset=apt.ForceSubset(0.5))
    assert len({tuple(chosen(fixed, epoch)) for epoch in range(4)}) == 1
    drawn = supervised(sources, kind, force_subset=apt.ForceSubset(0.5, resample=True))
    by_epoch = [chosen(drawn, epoch) for epoch in range(12)]
    assert len({tuple(numbers) for numbers in by_epoch}) > 6
    assert set().union(*by_epoch) == {k for k in range(N) if k % 3}
    again = pickle.loads(pickle.dumps(drawn))
    assert chosen(again, 3) == by_epoch[3]
    other = supervised(sources, kind, force_subset=apt.ForceSubset(0.5, resample=True, seed=1))
    assert [chosen(other, epoch) for epoch in range(12)] != by_epoch


def test_the_choice_reaches_workers(sources: Sources) -> None:
    dataset = supervised(sources, "stored", force_subset=apt.ForceSubset(0.5, resample=True))
    for epoch in range(3):
        dataset.set_epoch(epoch)
        expected = dataset[:].mask("forces")
        batches = list(DataLoader(dataset, 5, num_workers=2))
        assert torch.equal(torch.cat([batch.mask("forces") for batch in batches]), expected)


def test_the_share_is_that_of_the_part(sources: Sources) -> None:
    dataset = supervised(sources, "stored", force_subset=apt.ForceSubset(0.5))
    for part in dataset.split([0.5, 0.5], seed=3):
        batch = part[:]
        n = int(has_forces(batch.index).sum())
        assert int(batch.mask("forces").sum()) == int(0.5 * n + 0.5)


def test_mixtures_draw_for_their_parts(sources: Sources) -> None:
    parts = [
        supervised(sources, "stored", force_subset=apt.ForceSubset(0.5, resample=True))
        for _ in range(2)
    ]
    mixture = apt.MixtureDataset(parts)
    for epoch in (0, 1):
        mixture.set_epoch(epoch)
        parts[0].set_epoch(epoch)
        expected = parts[0][:].mask("forces")
        batch = mixture[:]
        assert torch.equal(batch.mask("forces"), expected[batch.index])


def test_forces_of_the_chosen(sources: Sources) -> None:
    batch = supervised(sources, "stored", force_subset=apt.ForceSubset(0.5))[:]
    whole = supervised(sources, "stored")[:]
    weights = torch.linspace(-1, 1, whole.features.numel(), dtype=torch.float64)
    weights = weights.reshape(whole.features.shape)
    chosen = batch.mask("forces")[batch.batch]
    got, expected = (apt.contract_forces(each, weights) for each in (batch, whole))
    torch.testing.assert_close(got[chosen], expected[chosen], rtol=0, atol=0)
    assert got[~chosen].isnan().all()


def test_a_build_of_other_forces_is_not_resumed(sources: Sources, tmp_path: Path) -> None:
    from atompack_torch.formats.torch_cache.building import (
        BuildOptions,
        fingerprint_of,
        header_of,
    )

    options = BuildOptions(
        features=True,
        force_derivatives=True,
        dtype="float64",
        num_threads=None,
        progress=False,
        resume=True,
    )
    header = header_of(sources.descriptor, options, ("", "file"))
    prints = {
        fingerprint_of(
            supervised(sources, "stored", force_subset=apt.ForceSubset(share, seed=seed)),
            sources.descriptor,
            header,
        )
        for share, seed in ((1.0, 0), (0.5, 0), (0.5, 1))
    }
    assert len(prints) == 3


@pytest.fixture(scope="module")
def partial(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of all rows without the last three of features and of derivatives."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path_factory.mktemp("partial") / "partial.h5"
    shutil.copy(sources.stored, path)
    with h5py.File(path, "r+") as file:
        columns: list[Any] = []
        file["torch_cache"].visititems(
            lambda _, item: columns.append(item) if isinstance(item, h5py.Dataset) else None
        )
        for column in columns:
            column.resize(len(column) - 3, axis=0)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("options", [{}, {"keep": "all"}, {"missing": "error"}])
def test_a_descriptor_sets_the_dtype_and_completes_rows(
    sources: Sources, partial: Path, joined: bool, dtype: str, options: Any
) -> None:
    kind = getattr(torch, dtype)
    descriptor = apt.ChebyshevDescriptor(*SETTINGS, dtype=dtype)  # type: ignore[arg-type]
    computed = apt.Features(descriptor=descriptor, keep=options.get("keep", "none"))
    for file in (sources.stored, partial):
        given: Any = {"fields": ["energy", "features"]}
        if file == partial and "missing" in options:
            given |= options
        dataset = (
            apt.AtpDataset(sources.atp, features=dataclasses.replace(computed, cache=file), **given)
            if joined
            else apt.TorchCacheDataset(file, features=computed, **given)
        )
        expected = apt.TorchCacheDataset(sources.stored, fields=["features"])[:].features.to(kind)
        for _ in range(2):
            found = dataset[:]
            assert found.mask("features").all()
            torch.testing.assert_close(found.features, expected, rtol=1e-6, atol=1e-6)
        assert dataset.schema["features"].dtype == kind
        assert torch.equal(dataset[N - 1].features, found[N - 1].features)


@pytest.mark.parametrize("fields", [EVERYTHING, None])
def test_derivatives_without_a_row_are_computed(
    sources: Sources, partial: Path, fields: Any
) -> None:
    given: Any = {"fields": fields, "features": sources.descriptor}
    stored = apt.TorchCacheDataset(sources.stored, fields=fields)[:]
    completed = apt.TorchCacheDataset(partial, **given)[:]
    assert_same(completed, stored, ["features", *DERIVATIVES])
    plain = apt.TorchCacheDataset(partial, fields=EVERYTHING)[:]
    assert plain.mask("features").tolist() == [True] * (N - 3) + [False] * 3
    narrow = apt.ChebyshevDescriptor(*SETTINGS, dtype="float32")
    cast = apt.TorchCacheDataset(sources.stored, fields=fields, features=narrow)[:]
    assert cast.radial_dG_drij.dtype == cast.features.dtype == torch.float32
    assert cast.radial_center_idx.dtype == torch.int64
    wide: Any = {"fields": fields, "features": narrow, "dtype": {"features": torch.float64}}
    assert apt.TorchCacheDataset(sources.stored, **wide)[:].features.dtype == torch.float64
