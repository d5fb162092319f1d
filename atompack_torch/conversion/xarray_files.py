"""NetCDF files and Zarr groups to datasets of an ATLAS store."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from atompack_torch._native import check_regular_file
from atompack_torch.errors import AtompackError, FieldError, file_exists
from atompack_torch.formats import bytes_at
from atompack_torch.options import check_level, checked_path
from atompack_torch.progress import Progress
from atompack_torch.stores.atlas_store import AtlasStore

if TYPE_CHECKING:
    import xarray

_Path = str | os.PathLike[str]

_SUFFIXES = (".nc", ".nc4", ".cdf", ".netcdf", ".zarr")
_PENDING_BYTES = 256 << 20  # values that wait for a flush


class StoreReport(NamedTuple):
    """What was written.

    Attributes:
        datasets: number of datasets.
        variables: variable → number of datasets that have it.
        bytes_read: of values in memory.
        bytes_written: size of the store.
        seconds: how long it took.
    """

    datasets: int
    variables: dict[str, int]
    bytes_read: int
    bytes_written: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict()

    def __str__(self) -> str:
        megabytes = f"{self.bytes_read / 1e6:,.1f} MB to {self.bytes_written / 1e6:,.1f} MB"
        lines = [f"wrote {self.datasets:,} datasets, {megabytes} in {self.seconds:.1f} s"]
        lines += [f"  {name}: {n:,} datasets" for name, n in self.variables.items()]
        return "\n".join(lines)


def datasets_at(path: _Path) -> list[Path]:
    """NetCDF files and Zarr groups: the path itself, or by name those in the folder."""
    found = Path(path)
    if _is_dataset(found):
        return [found]
    return sorted(filter(_is_dataset, found.iterdir())) if found.is_dir() else []


def _is_dataset(path: Path) -> bool:
    marks = (".zgroup", "zarr.json", ".zmetadata")
    if path.is_dir():
        return path.suffix == ".zarr" or any((path / mark).is_file() for mark in marks)
    return path.suffix in _SUFFIXES


def convert_datasets(
    src: _Path | Sequence[_Path],
    dst: _Path,
    *,
    mode: Literal["x", "w", "a"] = "x",
    codec: Literal["zstd", "lz4", "none"] | None = None,
    level: int = 3,
    progress: bool = True,
) -> StoreReport:
    """Writes NetCDF files and Zarr groups into an ATLAS store; needs the extra ``xarray``.

    Each becomes a dataset that is named after the file. Packed values are unpacked and moments
    decoded, as xarray does it. One file at a time is in memory. A new store appears when all of it
    is there; one that is appended to is flushed now and then.

    Args:
        src: NetCDF files, Zarr groups, folders of them.
        dst: the store.
        mode: ``"x"`` refuses a ``dst`` that is there, ``"w"`` replaces it, ``"a"`` adds to it.
        codec: of blocks; None: that of the store, zstd for a new one.
        level: of zstd.
        progress: show a progress bar on stderr.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` is there.
        FieldError: two files of one name; names, dtypes or attributes that cannot be stored.
    """
    check_level(codec, level)
    paths = [src] if isinstance(src, (str, os.PathLike)) else [*src]
    for path in (*paths, dst):
        checked_path(path)
    sources = [found for path in paths for found in _found(path)]
    _check_names(sources)
    start = time.monotonic()
    with _target(Path(dst), mode) as made:
        store = AtlasStore(made, "a" if mode == "a" else "x", codec, level=level)
        with store, Progress(len(sources), "files", label=Path(dst).name, enabled=progress) as bar:
            variables, n_bytes = _add_all(store, sources, bar)
    return StoreReport(
        len(sources), dict(variables), n_bytes, bytes_at(Path(dst)), time.monotonic() - start
    )


def _found(path: _Path) -> list[Path]:
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    found = datasets_at(path)
    if not found:
        raise FieldError(f"{path}: expected a NetCDF file, a Zarr group or a folder of them")
    return found


def _check_names(sources: Sequence[Path]) -> None:
    twice = [name for name, n in Counter(path.stem for path in sources).items() if n > 1]
    if twice:
        raise FieldError(f"datasets: expected one of each name, got several {twice[0]!r}")


@contextmanager
def _target(path: Path, mode: str) -> Iterator[Path]:
    """A folder beside the target that takes its place at the end."""
    if mode == "a":
        yield path
        return
    if mode == "x" and path.exists():
        raise file_exists(path, "mode='w' replaces it, mode='a' adds to it")
    made = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield made
        if path.is_dir():
            shutil.rmtree(path)
        made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _add_all(store: AtlasStore, sources: Sequence[Path], bar: Progress) -> tuple[Counter[str], int]:
    variables: Counter[str] = Counter()
    n_bytes = pending = 0
    for path in sources:
        with _opened(path) as dataset:
            _add(store, path, dataset)
            variables.update(map(str, dataset.variables))
            n_bytes += dataset.nbytes
            pending += dataset.nbytes
        if pending > _PENDING_BYTES:
            store.flush()
            pending = 0
        bar.update()
    return variables, n_bytes


def _opened(path: Path) -> xarray.Dataset:
    import xarray

    options: dict[str, Any] = {"decode_timedelta": False}
    if path.is_dir():
        options |= {"engine": "zarr", "consolidated": False}  # a local folder is listed quickly
    else:
        check_regular_file(os.fspath(path))
    dataset: xarray.Dataset = xarray.open_dataset(path, **options)
    return dataset


def _add(store: AtlasStore, path: Path, dataset: xarray.Dataset) -> None:
    try:
        store.from_xarray(path.stem, dataset)
    except AtompackError as error:
        raise type(error)(f"{path}: {error}") from error
