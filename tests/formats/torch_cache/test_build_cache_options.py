"""build_cache: options, refusals, other descriptors, and builds that are stopped and continue."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference import cache_molecules
from reference.cache_file import read_with_h5py
from reference.cache_molecules import descriptor
from reference.compare import assert_same

import atompack_torch as apt
from atompack_torch.formats.torch_cache import building as cache_building

N = 60
Report = Callable[[int], None]


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks and checkpoints though there are few atoms."""

    for name, value in (
        ("_FIRST_ATOMS", 12),
        ("_MOST_ATOMS", 12),
        ("_CHECKPOINT_BYTES", 20000),
    ):
        monkeypatch.setattr(cache_building, name, value)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache_molecules.write(tmp_path_factory.mktemp("molecules") / "m.atp", N)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "caches"
    folder.mkdir()
    return folder / "made.h5"


@pytest.fixture(scope="module")
def undisturbed(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("undisturbed") / "made.h5"
    apt.build_cache(
        apt.AtpDataset(path), descriptor(), made, force_derivatives=True, progress=False
    )
    return made


class Told:
    """A progress function that stops the build after so many molecules."""

    def __init__(self, stop: float = float("inf")) -> None:
        self.counts: list[int] = []
        self.stop = stop

    def __call__(self, n: int) -> None:
        self.counts.append(n)
        if sum(self.counts) >= self.stop:
            raise KeyboardInterrupt


def stop_after(dataset: Any, target: Path, n: float, **options: Any) -> None:
    """Leaves a build unfinished."""
    asked: dict[str, Any] = {"force_derivatives": True, **options}
    with pytest.raises(KeyboardInterrupt):
        apt.build_cache(dataset, descriptor(), target, progress=Told(n), **asked)
    assert not target.exists()
    assert len(left(target)) == 2


def left(target: Path) -> list[str]:
    return sorted(file.name for file in target.parent.iterdir())


def finish(dataset: Any, target: Path, **options: Any) -> int:
    """Ends a build; returns how many entries existed already."""
    told = Told()
    asked: dict[str, Any] = {"force_derivatives": True, **options}
    apt.build_cache(dataset, asked.pop("descriptor", descriptor()), target, progress=told, **asked)
    assert sum(told.counts) == len(dataset)
    assert left(target) == [target.name]
    return told.counts[0]


def test_progress(path: Path, target: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = Told()
    dataset = apt.AtpDataset(path)
    apt.build_cache(dataset, descriptor(), target, progress=told)
    assert sum(told.counts) == N
    assert len(told.counts) > 5
    assert capfd.readouterr().err == ""
    apt.build_cache(dataset, descriptor(), target.with_name("b.h5"), progress=True)
    assert "build_cache" in capfd.readouterr().err


@pytest.mark.parametrize("num_threads", [1, 2, 5, None])
def test_threads_make_the_same_file(
    path: Path, target: Path, undisturbed: Path, num_threads: int | None
) -> None:
    assert finish(apt.AtpDataset(path), target, num_threads=num_threads) == 0
    assert target.read_bytes() == undisturbed.read_bytes()


def test_umask(path: Path, target: Path) -> None:
    before = os.umask(0o027)
    try:
        finish(apt.AtpDataset(path), target)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_refusals(path: Path, target: Path) -> None:
    dataset = apt.AtpDataset(path)
    with pytest.raises(apt.FieldError, match="got neither"):
        apt.build_cache(dataset, descriptor(), target, features=False)
    with pytest.raises(ValueError, match="expected one of float32, float64, got 'float16'"):
        apt.build_cache(dataset, descriptor(), target, dtype="float16")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        apt.build_cache(dataset, descriptor(), target.parent / "none" / "x.h5", progress=False)
    assert left(target) == []
    target.write_text("mine")
    with pytest.raises(FileExistsError, match=r"made\.h5"):
        apt.build_cache(dataset, descriptor(), target, progress=False)
    assert target.read_text() == "mine"
    assert left(target) == [target.name]


def test_a_name_that_is_taken_meanwhile(path: Path, target: Path, undisturbed: Path) -> None:
    dataset = apt.AtpDataset(path)

    def take(_: int) -> None:
        target.write_text("mine")

    with pytest.raises(FileExistsError):
        apt.build_cache(dataset, descriptor(), target, force_derivatives=True, progress=take)
    assert target.read_text() == "mine"
    target.unlink()
    assert finish(dataset, target) == N  # nothing is computed again
    assert target.read_bytes() == undisturbed.read_bytes()


@pytest.mark.parametrize("stop", [1, 20, N - 1, N])
def test_goes_on(path: Path, target: Path, undisturbed: Path, stop: int) -> None:
    dataset = apt.AtpDataset(path)
    stop_after(dataset, target, stop)
    assert finish(dataset, target) >= stop
    assert target.read_bytes() == undisturbed.read_bytes()


def test_goes_on_twice_and_elsewhere(path: Path, target: Path, undisturbed: Path) -> None:
    """Another object of the same file is the same molecules."""
    for stop in (10, 30, 31):
        stop_after(apt.AtpDataset(path), target, stop)
    dataset = apt.AtpDataset(path, num_threads=1, access="populate")
    assert finish(dataset, target, num_threads=1) >= 31
    assert target.read_bytes() == undisturbed.read_bytes()


def test_what_follows_the_journal_and_what_it_misses(
    path: Path, target: Path, undisturbed: Path
) -> None:
    dataset, payload = apt.AtpDataset(path), target.with_name(".made.h5.new")
    stop_after(dataset, target, 30)
    whole = payload.read_bytes()
    for size in (len(whole) // 2, 1):
        payload.write_bytes(whole[:size])
        with pytest.raises(apt.CorruptFileError, match=f"entries of its journal, got {size} bytes"):
            finish(dataset, target)
    payload.write_bytes(whole + 10_000 * b"x")
    assert finish(dataset, target) >= 30
    assert target.read_bytes() == undisturbed.read_bytes()


CHANGES: dict[str, Any] = {
    "dtype": lambda path: (apt.AtpDataset(path), {"dtype": "float32"}),
    "features": lambda path: (apt.AtpDataset(path), {"features": False}),
    "derivatives": lambda path: (apt.AtpDataset(path), {"force_derivatives": False}),
    "descriptor": lambda path: (apt.AtpDataset(path), {"descriptor": descriptor(rad_order=4)}),
    "rounding": lambda path: (apt.AtpDataset(path), {"descriptor": descriptor(dtype="float32")}),
    "resume": lambda path: (apt.AtpDataset(path), {"resume": False}),
    "order": lambda path: (apt.AtpDataset(path).subset([*range(N)][::-1]), {}),
    "labels": lambda path: (apt.AtpDataset(path, exclude=["forces"]), {}),
    "positions": lambda path: (apt.AtpDataset(path, dtype=torch.float32), {}),
    "transform": lambda path: (apt.AtpDataset(path, transform=moved), {}),
}


def moved(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.positions = batch.positions * 1.01
    return batch


@pytest.mark.parametrize("change", CHANGES)
def test_another_build_starts_anew(path: Path, target: Path, tmp_path: Path, change: str) -> None:
    stop_after(apt.AtpDataset(path), target, 30)
    dataset, options = CHANGES[change](path)
    assert finish(dataset, target, **options) == 0
    fresh = tmp_path / "fresh" / "made.h5"
    fresh.parent.mkdir()
    finish(dataset, fresh, **options)
    assert read_with_h5py(target).same_as(read_with_h5py(fresh))


def test_other_molecules_start_anew(path: Path, target: Path, tmp_path: Path) -> None:
    stop_after(apt.AtpDataset(path), target, 30)
    other = apt.AtpDataset(cache_molecules.write(tmp_path / "m.atp", N, seed=1))
    assert finish(other, target) == 0
    made = descriptor().compute(other.batch([0]))
    assert_same(apt.TorchCache(target).load_features(0), made.features, "features")


def test_an_option_that_is_a_function_is_the_same_in_every_process(
    path: Path, target: Path
) -> None:
    dataset = apt.AtpDataset(path, transform=moved)
    stop_after(dataset, target, 30)
    assert finish(apt.AtpDataset(path, transform=moved), target) >= 30


def test_one_build_at_a_time(path: Path, target: Path) -> None:
    dataset, refused = apt.AtpDataset(path), []

    def build_too(_: int) -> None:
        with pytest.raises(apt.WriterLockedError, match=r"made\.h5"):
            apt.build_cache(dataset, descriptor(), target, progress=False)
        refused.append(True)

    apt.build_cache(dataset, descriptor(), target, progress=build_too)
    assert len(refused) > 5
    assert len(apt.TorchCache(target)) == N
    assert left(target) == [target.name]


class Faulty:
    """A descriptor of somebody else's, over the built-in one."""

    def __init__(self, change: Callable[[apt.MoleculeBatch], Any]) -> None:
        self._descriptor = descriptor()
        self._change = change

    @property
    def compat(self) -> dict[str, Any]:
        return self._descriptor.compat

    def compute(self, batch: apt.MoleculeBatch, derivatives: bool = False) -> Any:
        return self._change(self._descriptor.compute(batch, derivatives))


def test_an_error_in_the_middle(path: Path, target: Path, undisturbed: Path) -> None:
    """What was made before it is kept, though the error still holds the builder."""
    dataset, broken = apt.AtpDataset(path), True

    def fail_late(batch: apt.MoleculeBatch) -> Any:
        if broken and 40 in batch.index.tolist():
            raise ValueError("no sensible features")
        return batch

    other = Faulty(fail_late)
    with pytest.raises(ValueError, match="no sensible features") as error:
        apt.build_cache(dataset, other, target, force_derivatives=True, progress=False)
    assert not target.exists()
    broken = False
    assert 30 <= finish(dataset, target, descriptor=other) <= 40
    assert target.read_bytes() == undisturbed.read_bytes()
    assert error.tb is not None


def test_an_element_that_the_descriptor_does_not_know(path: Path, target: Path) -> None:
    few = descriptor(["H", "O"])
    for _ in range(2):
        with pytest.raises(apt.FieldError, match=r"14|Si"):
            apt.build_cache(apt.AtpDataset(path), few, target, progress=False)
        assert not target.exists()
    assert finish(apt.AtpDataset(path), target) == 0


def doubled(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.features = batch.features * 2
    return batch


def test_another_descriptor(path: Path, target: Path) -> None:
    dataset = apt.AtpDataset(path)
    cache = apt.build_cache(dataset, Faulty(doubled), target, progress=False)
    for k in range(N):
        want = descriptor().compute(dataset.batch([k])).features * 2
        assert_same(cache.load_features(k), want, "features")


def changed(name: str, step: Callable[[Any], Any]) -> Callable[[apt.MoleculeBatch], Any]:
    def change(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch._fields[name] = step(batch._fields[name])
        return batch

    return change


BAD: dict[str, tuple[Any, str]] = {
    "narrow": (changed("features", lambda v: v[:, :-1]), "expected .*, 14.* got .*, 13"),
    "half": (changed("features", lambda v: v.half()), "got torch.float16"),
    "short": (changed("radial_neighbor_idx", lambda v: v[:-1]), "radial_neighbor_idx"),
    "int32": (changed("angular_neighbor_k_idx", lambda v: v.int()), "got torch.int32"),
    "flat": (changed("angular_grads_j", lambda v: v.flatten(1)), "angular_grads_j"),
    "negative": (changed("radial_neighbor_idx", lambda v: v - 10**6), "atoms of one molecule"),
    "outside": (changed("angular_neighbor_j_idx", lambda v: v + 10**6), "atoms of one molecule"),
    "foreign": (changed("radial_neighbor_idx", lambda v: v.flip(0)), "atoms of one molecule"),
    "no batch": (lambda batch: None, "expected a MoleculeBatch, got NoneType"),
    "fewer": (lambda batch: apt.collate([batch[0]]), "expected a batch of .* molecules, got 1"),
}


@pytest.mark.parametrize("bad", BAD)
def test_descriptors_that_lie(path: Path, target: Path, bad: str) -> None:
    change, message = BAD[bad]
    with pytest.raises((apt.FieldError, TypeError), match=message):
        apt.build_cache(
            apt.AtpDataset(path), Faulty(change), target, force_derivatives=True, progress=False
        )
    assert not target.exists()


def test_rows_that_are_not_in_order(path: Path, target: Path) -> None:
    def backwards(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        for name in ("center_idx", "neighbor_idx", "dG_drij", "neighbor_typespin"):
            batch._fields[f"radial_{name}"] = batch[f"radial_{name}"].flip(0)
        return batch

    with pytest.raises(apt.FieldError, match="expected rows molecule by molecule"):
        apt.build_cache(
            apt.AtpDataset(path), Faulty(backwards), target, force_derivatives=True, progress=False
        )


def test_data_sets_that_leave_molecules_out(path: Path, target: Path) -> None:
    """Their entries would not be those of the same number."""
    dropping = apt.AtpDataset(path, fields=["forces"], missing="drop")
    with pytest.raises(apt.FieldError, match="the dataset: expected a batch of"):
        apt.build_cache(dropping, descriptor(), target, progress=False)
    other = apt.AtpDataset(path, transform=lambda batch: batch.positions)
    with pytest.raises(TypeError, match="the dataset: expected a MoleculeBatch, got Tensor"):
        apt.build_cache(other, descriptor(), target, progress=False)


def test_atoms_of_no_element(tmp_path: Path, target: Path) -> None:
    """Only a descriptor of somebody else's can come so far."""

    def unknown(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.atomic_numbers = torch.full_like(batch.atomic_numbers, 200)
        return batch

    atoms = cache_molecules.write(tmp_path / "m.atp", 3)
    with pytest.raises(apt.FieldError, match="atomic number from 0 to 118, got 200"):
        apt.build_cache(apt.AtpDataset(atoms), Faulty(unknown), target, progress=False)


@pytest.fixture
def other_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "Földer ☃"
    folder.mkdir()
    return folder


def test_paths_that_are_not_ascii(other_folder: Path) -> None:
    """The table of entries takes ASCII alone."""
    path = cache_molecules.write(other_folder / "m.atp", 3)
    cache = apt.build_cache(
        apt.AtpDataset(path), descriptor(), other_folder / "ü.h5", progress=False
    )
    assert cache.load_features(0) is not None
    assert read_with_h5py(cache.path).meta["source_id"].tolist() == [b""] * 3
    assert np.array_equal(apt.TorchCacheDataset(cache).n_atoms, apt.AtpDataset(path).n_atoms)


@pytest.mark.parametrize("options", [{"fields": ["energy"]}, {"exclude": ["cell", "pbc"]}])
def test_crystals_stay_periodic(tmp_path: Path, options: Any) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(
            apt.Molecule(np.zeros((1, 3)), [8], energy=1.0, cell=2 * np.eye(3), pbc=[True] * 3)
        )
    descriptor = apt.ChebyshevDescriptor(["O"], 2, 3.0, 1, 2.5)
    chosen = apt.AtpDataset(tmp_path / "a.atp", **options)
    cache = apt.build_cache(chosen, descriptor, tmp_path / "a.h5", progress=False)
    whole = descriptor.compute(apt.AtpDataset(tmp_path / "a.atp")[:])
    assert torch.equal(cache.load_features(0), whole.features)
    assert whole.features.abs().sum() > 0
