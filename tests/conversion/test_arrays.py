"""Arrays in NPZ and HDF5 files: layouts, names, padding, damage."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.sources.arrays import open_source
from atompack_torch.conversion.sources.hdf5_files import HdfRows, opened
from atompack_torch.conversion.sources.rows import NpzRows, Rows
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
)
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import records_of

Arrays = Mapping[str, Any]
RNG = np.random.default_rng(5)
M, N = 7, 5
STACKED = {
    "positions": RNG.normal(size=(M, N, 3)),
    "atomic_numbers": np.array([6, 1, 1, 8, 1], dtype=np.uint8),
    "energy": RNG.normal(size=M),
    "forces": RNG.normal(size=(M, N, 3)).astype("f4"),
}


def write_npz(path: Path, arrays: Arrays) -> None:
    np.savez_compressed(path, **arrays)


def write_hdf5(path: Path, arrays: Arrays) -> None:
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            value = np.asarray(value)
            options = {"compression": "gzip", "chunks": True} if value.ndim and value.size else {}
            file.create_dataset(key, data=value, **options)


WRITERS = {"npz": write_npz, "h5": write_hdf5}


@pytest.fixture(params=WRITERS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Path]:
    """Writes arrays in each of the formats."""

    def write(arrays: Arrays) -> Path:
        path = tmp_path / f"arrays.{request.param}"
        WRITERS[request.param](path, arrays)
        return path

    return write


def opened_source(
    path: Path, keys: dict[str, str] | None = None, padding: int | None = None
) -> Source:
    name = "npz" if path.suffix == ".npz" else "hdf5"
    return open_source(str(path), SourceOptions(name, keys or {}, padding))


def read(path: Path, report: Report | None = None, **options: Any) -> list[Parts]:
    blocks = opened_source(path, **options).read(Report() if report is None else report)
    return [record for block in blocks for record in records_of(block)]


def count(path: Path) -> int | None:
    return opened_source(path).count()


def assert_stacked(records: list[Parts]) -> None:
    assert len(records) == M
    for i, record in enumerate(records):
        assert record.positions.tolist() == STACKED["positions"][i].tolist()
        assert record.atomic_numbers.tolist() == STACKED["atomic_numbers"].tolist()
        assert record.labels["energy"] == STACKED["energy"][i]
        assert record.labels["forces"].tolist() == STACKED["forces"][i].tolist()
        assert record.labels["forces"].dtype == np.float32


def swapped(arrays: Arrays) -> Arrays:
    return {key: value.astype(value.dtype.newbyteorder(">")) for key, value in arrays.items()}


STACKS: dict[str, Arrays] = {
    "numbers for all": STACKED,
    "numbers for each": STACKED | {"atomic_numbers": np.tile(STACKED["atomic_numbers"], (M, 1))},
    "other byte order": swapped(STACKED),
    "Fortran": STACKED | {key: np.asfortranarray(STACKED[key]) for key in ("positions", "forces")},
}


@pytest.mark.parametrize("case", STACKS)
def test_stacked(make: Callable[..., Path], case: str) -> None:
    path = make(STACKS[case])
    assert_stacked(read(path))
    assert count(path) == M


@pytest.mark.parametrize("counted", ["n_atoms", "ptr"])
def test_flat(make: Callable[..., Path], counted: str) -> None:
    n_atoms = np.array([2, 0, 4, 1])
    ptr = np.concatenate([[0], np.cumsum(n_atoms)])
    arrays = {
        "positions": RNG.normal(size=(7, 3)).astype("f4"),
        "atomic_numbers": np.arange(1, 8),
        counted: n_atoms if counted == "n_atoms" else ptr,
        "energy": np.arange(4.0),
        "cell": RNG.normal(size=(4, 3, 3)),
        "q": np.arange(7),
        "name": np.array([b"a", b"bb", b"c", b""]),
        "gap": np.arange(4.0) * 2,
    }
    path = make(arrays)
    records = read(path)
    assert count(path) == 4
    for i, record in enumerate(records):
        rows = slice(ptr[i], ptr[i + 1])
        assert record.positions.dtype == np.float32
        assert record.positions.tolist() == arrays["positions"][rows].tolist()
        assert record.atomic_numbers.tolist() == arrays["atomic_numbers"][rows].tolist()
        assert record.labels["cell"].tolist() == arrays["cell"][i].tolist()
        assert record.labels["name"] == ["a", "bb", "c", ""][i]
        assert record.properties == {"gap": 2.0 * i}
        assert record.atom_properties["q"].tolist() == arrays["q"][rows].tolist()


def test_a_single_structure(make: Callable[..., Path]) -> None:
    arrays = {
        "positions": RNG.normal(size=(3, 3)),
        "atomic_numbers": np.array([8, 1, 1]),
        "energy": np.float64(-1.5),
        "forces": RNG.normal(size=(3, 3)),
        "cell": np.eye(3),
    }
    (record,) = read(make(arrays))
    assert record.positions.tolist() == arrays["positions"].tolist()
    assert record.labels["energy"] == -1.5
    assert record.labels["forces"].tolist() == arrays["forces"].tolist()
    assert record.labels["cell"].tolist() == np.eye(3).tolist()


def test_names_of_well_known_collections(make: Callable[..., Path]) -> None:
    keys = {"R": "positions", "z": "atomic_numbers", "E": "energy", "F": "forces"}
    arrays = {theirs: STACKED[ours] for theirs, ours in keys.items()}
    arrays["E"] = arrays["E"][:, None]  # a column, as some write it
    arrays["theory"] = np.bytes_(b"PBE")
    report = Report()
    assert_stacked(read(make(arrays), report))
    assert "'R' read as positions" in report.notes
    assert report.skipped == {("array 'theory'", "one value for the whole file"): 1}


def test_names_that_are_given(make: Callable[..., Path]) -> None:
    arrays = dict(STACKED) | {"E_dft": STACKED["energy"] + 1, "energies": STACKED["energy"] + 2}
    report = Report()
    records = read(make(arrays), report, keys={"E_dft": "energy", "energies": "E_old"})
    assert [r.labels["energy"] for r in records] == (STACKED["energy"] + 1).tolist()
    assert [r.properties["E_old"] for r in records] == (STACKED["energy"] + 2).tolist()
    assert report.skipped == {("array 'energy'", "key_map gives its name to another"): 1}


def test_names_that_do_not_fit(make: Callable[..., Path]) -> None:
    path = make(STACKED | {"E": STACKED["energy"]})
    with pytest.raises(FieldError, match="could both be energy: say which in key_map"):
        read(path)
    with pytest.raises(FieldError, match="key_map: no array 'REF'"):
        read(path, keys={"REF": "name", "E": "properties/e"})


def test_padding_only_where_it_is_asked_for(make: Callable[..., Path]) -> None:
    numbers = np.tile(STACKED["atomic_numbers"], (M, 1))
    numbers[2, 3:] = 0
    numbers[4] = 0
    charges = RNG.normal(size=(M, N))
    path = make(STACKED | {"atomic_numbers": numbers, "charges": charges})
    report = Report()
    assert [len(r.positions) for r in read(path, report)] == [N] * M
    assert any("padding" in note for note in report.notes)
    records = read(path, padding=0)
    assert [len(r.positions) for r in records] == [5, 5, 3, 5, 0, 5, 5]
    assert records[2].positions.tolist() == STACKED["positions"][2, :3].tolist()
    assert records[2].labels["charges"].tolist() == charges[2, :3].tolist()
    assert records[2].labels["energy"] == STACKED["energy"][2]
    assert records[5].labels["forces"].tolist() == STACKED["forces"][5].tolist()


def test_counts_of_stacked_molecules_say_what_is_padding(make: Callable[..., Path]) -> None:
    """PhysNet's files: positions R, atomic numbers Z and forces F padded by 0, N atoms each."""
    counts = np.array([5, 5, 3, 5, 1, 5, 5])
    numbers = np.where(np.arange(N) < counts[:, None], STACKED["atomic_numbers"], 0)
    arrays = {"R": STACKED["positions"], "Z": numbers, "N": counts, "F": STACKED["forces"]}
    report = Report()
    records = read(make(arrays), report)
    assert [len(record.positions) for record in records] == counts.tolist()
    assert records[2].atomic_numbers.tolist() == [6, 1, 1]
    assert records[2].labels["forces"].tolist() == STACKED["forces"][2, :3].tolist()
    assert records[3].positions.tolist() == STACKED["positions"][3].tolist()
    assert not any("padding" in note for note in report.notes)
    assert_stacked(read(make(STACKED | {"n_atoms": np.array(N)})))
    for wrong in (counts + 1, counts[1:], counts * 1.0):
        with pytest.raises(FieldError, match=r"N: expected 7 numbers of atoms up to 5, got"):
            read(make(arrays | {"N": wrong}))
    with pytest.raises(CorruptFileError, match="N: expected atomic numbers of 0 after the atoms"):
        read(make(arrays | {"Z": STACKED["atomic_numbers"]}))


def test_stress_of_six_and_one_cell_for_all(make: Callable[..., Path]) -> None:
    arrays = STACKED | {"stress": np.tile(np.arange(6.0), (M, 1)), "cell": 2 * np.eye(3)}
    arrays["pbc"] = np.array([True, True, False])
    report = Report()
    record = read(make(arrays), report)[3]
    assert record.labels["stress"].tolist() == [[0, 5, 4], [5, 1, 3], [4, 3, 2]]
    assert record.labels["cell"].tolist() == (2 * np.eye(3)).tolist()
    assert record.labels["pbc"].tolist() == [True, True, False]
    assert "stress: xx, yy, zz, yz, xz, xy became 3 x 3" in report.notes


def test_levels_of_custom_arrays(make: Callable[..., Path]) -> None:
    arrays = STACKED | {
        "q": np.zeros((M, N)),
        "moment": np.zeros((M, 3)),
        "five": np.zeros((M, N)),
        "odd": np.zeros(M + 1),
    }
    report = Report()
    record = read(make(arrays), report, keys={"five": "properties/five"})[0]
    assert record.atom_properties.keys() == {"q"}
    assert record.properties.keys() == {"moment", "five"}
    assert "'q' taken as a property of each atom; key_map can say otherwise" in report.notes
    assert report.skipped == {("array 'odd'", "its rows are neither molecules nor atoms"): 1}


def test_three_atoms_or_a_vector(make: Callable[..., Path]) -> None:
    arrays = {"R": np.zeros((4, 3, 3)), "z": np.array([8, 1, 1]), "mu": np.ones((4, 3))}
    report = Report()
    assert read(make(arrays), report)[0].properties.keys() == {"mu"}
    assert "'mu' taken as a property of the molecule; key_map can say otherwise" in report.notes
    told = read(make(arrays), keys={"mu": "atom_properties/mu"})[0]
    assert told.atom_properties.keys() == {"mu"}


def make_groups(path: Path) -> dict[str, tuple[int, int]]:
    """A group for each formula, some of three atoms."""
    groups = {"CH4O/a": (4, 6), "CH4O/b": (1, 6), "H2O": (5, 3)}
    with h5py.File(path, "w") as file:
        for name, (m, n) in groups.items():
            group = file.create_group(name)
            group["coordinates"] = np.full((m, n, 3), float(n))
            group["species"] = [b"O", b"H", b"H", b"C", b"H", b"H"][:n]
            group["dft.energy"] = np.arange(m) + 10.0 * n
            group["moment"] = np.ones((m, 3))
            group["hirshfeld"] = np.ones((m, n))
            group["smiles"] = ["x" * n]
        file["about"] = "a collection"
    return groups


def test_groups_are_systems(tmp_path: Path) -> None:
    path = tmp_path / "groups.h5"
    groups = make_groups(path)
    report = Report()
    records = read(path, report, keys={"dft.energy": "energy"})
    assert count(path) == len(records) == 10
    sizes = [n for m, n in groups.values() for _ in range(m)]
    assert [len(r.positions) for r in records] == sizes
    names = [name for name, (m, _) in groups.items() for _ in range(m)]
    assert [r.labels["name"] for r in records] == names
    assert records[-1].atomic_numbers.tolist() == [8, 1, 1]
    assert [r.labels["energy"] for r in records[-5:]] == [30.0, 31.0, 32.0, 33.0, 34.0]
    for record, n in zip(records, sizes, strict=True):  # water has three atoms: no moment of each
        assert record.properties == {"moment": pytest.approx(np.ones(3)), "smiles": "x" * n}
        assert record.atom_properties.keys() == {"hirshfeld"}
    assert "name: the group of the molecule" in report.notes


def test_soft_links_are_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "links.h5"
    write_hdf5(path, {f"a/{key}": value for key, value in STACKED.items()})
    with h5py.File(path, "a") as file:
        file["soft"] = h5py.SoftLink("/a")
        file["a/broken"] = h5py.SoftLink("/nowhere")
    report = Report()
    assert len(read(path, report)) == M
    assert {what for what, _ in report.skipped} == {"array 'soft'", "array 'broken'"}


def test_values_that_were_never_written_are_not_made_up(tmp_path: Path) -> None:
    path = tmp_path / "empty.h5"
    write_hdf5(path, {key: STACKED[key] for key in ("positions", "atomic_numbers")})
    with h5py.File(path, "a") as file:
        energy = file.create_dataset("energy", (M,), chunks=(2,), dtype="f8")
        energy[:2] = 1.0
    with pytest.raises(FieldError, match="/energy: expected values, got parts that were never"):
        read(path)
    with h5py.File(path, "a") as file:
        file["energy"][:] = 1.0
    assert len(read(path)) == M


WRONG = {
    "no positions": {"atomic_numbers": np.ones(3, int), "E": np.ones(3)},
    "no numbers": {"R": np.ones((2, 3, 3))},
    "two columns": {"R": np.ones((2, 3, 2)), "z": np.ones(3, int)},
    "numbers of others": {"R": np.ones((2, 3, 3)), "z": np.ones(4, int)},
    "counts beyond": {"R": np.ones((5, 3)), "z": np.ones(5, int), "n_atoms": np.array([2, 4])},
    "counts below": {"R": np.ones((5, 3)), "z": np.ones(5, int), "n_atoms": np.array([2, 2])},
    "negative": {"R": np.ones((5, 3)), "z": np.ones(5, int), "n_atoms": np.array([7, -2])},
    "ptr": {"R": np.ones((5, 3)), "z": np.ones(5, int), "ptr": np.array([1, 5])},
    "both": {"R": np.ones((5, 3)), "z": np.ones(5, int), "ptr": [0, 5], "n_atoms": [5]},
    "float counts": {"R": np.ones((5, 3)), "z": np.ones(5, int), "n_atoms": np.array([5.0])},
    "float numbers": {"R": np.ones((2, 3, 3)), "z": np.ones(3)},
    "symbols": {"R": np.ones((2, 3, 3)), "z": np.array([b"H", b"Q", b"H"])},
    "forces": {"R": np.ones((2, 3, 3)), "z": np.ones(3, int), "F": np.ones((2, 4, 3))},
    "energy": {"R": np.ones((2, 3, 3)), "z": np.ones(3, int), "E": np.ones(3)},
    "no atoms": {"R": np.ones((2, 0, 3)), "z": np.ones(0, int)},
}


@pytest.mark.parametrize("case", WRONG)
def test_shapes_that_do_not_fit(make: Callable[..., Path], case: str) -> None:
    path = make(WRONG[case])
    with pytest.raises((FieldError, CorruptFileError), match=f"{path}.*expected"):
        read(path)


def test_rows_are_read_forward_and_from_the_start_again(make: Callable[..., Path]) -> None:
    values = np.arange(40.0).reshape(10, 2, 2)
    path = make({"x": values})
    with contextlib.ExitStack() as stack:
        if path.suffix == ".npz":
            rows: Rows = NpzRows("x", stack.enter_context(zipfile.ZipFile(path)), "x.npy")
        else:
            file = stack.enter_context(opened(path))
            rows = HdfRows(file, "/x", file.listing().datasets["x"])
        for first, last in ((2, 4), (7, 7), (8, 10), (0, 1), (0, 10)):
            assert rows.read(first, last).tolist() == values[first:last].tolist()


def test_blocks_are_bounded(make: Callable[..., Path]) -> None:
    path = make({"R": np.zeros((20, 10_000, 3), "f4"), "z": np.ones(10_000, int)})
    assert [len(b.ptr) - 1 for b in opened_source(path).read(Report())] == [6, 6, 6, 2]
    n_atoms = np.array([60_000, 5_000, 70_000, 10, 10])
    n = int(n_atoms.sum())
    path = make({"R": np.zeros((n, 3), "f4"), "z": np.ones(n, int), "n_atoms": n_atoms})
    assert [len(b.ptr) - 1 for b in opened_source(path).read(Report())] == [2, 1, 2]


def test_numbers_out_of_range_are_refused(tmp_path: Path) -> None:
    numbers = np.tile(STACKED["atomic_numbers"].astype(int), (M, 1))
    numbers[1, 2], numbers[3, 0] = -1, 300
    write_npz(tmp_path / "x.npz", STACKED | {"atomic_numbers": numbers})
    expected = r"x\.npz: atomic_numbers: expected 0 to 255, got -1 \(molecule 1\)"
    with pytest.raises(FieldError, match=expected):
        convert(tmp_path / "x.npz", tmp_path / "x.atp", progress=False)
    report = convert(tmp_path / "x.npz", tmp_path / "x.atp", on_error="skip", progress=False)
    assert report.structures_written == len(apt.AtpDataset(tmp_path / "x.atp")) == M - 2
    assert sum(report.skipped.values()) == 2


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_cut_archive(tmp_path: Path, save: Callable[..., None]) -> None:
    save(tmp_path / "x.npz", **STACKED)
    whole = (tmp_path / "x.npz").read_bytes()
    for end in range(0, len(whole), 61):
        (tmp_path / "x.npz").write_bytes(whole[:end])
        with pytest.raises(CorruptFileError, match=r"x\.npz"):
            read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("suffix", "step"),
    [("npz", 37), ("h5", 149), pytest.param("h5", 37, marks=pytest.mark.exhaustive)],
)
def test_damaged_bytes_give_an_error_or_the_shape(tmp_path: Path, suffix: str, step: int) -> None:
    """NPZ has checksums; a changed number in HDF5 is a number, so only the outcome is judged."""
    path = tmp_path / f"x.{suffix}"
    WRITERS[suffix](path, STACKED)
    whole = path.read_bytes()
    outcomes = set()
    for place in range(0, len(whole), step):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        outcomes.add(outcome(path))
    assert outcomes == {"error", "read"}


def outcome(path: Path) -> str:
    try:
        records = read(path)
    except AtompackError as error:
        return "error" if str(path) in str(error) else f"without a path: {error}"
    return "read" if len(records) == M else f"{len(records)} structures"


def npy(dtype: str, shape: tuple[int, ...], data: bytes) -> bytes:
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + data


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("forces", npy("<f8", (2**40, 3, 3), bytes(72)), "expected .* rows, got"),
        ("x", npy("<f8", (M, 2**37), bytes(72)), "expected .* bytes, got 72"),
        ("x", npy("<f8", (1 << 61, 4), bytes(8)), r"x\.npy: expected sizes of arrays"),
        ("x", npy("|O", (M,), bytes(8)), "pickled objects"),
        ("name", npy("<U1", (M,), b"\0\0\x11\0" * M), r"name\.npy: .* Unicode, got U.110000"),
        ("name", npy("<U1", (M,), b"\0\xd8\0\0" * M), r"name\.npy: .* Unicode, got U.D800"),
    ],
)
def test_arrays_that_their_headers_misstate(
    tmp_path: Path, member: str, content: bytes, message: str
) -> None:
    write_npz(tmp_path / "x.npz", {key: STACKED[key] for key in ("positions", "atomic_numbers")})
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr(f"{member}.npy", content)
    with pytest.raises(AtompackError, match=message):
        read(tmp_path / "x.npz")


def test_what_an_archive_holds_twice_or_next_to_arrays(tmp_path: Path) -> None:
    write_npz(tmp_path / "x.npz", STACKED)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("notes.txt", "hello")
    report = Report()
    assert len(read(tmp_path / "x.npz", report)) == M
    assert report.skipped == {("file 'notes.txt'", "no array"): 1}
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("positions.npy", b"")
    with pytest.raises(CorruptFileError, match="expected each array once"):
        read(tmp_path / "x.npz")


def test_no_file_and_no_format(tmp_path: Path) -> None:
    for suffix, name in (("npz", "an .npz"), ("h5", "an HDF5")):
        path = tmp_path / f"x.{suffix}"
        with pytest.raises(FileNotFoundError):
            read(path)
        path.write_bytes(b"something else")
        with pytest.raises(CorruptFileError, match=f"x.{suffix}: (not|expected) {name} file: "):
            read(path)
