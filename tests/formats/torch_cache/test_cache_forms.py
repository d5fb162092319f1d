"""The forms that HDF5 gives to a cache hold the same; those of a raised lower bound are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference.cache_forms import LAYOUTS, rewrite
from reference.fixture_files import fixtures_root

import atompack_torch as apt
from atompack_torch import UnsupportedFormatError
from atompack_torch._native import TorchCacheReader

NAMES = ("v2_both_f64_two", "legacy_v1_f64_two")
FROZEN = Path(__file__).parents[2] / "fixtures" / "cache_forms"


def contents(path: Path) -> dict[str, Any]:
    """All that a cache gives: its description and a batch of all entries."""
    found: dict[str, Any] = {"info": repr(TorchCacheReader(str(path)).info)}  # where NaN is itself
    dataset = apt.TorchCacheDataset(path)
    for key, value in dataset.batch(range(len(dataset))).items():
        array = np.asarray(value)
        values = list(array) if array.dtype == object else array.tobytes()
        found[key] = (array.dtype.str, array.shape, values)
    return found


@pytest.fixture(scope="module")
def folder() -> Path:
    return fixtures_root() / "torch_cache"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("libver", ["earliest", "v108"])
def test_forms_hold_the_same(
    folder: Path, tmp_path: Path, libver: str, layout: str, name: str
) -> None:
    source = folder / f"{name}.h5"
    changed = rewrite(source, tmp_path / "a.h5", libver, layout)
    assert contents(changed) == contents(source)


def test_other_indexes_of_chunks_are_refused(folder: Path, tmp_path: Path) -> None:
    changed = rewrite(folder / f"{NAMES[0]}.h5", tmp_path / "a.h5", "v110", "growing")
    with pytest.raises(UnsupportedFormatError, match=r"layout: expected version 3.*'earliest'"):
        apt.TorchCacheDataset(changed)


@pytest.mark.parametrize("path", sorted(FROZEN.iterdir()), ids=lambda path: path.stem)
def test_frozen_files(folder: Path, path: Path) -> None:
    """Written by h5py 3.x with HDF5 2.0 and kept, so that later versions of h5py change nothing."""
    assert contents(path) == contents(folder / f"{NAMES[0]}.h5")


def test_attributes_equal_those_of_h5py() -> None:
    for path in sorted(FROZEN.iterdir()):
        info = TorchCacheReader(str(path)).info
        with h5py.File(path) as file:
            groups = {
                "root": file,
                "descriptor_manifest": file["descriptor_manifest"],
                "torch_cache": file["torch_cache"],
            }
            n_compared = 0
            for name, group in groups.items():
                for key, value in (info[name] or {}).items():
                    expected = group.attrs[key]
                    if isinstance(expected, h5py.Empty):
                        expected = ""
                    if isinstance(expected, bytes):
                        expected = expected.decode()
                    assert value == expected or (value != value and expected != expected), (
                        path,
                        key,
                    )
                    n_compared += 1
        assert n_compared > 10


def test_many_chunks(tmp_path: Path) -> None:
    """More than a node of the tree of chunks holds."""
    source = tmp_path / "source.h5"
    molecules = [apt.Molecule(np.zeros((1, 3)), [8]) for _ in range(2600)]
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for molecule in molecules:
            writer.write(molecule)
    descriptor = apt.ChebyshevDescriptor(["O"], 2, 4.0, 1, 3.0)
    apt.build_cache(apt.AtpDataset(tmp_path / "a.atp"), descriptor, source, progress=False)
    changed = rewrite(source, tmp_path / "b.h5", "v108", "fixed")
    assert contents(changed) == contents(source)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", sorted(FROZEN.iterdir()), ids=lambda path: path.stem)
def test_a_changed_byte_gives_the_contents_or_an_error(path: Path, tmp_path: Path) -> None:
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    target = tmp_path / "a.h5"
    n_errors = 0
    for at in rng.integers(0, len(data), 250):
        kept = data[at]
        data[at] = int(rng.choice([0, 0xFF, kept ^ 1, kept ^ 0x80, rng.integers(256)]))
        target.write_bytes(data)
        data[at] = kept
        try:
            contents(target)
        except apt.AtompackError:
            n_errors += 1
    assert n_errors > 0
