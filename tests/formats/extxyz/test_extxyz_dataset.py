"""Extended XYZ as a dataset: the same batches as after a conversion, from the text itself."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from processes.client import ScriptServer
from reference.batches import assert_same_batches
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import convert
from atompack_torch.formats.extxyz import text_files

PLAIN = "Properties=species:S:1:pos:R:3"
LATTICE = 'Lattice="4 0 0 0.5 4 0 0 0 4"'


def frame(comment: str, *atoms: str) -> str:
    return f"{len(atoms)}\n{comment}\n" + "".join(f"{atom}\n" for atom in atoms)


ATOMS = ("H 0 0 0", "O 0.1 -2 1e-3")
FORCES = f"{PLAIN}:forces:R:3"
ONE = ("H 0 0 0 1 2 3",)
TEXTS = {
    "plain": frame("", *ATOMS) + frame("a remark", *ATOMS),
    "labels": frame(f"{LATTICE} {FORCES} energy=-1.5 pbc='T F T'", *ONE)
    + frame(f"{FORCES} energy=2", *ONE),
    "absent labels": frame(f"{FORCES} energy=1", *ONE) + frame(f"{PLAIN}", *ATOMS),
    "nan labels": frame(f"{FORCES} energy=nan", "H 0 0 0 nan nan nan")
    + frame(f"{FORCES} energy=1", "H 0 0 0 nan 1 2")
    + frame(f"{FORCES} energy=2", "H 0 0 0 nan nan nan", "H 0 0 0 1 1 1"),
    "cells": frame(LATTICE, *ATOMS)
    + frame('Lattice="0 0 0 0 0 0 0 0 0"', *ATOMS)
    + frame(f"{LATTICE} pbc=F", *ATOMS)
    + frame(f"{LATTICE} pbc='T T F'", *ATOMS),
    "stress": frame("stress='1 2 3 4 5 6 7 8 9'", *ATOMS)
    + frame("stress='1 2 3 4 5 6'", *ATOMS)
    + frame("stress=_JSON [[1,2,3],[4,5,6],[7,8,9.5]]".replace("=", '="') + '"', *ATOMS),
    "virial": frame("virial='1 2 3 4 5 6 7 8 9.5'", *ATOMS) + frame("x=1", *ATOMS),
    "types": frame("a=1 b=T c=x d=1 e='1 2' g='T F'", *ATOMS)
    + frame("a=2.5 b=3 c=7 d=T e='1.5 2' g='F F'", *ATOMS),
    "other case": frame(f"{LATTICE.lower()} PBC='T F T' {FORCES.replace('P', 'p')} energy=2", *ONE)
    + frame(f"{LATTICE} lattice=fcc {PLAIN}", *ATOMS),
    "empty values": frame(f"a= {LATTICE} b= {PLAIN} c= energy=-9 d=", *ATOMS),
    "text": frame("name=first config=bulk", *ATOMS) + frame("name='no 2' config=5", *ATOMS),
    "null": frame('a=1 c=x d="_JSON null"', *ATOMS) + frame('c="_JSON null" d=y', *ATOMS),
    "shapes": frame('m="_JSON [[1,2],[3,4]]"', *ATOMS)
    + frame('m="_JSON [[1,2,3],[3,4,5]]"', *ATOMS),
    "numbers": frame(
        "Properties=Z:I:1:pos:R:3:charges:R:1:tag:I:1:on:L:1:w:R:2", "1 0 0 0 .5 3 T 1 2"
    )
    + frame("Properties=Z:I:1:pos:R:3:charges:R:1:tag:I:1:on:L:1:w:R:2", "8 0 0 0 1 4 F 1 2"),
    "integers and reals": frame(f"{PLAIN}:q:I:1", "H 0 0 0 5")
    + frame(f"{PLAIN}:q:R:1", "H 0 0 0 .5"),
    "both scopes": frame(f"{PLAIN}:k:R:1 k=3", "H 0 0 0 5") + frame("k=4", *ATOMS),
    "momenta": frame(f"{PLAIN}:momenta:R:3", "H 0 0 0 1 2 3") + frame("", *ATOMS),
    "momenta and masses": frame(f"{PLAIN}:momenta:R:3:masses:R:1", "H 0 0 0 1 2 3 2")
    + frame(f"{PLAIN}:momenta:R:3:masses:R:1", "O 0 0 0 1 2 3 nan"),
    "momenta and velocities": frame(
        f"{PLAIN}:momenta:R:3:velocities:R:3", "H 0 0 0 1 2 3 7 7 7", "O 0 0 0 16 0 0 1 0 0"
    )
    + frame(f"{PLAIN}:velocities:R:3", "H 0 0 0 1 2 3"),
    "velocities": frame(f"{PLAIN}:velocities:R:3", "H 0 0 0 1 2 3"),
    "blank lines": "\n\n" + frame("a=1", *ATOMS) + "\n \n" + frame("a=2", *ATOMS) + "\n\n",
    "no atoms": frame("a=1") + frame("a=2", *ATOMS),
    "windows": (frame("a=1 b='x y'", *ATOMS) * 2).replace("\n", "\r\n"),
    "no last line end": frame("a=1", *ATOMS)[:-1],
    "one frame": frame("energy=3", *ATOMS),
}


def converted(path: Path, **options: Any) -> apt.AtpDataset:
    target = path.parent / f"{path.name}.atp"
    convert(path, target, progress=False, **options)
    return apt.AtpDataset(target)


@pytest.mark.parametrize("name", TEXTS)
def test_as_converted(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.xyz"
    path.write_bytes(TEXTS[name].encode())
    expected, got = converted(path), apt.ExtxyzDataset(path)
    assert len(got) == len(expected)
    assert torch.equal(got.n_atoms, expected.n_atoms)
    assert_same_batches(expected[:], got[:])
    for i in range(len(got)):
        assert_same_batches(expected[i : i + 1], got[i : i + 1])
    assert list(got.schema) == list(expected.schema)
    assert {k: v.dtype for k, v in got.schema.items()} == {
        k: v.dtype for k, v in expected.schema.items()
    }


def images(n: int) -> list[ase.Atoms]:
    """Structures with all labels that ASE writes, each of them absent somewhere."""
    rng = np.random.default_rng(n)
    made = []
    for i in range(n):
        k = int(rng.integers(1, 12))
        atoms = ase.Atoms(rng.integers(1, 100, k), rng.normal(0, 9, (k, 3)))
        if i % 2:
            atoms.set_cell(rng.normal(0, 9, (3, 3)))
            atoms.pbc = rng.integers(0, 2, 3)
        if i % 3:
            atoms.info |= {"step": i, "gap": rng.normal(), "on": bool(i % 2), "group": f"run {i}"}
            atoms.set_array("tag", rng.integers(0, 9, k))
        if i % 5:
            atoms.set_momenta(rng.normal(0, 1, (k, 3)))
            atoms.set_array("weights", rng.normal(0, 1, (k, 2)))
        results: dict[str, Any] = {"energy": rng.normal()} if i % 7 else {}
        if i % 4:
            results |= {"forces": rng.normal(size=(k, 3)), "stress": rng.normal(size=6)}
        atoms.calc = SinglePointCalculator(atoms, **results)
        made.append(atoms)
    return made


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "ase.extxyz"
    ase.io.write(path, images(60), format="extxyz")
    return path


def test_what_ase_writes(written: Path) -> None:
    expected, got = converted(written), apt.ExtxyzDataset(written)
    assert_same_batches(expected[:], got[:])
    order = random.Random(0).sample(range(60), 60)
    assert_same_batches(expected.batch(order), got.batch(order))
    for i, atoms in enumerate(ase.io.read(written, ":", format="extxyz")):
        molecule = got[i]
        assert np.array_equal(molecule.positions.numpy(), atoms.positions)
        assert molecule.atomic_numbers.tolist() == atoms.numbers.tolist()
        if "energy" in atoms.calc.results if atoms.calc else False:
            assert float(molecule.energy) == atoms.calc.results["energy"]
            assert i % 4 == 0 or np.array_equal(molecule.forces.numpy(), atoms.get_forces())


def test_the_molecule_and_its_atoms_have_one_name(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    path.write_text(frame(f"{PLAIN}:q:R:1 q=1.5", "H 0 0 0 7") + frame(f"{PLAIN} q=2.5", "H 0 0 0"))
    with pytest.warns(UserWarning, match="properties/q omitted where the atoms have a property of"):
        batch = apt.ExtxyzDataset(path)[:]
    assert batch.mask("properties/q").tolist() == [False, True]


def test_key_map(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    text = frame(f"{PLAIN}:REF_forces:R:3 REF_energy=-3 energy=5", "H 0 0 0 1 2 3")
    path.write_text(text)
    keys = {"REF_energy": "energy", "REF_forces": "forces"}
    got = apt.ExtxyzDataset(path, key_map=keys)
    assert_same_batches(converted(path, key_map=keys)[:], got[:])
    assert got[:].energy.tolist() == [-3.0]
    with pytest.raises(apt.FieldError, match="no molecule has 'absent'"):
        apt.ExtxyzDataset(path, key_map={"absent": "energy"})
    with pytest.raises(apt.FieldError, match="expected a value per molecule for energy"):
        apt.ExtxyzDataset(path, key_map={"REF_forces": "energy"})
    with pytest.raises(TypeError, match="key_map: expected a mapping of names, got list"):
        apt.ExtxyzDataset(path, key_map=["REF_energy"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a label or a property, got 'positions'"):
        apt.ExtxyzDataset(path, key_map={"energy": "positions"})
    scoped = {"REF_forces": "atom_properties/f", "REF_energy": "properties/energy"}
    other = tmp_path / "y.xyz"
    other.write_text(text)
    got = apt.ExtxyzDataset(other, key_map=scoped)
    assert_same_batches(converted(other, key_map=scoped)[:], got[:])
    assert {"f", "energy", "properties/energy"} <= {*got.schema}
    with pytest.raises(apt.FieldError, match="expected a value per atom for atom_properties/e"):
        apt.ExtxyzDataset(path, key_map={"REF_energy": "atom_properties/e"})


def test_a_virial_mapped_to_stress_warns(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    nine = "1 2 3 4 5 6 7 8 9"
    path.write_text(frame(f'{PLAIN} REF_virial="{nine}" my_stress="{nine}"', "H 0 0 0"))
    with pytest.warns(UserWarning, match=r"suggests a virial.*: stress_from='virial' of apt\.conv"):
        apt.open(path, key_map={"REF_virial": "stress"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apt.open(path, key_map={"my_stress": "stress"})


def test_strings_of_atoms_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    path.write_text(frame(f"{PLAIN}:kind:S:1:q:R:1", "H 0 0 0 abc 1"))
    with pytest.warns(UserWarning, match="column 'kind' omitted: strings of atoms"):
        got = apt.ExtxyzDataset(path)
    assert got[:]["q"].tolist() == [1.0]
    assert "kind" not in got.schema


def test_several_files_and_folders(tmp_path: Path) -> None:
    paths = [tmp_path / "set" / name for name in ("a.xyz", "b/c.extxyz", "z.xyz.gz")]
    paths[1].parent.mkdir(parents=True)
    texts = [TEXTS["labels"], TEXTS["text"], frame("energy=x9 q=1", *ATOMS).replace("x9", "9")]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    target = tmp_path / "all.atp"
    convert(paths, target, progress=False)
    expected = apt.AtpDataset(target)
    convert(tmp_path / "set", tmp_path / "folder.atp", progress=False)
    for got in (apt.ExtxyzDataset(paths), apt.ExtxyzDataset(tmp_path / "set"), apt.open(paths)):
        assert_same_batches(expected[:], got[:])
        assert_same_batches(expected[:], apt.AtpDataset(tmp_path / "folder.atp")[:])
        assert got.block_sizes.tolist() == [2, 2, 1]
    assert len(apt.open(tmp_path / "set")) == 5
    with pytest.raises(ValueError, match="got an empty list"):
        apt.ExtxyzDataset([])
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \.xyz or \.extxyz file"):
        apt.ExtxyzDataset(tmp_path / "none")
    with pytest.raises(ValueError, match="got a URL"):
        apt.ExtxyzDataset("s3://bucket/x.xyz")


def test_types_are_those_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text(frame("q=1 s=5", *ATOMS))
    (tmp_path / "b.xyz").write_text(frame("q=1.5 s=word", *ATOMS))
    got = apt.ExtxyzDataset([tmp_path / "a.xyz", tmp_path / "b.xyz"])
    batch = got[:]
    assert batch["q"].tolist() == [1.0, 1.5]
    assert batch["s"] == ["5", "word"]
    assert got[:1]["q"].dtype == torch.float64


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain, path = tmp_path / "x.xyz", tmp_path / f"y.xyz{suffix}"
    plain.write_text(TEXTS["labels"])
    path.write_bytes(pack(TEXTS["labels"].encode()))
    assert_same_batches(apt.ExtxyzDataset(plain)[:], apt.open(path)[:])
    copies = list((tmp_path / "cache/atompack_torch/plain").glob("*.txt"))
    assert len(copies) == 1
    before = copies[0].stat().st_ino
    assert len(apt.ExtxyzDataset(path)) == 2
    assert copies[0].stat().st_ino == before  # not unpacked again
    path.write_bytes(pack(TEXTS["labels"].encode() * 2))
    assert len(apt.ExtxyzDataset(path)) == 4
    assert len(list((tmp_path / "cache/atompack_torch/plain").glob("*.txt"))) == 1
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(apt.CorruptFileError, match=f"y\\.xyz\\{suffix}: compressed data"):
        apt.ExtxyzDataset(path)
    assert not list((tmp_path / "cache/atompack_torch/plain").glob("*.part"))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_a_compressed_file_is_not_mixed_up_with_one_of_equal_size_and_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[bytes], bytes],
    in_place: bool,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path, other = tmp_path / "x.xyz.packed", tmp_path / "other"
    for energy in (-1.0, -8.0):
        written = path if in_place else other
        written.write_bytes(pack(frame(f"energy={energy}", *ATOMS).encode()).ljust(500, b"\0"))
        os.utime(written, ns=(0, 0))
        written.replace(path)
        assert apt.ExtxyzDataset(path)[:].energy.tolist() == [energy]


@pytest.mark.parametrize("base", ["/dev/null/x", "no home", "not writable"])
def test_compressed_without_a_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    path = tmp_path / "x.xyz.gz"
    path.write_bytes(gzip.compress(TEXTS["labels"].encode()))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("XDG_CACHE_HOME", "" if base == "no home" else base)
    if base == "no home":
        monkeypatch.setenv("HOME", "/dev/null")
    if base == "not writable":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        (tmp_path / "cache").touch()
    assert len(apt.ExtxyzDataset(path)) == len(apt.ExtxyzDataset(path)) == 2
    (made,) = (tmp_path / "temporary").iterdir()
    assert len(list((made / "plain").glob("*.txt"))) == 1
    made.chmod(0o777)  # others may have put anything there
    with pytest.raises(PermissionError, match=r"plain copy: .*XDG_CACHE_HOME") as e:
        apt.ExtxyzDataset(path)
    assert e.value.filename == str(path)


def test_keys_in_other_letters_and_after_empty_values(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    path.write_text(TEXTS["other case"] + TEXTS["empty values"])
    got = apt.ExtxyzDataset(path)
    assert got[0].forces is not None
    assert [bool(molecule.cell.any()) for molecule in got] == [True] * 3
    assert got[0].pbc.tolist() == [True, False, True]
    assert (got[1]["lattice"], got[2]["a"], got[2]["c"], got[2].energy) == ("fcc", "", "", -9)


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    path.write_bytes(TEXTS["labels"].encode("utf-8-sig"))
    assert apt.open(path)[:].energy.tolist() == [-1.5, 2]
    convert(path, tmp_path / "x.atp", progress=False)
    assert_same_batches(apt.AtpDataset(tmp_path / "x.atp")[:], apt.open(path)[:])
    path.write_bytes(TEXTS["labels"].encode("utf-16"))
    for opened in (apt.open, apt.ExtxyzDataset):
        with pytest.raises(apt.UnsupportedFormatError, match=r"UTF-16: save .* as UTF-8"):
            opened(path)
    with pytest.raises(apt.UnsupportedFormatError, match=r"x\.xyz: text: .*UTF-16"):
        convert(path, tmp_path / "y.atp", progress=False)
    path.write_bytes(b"")
    with pytest.raises(apt.UnsupportedFormatError, match=r"x\.xyz: .* got an empty file"):
        apt.open(path)


def test_too_many_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    keys = (" ".join(f"k{i}_{j}=1" for j in range(35_000)) for i in range(2))
    path.write_text("".join(frame(line, "H 0 0 0") for line in keys))
    limit = r"x\.xyz: keys: expected at most 65536 different ones, got more"
    with pytest.raises(apt.UnsupportedFormatError, match=limit):
        apt.ExtxyzDataset(path)
    with pytest.raises(apt.UnsupportedFormatError, match=limit):
        convert(path, tmp_path / "x.atp", progress=False, on_error="skip")


def test_more_files_than_descriptors(tmp_path: Path, scripts: ScriptServer) -> None:
    for i in range(150):
        (tmp_path / f"{i}.xyz").write_text(frame("energy=1", *ATOMS))
    code = (
        "import resource, sys\nimport atompack_torch as apt\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, int(sys.argv[2])))\n"
        "try: print(apt.open(sys.argv[1])[:].energy.sum().item())\n"
        "except OSError as error: print(error)"
    )

    def output(hard: int) -> str:
        return scripts.run(code, tmp_path, str(hard)).stdout

    assert output(4096) == "150.0\n"
    assert "too many open files: raise the limit (`ulimit -n`)" in output(128)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_bombs_leave_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(text_files, "_ALWAYS_BYTES", 1 << 20)
    path = tmp_path / "y.xyz"
    text = frame("", *ATOMS) + " " * (2 << 20)
    path.write_bytes(pack(text.encode()))
    with pytest.raises(apt.CorruptFileError, match=r"at most 1048576 bytes .* max_unpacked_bytes"):
        apt.ExtxyzDataset(path)
    with pytest.raises(apt.CorruptFileError, match="at most 1048576 bytes"):
        convert(path, tmp_path / "a.atp", format="extxyz", progress=False)
    with pytest.raises(ValueError, match="max_unpacked_bytes"):
        apt.ExtxyzDataset(path, max_unpacked_bytes=-1)
    assert not [*(tmp_path / "cache/atompack_torch/plain").iterdir()]
    assert len(apt.open(path, max_unpacked_bytes=len(text))) == 1
    path.write_bytes(pack(TEXTS["labels"].encode()))  # smaller than the limit, above the ratio
    with pytest.raises(apt.CorruptFileError, match="at most 9 bytes"):
        apt.ExtxyzDataset(path, max_unpacked_bytes=9)


class TestIndex:
    def test_is_kept_and_used(self, tmp_path: Path) -> None:
        path, kept = tmp_path / "x.xyz", tmp_path / ".x.xyz.idx"
        path.write_text(TEXTS["labels"])
        first = apt.ExtxyzDataset(path)[:]
        before = kept.stat()
        assert_same_batches(first, apt.ExtxyzDataset(path)[:])
        assert kept.stat().st_mtime_ns == before.st_mtime_ns
        assert kept.stat().st_ino == before.st_ino

    def test_is_replaced_with_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "x.xyz"
        path.write_text(TEXTS["labels"])
        assert len(apt.ExtxyzDataset(path)) == 2
        path.write_text(TEXTS["labels"] * 3)
        assert len(apt.ExtxyzDataset(path)) == 6
        text = path.read_text().replace("energy=2", "energy=3")
        time = path.stat().st_mtime_ns
        path.write_text(text)
        os.utime(path, ns=(time, time + 1000))  # same size, another time
        assert apt.ExtxyzDataset(path)[1].energy == 3

    @pytest.mark.parametrize("content", [b"", b"APTINDEX", b"x" * 500])
    def test_damaged_ones_are_replaced(self, tmp_path: Path, content: bytes) -> None:
        path, kept = tmp_path / "x.xyz", tmp_path / ".x.xyz.idx"
        path.write_text(TEXTS["labels"])
        kept.write_bytes(content)
        assert len(apt.ExtxyzDataset(path)) == 2
        sound = kept.read_bytes()
        for i in range(0, len(sound), 7):
            kept.write_bytes(sound[:i] + bytes([sound[i] ^ 1]) + sound[i + 1 :])
            assert apt.ExtxyzDataset(path)[:].energy.tolist() == [-1.5, 2.0]
            assert kept.read_bytes() == sound

    @pytest.mark.parametrize("kind", ["pipe", "device", "link", "sparse", "too large"])
    def test_what_is_no_index_is_not_read(self, tmp_path: Path, kind: str) -> None:
        path, kept = tmp_path / "x.xyz", tmp_path / ".x.xyz.idx"
        path.write_text(TEXTS["labels"])
        apt.ExtxyzDataset(path)
        sound = kept.read_bytes()
        kept.rename(tmp_path / "moved")
        if kind == "pipe":
            os.mkfifo(kept)
        elif kind == "device":
            kept.symlink_to("/dev/zero")
        elif kind == "link":
            kept.symlink_to(tmp_path / "moved")
        else:
            kept.write_bytes(b"" if kind == "sparse" else sound)
            os.truncate(kept, 1 << 40)
        assert len(apt.ExtxyzDataset(path)) == 2
        assert not kept.is_symlink()
        assert kept.read_bytes() == sound

    def test_is_in_the_cache_folder_where_the_folder_is_not_writable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        path, kept = tmp_path / "x.xyz", tmp_path / ".x.xyz.idx"
        path.write_text(TEXTS["labels"])
        kept.mkdir()  # root may write into folders without permission
        assert len(apt.ExtxyzDataset(path)) == 2
        assert len(list((tmp_path / "cache/atompack_torch/indexes").glob("*.idx"))) == 1
        (tmp_path / "cache/atompack_torch").rename(tmp_path / "gone")
        (tmp_path / "cache/atompack_torch").touch()
        assert len(apt.ExtxyzDataset(path)) == 2

    def test_none_is_kept_without_it(self, tmp_path: Path) -> None:
        path = tmp_path / "x.xyz"
        path.write_text(TEXTS["labels"])
        dataset = apt.ExtxyzDataset(path, index=False)
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.xyz"]
        assert_same_batches(dataset[:], pickle.loads(pickle.dumps(dataset))[:])


@pytest.mark.parametrize(
    "method", [None, "fork", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_workers(written: Path, method: str | None) -> None:
    dataset = apt.ExtxyzDataset(written)
    dataset[0]
    options = {} if method is None else {"num_workers": 2, "multiprocessing_context": method}
    loader = DataLoader(dataset, batch_size=7, **options)  # type: ignore[arg-type]
    for k, batch in enumerate(loader):
        assert_same_batches(dataset[7 * k : 7 * k + 7], batch)


def test_pickles_are_small_and_say_nothing_of_the_molecules(written: Path) -> None:
    dataset = apt.ExtxyzDataset(written)
    small = apt.ExtxyzDataset(written, fields=["energy"])
    assert len(pickle.dumps(small)) < 2000
    assert_same_batches(dataset[:], pickle.loads(pickle.dumps(dataset))[:])


def test_loader_samplers_subsets_and_neighbors(written: Path) -> None:
    dataset = apt.ExtxyzDataset(written, neighbors=apt.NeighborList(3.0), missing="nan")
    expected = apt.AtpDataset(converted(written).path, neighbors=apt.NeighborList(3.0))
    seen: list[int] = []
    for batch in apt.Loader(dataset, batch_size=8, shuffle=True, seed=1):
        assert_same_batches(expected.batch(batch.index), batch)
        seen += batch.index.tolist()
    assert sorted(seen) == list(range(60))
    sampler = apt.AtomBudgetBatchSampler(dataset.n_atoms, 40)
    assert sum(len(batch) for batch in apt.Loader(dataset, batch_sampler=sampler)) == 60
    part = dataset.subset([5, 3])
    assert part[:].index.tolist() == [5, 3]
    train, test = dataset.split([0.8, 0.2], seed=0)
    assert (len(train), len(test)) == (48, 12)


@pytest.mark.parametrize("access", ["auto", "populate", "random", "sequential", "read"])
def test_access(written: Path, access: Any) -> None:
    expected = apt.ExtxyzDataset(written)
    got = apt.ExtxyzDataset(written, access=access, num_threads=1)
    assert_same_batches(expected[:], got[:])


def test_options_of_atp(written: Path) -> None:
    atp = converted(written)
    options: dict[str, Any] = {"dtype": torch.float32, "fields": ["energy", "forces"]}
    for missing in ("nan", "drop"):
        expected = apt.AtpDataset(atp.path, missing=missing, **options)
        got = apt.ExtxyzDataset(written, missing=missing, **options)
        assert_same_batches(expected[:], got[:])
    got = apt.ExtxyzDataset(written, fields=["energy"], missing="error")
    with pytest.raises(apt.FieldError, match=r"ase\.extxyz"):
        got[:]
    with pytest.raises(apt.FieldError, match="nothing"):
        apt.ExtxyzDataset(written, fields=["nothing"])
    chosen = apt.ExtxyzDataset(written, force_subset=apt.ForceSubset(0.5, seed=3))
    same = apt.AtpDataset(atp.path, force_subset=apt.ForceSubset(0.5, seed=3))
    assert torch.equal(chosen[:].mask("forces"), same[:].mask("forces"))
    doubled = apt.ExtxyzDataset(written, transform=lambda batch: len(batch))
    assert doubled[:7] == 7  # type: ignore[comparison-overlap]


def test_statistics_info_head_and_verify(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    atp = converted(written)
    assert repr(apt.statistics(written)) == repr(apt.statistics(os.fspath(atp.path)))
    described, expected = apt.info(written), apt.info(os.fspath(atp.path))
    for key in ("n_molecules", "n_atoms", "labels"):
        assert described[key] == expected[key], key
    assert [str(m) for m in apt.head(written, 3)] == [str(m) for m in apt.head(atp.path, 3)]
    found = apt.verify(written)
    assert found.ok
    assert found.n_molecules == 60
    for command in (["info"], ["head", "-n", "2"], ["verify"], ["stats"]):
        assert main([command[0], str(written), *command[1:]]) == 0
    assert "60 molecules" in capsys.readouterr().out


def test_refresh_and_changed_files(tmp_path: Path) -> None:
    path = tmp_path / "x.xyz"
    path.write_text(TEXTS["labels"])
    dataset = apt.ExtxyzDataset(path)
    assert not dataset.refresh()
    other = apt.ExtxyzDataset(path)
    with path.open("a") as file:
        file.write(TEXTS["labels"])
    with pytest.raises(OSError, match="changed since it was opened"):
        pickle.loads(pickle.dumps(dataset))[0]
    with pytest.raises(OSError, match="changed since it was opened"):
        other[0]
    assert dataset.refresh()
    assert len(dataset) == 4
    assert dataset[3].energy == 2


DAMAGE = {
    "a count": (frame("a=1", *ATOMS) + "x\n", "expected the number of atoms, got 'x' (molecule 1"),
    "a comment": (frame("a=1", *ATOMS) + "1\na='\nH 0 0 0\n", "expected a closing ' got"),
    "lines": (frame("a=1", *ATOMS) + "3\na=1\nH 0 0 0\n", "expected 3 atom lines, got fewer"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_that_the_index_finds(tmp_path: Path, name: str) -> None:
    text, message = DAMAGE[name]
    path = tmp_path / "x.xyz"
    path.write_text(text)
    with pytest.raises(apt.CorruptFileError) as error:
        apt.ExtxyzDataset(path)
    assert message.split(" got")[0] in str(error.value)
    assert f"{path}: " in str(error.value)
    assert "molecule 1" in str(error.value)
    found = apt.verify(path)
    assert not found.ok
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.xyz"]  # no index is kept of it


@pytest.mark.parametrize(
    ("atom", "message"),
    [
        ("H 0.000 0", "expected a number, got the end of the line"),
        ("H 0 0 x", "expected a number, got 'x'"),
        ("Q 0 0 0", "expected an element's symbol, got 'Q'"),
        ("H 0 0 0 0", "expected 4 words, as many as Properties names, got 5: complete Properties"),
    ],
)
def test_damage_of_one_frame(tmp_path: Path, atom: str, message: str) -> None:
    path = tmp_path / "x.xyz"
    path.write_text(frame(f"{PLAIN} a=1", "H 0 0 0") + frame(f"{PLAIN} a=2", atom))
    dataset = apt.ExtxyzDataset(path)
    assert dataset[0]["a"] == 1
    with pytest.raises(apt.CorruptFileError) as error:
        dataset[:]
    assert message in str(error.value)
    assert "(molecule 1" in str(error.value)
    found = apt.verify(path)
    assert (found.n_faults, found.n_molecules) == (1, 2)
    assert found.faults[0].molecule == 1


def error_of(path: Path) -> str | None:
    """The message of the error that reading all frames ends in."""
    try:
        apt.ExtxyzDataset(path, index=False)[:]
    except apt.AtompackError as error:
        return str(error)
    return None


def test_mutants_end_in_named_errors_or_values(written: Path) -> None:
    text = written.read_bytes()
    rng = random.Random(0)
    path = written.parent / "mutant.xyz"
    n_sound = 0
    for _ in range(150):
        mutant = bytearray(text[: rng.choice([len(text), rng.randrange(len(text))])])
        for _ in range(rng.randrange(4)):
            if mutant:
                mutant[rng.randrange(len(mutant))] = rng.randrange(256)
        path.write_bytes(mutant)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            message = error_of(path)
            n_sound += message is None
            assert message is None or "mutant.xyz" in message
    assert n_sound > 5


def test_a_file_that_is_cut_while_it_is_read(written: Path) -> None:
    dataset = apt.ExtxyzDataset(written)
    dataset[0]
    with written.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(apt.CorruptFileError, match="shrank"):
        dataset[:]


def test_other_formats_are_named(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        writer.write([])
    with pytest.raises(
        apt.UnsupportedFormatError, match=r"expected extended XYZ, got an \.atp file"
    ):
        apt.ExtxyzDataset(tmp_path / "x.atp")
    with pytest.raises(FileNotFoundError):
        apt.ExtxyzDataset(tmp_path / "absent.xyz")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_an_index_with_keys_that_are_not_utf_8_is_made_again(tmp_path: Path) -> None:
    path, kept = tmp_path / "x.xyz", tmp_path / ".x.xyz.idx"
    path.write_text("1\nProperties=species:S:1:pos:R:3 gap=1.5\nH 0 0 0\n")
    apt.ExtxyzDataset(path)
    body = kept.read_bytes()[16:].replace(b"gap", b"g\xffp")
    kept.write_bytes(kept.read_bytes()[:12] + crc32c(body).to_bytes(4, "little") + body)
    assert apt.ExtxyzDataset(path)[0]["gap"] == 1.5
