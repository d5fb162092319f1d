"""The native reader of HDF5 feature caches: files of the real aenet-python, and files that lie."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference.cache_fixture import READABLE

import atompack_torch as apt
from atompack_torch import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch._native import TorchCacheReader

# What the original silently reads, or refuses only when it is used, is refused at opening.
REFUSED = {
    "bad_cache_format": (UnsupportedFormatError, "cache_format.*expected .*v2, got something.else"),
    "bad_manifest_class": (UnsupportedFormatError, "descriptor_class.*Chebyshev.*, got "),
    "bad_manifest_json": (CorruptFileError, "config_json.*expected a JSON object"),
    "bad_manifest_schema": (UnsupportedFormatError, "schema_version.*expected 1, got 2"),
    "bad_manifest_sha256": (CorruptFileError, "config_sha256.*expected .*, got 0000"),
    "bad_payload_format": (UnsupportedFormatError, "payload_format.*derivatives.v1, got x"),
    "bad_schema_version": (UnsupportedFormatError, "schema_version.*expected 2, got 3"),
    "bad_section_schema": (UnsupportedFormatError, "force_derivatives.*schema_version.*got 9"),
    "bad_section_sha256": (CorruptFileError, "force_derivatives.*compat_sha256.*got 0000"),
    "bad_sha256": (CorruptFileError, "torch_cache: .*compat_sha256.*got 0000"),
    "flag_without_section": (CorruptFileError, "torch_cache/features: expected a group, got none"),
    "missing_attr": (CorruptFileError, "torch_cache.*'storage_dtype'.*got none"),
    "missing_meta": (CorruptFileError, "entries/meta: expected a dataset, got none"),
    "missing_structures": (CorruptFileError, "entries/structures: expected a dataset, got none"),
    "truncated": (CorruptFileError, "expected an HDF5 file.*truncated file"),
}


@pytest.fixture(scope="session")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


@pytest.fixture
def changed(folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of a fixture that h5py has changed."""

    def change(action: Callable[[h5py.File], None], name: str = "v2_both_f64_two") -> Path:
        path = tmp_path / f"{name}.h5"
        shutil.copyfile(folder / f"{name}.h5", path)
        with h5py.File(path, "r+") as file:
            action(file)
        return path

    return change


def rewrite(file: h5py.File, name: str, rows: list[Any], **options: Any) -> None:
    """Replaces a dataset of rows of variable length."""
    kind = options.pop("dtype", None) or file[name].dtype.metadata["vlen"]
    del file[name]
    options |= {"chunks": (4,), "maxshape": (None,)}
    made = file.create_dataset(name, (len(rows),), h5py.vlen_dtype(kind), **options)
    for i, row in enumerate(rows):
        made[i] = row


def with_checksum(file: h5py.File, name: str) -> None:
    table = file[name][:]
    del file[name]
    file.create_dataset(name, data=table, chunks=(3,), fletcher32=True)


def patch_index(name: str, column: str, row: int, value: int) -> Callable[[h5py.File], None]:
    def action(file: h5py.File) -> None:
        table = file[name][:]
        table[column][row] = value
        file[name][:] = table

    return action


FEATURES = "torch_cache/features/index"
FORCES = "torch_cache/force_derivatives/index"


def test_every_fixture_is_listed(folder: Path, damaged_caches: Path) -> None:
    assert {p.stem for p in folder.glob("*.h5")} == {*READABLE, "v2_both_f64_blosc"}
    damaged = {p.stem for p in damaged_caches.glob("*.h5")}
    assert damaged == {*REFUSED, "section_without_flag"}
    listed = json.loads((folder / "errors.json").read_text())["damaged"]
    assert damaged == {Path(name).stem for name in listed}


def same(found: np.ndarray[Any, Any] | None, expected: np.ndarray[Any, Any] | None) -> None:
    if found is None or expected is None:
        assert found is expected
        return
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_files_are_refused(damaged_caches: Path, name: str) -> None:
    path = damaged_caches / f"{name}.h5"
    error, message = REFUSED[name]
    for open_file in (apt.TorchCache, apt.TorchCacheDataset):
        with pytest.raises(error, match=message) as caught:
            open_file(path)
        assert str(caught.value).startswith(f"{path}: ")


def test_a_filter_that_is_not_known_is_named(folder: Path) -> None:
    message = (
        r"expected no filters but .*, got blosc \(filter 32001\) \(field 'entries/structures'\)"
    )
    with pytest.raises(UnsupportedFormatError, match=message):
        TorchCacheReader(str(folder / "v2_both_f64_blosc.h5"))


def test_files_that_cannot_be_opened(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TorchCacheReader(str(tmp_path / "none.h5"))
    with pytest.raises(IsADirectoryError):
        TorchCacheReader(str(tmp_path))
    (tmp_path / "empty.h5").touch()
    with pytest.raises(CorruptFileError, match="expected an HDF5 file"):
        TorchCacheReader(str(tmp_path / "empty.h5"))
    path = tmp_path / "busy.h5"
    shutil.copyfile(folder / "v2_both_f64_two.h5", path)
    with (
        h5py.File(path, "r+"),
        pytest.raises(BlockingIOError, match="another program has the file open for writing"),
    ):
        TorchCacheReader(str(path))
    assert len(TorchCacheReader(str(path))) == 3


@pytest.mark.parametrize(
    "text",
    [
        lambda value: value,  # h5py: variable length, UTF-8
        lambda value: np.bytes_(value.encode()),  # fixed length, ASCII, padded with NUL
        lambda value: np.bytes_(value.encode() + b"\0\0\0"),
    ],
)
@pytest.mark.parametrize("flag", [np.int8, np.int64, np.uint16])
def test_other_forms_of_attributes(
    folder: Path, changed: Callable[..., Path], text: Any, flag: Any
) -> None:
    def action(file: h5py.File) -> None:
        for group in ("torch_cache", "descriptor_manifest", "torch_cache/force_derivatives"):
            attributes = file[group].attrs
            for key, value in list(attributes.items()):
                if isinstance(value, str):
                    attributes[key] = text(value)
                elif isinstance(value, np.bytes_):
                    attributes[key] = text(value.decode())
                elif key.startswith("contains") or key == "multi":
                    attributes[key] = flag(value)

    reader = TorchCacheReader(str(changed(action)))
    whole = TorchCacheReader(str(folder / "v2_both_f64_two.h5"))
    for group in ("torch_cache", "descriptor_manifest", "force_derivatives"):
        assert reader.info[group] == whole.info[group]
    assert reader.multi is True
    same(reader.load_features(2), whole.load_features(2))


def test_an_enumeration_is_no_flag(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        file["torch_cache"].attrs["contains_features"] = np.bool_(1)

    path = changed(action)
    with pytest.raises(UnsupportedFormatError, match=r"'contains_features': .*got an enumeration"):
        TorchCacheReader(str(path))


def test_attributes_of_another_kind(changed: Callable[..., Path]) -> None:
    def action(file: h5py.File) -> None:
        file["torch_cache"].attrs["storage_dtype"] = 64

    with pytest.raises(CorruptFileError, match="'storage_dtype': expected text, got an integer"):
        TorchCacheReader(str(changed(action)))


@pytest.mark.parametrize(
    ("name", "column", "row", "value", "message"),
    [
        (FEATURES, "cache_row", 1, 0, "features/index: cache_row: expected 1, got 0"),
        (FEATURES, "entry_idx", 1, 3, "features/index: entry_idx: expected less than 3, got 3"),
        (FORCES, "entry_idx", 0, -1, "force_derivatives/index: entry_idx: .* got -1"),
    ],
)
def test_an_index_that_lies_is_refused(
    changed: Callable[..., Path], name: str, column: str, row: int, value: int, message: str
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        TorchCacheReader(str(changed(patch_index(name, column, row, value))))


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        (FEATURES, "n_atoms", 4, "index: expected 3 atoms and 18 features, got 4 and 18"),
        (FEATURES, "n_features", 17, "index: expected 3 atoms and 18 features, got 3 and 17"),
        ("entries/meta", "n_atoms", 4, "index: expected 4 atoms and 18 features, got 3 and 18"),
        ("entries/meta", "n_atoms", -1, "n_atoms: expected a count, got -1"),
        (FORCES, "n_atoms", 4, "index: expected 3 atoms, got 4"),
        (FORCES, "n_radial_edges", 7, "row: expected 7 x 1 values as in the index, got 6"),
        (FORCES, "n_radial_edges", -1, "row: expected -1 x 1 values"),
        (FORCES, "n_angular_triplets", 2, "row: expected 2 x 1 values as in the index, got 3"),
    ],
)
def test_a_row_that_does_not_fit_is_an_error_of_its_own(
    changed: Callable[..., Path], name: str, column: str, value: int, message: str
) -> None:
    path = changed(patch_index(name, column, 0, value))
    reader = TorchCacheReader(str(path))
    load = reader.load_force_derivatives if name == FORCES else reader.load_features
    with pytest.raises(CorruptFileError, match=rf"{message}.*\(molecule 0"):
        load(0)
    assert load(2) is not None


@pytest.mark.parametrize("value", [-1, 3, 2**40])
@pytest.mark.parametrize("column", ["radial/neighbor_idx", "angular/neighbor_k_idx"])
def test_indices_out_of_range(changed: Callable[..., Path], column: str, value: int) -> None:
    def action(file: h5py.File) -> None:
        name = f"torch_cache/force_derivatives/{column}"
        rows = [*file[name][:]]
        rows[0][-1] = value
        rewrite(file, name, rows)

    reader = TorchCacheReader(str(changed(action)))
    field = column.replace("/", "_")
    message = rf"expected atoms from 0 to 2, got {value} \(molecule 0, field '{field}'\)"
    with pytest.raises(CorruptFileError, match=message):
        reader.load_force_derivatives(0)
    assert reader.load_force_derivatives(2) is not None


@pytest.mark.parametrize("options", [{}, {"compression": 1}, {"compression": 9, "shuffle": True}])
def test_columns_of_other_types_and_filters(
    folder: Path, changed: Callable[..., Path], options: dict[str, Any]
) -> None:
    section = "torch_cache/force_derivatives"

    def action(file: h5py.File) -> None:
        for name, kind in (("radial/center_idx", "<i4"), ("angular/grads_j", "<f4")):
            rows = [*file[f"{section}/{name}"][:]]
            rewrite(file, f"{section}/{name}", rows, dtype=np.dtype(kind), **options)

    reader = TorchCacheReader(str(changed(action)))
    whole = TorchCacheReader(str(folder / "v2_both_f64_two.h5"))
    for i in (0, 2):
        found, expected = reader.load_force_derivatives(i), whole.load_force_derivatives(i)
        assert found is not None
        assert expected is not None
        expected["radial_center_idx"] = expected["radial_center_idx"].astype(np.int32)
        expected["angular_grads_j"] = expected["angular_grads_j"].astype(np.float32)
        for key, value in expected.items():
            same(found[key], value)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (
            lambda f: rewrite(f, "entries/structures", [[1]] * 3, dtype=np.dtype("<i8")),
            CorruptFileError,
            "entries/structures: expected rows of uint8, got int64",
        ),
        (
            lambda f: rewrite(f, "torch_cache/features/values", [[1.0]] * 3, dtype=np.dtype(">f8")),
            UnsupportedFormatError,
            "features/values: expected rows of little-endian .*, got another type of 8 bytes",
        ),
        (
            lambda f: rewrite(f, "torch_cache/features/values", [[1.0]] * 2),
            CorruptFileError,
            "features/values: expected 3 rows as in its index, got 2",
        ),
        (
            lambda f: with_checksum(f, FEATURES),
            UnsupportedFormatError,
            r"expected no filters but shuffle and deflate, got fletcher32 \(filter 3\)",
        ),
        (
            lambda f: f["torch_cache/features/values"].resize((9,)),
            CorruptFileError,
            "features/values: expected 3 rows as in its index, got 9",
        ),
        (
            lambda f: [f["entries/structures"].resize((n,)) for n in (2**40,)],
            CorruptFileError,
            r"expected chunks that .* bytes can hold, got .* \(field 'entries/structures'\)",
        ),
        (
            lambda f: (
                f["torch_cache"].move("features", "gone")
                or f["torch_cache"].__setitem__("features", h5py.ExternalLink("other.h5", "/"))
            ),
            UnsupportedFormatError,
            r"expected a hard link, got one of type 64 \(field 'torch_cache/features'\)",
        ),
    ],
)
def test_data_sets_that_do_not_fit(
    changed: Callable[..., Path], action: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TorchCacheReader(str(changed(action)))


def test_rows_that_claim_more_than_the_file_has(changed: Callable[..., Path]) -> None:
    """References that all lead to the same large row would make any amount out of it."""

    def action(file: h5py.File) -> None:
        name = "torch_cache/features/values"
        rewrite(file, name, [np.zeros(20000)] * 3)

    path = changed(action)
    raw = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        place = file["torch_cache/features/values"].id.get_chunk_info(0).byte_offset
    for row in range(3):
        raw[place + 16 * row : place + 16 * row + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(CorruptFileError, match=r"rows: the file of .* bytes cannot hold their"):
        TorchCacheReader(str(path))


def test_a_changed_byte_gives_the_right_answer_or_an_error(folder: Path, tmp_path: Path) -> None:
    """Of what lies in the heap nothing has a checksum; all else is checked."""
    source = folder / "v2_features_f32_two.h5"
    raw = source.read_bytes()
    whole = TorchCacheReader(str(source))
    path = tmp_path / "flip.h5"
    heap = [(at, at + 4096) for at in range(len(raw)) if raw[at : at + 4] == b"GCOL"]
    for at in range(0, len(raw), 61):
        changed = bytearray(raw)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        try:
            reader = TorchCacheReader(str(path))
            found = [reader.load_features(i) for i in range(len(reader))]
        except (CorruptFileError, UnsupportedFormatError, FieldError):
            continue
        if any(begin <= at < end for begin, end in heap):
            continue
        for i, row in enumerate(found):
            same(row, whole.load_features(i))


def test_a_forked_child_reads_on(folder: Path) -> None:
    """Whatever the parent has read, and while other threads of it open files."""
    path = str(folder / "v2_both_f64_two.h5")
    reader = TorchCacheReader(path)
    expected = reader.load_features(0)
    with ThreadPoolExecutor(2) as pool:
        opening = [pool.submit(TorchCacheReader, path) for _ in range(200)]
        children = [fork_and_read(reader, path, expected) for _ in range(5)]
        assert [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in children] == [0] * 5
        for future in opening:
            assert len(future.result()) == 3


def fork_and_read(reader: TorchCacheReader, path: str, expected: Any) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            same(reader.load_features(0), expected)
            same(TorchCacheReader(path).load_features(0), expected)
            status = 0
        finally:
            os._exit(status)
    return child


def test_threads_read_the_same(folder: Path) -> None:
    path = folder / "v2_both_f64_three.h5"
    arrays = np.load(folder / "v2_both_f64_three.expected.npz")
    for _ in range(20):
        reader = TorchCacheReader(str(path))  # nothing of it found yet
        with ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(reader.load_features, list(range(11)) * 3))
        for k, row in enumerate(rows):
            same(row, arrays[f"e{k % 11}_features"])


def n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_descriptor_stays_open(folder: Path, damaged_caches: Path) -> None:
    readers = [TorchCacheReader(str(folder / f"{name}.h5")) for name in READABLE]
    before = n_descriptors()
    for name in READABLE:
        TorchCacheReader(str(folder / f"{name}.h5"))
    for name in REFUSED:
        with pytest.raises((CorruptFileError, UnsupportedFormatError)):
            TorchCacheReader(str(damaged_caches / f"{name}.h5"))
    assert n_descriptors() == before
    assert len(readers) == len(READABLE)
