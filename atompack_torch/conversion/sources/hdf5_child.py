"""Process that reads foreign HDF5, NetCDF and Zarr for ``hdf5_files``; started by its path.

Damaged files can crash libhdf5, or keep it in a loop. The helper process, which imports no torch,
forks a reader for each file. A reader has limits of memory and of processor time for each request,
opens nothing but the file, and ends with its connection.

Requests and responses are pickles followed by their arrays (``send``, ``receive``).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import math
import os
import pickle
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

KNOWN_FILTERS = {1, 2, 3, 4, 5, 6, 32000}  # deflate, shuffle, fletcher32, szip, nbit, scale, lzf
# A row this large must be backed by stored bytes, up to the maximum compression of deflate.
LARGE_ROW_BYTES = 1 << 26
MAX_RATIO = 1100
FILL_BYTES = 1 << 26  # values of NetCDF and Zarr that may be absent, in a file
SLICE_BYTES = 1 << 26
TREES_BYTES = 1 << 24


_Stored = tuple[tuple[int, ...], Any, dict[str, Any], tuple[str, str] | None]


class RefusedError(Exception):
    """A value or file that is not read.

    Args:
        kind: name of the error class: ``"corrupt"``, ``"unsupported"`` or ``"field"``.
        text: the message, without the path.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text


def send(connection: Connection, message: object) -> None:
    """Sends a message; arrays are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(message, 5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    connection.send_bytes(pickle.dumps((head, [view.nbytes for view in views])))
    for view in views:
        if view.nbytes:
            connection.send_bytes(view)


def receive(connection: Connection) -> Any:
    """Receives a message."""
    head, sizes = pickle.loads(connection.recv_bytes())
    buffers = []
    for size in sizes:
        buffer = bytearray(size)
        if size:
            connection.recv_bytes_into(buffer)
        buffers.append(buffer)
    return pickle.loads(head, buffers=buffers)


class _Hdf5:
    """An open HDF5 file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        import h5py

        self._h5py = h5py
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise RefusedError("corrupt", f"not an HDF5 file: {_described(error)}") from error
        self._n_bytes = Path(path).stat().st_size
        self._listed: dict[str, Any] = {}  # datasets of the last group that was listed

    def listing(self, name: str) -> tuple[Any, ...]:
        """Lists a group; see ``hdf5_files.Listing``."""
        group = self._file[name]
        groups: dict[str, Any] = {}
        datasets: dict[str, _Stored] = {}
        others: dict[str, str] = {}
        opened: dict[str, Any] = {}
        for key, member, address in self._members(group, others):
            if address is None:
                opened[f"{name.rstrip('/')}/{key}"] = member
                datasets[key] = self._stored(member)
            else:
                groups[key] = address
        self._listed = opened
        return self._attributes(group), groups, datasets, others

    def shapes(self, names: list[str]) -> list[tuple[Any, ...]]:
        """Returns the shapes of datasets, each in a tuple; kind and text of errors."""
        found: list[tuple[Any, ...]] = []
        for name in names:
            try:
                shape, _, _, fault = self._stored(self._file[name])
                found.append(fault or (shape,))
            except Exception as error:
                found.append(_fault_of(error))
        return found

    def rows(self, wanted: list[tuple[str, int, int]]) -> list[Any]:
        """Reads rows of datasets, from a first one to one past a last one, or their one value."""
        found = []
        for name, first, last in wanted:
            dataset = self._listed.get(name) or self._file[name]
            found.append(dataset[first:last] if dataset.shape else dataset[()])
        return found

    def trees(self, names: list[str]) -> list[tuple[Any, ...]]:
        """Reads groups with their values, until they are many bytes; kind and text of errors."""
        found: list[tuple[Any, ...]] = []
        self._n_read = 0
        for name in names:
            try:
                tree: tuple[Any, ...] = {}, {}, {}
                self._read_tree(name, "", tree)
                found.append(tree)
            except Exception as error:
                found.append(_fault_of(error))
            if self._n_read > TREES_BYTES:
                break
        return found

    def _read_tree(self, name: str, below: str, tree: tuple[Any, ...]) -> None:
        """Adds attributes, values and others of a group, and of the groups in it, by path."""
        own, groups, datasets, own_others = self.listing(name)
        attrs, values, others = tree
        attrs |= {below + key: value for key, value in own.items()}
        others |= {below + key: why for key, why in own_others.items()}
        for key, (_, _, about, fault) in datasets.items():
            if fault is None:
                dataset = self._listed[f"{name}/{key}"]
                values[below + key] = dataset[()], about
                self._n_read += dataset.nbytes
            elif fault[0] == "type":
                others[below + key] = fault[1]
            else:
                raise RefusedError(*fault)
        for key in groups:
            if below:
                others[below + key] = "a group in a group"
            else:
                self._read_tree(f"{name}/{key}", f"{key}/", tree)

    def _members(self, group: Any, others: dict[str, str]) -> Iterator[tuple[str, Any, Any]]:
        """Yields members along hard links; all else is added to ``others``.

        Yields:
            Name, member, and the address of a group; None for datasets.
        """
        h5py = self._h5py
        for name in group:
            _check_name(name, group)
            key = name.encode()
            link = group.id.links.get_info(key).type
            if link == h5py.h5l.TYPE_HARD:
                found = h5py.h5o.open(group.id, key)
                if isinstance(found, h5py.h5d.DatasetID):
                    yield name, h5py.Dataset(found, readonly=True), None
                elif isinstance(found, h5py.h5g.GroupID):
                    yield name, h5py.Group(found), h5py.h5o.get_info(found).addr
                else:
                    others[name] = "a type without values"
            elif link == h5py.h5l.TYPE_SOFT:
                others[name] = "a soft link, which is not followed"
            else:
                what = f"{group.name.rstrip('/')}/{name}: a link to another file is not followed"
                raise RefusedError("unsupported", what)

    def _stored(self, dataset: Any) -> _Stored:
        """Describes a dataset; see ``hdf5_files.Stored``."""
        fault = self._fault(dataset)
        if fault is not None and fault[0] == "unsupported":  # its shape may be in other files
            return (), None, {}, fault
        shape = dataset.shape
        if shape is None:
            return (), None, self._attributes(dataset), ("type", f"{dataset.name}: it is empty")
        return tuple(shape), dataset.dtype, self._attributes(dataset), fault

    def _fault(self, dataset: Any, fill_bytes: int | None = None) -> tuple[str, str] | None:
        """Returns kind and text of the error of a dataset; None if it can be read.

        Args:
            dataset: the dataset.
            fill_bytes: bytes that may be absent, and are the fill value; None: all must be there.
        """
        h5py = self._h5py
        plan = dataset.id.get_create_plist()
        if plan.get_external_count() or plan.get_layout() == h5py.h5d.VIRTUAL:
            return "unsupported", f"{dataset.name}: values in other files are not read"
        for number in range(plan.get_nfilters()):
            code, _, _, name = plan.get_filter(number)
            if code not in KNOWN_FILTERS:
                called = f"{code} {name.decode(errors='replace')!r}"
                advice = "'h5repack -f GZIP=4' changes it"
                what = f"expected a filter of h5py, got {called}: {advice}"
                return "unsupported", f"{dataset.name}: {what}"
        shape, dtype = dataset.shape, dataset.dtype
        if shape is None:
            return None
        n_bytes = dtype.itemsize * math.prod(shape)
        if dtype.kind == "V" or (dtype.kind == "O" and h5py.check_string_dtype(dtype) is None):
            return "type", f"{dataset.name}: expected numbers or text, got values of another type"
        stored = dataset.id.get_storage_size()
        if stored > self._n_bytes:
            what = f"expected values in a file of {self._n_bytes} bytes, got {stored} bytes"
            return "corrupt", f"{dataset.name}: {what}"
        if fill_bytes is not None:
            if n_bytes > MAX_RATIO * stored + fill_bytes:
                what = f"expected stored bytes for {n_bytes} bytes, got {stored}"
                return "corrupt", f"{dataset.name}: {what}"
            return None
        if n_bytes and (not stored or _n_missing_chunks(dataset)):
            return "field", f"{dataset.name}: expected values, got parts that were never written"
        row_bytes = n_bytes // max(shape[0], 1) if shape else n_bytes
        if row_bytes > LARGE_ROW_BYTES and n_bytes > MAX_RATIO * stored:
            what = f"expected stored bytes for rows of {row_bytes} bytes, got {stored}"
            return "corrupt", f"{dataset.name}: {what}"
        return None

    def _attributes(self, thing: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if not self._h5py.h5a.get_num_attrs(thing.id):
            return found
        for name in thing.attrs:
            _check_name(name, thing)
            try:
                found[name] = _of_attribute(thing.attrs[name])
            except (TypeError, OSError):  # a type that h5py does not know
                found[name] = None
        return found

    def check_whole(self) -> list[str]:
        """Raises if anything leads out of the file, or is far larger than it.

        Returns:
            Names of groups with datasets, other than the root.
        """
        n_bytes, seen, waiting = 0, set(), ["/"]
        found: list[str] = []
        while waiting:
            where = waiting.pop()
            group = self._file[where]
            others: dict[str, str] = {}
            for name, dataset, address in self._members(group, others):
                below = f"{where.rstrip('/')}/{name}"
                if address is None:
                    fault = self._fault(dataset, FILL_BYTES)
                    if fault is not None and fault[0] != "type":
                        raise RefusedError(*fault)
                    n_bytes += int(dataset.nbytes or 0)
                    if where != "/" and where not in found:
                        found.append(where)
                elif address in seen:
                    raise RefusedError("corrupt", f"{below}: expected a tree, got a second link")
                else:
                    seen.add(address)
                    waiting.append(below)
            for name, why in others.items():
                if "link" in why:
                    raise RefusedError("unsupported", f"{where.rstrip('/')}/{name}: {why}")
        _check_size(n_bytes, self._n_bytes)
        return found


class _Labelled:
    """An open NetCDF file or Zarr group, as xarray reads it.

    Args:
        path: the file or folder.
    """

    def __init__(self, path: str) -> None:
        import xarray

        self.left_out: list[str] = []
        options: dict[str, Any] = {"decode_timedelta": False, "cache": False}
        place = Path(path)
        is_folder = place.is_dir()
        if is_folder:
            engine = xarray.backends.ZarrBackendEntrypoint
            options |= {"engine": engine, "consolidated": False}  # listing a local folder is fast
            n_bytes = self._survey_folder(place)
        else:
            with place.open("rb") as file:
                is_hdf5 = file.read(3) != b"CDF"
            options["engine"] = _engine(is_hdf5=is_hdf5)
            if is_hdf5:
                self.left_out = [f"group {name}" for name in _Hdf5(path).check_whole()]
            else:
                decoders = ("mask_and_scale", "decode_times", "concat_characters")
                plain: dict[str, Any] = options | dict.fromkeys(decoders, False)
                with xarray.open_dataset(path, **plain) as raw:
                    _check_size(raw.nbytes, place.stat().st_size, 1, 0)
        self._dataset = xarray.open_dataset(path, **options)
        if is_folder:
            _check_size(self._dataset.nbytes, n_bytes)

    def _survey_folder(self, root: Path) -> int:
        """Returns the size of a Zarr group; notes groups in it; refuses links that leave it."""
        n_bytes = 0
        for place in sorted(root.rglob("*")):
            name = place.relative_to(root)
            if not place.resolve().is_relative_to(root.resolve()):
                raise RefusedError("unsupported", f"{name}: a link to other files is not followed")
            if place.is_file():
                n_bytes += place.stat().st_size
            elif (place / ".zgroup").is_file() or _is_zarr_group(place / "zarr.json"):
                self.left_out.append(f"group {name}")
        return n_bytes

    def outline(self) -> tuple[Any, ...]:
        """Returns attributes, coordinates and variables without values, and what is dropped."""
        dataset = self._dataset
        variables = {
            name: (
                variable.dims,
                variable.attrs,
                variable.dtype,
                variable.shape,
                variable.encoding.get("preferred_chunks", {}),
            )
            for name, variable in dataset.variables.items()
        }
        return dataset.attrs, list(dataset.coords), variables, self.left_out

    def values(self, name: str, first: int, last: int) -> Any:
        """Reads rows of a variable, or its one value."""
        import numpy as np

        variable = self._dataset.variables[name]
        return np.asarray((variable[first:last] if variable.ndim else variable).values)


def _engine(*, is_hdf5: bool) -> Any:
    """Returns the backend of xarray; its names would import the packages of all backends."""
    from xarray import backends

    if importlib.util.find_spec("netCDF4") is not None:
        return backends.NetCDF4BackendEntrypoint
    return backends.H5netcdfBackendEntrypoint if is_hdf5 else backends.ScipyBackendEntrypoint


def _is_zarr_group(metadata: Path) -> bool:
    if not metadata.is_file():
        return False
    with metadata.open("rb") as file:
        return b'"group"' in file.read(1 << 16)


def _check_size(n_bytes: int, stored: int, ratio: int = MAX_RATIO, fill: int = FILL_BYTES) -> None:
    if n_bytes > ratio * stored + fill:
        raise RefusedError("corrupt", f"expected bytes for {n_bytes} bytes of values, got {stored}")


def _check_name(name: str | bytes, owner: Any) -> None:
    if isinstance(name, bytes):
        raise RefusedError("corrupt", f"{owner.name}: expected names in UTF-8, got {name[:80]!r}")


def _of_attribute(value: Any) -> Any:
    """Returns the value of an attribute, or None for types without a place here."""
    import numpy as np

    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value.encode(errors="surrogateescape").decode(errors="replace")
    array = np.asarray(value)
    if array.dtype.kind == "O" and not all(isinstance(one, str) for one in array.reshape(-1)):
        return None
    return array if array.dtype.kind in "biufcSUO" else None


def _n_missing_chunks(dataset: Any) -> int:
    if dataset.chunks is None:
        return 0
    sizes = zip(dataset.shape, dataset.chunks, strict=True)
    expected = math.prod(-(-size // chunk) for size, chunk in sizes)
    return int(expected - dataset.id.get_num_chunks())


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _fault_of(error: Exception) -> tuple[str, str]:
    if isinstance(error, RefusedError):
        return error.kind, error.text
    if isinstance(error, MemoryError):
        return "corrupt", "expected values that fit the memory for a file of this size, got more"
    return "corrupt", _described(error)


_KINDS: dict[str, Callable[[str], Any]] = {"hdf5": _Hdf5, "xarray": _Labelled}


def _serve(connection: Connection) -> None:
    """Answers requests about one file until the connection ends."""
    opened = None
    cpu_seconds = 60
    while True:
        try:
            command, arguments = receive(connection)
        except (EOFError, OSError):
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        try:
            if command == "open":
                kind, path, n_bytes, cpu_seconds = arguments
                _limit_memory(n_bytes)
                opened = _KINDS[kind](path)
                answer = None
            else:
                answer = getattr(opened, command)(*arguments)
            response = ("ok", answer)
        except Exception as error:
            response = _fault_of(error)
        send(connection, response)


def _limit_memory(n_bytes: int) -> None:
    """Limits the memory of this process to what it has now and some bytes."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = used + n_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


def main() -> None:
    """Forks a reader for each socket that arrives, and reports how readers ended."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal; connections end instead
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    while True:
        message, sockets, _, _ = socket.recv_fds(control, 256, 1)
        if not message:
            return
        command, _, argument = message.decode().partition(" ")
        if command == "fork":
            for name in argument.split():
                with contextlib.suppress(ImportError):  # a request reports it
                    importlib.import_module(name)
            pid = os.fork()
            if not pid:
                control.close()
                try:
                    _serve(Connection(sockets[0]))
                finally:
                    os._exit(0)
            os.close(sockets[0])
            control.send(str(pid).encode())
        else:
            pid = int(argument)
            os.kill(pid, signal.SIGKILL)
            control.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


if __name__ == "__main__":
    main()
