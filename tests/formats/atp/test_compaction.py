"""Rewriting files: what is kept, what goes, and that nothing half done is ever seen."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.client import AtompackProcess
from processes.client import ScriptServer
from reference import atp_encode, plain, strategies
from reference.atp_file import CODECS, AtpFile
from reference.atp_forge import atp_file, builtin, molecule_property, record, schema_blob
from reference.fixture_files import present

import atompack_torch as apt
from atompack_torch.formats.atp import compaction

NewPath = Callable[[], Path]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A name in a folder of its own, so that whatever else appears there is seen."""
    return tmp_path / "a.atp"


def molecule(number: float, dtype: str = "f4", **more: Any) -> apt.Molecule:
    """A molecule that tells which one it is."""
    return apt.Molecule(np.full((2, 3), number, dtype), [1, 8], energy=float(number), **more)


def commits(path: Path, *numbers: list[int], codec: Any = "none", level: int = 3) -> Path:
    """A file with a commit for each list."""
    with apt.AtpWriter(path, codec=codec, level=level) as writer:
        for run in numbers:
            writer.write([molecule(n) for n in run])
            writer.flush()
    return path


def energies(path: Path) -> list[float]:
    """Which molecules the newest commit holds."""
    return [float(m.builtins["energy"].data) for m in AtpFile.open(path).molecules()]


def names(path: Path) -> list[str]:
    """What lies in the folder of a file."""
    return sorted(entry.name for entry in path.parent.iterdir())


def records(path: Path) -> list[bytes]:
    """All records, decompressed."""
    file = AtpFile.open(path)
    return [file.record(i) for i in range(len(file))]


def schema_of(path: Path) -> bytes:
    """The schema as stored."""
    slot, data = AtpFile.open(path).slot, path.read_bytes()
    return data[slot.schema_offset : slot.schema_offset + slot.schema_length]


def assert_no_dead_space(path: Path) -> None:
    """Headers, records back to back, schema, index."""
    file = AtpFile.open(path)
    place = 8192
    for entry in file.entries:
        assert entry.offset == place
        place += entry.stored_bytes
    assert file.slot.schema_offset == (place if file.slot.schema_length else 0)
    assert file.slot.index_offset == place + file.slot.schema_length
    assert file.slot.index_offset + file.slot.index_length == len(file.data)


# What comes out


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_dead_space_goes(path: Path, codec: Any) -> None:
    commits(path, *[[k, k + 1] for k in range(0, 40, 2)], codec=codec)
    with path.open("ab") as file:
        file.write(b"tail" * 100)
    copy = path.with_name("b.atp")
    apt.compact(path, copy)
    assert energies(copy) == [*range(40)]
    assert records(copy) == records(path)
    assert_no_dead_space(copy)
    assert copy.stat().st_size < path.stat().st_size - 19 * (8 + 20)
    stored = [
        file.data[e.offset :][: e.stored_bytes]
        for file in map(AtpFile.open, (path, copy))
        for e in file.entries
    ]
    assert stored[:40] == stored[40:], "compressed again"
    assert names(path) == ["a.atp", "b.atp"]


def test_one_commit_comes_out_as_it_was(fixtures: Path, new_path: NewPath) -> None:
    names = ["minimal", "custom_all_types", "codec_zstd", "codec_zstd19", "codec_lz4"]
    names += ["v3_f64_all", "sizes_mixed", "batch_written", "tensor_ragged", "empty_flushed"]
    for name in present(names, "atp/{}.atp"):
        copy = new_path()
        apt.compact(fixtures / f"{name}.atp", copy)
        assert copy.read_bytes() == (fixtures / f"{name}.atp").read_bytes(), name


@pytest.mark.parametrize("to", strategies.CODECS)
@pytest.mark.parametrize("source", strategies.CODECS)
def test_another_codec(atompack: AtompackProcess, new_path: NewPath, source: Any, to: Any) -> None:
    path, copy = commits(new_path(), [1, 2], [3], codec=source), new_path()
    apt.compact(path, copy, to)
    assert CODECS[AtpFile.open(copy).slot.codec] == to
    assert records(copy) == records(path)
    assert schema_of(copy) == schema_of(path)
    assert_no_dead_space(copy)
    assert [m["energy"] for m in atompack.read(copy)] == [1, 2, 3]


def test_levels(new_path: NewPath) -> None:
    path = commits(new_path(), [1, 2], codec="zstd", level=19)
    for codec, level, want in (
        (None, None, 19),
        ("zstd", None, 19),
        ("zstd", 1, 1),
        (None, -5, -5),
        ("lz4", 9, 0),
        ("none", None, 0),
    ):
        copy = new_path()
        apt.compact(path, copy, codec, level=level)  # type: ignore[arg-type]
        assert AtpFile.open(copy).slot.level == want
        assert records(copy) == records(path)
    with pytest.raises(ValueError, match="level: expected a codec, lz4 or zstd, for level 9"):
        apt.compact(path, new_path(), "none", level=9)
    lz4, copy = commits(new_path(), [1], codec="lz4"), new_path()
    apt.compact(lz4, copy, "zstd")
    assert AtpFile.open(copy).slot.level == 3


@settings(max_examples=30)
@given(st.data())
def test_random_files(atompack: AtompackProcess, new_path: NewPath, data: st.DataObject) -> None:
    """Any molecules, selected in any order, from either writer."""
    recipe = data.draw(strategies.recipes())
    plains = data.draw(strategies.contents(recipe))
    source, to = (data.draw(st.sampled_from(strategies.CODECS)) for _ in range(2))
    cuts = data.draw(strategies.commits(recipe, len(plains)))
    path = atompack.write(new_path(), plains, source, commits=cuts)
    order = data.draw(st.lists(st.integers(0, len(plains) - 1), max_size=9)) if plains else []
    copy = new_path()
    apt.compact(path, copy, to, order)
    kept = [plains[i] for i in order]
    assert_holds(copy, kept)
    assert_no_dead_space(copy)
    for got, want in zip(atompack.read(copy), kept, strict=True):
        plain.assert_plain(got, want)


def assert_holds(path: Path, kept: list[plain.Plain]) -> None:
    """Records and schema; the format is that of the source, which other molecules settled."""
    file = AtpFile.open(path)
    assert [file.record(i) for i in range(len(file))] == [*map(atp_encode.record_of, kept)]
    if kept:
        assert schema_of(path) == atp_encode.schema_of(kept)


# Order


@pytest.mark.parametrize(
    "order",
    [
        [4, 3, 2, 1, 0],
        [2],
        [0, 0, 4, 0],
        [-1, -5, 1],
        [],
        range(1, 4),
        np.array([3, 1], "u1"),
        np.array([[3, 1], [0, 0]]),
        torch.tensor([4, 0, -1]),
        np.arange(5)[::-2],
    ],
    ids=str,
)
def test_order(path: Path, order: Any) -> None:
    commits(path, [0, 1], [2, 3, 4], codec="zstd")
    copy = path.with_name("b.atp")
    apt.compact(path, copy, order=order)
    assert energies(copy) == [range(5)[i] for i in np.asarray(order).astype(int).reshape(-1)]
    assert_no_dead_space(copy)


@pytest.mark.parametrize(
    ("order", "error", "message"),
    [
        ([5], IndexError, "molecule 5 is out of range for a dataset of 5"),
        ([0, -6], IndexError, "molecule -6 is out of range"),
        ([2**63], IndexError, "out of range"),
        ([2**64 - 1], IndexError, "out of range"),
        ([-(2**63)], IndexError, "out of range"),
        ([0.0], TypeError, "expected integers, got float64"),
        ([True, False], TypeError, "expected integers, got bool"),
        (["0"], TypeError, "expected integers"),
    ],
)
def test_orders_that_name_nothing(
    path: Path, order: Any, error: type[Exception], message: str
) -> None:
    commits(path, [0, 1], [2, 3, 4])
    with pytest.raises(error, match=message):
        apt.compact(path, path.with_name("b.atp"), order=order)
    assert names(path) == ["a.atp"]


def test_a_selection_keeps_what_its_molecules_have(path: Path) -> None:
    """The schema lists the sections of the records that are kept, and no other."""
    with apt.AtpWriter(path) as writer:
        writer.write([molecule(1, properties={"k": 1}), molecule(2, properties={"v": np.ones(2)})])
    copy = path.with_name("b.atp")
    apt.compact(path, copy, order=[1])
    assert {key for _, key in AtpFile.open(copy).schema} == {"energy", "v"}
    with apt.AtpWriter(copy, mode="a") as writer:
        writer.write(molecule(3, properties={"k": "no number here"}))
    assert energies(copy) == [2, 3]


# Several files


def test_a_folder_of_shards(
    fixtures: Path, atompack: AtompackProcess, tmp_path: Path, new_path: NewPath
) -> None:
    folder = tmp_path / "shards"
    shutil.copytree(fixtures / "shards", folder)
    with pytest.raises(apt.FieldError, match="codec: the sources differ"):
        apt.compact(folder, new_path())
    with pytest.raises(apt.FieldError, match=r"expected float32 as in earlier molecules.*posit"):
        apt.compact(folder, new_path(), "lz4")
    (folder / "sub" / "part-00000.atp").unlink()
    want = apt.AtpDataset(folder)
    copy = new_path()
    apt.compact(folder, copy, "lz4", order=[3, 0, 2, 1, 0])
    got = apt.AtpDataset(copy)
    for i, number in enumerate((3, 0, 2, 1, 0)):
        assert got[i].positions.equal(want[number].positions)
        assert got[i].energy == want[number].energy
    assert len(atompack.read(copy)) == 5


def test_many_runs_between_files(new_path: NewPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_RUN", 7)
    paths = [commits(new_path(), [*range(100 * k, 100 * k + 30)]) for k in range(3)]
    rng = np.random.default_rng(1)
    order = rng.integers(-90, 90, 200)
    calls: list[int] = []
    copy = new_path()
    apt.compact(paths, copy, order=order, progress=calls.append)
    assert energies(copy) == [100 * (i % 90 // 30) + i % 90 % 30 for i in order.tolist()]
    assert sum(calls) == 400
    assert min(calls) > 0
    assert 200 in itertools.accumulate(calls)


def test_types_that_clash(new_path: NewPath) -> None:
    a, b, copy = new_path(), new_path(), new_path()
    for path, value in ((a, 1.0), (b, "text")):
        with apt.AtpWriter(path) as writer:
            writer.write(molecule(1, properties={"k": value}))
    with pytest.raises(apt.FieldError, match=r"expected float64 number .*got text .*field 'k'"):
        apt.compact([a, b], copy)
    assert not copy.exists()
    apt.compact([a, b], copy, order=[0])
    assert energies(copy) == [1]


def test_record_formats_of_several_files(new_path: NewPath) -> None:
    """What only format 3 has cannot follow records of format 2; the reverse is possible."""
    usual, unusual = new_path(), new_path()
    for path, labels in ((usual, {}), (unusual, {"stress": np.eye(3, dtype="f4")})):
        with apt.AtpWriter(path) as writer:
            writer.write([molecule(1, **labels), molecule(2)])
    with pytest.raises(apt.FieldError, match=r"record format 2 cannot store .*field 'stress'"):
        apt.compact([usual, unusual], new_path())
    for sources, order, record_format in (
        ([unusual, usual], None, 3),
        ([usual, unusual], [0, 1, 3], 2),
        ([usual, unusual], [2], 3),
    ):
        copy = new_path()
        apt.compact(sources, copy, order=order)
        assert AtpFile.open(copy).slot.record_format == record_format
        assert len(apt.AtpDataset(copy)) == len(order or range(4))


# In place


@pytest.mark.parametrize("link", [False, True])
def test_in_place(path: Path, link: bool) -> None:
    commits(path, [0, 1], [2], [3, 4])
    inode = path.stat().st_ino
    name = path
    if link:
        name = path.with_name("link.atp")
        name.symlink_to(path)
    opened, unread = apt.AtpDataset(path), apt.AtpDataset(path)
    assert opened[4].energy == 4
    apt.compact(name, path, "zstd", order=[4, 0])
    assert energies(path) == [4, 0]
    assert path.stat().st_ino != inode
    assert_no_dead_space(path)
    assert opened.batch(range(5)).energy.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="refresh"):
        unread[0]
    assert opened.refresh()
    assert opened.batch(range(2)).energy.tolist() == [4, 0]
    assert names(path) == ["a.atp", *(["link.atp"] if link else [])]
    assert not link or name.is_symlink()


def test_no_other_file_is_replaced(path: Path) -> None:
    commits(path, [1])
    other, hard = path.with_name("b.atp"), path.with_name("hard.atp")
    other.write_text("precious")
    os.link(path, hard)
    for src, dst in ((path, other), ([path, path], path), (path, hard), (path.parent, path)):
        with pytest.raises(FileExistsError):
            apt.compact(src, dst)
    assert other.read_text() == "precious"
    assert energies(path) == energies(hard) == [1]


# Locks


def test_locks(path: Path) -> None:
    commits(path, [1], [2])
    copy = path.with_name("b.atp")
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(molecule(3))
        with pytest.raises(apt.WriterLockedError):
            apt.compact(path, path)
        apt.compact(path, copy)  # of the newest commit, while the writer continues
        writer.write(molecule(4))
    assert energies(copy) == [1, 2]
    assert energies(path) == [1, 2, 3, 4]
    with apt.AtpWriter(path.with_name("c.atp"), mode="w"), pytest.raises(apt.WriterLockedError):
        apt.compact(path, path.with_name("c.atp"))
    locked = []

    def try_to_write(done: int) -> None:
        with pytest.raises(apt.WriterLockedError):
            apt.AtpWriter(path, mode="a")
        locked.append(done)

    apt.compact(path, path, progress=try_to_write)
    assert locked
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(molecule(5))
    assert energies(path) == [1, 2, 3, 4, 5]


# What goes wrong


@pytest.mark.parametrize(
    "name",
    [
        "bad_atoms_overrun",
        "bad_entry_range",
        "bad_forces_len",
        "bad_index_atoms",
        "bad_none_payload",
        "bad_scalar_len",
        "bad_section_count",
        "bad_section_cut",
        "bad_tensor_count",
        "bad_utf8_key",
        "bad_utf8_value",
        "bad_zstd_record",
        "bad_zstd_trailing",
        "odd_custom_tag_11",
        "odd_custom_tag_99",
        "odd_index_count",
        "bad_both",
        "bad_schema_version",
    ],
)
def test_damaged_sources(fixtures: Path, path: Path, name: str) -> None:
    source = path.with_name(f"{name}.atp")
    shutil.copy(fixtures / source.name, source)
    before = source.read_bytes()
    error = apt.UnsupportedFormatError if "version" in name else apt.CorruptFileError
    for codec, target in itertools.product((None, "lz4"), (source, path)):
        with pytest.raises(error, match=str(source)):
            apt.compact(source, target, codec)  # type: ignore[arg-type]
        assert source.read_bytes() == before
        assert names(source) == [source.name]
    commits(path, [1])  # nothing is locked either


def test_damaged_records_may_be_left_out(fixtures: Path, path: Path) -> None:
    apt.compact(fixtures / "bad_zstd_record.atp", path, order=[5, 1])
    want = apt.AtpDataset(fixtures / "bad_zstd_record.atp")
    got = apt.AtpDataset(path)
    assert got[0].positions.equal(want[5].positions)
    assert got[1].positions.equal(want[1].positions)


KEPT_AS_THEY_ARE = [
    "odd_builtin_unknown",
    "odd_kind_3",
    "odd_trailing",
    "odd_section_order",
    "odd_dup_builtin",
    "odd_pbc_nonzero",
    "odd_tensor_rank1",
    "odd_energy_f32_v2",
    "odd_gap",
    "odd_schema_unsorted",
    "odd_schema_unsorted_lookup",
    "odd_schema_extra",
    "odd_zstd_two_frames",
    "odd_both_scopes",
]


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("name", KEPT_AS_THEY_ARE)
def test_odd_records_are_kept_as_they_are(
    fixtures: Path, atompack: AtompackProcess, path: Path, name: str, codec: Any
) -> None:
    """Sections that nobody knows, repeated ones, bytes at the end: not ours to drop."""
    source = fixtures / f"{name}.atp"
    apt.compact(source, path, codec)
    assert records(path) == records(source)
    assert_no_dead_space(path)
    n = len(records(source))
    if name != "odd_both_scopes":
        assert atompack.read(path) is not None
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3), "f4"), [1]))
    assert len(AtpFile.open(path)) == n + 1


def test_sections_nobody_knows_stay_in_the_schema(path: Path, new_path: NewPath) -> None:
    source, second = new_path(), new_path()
    energy = builtin("energy", 0, np.float64(1.5).tobytes())
    blob = schema_blob([(0, "dipole", 0, 8), (0, "energy", 0, 8), (3, "k", 1, 8)])
    source.write_bytes(atp_file([record(2, [energy])], schema=blob))
    second.write_bytes(atp_file([record(1, [energy])], schema=schema_blob([(0, "energy", 0, 8)])))
    apt.compact([source, second], path)
    assert schema_of(path) == blob
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(molecule(7))
    assert schema_of(path) == blob


@pytest.mark.parametrize(
    "version",
    present(["v020", "v020_batch", "v030", "v030_batch", "v031"], "atp/legacy_{}.atp"),
)
def test_older_releases(
    fixtures: Path, atompack: AtompackProcess, path: Path, version: str
) -> None:
    """They get the schema that the original demands when it appends."""
    source = fixtures / f"legacy_{version}.atp"
    apt.compact(source, path)
    assert records(path) == records(source)
    theirs = atompack.read(path)
    assert [m["energy"] for m in theirs] == [m["energy"] for m in atompack.read(source)]
    atompack.append(path, theirs[1:])
    assert len(apt.AtpDataset(path)) == 5
    assert apt.AtpDataset(path)[4].positions.equal(apt.AtpDataset(source)[2].positions)


def test_files_without_schema_whose_records_disagree(path: Path, new_path: NewPath) -> None:
    source = new_path()
    number, text = molecule_property("k", 0, bytes(8)), molecule_property("k", 2, b"text")
    source.write_bytes(atp_file([record(2, [number]), record(2, [text])]))
    for use in (
        lambda: apt.compact(source, path),
        lambda: apt.AtpWriter(source, mode="a"),
    ):
        with pytest.raises(apt.FieldError, match="'k'"):
            use()
    assert names(path) == []
    apt.compact(source, path, order=[1])
    assert len(AtpFile.open(path)) == 1


def test_every_record_is_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that differs in one byte of one record never gets its name."""
    commits(path, [0, 1, 2, 3, 4])
    before = path.read_bytes()
    taken = compaction.AtpSnapshot.take

    class Tampered:
        """Changes the copy before it is read back."""

        @staticmethod
        def take(name: str) -> Any:
            if name.endswith(".new"):
                with open(name, "r+b") as file:  # noqa: PTH123
                    file.seek(place)
                    byte = file.read(1)
                    file.seek(place)
                    file.write(bytes([byte[0] ^ 1]))
            return taken(name)

    monkeypatch.setattr(compaction, "AtpSnapshot", Tampered)
    copy = path.with_name("b.atp")
    entries = AtpFile.open(path).entries
    for number in (0, 2, 4):
        for within in (8, entries[number].stored_bytes - 1):
            place = 8192 + sum(e.stored_bytes for e in entries[:number]) + within
            for dst in (copy, path):
                with pytest.raises(apt.CorruptFileError, match=f"molecule {number}"):
                    apt.compact(path, dst)
                assert path.read_bytes() == before
                assert names(path) == ["a.atp"]
    monkeypatch.undo()
    apt.compact(path, copy)
    assert energies(copy) == [0, 1, 2, 3, 4]


def test_interrupted(path: Path) -> None:
    """Whatever happens on the way, and at whatever step."""
    commits(path, [0, 1], [2])
    before = path.read_bytes()
    for step in (3, 6):
        done = 0

        def fail(n: int, step: int = step) -> None:
            nonlocal done
            done += n
            if done >= step:
                raise KeyboardInterrupt

        for dst in (path, path.with_name("b.atp")):
            done = 0
            with pytest.raises(KeyboardInterrupt):
                apt.compact(path, dst, progress=fail)
            assert path.read_bytes() == before
            assert names(path) == ["a.atp"]


FULL = """
import os, resource, sys
import atompack_torch as apt
src, dst, n_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
try:
    apt.compact(src, dst)
except OSError as error:
    print(error.filename == dst)
"""


@pytest.mark.parametrize("in_place", [False, True])
def test_full_disk(scripts: ScriptServer, path: Path, in_place: bool) -> None:
    commits(path, [0, 1], [2])
    before = path.read_bytes()
    dst = path if in_place else path.with_name("b.atp")
    apt.compact(path, path.with_name("c.atp"))
    size = path.with_name("c.atp").stat().st_size
    path.with_name("c.atp").unlink()
    for n_bytes in (100, 8191, 8192, 8200, size - 70, size - 1):
        done = scripts.run(FULL, path, dst, str(n_bytes))
        assert done.stdout == "True\n", done.stderr
        assert path.read_bytes() == before
        assert names(path) == ["a.atp"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"codec": "gzip"}, ValueError, "codec: expected one of"),
        ({"src": "missing.atp"}, FileNotFoundError, "missing"),
        ({"src": []}, ValueError, "expected at least one path"),
        ({"dst": "no/folder.atp"}, FileNotFoundError, "folder"),
    ],
)
def test_arguments(
    path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    commits(path, [1])
    given = {"src": path, "dst": path.with_name("b.atp")} | arguments
    for name in ("src", "dst"):
        if isinstance(given[name], str):
            given[name] = path.with_name("x").parent / given[name]
    with pytest.raises(error, match=message):
        apt.compact(**given)
    assert names(path) == ["a.atp"]


def test_files_without_molecules(fixtures: Path, new_path: NewPath) -> None:
    for name in ("empty_created", "empty_flushed", "tail_only"):
        copy = new_path()
        apt.compact(fixtures / f"{name}.atp", copy)
        assert copy.read_bytes() == (fixtures / "empty_flushed.atp").read_bytes()
        with apt.AtpWriter(copy, mode="a") as writer:
            writer.write(molecule(1, "f8"))
        assert energies(copy) == [1]
