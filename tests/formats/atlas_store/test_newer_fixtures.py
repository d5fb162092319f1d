"""Collections and stores of atlas-python 0.12 to 0.17: what was stored, and damaged ones."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.compare import assert_same
from reference.fixture_files import INNER, fixtures_root, names_of

import atompack_torch as apt

FIXTURES = names_of("atlas_today/*", ".expected.json")
LATER_THAN_THE_FLUSH = ("0.12.0_attrs_layers", "0.13.1_attrs_layers", "0.14.0_attrs_layers")


def unplain(value: Any) -> Any:
    """Bytes and non-finite numbers, which JSON lacks."""
    if isinstance(value, dict):
        return bytes(value["bytes"]) if "bytes" in value else float(value["float"])
    return [unplain(part) for part in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    return int(value.view("i8")) if isinstance(value, np.datetime64) else value


def same(got: Any, want: Any) -> bool:
    """Equal in type too, minus zero unlike zero; NaN equals NaN."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and (repr(got) == repr(want) or got == want != 0)


class Expected:
    """One fixture."""

    def __init__(self, name: str) -> None:
        root = fixtures_root() / "atlas_today"
        self.path = root / name
        self.facts = json.loads((root / f"{name}.expected.json").read_text())
        numbers = root / f"{name}.expected.npz"
        self.numbers = dict(np.load(numbers)) if numbers.exists() else {}

    def value(self, array: dict[str, Any]) -> Any:
        if "key" in array:
            stored = np.ascontiguousarray(self.numbers[array["key"]])
            stored = stored.view("i8") if stored.dtype.kind == "M" else stored
            return torch.from_numpy(stored).reshape(array["shape"])
        strings = np.array(array["strings"], object)
        return strings.reshape(array["shape"]).tolist() if array["shape"] else strings[0]


@pytest.mark.parametrize("name", FIXTURES)
def test_everything_that_was_stored(name: str) -> None:
    expected = Expected(name)
    is_collection = expected.facts["kind"] == "collection"
    for path in [expected.path, *([expected.path / "data.atlas"] if is_collection else [])]:
        store = apt.AtlasStore(path)
        assert store.datasets == expected.facts["datasets_order"]
        for dataset in store.datasets:
            facts = expected.facts["datasets"][dataset]
            got = {k: plain(v) for k, v in store.attrs(dataset).items()}
            want = {k: unplain(v) for k, v in facts["attributes"].items()}
            assert list(got) == list(want)
            assert all(same(got[key], want[key]) for key in want), (got, want)
            assert store.arrays_of(dataset) == list(facts["arrays"])
            for array, of_array in facts["arrays"].items():
                check_array(expected, store, dataset, array, of_array)


def check_array(
    expected: Expected, store: apt.AtlasStore, dataset: str, array: str, facts: dict[str, Any]
) -> None:
    schema = store.schema(array, dataset)
    assert schema.dtype == {"timestamp": "timestamp_ns"}.get(facts["dtype"], facts["dtype"])
    assert schema.shape == tuple(facts["shape"])
    assert schema.chunk_shape == tuple(facts["chunk_shape"])
    assert schema.dimension_names == tuple(facts["dims"])
    fill = unplain(facts["fill"])
    assert same(schema.fill_value, float(fill) if isinstance(schema.fill_value, float) else fill)
    assert_same(store.read(dataset, array), expected.value(facts), f"{array} of {dataset}")
    got = {k: plain(v) for k, v in store.array_attrs(dataset, array).items()}
    want = {k: unplain(v) for k, v in facts["attributes"].items()}
    assert list(got) == list(want)
    assert all(same(got[key], want[key]) for key in want), (got, want)
    found = store.stats(array).get(dataset)
    assert (found is None) == (facts["stats"] is None)
    for key, value in found._asdict().items() if found else ():
        stats = unplain(facts["stats"].get(key))
        assert same(value, stats.encode() if isinstance(stats, str) else stats), key


@pytest.mark.parametrize("name", FIXTURES)
def test_scans_are_reads(name: str) -> None:
    store = apt.AtlasStore(Expected(name).path)
    for array in store.arrays:
        scan = store.scan(array, layout="list")
        for dataset, value, there in zip(scan.datasets, scan.values, scan.mask, strict=True):
            assert bool(there) == (array in store.arrays_of(dataset))
            if there:
                assert_same(value, store.read(dataset, array), f"{array} of {dataset}")


@pytest.mark.parametrize("name", FIXTURES)
def test_verification_and_statistics(name: str) -> None:
    path = Expected(name).path
    store = apt.AtlasStore(path)
    found = apt.verify(path)
    assert found.faults == []
    assert found.counts["arrays"] == sum(len(store.arrays_of(d)) for d in store.datasets)
    assert [row["array"] for row in apt.statistics(path)] == store.arrays


def test_attributes_in_doubt() -> None:
    for name in LATER_THAN_THE_FLUSH:
        store = apt.AtlasStore(Expected(name).path)
        assert "units" in store.attrs_in_doubt("jan", "t")
        assert store.array_attrs("jan", "t")["units"] == "celsius"
    for name in ("0.12.0_tiny", "0.17.2_attrs", "0.16.0_attrs"):
        store = apt.AtlasStore(Expected(name).path)
        for dataset in store.datasets:
            assert store.attrs_in_doubt(dataset) == []
            assert [store.attrs_in_doubt(dataset, x) for x in store.arrays_of(dataset)] == [
                [] for _ in store.arrays_of(dataset)
            ]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    with tarfile.open(INNER / "atlas_today" / "reject.tar.xz") as archive:
        archive.extractall(folder)
    return folder / "reject"


def read_all(path: Path) -> list[str]:
    """Reads everything; returns the names of the datasets."""
    store = apt.AtlasStore(path)
    for dataset in store.datasets:
        store.attrs(dataset)
        for array in store.arrays_of(dataset):
            store.schema(array, dataset)
            store.array_attrs(dataset, array)
            store.read(dataset, array)
    for array in store.arrays:
        store.stats(array)
        store.scan(array, layout="list")
    return store.datasets


def outcome(path: Path) -> str:
    """Returns what was read; for a named error only that it was refused."""
    try:
        return f"read: {','.join(read_all(path))}"
    except (apt.CorruptFileError, apt.UnsupportedFormatError, apt.FieldError) as error:
        return "reject" if str(path) in str(error) else f"nameless: {error}"


@pytest.mark.filterwarnings("ignore:.*older than the collection")
@pytest.mark.parametrize("release", ["0.16.4", "0.17.2"])
def test_damaged_collections(damaged: Path, release: str) -> None:
    verdicts = json.loads((damaged / f"{release}_verdicts.json").read_text())
    wrong = {}
    for name, verdict in verdicts.items():
        got = outcome(damaged / f"{release}_{name}")
        want = verdict["library"] if verdict["expect"] == "read" else verdict["expect"]
        if want not in (got, "either") or got.startswith("nameless"):
            wrong[name] = (want, got)
    assert wrong == {}
    assert len(verdicts) == {"0.16.4": 47, "0.17.2": 74}[release]


@pytest.mark.parametrize("name", ["0.16.0_tiny", "0.17.2_tiny"])
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_every_cut_and_flipped_bytes(tmp_path: Path, name: str, step: int) -> None:
    whole = (Expected(name).path / "data.atlas").read_bytes()
    file = tmp_path / "data.atlas"
    for n in range(len(whole)):
        file.write_bytes(whole[:n])
        with pytest.raises((apt.CorruptFileError, apt.UnsupportedFormatError)):
            apt.AtlasStore(file)
    n_read = 0
    flipped = range(0, len(whole), step)
    for at in flipped:
        changed = bytearray(whole)
        changed[at] ^= 1 << at // step % 8
        file.write_bytes(changed)
        found = outcome(file)
        assert not found.startswith("nameless"), at
        n_read += found != "reject"
    assert n_read < 2 / 3 * len(flipped)  # padding and values


def test_a_folder_with_a_store_and_a_collection(tmp_path: Path) -> None:
    shutil.copytree(Expected("0.12.0_tiny").path, tmp_path / "both")
    shutil.copy(Expected("0.17.2_tiny").path / "data.atlas", tmp_path / "both")
    with pytest.raises(apt.UnsupportedFormatError, match=r"got both: .*atlas\..* and data\.atlas"):
        apt.AtlasStore(tmp_path / "both")
    assert apt.AtlasStore(tmp_path / "both" / "data.atlas").datasets == ["jan", "feb"]


@pytest.mark.parametrize("name", ["0.12.0_tiny", "0.14.0_recreated", "0.16.0_tiny", "0.17.2_tiny"])
def test_they_are_not_written_to(tmp_path: Path, name: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(Expected(name).path, copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(apt.UnsupportedFormatError, match="convert OLD NEW"):
        apt.AtlasStore(copy, "a")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
