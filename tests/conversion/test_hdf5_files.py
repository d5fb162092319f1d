"""Foreign HDF5 and NetCDF: nothing outside the file, nothing that ends or stops this process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray
from reference import foreign

import atompack_torch as apt
from atompack_torch.conversion import convert, convert_datasets
from atompack_torch.conversion.sources import hdf5_files
from atompack_torch.conversion.sources.hdf5_files import ForeignFile, opened

Make = Callable[[Path], h5py.Group]


def mace(path: Path) -> h5py.Group:
    """A file of MACE with a molecule; returns the group of its labels."""
    with h5py.File(path, "w") as file:
        group = file.create_group("config_batch_0/config_0")
        group["positions"], group["atomic_numbers"] = np.ones((2, 3)), [8, 1]
        group["property_weights/energy"] = 1.0
        group.create_group("properties")
    return h5py.File(path, "a")["config_batch_0/config_0/properties"]


def arrays(path: Path) -> h5py.Group:
    with h5py.File(path, "w") as file:
        file["m/positions"], file["m/atomic_numbers"] = np.ones((2, 2, 3)), [8, 1]
    return h5py.File(path, "a")["m"]


def ani(path: Path) -> h5py.Group:
    with h5py.File(path, "w") as file:
        file["2/coordinates"], file["2/species"] = np.ones((2, 2, 3)), [8, 1]
        file["2/energies"] = np.ones(2)
    return h5py.File(path, "a")["2"]


def netcdf(path: Path) -> h5py.Group:
    xarray.Dataset({"x": ("t", np.arange(4.0))}).to_netcdf(path, engine="netcdf4")
    return h5py.File(path, "a")["/"]


KINDS: dict[str, Make] = {f.__name__: f for f in (mace, arrays, ani, netcdf)}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    return tmp_path / f"x.{'nc' if kind == 'netcdf' else 'h5'}"


def converted(kind: str, path: Path) -> object:
    target = path.with_suffix(".out.atp")
    if kind == "netcdf":
        return convert_datasets(path, path.with_suffix(".atlas"), mode="w", progress=False)
    return convert(path, target, mode="w", progress=False)


def readers() -> set[str]:
    """Process numbers of the readers that run."""
    helper = hdf5_files._HELPER._process
    if helper is None:
        return set()
    return set(Path(f"/proc/{helper.pid}/task/{helper.pid}/children").read_text().split())


def external_link(group: h5py.Group, secret: Path) -> None:
    group["energy"] = h5py.ExternalLink(secret, "/secret")


def external_storage(group: h5py.Group, secret: Path) -> None:
    group.create_dataset("energy", (2,), "f8", external=[(str(secret), 0, 16)])


def virtual(group: h5py.Group, secret: Path) -> None:
    layout = h5py.VirtualLayout((2,), "f8")
    layout[:] = h5py.VirtualSource(str(secret), "secret", (2,))
    group.create_virtual_dataset("energy", layout)


def filtered(group: h5py.Group, secret: Path) -> None:
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk((2,))
    plan.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    space = h5py.h5s.create_simple((2,))
    h5py.h5d.create(group.id, b"energy", h5py.h5t.NATIVE_DOUBLE, space, plan)


@pytest.mark.parametrize("lead", [external_link, external_storage, virtual, filtered])
def test_what_leads_out_of_the_file_is_refused(
    kind: str, lead: Callable[[h5py.Group, Path], None], path: Path
) -> None:
    secret = path.with_name("secret.h5")
    with h5py.File(secret, "w") as file:
        file["secret"] = np.full(2, 42.0)
    group = KINDS[kind](path)
    lead(group, secret)
    group.file.close()
    with pytest.raises(apt.UnsupportedFormatError, match="energy: ") as error:
        converted(kind, path)
    assert str(path) in str(error.value)


def test_sizes_that_nothing_stored_justifies(kind: str, path: Path) -> None:
    group = KINDS[kind](path)
    n = {"ani": 2, "arrays": 2}.get(kind, 1 << 26)
    group.create_dataset("energy", (n,), "f8", chunks=(min(n, 1 << 20),), fillvalue=1.0)
    group.file.close()
    before = readers()
    with pytest.raises((apt.FieldError, apt.CorruptFileError), match="energy: expected") as held:
        converted(kind, path)
    assert not readers() - before  # its traceback keeps none
    del held


def test_netcdf_that_was_partly_written_is_filled(tmp_path: Path) -> None:
    group = netcdf(tmp_path / "x.nc")
    group.create_dataset("y", (100,), "f8", chunks=(10,), fillvalue=np.nan)[:10] = 1.0
    group.file.close()
    converted("netcdf", tmp_path / "x.nc")
    values = apt.AtlasStore(tmp_path / "x.atlas").read("x", "y")
    assert values[:10].eq(1).all()
    assert values[10:].isnan().all()


def test_netcdf_has_links_and_groups_named(tmp_path: Path) -> None:
    group = netcdf(tmp_path / "x.nc")
    group["more/inner/z"] = np.ones(3)
    group.file.close()
    report = convert_datasets(tmp_path / "x.nc", tmp_path / "store", progress=False)
    assert report.left_out == (f"{tmp_path / 'x.nc'}: group /more/inner",)
    assert "group /more/inner" in str(report)
    with h5py.File(tmp_path / "x.nc", "a") as file:
        file["soft"] = h5py.SoftLink("/x")
    with pytest.raises(apt.UnsupportedFormatError, match="/soft: a soft link"):
        convert_datasets(tmp_path / "x.nc", tmp_path / "store", mode="w", progress=False)


def test_a_classic_netcdf_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.nc"
    xarray.Dataset({"x": ("t", np.arange(1000.0))}).to_netcdf(path, format="NETCDF3_CLASSIC")
    converted("netcdf", path)
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(apt.CorruptFileError, match="expected bytes for 8000"):
        converted("netcdf", path)


def test_zarr_with_a_link_to_another_file(tmp_path: Path) -> None:
    group = tmp_path / "x.zarr"
    xarray.Dataset({"x": ("t", np.arange(4.0))}).to_zarr(group, consolidated=False)
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    chunk = next(p for p in group.rglob("*") if p.is_file() and p.parent.name in ("c", "x"))
    chunk.unlink()
    chunk.symlink_to(tmp_path / "secret")
    with pytest.raises(apt.UnsupportedFormatError, match="a link to other files"):
        converted("netcdf", group)


def test_groups_that_are_linked_twice(tmp_path: Path) -> None:
    """Thirty groups that each hold the next one twice are a billion."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file
        for _ in range(30):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
    with pytest.raises(apt.CorruptFileError, match="expected a tree of groups"):
        converted("arrays", tmp_path / "x.h5")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        h5py.h5g.create(file.id, b"caf\xe9")
    with pytest.raises(apt.CorruptFileError, match=r"expected names in UTF-8, got b'caf\\xe9'"):
        converted("arrays", tmp_path / "x.h5")


@pytest.mark.parametrize(
    ("number", "message"),
    [(signal.SIGSEGV, r"a crash .*SIGSEGV"), (signal.SIGXCPU, "expected values after 60 s")],
)
def test_a_reader_that_ends(number: signal.Signals, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    arrays(path).file.close()
    with opened(path) as file:
        os.kill(file._pid, number)
        with pytest.raises(apt.CorruptFileError, match=rf"x\.h5: .*{message}"):
            file.listing()
        with pytest.raises(apt.CorruptFileError, match="an earlier request ended its reader"):
            file.listing()
    with pytest.raises(ProcessLookupError):
        os.kill(file._pid, 0)


def test_a_heap_that_libhdf5_reads_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A free object of the heap that is smaller than its own head; libhdf5 2.0 loops there."""
    monkeypatch.setattr(hdf5_files, "CPU_SECONDS", 1)
    path = tmp_path / "x.h5"
    group = arrays(path)
    group["smiles"] = ["C", "CC"]
    group.file.close()
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0C")] = 0
    path.write_bytes(raw)
    with pytest.raises(apt.CorruptFileError, match=r"x\.h5: "):
        converted("arrays", path)


def test_memory_that_the_file_does_not_justify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.h5"
    monkeypatch.setattr(hdf5_files, "_MEMORY", 1 << 25)
    with h5py.File(path, "w") as file:  # in rows that are each small enough
        made = file.create_dataset("x", (64, 1 << 17), "f8", chunks=(1, 1 << 17), compression=1)
        made[:] = 0
    with opened(path) as file, pytest.raises(apt.CorruptFileError, match="fit the memory"):
        file.rows("/x", 0, 64)


def test_the_reader_ends_with_an_error_of_the_target(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["positions"], file["numbers"] = np.full((5, 2, 3), np.longdouble("1e400")), [1, 1]
        file["energy"] = np.ones(5)
    before = readers()
    with pytest.raises(apt.FieldError, match="expected numbers that float64 holds") as held:
        convert(tmp_path / "a.h5", tmp_path / "a.atp", progress=False)
    assert not readers() - before
    del held


def test_a_file_can_outlive_the_helper(tmp_path: Path) -> None:
    arrays(tmp_path / "x.h5").file.close()
    with opened(tmp_path / "x.h5"):
        hdf5_files._HELPER.stop()
    assert hdf5_files._HELPER._process is None


def test_readers_of_threads_and_of_a_forked_process(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    arrays(path).file.close()
    found: list[int] = []

    def read() -> None:
        with opened(path) as file:
            found.append(len(file.listing("/m").datasets))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2] * 4
    child = os.fork()
    if not child:
        read()
        os._exit(0 if found[-1] == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    read()


def test_mutants(kind: str, path: Path) -> None:
    """A representative few of the thousands that a loop of hours tries."""
    KINDS[kind](path).file.close()
    whole, rng = path.read_bytes(), random.Random(7)
    for _ in range(12):
        mutant = bytearray(whole)
        for _ in range(rng.choice((1, 4, 16))):
            mutant[rng.randrange(len(mutant))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        path.write_bytes(mutant[: rng.choice((len(mutant), rng.randrange(len(mutant))))])
        with contextlib.suppress(apt.AtompackError):
            converted(kind, path)


def attributed(path: Path, n: int, **attrs: object) -> tuple[apt.MoleculeBatch, set[str]]:
    """Converts two groups of n molecules with attributes; also returns what was left out."""
    with h5py.File(path, "w") as file:
        file.attrs["source"] = "somewhere"
        for number in range(2):
            group = file.create_group(f"g{number}")
            group["positions"], group["species"] = np.ones((n, 2, 3)), [8, 1]
            group["positions"].attrs["units"] = "angstrom"
            group.attrs.update(attrs)
    dataset, report = foreign.converted(path)
    return dataset[:], {what for what, _ in report.skipped} - {"attribute 'source'"}


def test_attributes_of_groups(tmp_path: Path) -> None:
    values = {"E": -1.5, "forces": np.ones((2, 3)), "cell": np.eye(3), "smiles": "O", "spin": 2}
    batch, lost = attributed(tmp_path / "x.h5", 1, **values, about=h5py.Empty("f8"))
    assert batch.energy.tolist() == [-1.5, -1.5]
    assert batch.forces.shape == (4, 3)
    assert batch.cell.tolist() == [np.eye(3).tolist()] * 2
    assert (batch["smiles"], batch["spin"].tolist()) == (["O", "O"], [2, 2])
    assert lost == {"attribute 'about'"}
    named, _ = foreign.converted(tmp_path / "x.h5", key_map={"E": "e_total"})
    assert named[:]["e_total"].tolist() == [-1.5, -1.5]
    of_three = {"energy": "Hartree", "forces": np.ones(5), "level": [1, 2, 3], "charge": -1.5}
    batch, lost = attributed(tmp_path / "x.h5", 3, **of_three)
    assert batch["level"].tolist() == [1, 2, 3] * 2
    assert batch["charge"].tolist() == [-1.5] * 6  # of all molecules of its group
    assert lost == {"attribute 'energy'", "attribute 'forces'"}


@pytest.mark.parametrize("make", [ani, mace])
def test_attributes_in_known_sets(make: Make, tmp_path: Path) -> None:
    group = make(tmp_path / "x.h5")
    owner = group.parent if make is mace else group
    owner.attrs["charge"], owner.attrs["smiles"] = 1, "O"
    group.file.attrs["source"] = "somewhere"
    owner["atomic_numbers" if make is mace else "species"].attrs["note"] = "x"
    group.file.close()
    dataset, report = foreign.converted(tmp_path / "x.h5")
    assert set(dataset[:]["charge"].tolist()) == {1}
    assert set(dataset[:]["smiles"]) == {"O"}
    lost = {what for what, _ in report.skipped}
    assert "attribute 'source'" in lost
    assert any("attribute 'note' of array" in what for what in lost)


def test_a_file_is_closed_when_opening_fails(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(apt.CorruptFileError, match="not an HDF5 file"):
        ForeignFile(str(tmp_path / "x.h5"))
    with pytest.raises(FileNotFoundError), closing(ForeignFile(str(tmp_path / "none.h5"))):
        pass
