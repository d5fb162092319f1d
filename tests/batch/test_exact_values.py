"""Values that would not come back as they were are refused by every writer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.batch.exact_values import as_array, converted

BEYOND = 2**53 + 1  # the first integer that float64 does not hold


@pytest.mark.parametrize(
    ("values", "dtype", "options"),
    [
        ([0.1, np.inf, -np.inf, np.nan, 1e38], "f4", {"rounds": True}),
        ([0.5, np.inf, np.nan], "f4", {}),
        ([2**53, -(2**53), 2**62], "f8", {}),
        (np.array([2**63], "u8"), "f8", {}),
        ([True, False], "f8", {}),
        ([0, 1], "?", {}),
        ([-128, 127], "i1", {}),
        ([3.0, -4.0], "i4", {}),
        (np.array([1, 2], ">i8"), "i4", {}),
        (np.array([0.5], "g"), "f8", {}),
        (np.array([], "i8"), "f4", {}),
    ],
)
def test_values_that_fit_are_the_same(values: Any, dtype: str, options: dict[str, bool]) -> None:
    given = np.asarray(values)
    made = converted("v", given, dtype, **options)
    assert made.dtype == np.dtype(dtype)
    assert made.shape == given.shape
    expected = given.astype(dtype)
    np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
    ("values", "dtype", "options"),
    [
        ([1e300], "f4", {"rounds": True}),
        ([-3.5e38], "f4", {"rounds": True}),
        ([0.1], "f4", {}),
        ([70000.0], "f2", {"rounds": True}),
        ([BEYOND], "f8", {}),
        ([-BEYOND], "f8", {}),
        ([2**63 - 1], "f8", {}),
        (np.array([2**64 - 1], "u8"), "f8", {}),
        ([2**24 + 1], "f4", {"rounds": True}),
        ([70000], "f2", {}),
        ([-1], "?", {}),
        ([2], "?", {}),
        ([np.nan], "?", {}),
        ([-1], "u1", {}),
        ([256], "u1", {}),
        ([128], "i1", {}),
        (np.array([2**63], "u8"), "i8", {}),
        ([2**31], "i4", {}),
        ([0.5], "i4", {}),
        ([np.nan], "i8", {}),
        ([2.0**63], "i8", {}),
        (np.array([1], "g") / 10, "f8", {"rounds": True}),
    ],
)
def test_values_that_do_not_fit_are_refused(
    values: Any, dtype: str, options: dict[str, bool]
) -> None:
    given = np.asarray(values)
    for array in (
        given,
        given.reshape(1, 1, -1),
        given[0],
        given.astype(given.dtype.newbyteorder()),
    ):
        with pytest.raises(apt.FieldError, match=r"v: expected .* holds, got"):
            converted("v", np.asarray(array), dtype, **options)


def test_lists_in_which_numpy_rounds_integers() -> None:
    with pytest.raises(apt.FieldError, match=f"v: expected integers .* got {BEYOND}"):
        as_array("v", [[0.5, 1.0], [2.0, BEYOND]])
    assert as_array("v", [0.5, 2**53, 1e300]).tolist() == [0.5, 2.0**53, 1e300]
    assert as_array("v", [2**63, -1]).tolist() == [2.0**63, -1.0]


def test_masked_elements_are_no_values() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for given in (masked, [masked], ([1.0, np.ma.masked],), np.ma.masked):
        with pytest.raises(apt.FieldError, match=r"v: .* without a mask, got 1 .*filled"):
            as_array("v", given)
    assert as_array("v", np.ma.masked_array([1.0, 2.0])).tolist() == [1.0, 2.0]


Write = Callable[[str, Any], Any]


@pytest.fixture(params=["store", "file"])
def write_stored(request: pytest.FixtureRequest, tmp_path: Path) -> Write:
    """Writes values into a fresh array of a dtype, and reads it again."""
    numbers = itertools.count()

    def of_store(dtype: str, values: Any, **options: Any) -> Any:
        path = tmp_path / str(next(numbers))
        with apt.AtlasStore(path, "x") as store:
            store.create_dataset("d")
            store.define_array("d", "v", dtype, options.pop("shape", np.shape(values)), **options)
            store.write("d", "v", values)
        return apt.AtlasStore(path).read("d", "v")

    def of_file(dtype: str, values: Any, **options: Any) -> Any:
        path = tmp_path / f"{next(numbers)}.af"
        with apt.ArrayFile(path, "x") as file:
            file.define("v", dtype, options.pop("shape", np.shape(values)), **options)
            file.write("v", values)
        return apt.ArrayFile(path).read("v")

    return of_store if request.param == "store" else of_file


def test_arrays_refuse_what_would_not_come_back(write_stored: Write) -> None:
    for dtype, values in (
        ("float32", [1e300]),
        ("float32", np.array([1.0, -1e39])),
        ("float32", torch.tensor([1e300], dtype=torch.float64)),
        ("float32", [2**24 + 1]),
        ("float64", [BEYOND]),
        ("float64", [0.5, BEYOND]),
        ("float64", np.array([2**63 - 1])),
        ("float64", np.ma.masked_array([1.0, 2.0], [0, 1])),
        ("float64", [1 + 2j]),
        ("float64", np.array([1], "g") / 10),
        ("float64", np.array([1.0, None])),
        ("float64", np.ma.masked_array(np.zeros(3), [0, 0, 1])),
        ("int32", [2**31]),
        ("int32", [0.5]),
        ("int32", [np.nan]),
        ("int32", [True]),
        ("int64", np.array([2**63], "u8")),
        ("int64", np.array([3], "m8[s]")),
        ("uint8", [-1]),
        ("uint64", [-1]),
        ("timestamp_ns", np.array([1], "M8[ps]")),
        ("timestamp_ns", np.array(["9999-01-01"], "M8[D]")),
        ("timestamp_ns", np.array([2**40], "M8[Y]")),
        ("string", np.ma.masked_array(["a", "b"], [0, 1])),
        ("string", [b"bytes"]),
        ("binary", ["text"]),
    ):
        with pytest.raises(apt.FieldError):
            write_stored(dtype, values)


def test_arrays_keep_what_fits(write_stored: Write) -> None:
    for dtype, values in (
        ("float32", np.array([np.inf, -np.inf, np.nan, 0.5])),
        ("float32", np.array([2**24], "i8")),
        ("float64", np.array([-(2**53), 2**53])),
        ("float64", np.array([1.5, -0.0], ">f8")),
        ("float64", np.ma.masked_array([1.0, 2.0])),
        ("int64", np.array([2**63 - 1], "u8")),
        ("uint64", np.array([2**64 - 1], "u8")),
    ):
        np.testing.assert_array_equal(write_stored(dtype, values).numpy(), np.asarray(values))


def test_rounding_to_a_declared_float32_stays(write_stored: Write) -> None:
    values = np.array([0.1, 1e-300, 3.4e38])
    np.testing.assert_array_equal(
        write_stored("float32", values).numpy(), values.astype(np.float32)
    )


@pytest.mark.parametrize("fill", [1e300, np.ma.masked, [1.0, 2.0], 1j, BEYOND])
def test_fill_values_that_would_not_come_back(tmp_path: Path, fill: Any) -> None:
    with apt.ArrayFile(tmp_path / "a.af", "x") as file, pytest.raises(apt.FieldError):
        file.define("v", "float32", (2,), fill_value=fill)


@pytest.mark.parametrize("given", [[1.9], [1.0], ["1"], [None], [np.float64(2)]])
def test_places_and_extents_are_whole_numbers(tmp_path: Path, given: list[Any]) -> None:
    with apt.ArrayFile(tmp_path / "a.af", "x") as file:
        file.define("v", "int32", (4,))
        message = "expected integers, got"
        with pytest.raises(TypeError, match=f"start: {message}"):
            file.write("v", [7], start=given)
        with pytest.raises(TypeError, match=f"start: {message}"):
            file.read("v", start=given)
        with pytest.raises(TypeError, match=f"shape: {message}"):
            file.read("v", shape=given)
        with pytest.raises(TypeError, match=f"shape: {message}"):
            file.define("w", "int32", given)
        with pytest.raises(TypeError, match=f"chunk_shape: {message}"):
            file.define("w", "int32", (4,), chunk_shape=given)
        assert file.names == ["v"]
        assert file.read("v").tolist() == [0, 0, 0, 0]


def test_attributes_that_would_not_come_back(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("d")
        for value in (np.timedelta64(5, "ns"), np.longdouble(0.1), 1j, b"b", [1], np.ma.masked):
            with pytest.raises((TypeError, apt.FieldError)):
                store.set_attr("d", "k", value)
        for value in (2**63, np.uint64(2**64 - 1), np.datetime64(1, "ps")):
            with pytest.raises(apt.FieldError):
                store.set_attr("d", "k", value)
        assert store.attrs("d") == {}


def molecules(**more: Any) -> dict[str, Any]:
    """Two molecules of one atom, as ``write_arrays`` takes them."""
    return {
        "positions": np.zeros((2, 1, 3)),
        "atomic_numbers": np.ones((2, 1), "i8"),
    } | more


def test_molecules_refuse_what_would_not_come_back(tmp_path: Path) -> None:
    refused: list[dict[str, Any]] = [
        {"energy": np.array([0, BEYOND])},
        {"energy": [0.5, BEYOND]},
        {"energy": np.ma.masked_array([1.0, 2.0], [0, 1])},
        {"energy": np.array([1, 2], "g")},
        {"energy": [1j, 2j]},
        {"forces": np.full((2, 1, 3), BEYOND)},
        {"pbc": np.full((2, 3), 2)},
        {"pbc": np.full((2, 3), -1)},
        {"positions": np.full((2, 1, 3), BEYOND)},
        {"positions": np.ma.masked_array(np.zeros((2, 1, 3)), np.eye(2, 3)[:, None])},
        {"atomic_numbers": np.ma.masked_array([[1], [2]], [[0], [1]])},
        {"atomic_numbers": np.array([[1], [300]])},
        {"atomic_numbers": np.array([[1], [-1]])},
        {"n_atoms": np.array([1.0, 1.0]), "positions": np.zeros((2, 3))},
        {"properties": {"k": np.array([0, 2**63], "u8")}},
        {"properties": {"k": np.ma.masked_array([1, 2], [0, 1])}},
        {"properties": {"k": np.array(["2020-01-01"] * 2, "M8[D]")}},
        {"properties": {"k": [0.5, BEYOND]}},
        {"atom_properties": {"k": np.ma.masked_array([[1], [2]], [[0], [1]])}},
        {"atom_properties": {"k": np.array([[1], [2]], object)}},
    ]
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for given in refused:
            with pytest.raises(apt.FieldError):
                writer.write_arrays(**molecules(**given))
            assert len(writer) == 0


def test_molecules_keep_what_fits(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(
            **molecules(
                energy=np.array([2**53, -7]),
                pbc=np.array([[0, 1, 0], [1, 1, 1]]),
                properties={"k": np.array([2**63 - 1, 5], "u8"), "h": np.array([0.1, 1], "f2")},
            )
        )
    batch = apt.AtpDataset(tmp_path / "a.atp")[:]
    assert batch.energy.tolist() == [2.0**53, -7.0]
    assert batch.pbc.tolist() == [[False, True, False], [True, True, True]]
    assert batch["k"].tolist() == [2**63 - 1, 5]
    assert batch["h"].tolist() == np.array([0.1, 1], "f2").astype(float).tolist()


def test_structures_of_ase(tmp_path: Path) -> None:
    ase = pytest.importorskip("ase")
    masked = np.ma.masked_array([1.0, 2.0], [0, 1])
    in_info, in_arrays = ase.Atoms("H2"), ase.Atoms("H2")
    in_info.info["k"] = masked
    in_arrays.arrays["k"] = masked
    rounded = ase.Atoms("H2")
    rounded.info["k"] = [0.5, BEYOND]
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for atoms in (in_info, in_arrays, rounded):
            with pytest.raises(apt.FieldError):
                writer.write(atoms)
        assert len(writer) == 0


def test_molecules_of_values(tmp_path: Path) -> None:
    whole = {"positions": torch.zeros(2, 3), "atomic_numbers": [1, 1]}
    for energy in (np.ma.masked_array([1.0], [1]), [1e300]):
        with pytest.raises(apt.FieldError):
            apt.Molecule(**whole, properties={"k": energy})
    with pytest.raises(
        apt.FieldError, match="k: expected integers that float32 holds among floats"
    ):
        apt.Molecule(**whole, properties={"k": [0.5, 2**24 + 1]})
    kept = apt.Molecule(**whole, properties={"k": [0.5, 2**24, -(2**25)]})
    assert kept["k"].tolist() == [0.5, 2.0**24, -(2.0**25)]
    for wide in (2**53 + 1, np.int64(2**53 + 1), torch.tensor(2**53 + 1)):
        with pytest.raises(apt.FieldError, match="energy: expected numbers that float64 holds"):
            apt.Molecule(**whole, energy=wide)
    with pytest.raises(apt.FieldError, match="charges: expected numbers that float64 holds"):
        apt.Molecule(**whole, charges=np.array([1, 2**53 + 1]))
    for pbc in ([2, 0, 0], [0.5, 1, 1], np.array([1.0, np.nan, 0.0])):
        with pytest.raises(apt.FieldError, match="pbc: expected 0 and 1"):
            apt.Molecule(**whole, pbc=pbc)
    assert apt.Molecule(**whole, pbc=[1.0, 0, 1], energy=-(2**53)).pbc.tolist() == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2], "itemsize": 8}),
        np.dtype({"names": ["a", "b"], "formats": ["i4", "u1"], "offsets": [0, 0]}),
        np.dtype({"names": ["b", "a"], "formats": ["i2", "i4"], "offsets": [2, 0]}),
        np.dtype([("in", {"names": ["a", "b"], "formats": ["f8", "f4"], "offsets": [0, 4]})]),
        np.dtype([("a", "S0"), ("b", "i4")]),
    ],
    ids=str,
)
def test_fields_that_share_bytes_are_refused_as_readers_do(
    tmp_path: Path, dtype: np.dtype[Any]
) -> None:
    with apt.ShardWriter(tmp_path / "s", 10, 1) as writer:
        with pytest.raises(TypeError, match=r"example\['x'\]: .*each field with bytes of its own"):
            writer.write({"x": np.zeros(3, dtype)})
        writer.write({"x": 1})
    assert list(apt.ShardDataset(tmp_path / "s")) == [{"x": 1}]


def test_fields_apart_come_back(tmp_path: Path) -> None:
    dtype = np.dtype(
        {"names": ["b", "a"], "formats": ["i2", "f8"], "offsets": [8, 0], "itemsize": 16}
    )
    values = np.zeros(3, dtype)
    values["a"], values["b"] = [1, 2, 3], [4, 5, 6]
    with apt.ShardWriter(tmp_path / "s", 10, 1) as writer:
        writer.write(values)
    back = apt.ShardDataset(tmp_path / "s")[0]
    for name in ("a", "b"):
        assert np.asarray(back[name]).tolist() == values[name].tolist()


def test_xarray_texts_and_times(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        for name, values in {
            "bytes": np.array([b"\xff"], object),
            "numbers": np.array([1, "a"], object),
            "times": np.array(["3000-01-01"], "M8[s]"),
        }.items():
            with pytest.raises(apt.FieldError):
                store.from_xarray(name, xarray.Dataset({"v": ("x", values)}))
        with pytest.raises(apt.FieldError):
            store.from_xarray("attribute", xarray.Dataset(attrs={"k": b"\xff"}))
        store.discard()


def test_caches_refuse_infinities_of_numbers(tmp_path: Path) -> None:
    class Large:
        """A descriptor whose features float32 does not hold."""

        def __init__(self, inner: apt.ChebyshevDescriptor) -> None:
            self.compat = inner.compat
            self.inner = inner

        def compute(self, batch: apt.MoleculeBatch, derivatives: bool = False) -> Any:
            made = self.inner.compute(batch, derivatives=derivatives)
            made.features.fill_(1e300)
            return made

    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(**molecules())
    descriptor = Large(apt.ChebyshevDescriptor(["H"], 2, 4.0, 2, 3.0))
    dataset = apt.AtpDataset(tmp_path / "a.atp")
    with pytest.raises(apt.FieldError, match="build the cache in float64"):
        apt.build_cache(dataset, descriptor, tmp_path / "c.h5", dtype="float32", progress=False)
    apt.build_cache(dataset, descriptor, tmp_path / "d.h5", dtype="float64", progress=False)
    assert (apt.TorchCache(tmp_path / "d.h5").load_features(0) == 1e300).all()


@pytest.mark.parametrize("way", [lambda x: x[::-1], lambda x: x.astype(x.dtype.newbyteorder())])
def test_arrays_that_torch_has_not(way: Callable[[Any], Any]) -> None:
    positions, numbers, charges = (
        np.arange(9.0).reshape(3, 3),
        np.arange(1, 4),
        np.arange(3.0),
    )
    molecule = apt.Molecule(way(positions), way(numbers), charges=way(charges))
    assert molecule.positions.tolist() == way(positions).tolist()
    assert molecule.atomic_numbers.tolist() == way(numbers).tolist()
    assert molecule.charges.tolist() == way(charges).tolist()
