"""Writers whose target is replaced whole: conversions, compactions, exports of stores, shards."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from soak import numbered
from soak.killing import PublishingWriter

import atompack_torch as apt
from atompack_torch import conversion
from atompack_torch.conversion import convert_datasets, export_datasets

N = (24, 31)  # structures of both versions


def _digest(arrays: Any) -> str:
    found = hashlib.sha256()
    for values in arrays:
        whole = np.ascontiguousarray(values, dtype="f8")
        found.update(repr(whole.shape).encode() + whole.tobytes())
    return found.hexdigest()


class MoleculesWriter(PublishingWriter):
    """Writes molecules of an ``.atp`` file to a target that ``apt.convert`` reads."""

    weight = 0.3
    keys: tuple[str, ...] = ("positions", "atomic_numbers", "n_atoms", "energy", "forces")

    def prepare(self) -> None:
        for version in (0, 1):
            with apt.AtpWriter(self.sources / f"{version}.atp") as writer:
                writer.write_arrays(**numbered.labeled(0, N[version]))

    def content(self) -> object:
        return self.content_of(self.path)

    def content_of(self, path: Path) -> object:
        """Checks a file, and returns what it holds."""
        opened = path
        if path.suffix != ".atp":
            opened = self.sources / "read.atp"
            apt.convert(path, opened, mode="w", progress=False)
        dataset = apt.AtpDataset(opened)
        batch = dataset.batch(range(len(dataset)))
        return len(dataset), _digest(batch[key].numpy() for key in self.keys)


def replace(sources: str, version: str, target: str) -> None:
    """Writes a file again; it appears at its only commit."""
    n = N[int(version)]
    with apt.AtpWriter(target, mode="w", codec="zstd") as writer:
        for first in range(0, n, 20):
            writer.write_arrays(**numbered.labeled(first, min(first + 20, n)))


class Replacing(MoleculesWriter):
    """``AtpWriter`` with mode "w"."""

    name = "AtpWriter, replace"
    function = "publishing_writers.replace"
    weight = 1
    target = "a.atp"


def compact(sources: str, version: str, target: str) -> None:
    """Compacts to the target, from which the other version is removed first."""
    Path(target).unlink(missing_ok=True)
    apt.compact(Path(sources) / f"{version}.atp", target, codec="lz4")


class Compacting(MoleculesWriter):
    """``apt.compact`` of ``.atp`` files, which takes no existing target."""

    name = "compact"
    function = "publishing_writers.compact"
    weight = 1
    target = "a.atp"
    replaces = False


def convert(sources: str, version: str, target: str, target_format: str) -> None:
    """Converts to a format; "": that of the suffix."""
    apt.convert(
        Path(sources) / f"{version}.atp",
        target,
        target=target_format or None,
        mode="w",
        progress=False,
    )


def _converting(target: str, target_format: str = "") -> type[MoleculesWriter]:
    members = {
        "name": f"convert to {target_format or target.partition('.')[2]}",
        "function": "publishing_writers.convert",
        "target": target,
        "arguments": (target_format,),
    }
    return type(f"Converting to {target}", (MoleculesWriter,), members)


def convert_to_shards(sources: str, version: str, target: str) -> None:
    """Converts to Atlas shards, which are not replaced: the other version is moved away first."""
    if Path(target).exists():
        old = Path(tempfile.mkdtemp(dir=sources))
        Path(target).rename(old / "set")
        shutil.rmtree(old)
    source = Path(sources) / f"{version}.atp"
    apt.convert(source, target, target="shards", shards=(10, 4, 1), progress=False)


class ConvertingToShards(MoleculesWriter):
    """``apt.convert`` to Atlas shards."""

    name = "convert to shards"
    function = "publishing_writers.convert_to_shards"
    target = "set"
    replaces = False


def drop_label(sources: str, version: str, target: str) -> None:
    """Writes a copy without one label, by the pipeline of all edits."""
    conversion.drop(Path(sources) / f"{version}.atp", target, ["cell"], mode="w", progress=False)


class Editing(MoleculesWriter):
    """``conversion.drop``."""

    name = "drop"
    function = "publishing_writers.drop_label"
    target = "a.atp"


def rename_label(sources: str, version: str, target: str) -> None:
    """Writes a copy in which one label is a property of another name."""
    source = Path(sources) / f"{version}.atp"
    conversion.rename(source, target, {"energy": "total"}, mode="w", progress=False)


class Renaming(MoleculesWriter):
    """``conversion.rename``, to extended XYZ."""

    name = "rename"
    function = "publishing_writers.rename_label"
    target = "a.extxyz"
    keys = ("positions", "atomic_numbers", "n_atoms", "total", "forces")


def split(sources: str, version: str, target: str) -> None:
    """Splits into two files, of which each appears when it is complete."""
    targets = [target, Path(target).with_name("b.extxyz")]
    source = Path(sources) / f"{version}.atp"
    apt.split(source, targets, [0.7, 0.3], mode="w", progress=False)


class Splitting(MoleculesWriter):
    """``apt.split``: each file is the old or the new one."""

    name = "split"
    function = "publishing_writers.split"
    target = "a.atp"
    others = ("b.extxyz",)

    def content(self) -> object:
        return [self.content_of(self.folder / name) for name in (self.target, *self.others)]

    def is_expected(self, found: object) -> bool:
        assert isinstance(found, list)
        versions = zip(found, *self._expected, strict=True)
        return all(content in expected for content, *expected in versions)


# Shards


def write_shards(sources: str, version: str, target: str) -> None:
    """Writes a dataset again."""
    with apt.ShardWriter(target, 60, 4, strategy=int(version) + 1, mode="w") as writer:
        for i in range(N[int(version)]):
            writer.write(numbered.example(i))


class ShardWriting(PublishingWriter):
    """``ShardWriter`` with mode "w"."""

    name = "ShardWriter, replace"
    function = "publishing_writers.write_shards"
    target = "set"

    def content(self) -> object:
        dataset = apt.ShardDataset(self.path, missing_shards="error")
        n = len(dataset)
        batch = dataset.batch(range(n))
        return n, _digest(batch[key].numpy() for key in "ia")


def compact_shards(sources: str, version: str, target: str) -> None:
    """Compacts the dataset of a version to the target, instead of what is there."""
    apt.compact(target, target, shards=(10 + 5 * int(version), 3, 1))


class ShardCompacting(PublishingWriter):
    """``apt.compact`` of shards in place: other files, the same examples."""

    name = "compact shards"
    function = "publishing_writers.compact_shards"
    target = "set"

    def prepare(self) -> None:
        with apt.ShardWriter(self.path, 50, 4) as writer:
            for i in range(N[0]):
                writer.write(numbered.example(i))

    def content(self) -> object:
        dataset = apt.ShardDataset(self.path, missing_shards="error")
        batch = dataset.batch(range(len(dataset)))
        assert _digest([batch["i"].numpy()]) == _digest([np.arange(N[0])])
        assert _digest([batch["a"].numpy()]) == _digest([np.arange(N[0])[:, None] * np.arange(200)])
        return dataset.block_sizes.tolist(), len(list(self.path.glob("[0-9]*")))


# Stores


def _write_store(path: Path, version: int) -> None:
    with apt.AtlasStore(path, "x") as store:
        for i in range(3 + version):
            store.create_dataset(f"d{i}")
            store.define_array(f"d{i}", "t", "float64", (16, 12), ["z", "x"], (8, 8))
            store.write(f"d{i}", "t", np.arange(192.0).reshape(16, 12) * (i + version + 1))


def export(sources: str, version: str, target: str) -> None:
    """Exports a store to NetCDF or Zarr."""
    export_datasets(Path(sources) / f"{version}.atlas", target, mode="w", progress=False)


class _Exporting(PublishingWriter):
    function = "publishing_writers.export"
    weight = 0.2

    def prepare(self) -> None:
        for version in (0, 1):
            _write_store(self.sources / f"{version}.atlas", version)

    def content(self) -> object:
        import xarray

        options: dict[str, Any] = {"engine": "netcdf4"}
        if self.path.suffix == ".zarr":
            options = {"engine": "zarr", "consolidated": False}
        found = {}
        for name, dataset in xarray.open_groups(self.path, **options).items():
            with dataset:
                if "t" in dataset:
                    found[name] = _digest([dataset["t"].values])
        return found


class NetcdfExporting(_Exporting):
    """``export_datasets`` to NetCDF."""

    name = "export to NetCDF"
    target = "out.nc"


class ZarrExporting(_Exporting):
    """``export_datasets`` to Zarr."""

    name = "export to Zarr"
    target = "out.zarr"


def import_store(sources: str, version: str, target: str) -> None:
    """Converts a NetCDF file to a store."""
    convert_datasets(Path(sources) / f"{version}.nc", target, mode="w", progress=False)


class StoreImporting(PublishingWriter):
    """``convert_datasets`` to an ATLAS store."""

    name = "NetCDF to AtlasStore"
    function = "publishing_writers.import_store"
    weight = 0.2
    target = "out.atlas"

    def prepare(self) -> None:
        import xarray

        for version in (0, 1):
            values = np.arange(192.0 + version)[None]
            xarray.Dataset({"t": (("z", "x"), values)}).to_netcdf(self.sources / f"{version}.nc")

    def content(self) -> object:
        with apt.AtlasStore(self.path) as store:
            return {name: _digest([np.asarray(store.read(name, "t"))]) for name in store.datasets}


PUBLISHING: list[type[PublishingWriter]] = [
    Replacing,
    Compacting,
    Editing,
    Renaming,
    Splitting,
    ConvertingToShards,
    _converting("a.extxyz"),
    _converting("a.db"),
    _converting("a.aselmdb"),
    _converting("a.parquet"),
    _converting("deepmd", "deepmd"),
    _converting("metatrain", "metatrain"),
    _converting("a.h5", "mace-hdf5"),
    ShardWriting,
    ShardCompacting,
    NetcdfExporting,
    ZarrExporting,
    StoreImporting,
]
