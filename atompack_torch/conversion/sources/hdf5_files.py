"""Foreign HDF5, NetCDF and Zarr, read by a separate process: see ``hdf5_child``.

The only way to such files: a file that crashes libhdf5, or keeps it busy forever, ends in an error
here. Nothing outside the file is opened, and memory is bounded by the size of the file.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array
from atompack_torch.batch.exact_values import native
from atompack_torch.conversion.sources import hdf5_child
from atompack_torch.conversion.sources.hdf5_child import receive, send
from atompack_torch.conversion.sources.rows import Rows
from atompack_torch.errors import (
    AtompackError,
    CorruptFileError,
    FieldError,
    UnsupportedFormatError,
)
from atompack_torch.formats.conversion_report import Report
from atompack_torch.options import bytes_at

NO_POSITIONS = "there are no positions in its group"
CPU_SECONDS = 60  # per request, which reads at most one block
_MEMORY = 1 << 30  # per reader, plus 16 times the size of the file, up to 15 GiB
_UNITS = {"units", "unit"}  # attributes of arrays
_ERRORS: dict[str, type[AtompackError]] = {
    "corrupt": CorruptFileError,
    "field": FieldError,
    "unsupported": UnsupportedFormatError,
    "type": UnsupportedFormatError,
}


class Stored(NamedTuple):
    """A dataset of a group, without its values.

    Attributes:
        shape: its shape.
        dtype: type of its values.
        attrs: its attributes.
        fault: kind and text of the error that reading it would be; None if it can be read.
    """

    shape: tuple[int, ...]
    dtype: Any
    attrs: dict[str, Any]
    fault: tuple[str, str] | None


class Listing(NamedTuple):
    """Contents of a group.

    Attributes:
        attrs: its attributes; values that are neither numbers nor text are None.
        groups: name of each group → its address in the file.
        datasets: name → dataset.
        others: name → reason why it is not read: links, named types.
    """

    attrs: dict[str, Any]
    groups: dict[str, Any]
    datasets: dict[str, Stored]
    others: dict[str, str]

    def readable(self) -> dict[str, Stored]:
        """Returns the datasets with numbers or text."""
        return {
            key: stored
            for key, stored in self.datasets.items()
            if stored.fault is None or stored.fault[0] != "type"
        }

    def unread(self) -> dict[str, str]:
        """Returns what is not read, and the reason: links, other types, attributes of arrays."""
        lost = {f"array {key!r}": why for key, why in self.others.items()}
        for key, stored in self.datasets.items():
            if stored.fault is not None and stored.fault[0] == "type":
                lost[f"array {key!r}"] = stored.fault[1].partition(": ")[2]
            for name in stored.attrs.keys() - _UNITS:
                lost[f"attribute {name!r} of array {key!r}"] = "attributes of arrays are not kept"
        return lost

    def list_unused(self, report: Report, used: Collection[str]) -> None:
        """Reports the members and attributes of a group that holds no molecules.

        Args:
            report: receives them.
            used: names of the members and attributes that are read.
        """
        lost = self.unread()
        lost |= {f"array {key!r}": NO_POSITIONS for key in self.readable()}
        lost |= {
            f"group {key!r}": "no group of molecules" for key in self.groups if key not in used
        }
        lost |= {f"attribute {key!r}": NO_POSITIONS for key in self.attrs if key not in used}
        for what, why in lost.items():
            report.skip(what, why)


class Tree(NamedTuple):
    """A group, and the groups in it, with their values.

    Attributes:
        attrs: path of an attribute in the group → value.
        values: path → value and attributes.
        others: path → reason why it is not read.
    """

    attrs: dict[str, Any]
    values: dict[str, tuple[Any, dict[str, Any]]]
    others: dict[str, str]


class _Helper:
    """Process that forks readers, one for each file; started when the first file is opened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pid = 0

    def fork(self, modules: str) -> tuple[Connection, int]:
        """Starts a reader.

        Args:
            modules: names of modules that it needs, which the helper imports once.

        Returns:
            The connection to it, and its process number.
        """
        mine, its = socket.socketpair()
        with its:
            pid = self._exchange(f"fork {modules}", its)
        return Connection(mine.detach()), pid

    def end(self, pid: int) -> int:
        """Ends a reader.

        Args:
            pid: its process number.

        Returns:
            Its exit status; -n if signal n ended it. 0 if the process was stopped before.
        """
        if self._process is None:
            return 0
        return self._exchange(f"end {pid}")

    def _exchange(self, text: str, passed: socket.socket | None = None) -> int:
        with self._lock:
            try:
                control = self._started()
                numbers = [] if passed is None else [passed.fileno()]
                socket.send_fds(control, [text.encode()], numbers)
                if not (answer := control.recv(64)):
                    raise OSError(f"{sys.executable}: the reader of HDF5 files did not start")
                return int(answer)
            except BaseException:
                self.stop()  # or the next request would get the reply to this one
                raise

    def _started(self) -> socket.socket:
        if self._control is None or self._pid != os.getpid():
            self._control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._pid = os.getpid()
            with its:
                environment = os.environ | {
                    "HDF5_PLUGIN_PRELOAD": "::",  # no filters from outside
                    "OPENBLAS_NUM_THREADS": "1",  # a process with threads must not fork
                }
                arguments = [str(its.fileno()), hdf5_child.__file__, *filter(None, sys.path)]
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _START, *arguments],
                    pass_fds=[its.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=environment,
                )
        return self._control

    def stop(self) -> None:
        """Stops the process."""
        control, process, self._control, self._process = self._control, self._process, None, None
        if control is not None:
            control.close()
        if process is not None and self._pid == os.getpid():
            process.kill()
            process.wait()


_START = (
    "import sys; sys.path[:] = sys.argv[3:]; import runpy; "
    "runpy.run_path(sys.argv[2], run_name='__main__')"
)
_HELPER = _Helper()
atexit.register(_HELPER.stop)


class ForeignFile:
    """A file that a reader of its own has open.

    Args:
        path: the file, or the folder of a Zarr group.
        kind: ``"hdf5"``, or ``"xarray"`` for NetCDF and Zarr.

    Raises:
        CorruptFileError: it is damaged, or no such file.
        UnsupportedFormatError: it refers to other files.
        OSError: it cannot be opened.
    """

    def __init__(self, path: str, kind: str = "hdf5") -> None:
        self.path = path
        is_folder = Path(path).is_dir()
        if not is_folder:
            check_regular_file(path)
            Path(path).open("rb").close()  # errors of the system
        modules = ["xarray"] * (kind == "xarray") + ["h5py"] * (not is_folder)
        for name in modules:
            if importlib.util.find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self._fetched: dict[tuple[str, int, int], Any] = {}
        self._groups: dict[Any, tuple[str, str]] = {}
        self._listed = "", Listing({}, {}, {}, {})  # the last one
        self._connection: Connection | None
        optional = ["zarr" if is_folder else "netCDF4"] * (kind == "xarray")
        self._connection, self._pid = _HELPER.fork(" ".join((*modules, *optional)))
        memory = _MEMORY + min(16 * bytes_at(Path(path)), 15 * _MEMORY)
        try:
            self.ask("open", kind, path, memory, CPU_SECONDS)
        except BaseException:
            self.close()
            raise

    def ask(self, command: str, *arguments: Any) -> Any:
        """Sends a request to the reader.

        Args:
            command: name of a method of its file.
            *arguments: its arguments.

        Returns:
            What the method returns.

        Raises:
            AtompackError: the request failed, or the reader ended.
        """
        if self._connection is None:
            raise CorruptFileError(f"{self.path}: an earlier request ended its reader")
        try:
            send(self._connection, (command, arguments))
            kind, answer = receive(self._connection)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise CorruptFileError(f"{self.path}: {_fate(self.close())}") from error
        except BaseException:
            self.close()
            raise
        if kind != "ok":
            raise self._error((kind, answer))
        return answer

    def listing(self, name: str = "/") -> Listing:
        """Lists a group.

        Args:
            name: its path in the file.

        Returns:
            Its contents.

        Raises:
            AtompackError: it is damaged, or refers to other files.
        """
        if self._listed[0] == name:
            return self._listed[1]
        attrs, groups, datasets, others = self.ask("listing", name)
        for key, address in groups.items():
            if self._groups.setdefault(address, (name, key)) != (name, key):
                where = f"{self.path}: {name.rstrip('/')}/{key}"
                raise CorruptFileError(f"{where}: expected a tree of groups, got a second link")
        stored = {key: Stored(*one) for key, one in datasets.items()}
        self._listed = name, Listing(attrs, groups, stored, others)
        return self._listed[1]

    def groups(self, name: str) -> list[str]:
        """Returns the paths of the groups in a group."""
        return [f"{name.rstrip('/')}/{key}" for key in self.listing(name).groups]

    def shapes(self, names: list[str]) -> Iterator[tuple[int, ...] | AtompackError]:
        """Yields the shapes of datasets, or the error of a dataset, in order."""
        for i in range(0, len(names), 256):
            for one in self.ask("shapes", names[i : i + 256]):
                yield one[0] if len(one) == 1 else self._error(one)

    def rows(self, name: str, first: int, last: int) -> Any:
        """Reads rows of a dataset, or its one value.

        Args:
            name: its path in the file.
            first: the first row.
            last: one past the last row.

        Returns:
            The values.
        """
        wanted = name, first, last
        if wanted in self._fetched:
            return self._fetched.pop(wanted)
        (values,) = self.ask("rows", [wanted])
        return values

    def fetch(self, wanted: list[tuple[str, int, int]]) -> None:
        """Reads rows of datasets in one request; the next calls of ``rows`` return them."""
        self._fetched = dict(zip(wanted, self.ask("rows", wanted), strict=True))

    def _error(self, fault: tuple[str, str]) -> AtompackError:
        return _ERRORS[fault[0]](f"{self.path}: {fault[1]}")

    def trees(self, names: list[str]) -> Iterator[Tree | AtompackError]:
        """Yields groups with their values, or the error of a group, in order."""
        while names:
            found = self.ask("trees", names[:64])
            for one in found:
                yield Tree(*one) if len(one) > 2 else self._error(one)
            names = names[len(found) :]

    def close(self) -> int:
        """Ends the reader.

        Returns:
            Its exit status; 0 if it was closed before.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return 0
        connection.close()
        return _HELPER.end(self._pid)


def _fate(status: int) -> str:
    """Formats what ended a reader."""
    if status == -signal.SIGXCPU:
        return f"expected values after {CPU_SECONDS} s of computing, got none: it is damaged"
    what = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"expected HDF5 that can be read, got a crash of its library ({what})"


def opened(path: str | os.PathLike[str]) -> closing[ForeignFile]:
    """Opens a foreign HDF5 file, and closes it at the end of a block; see ``ForeignFile``."""
    return closing(ForeignFile(os.fspath(path)))


class HdfRows:
    """An HDF5 dataset.

    Args:
        file: the file.
        name: path of the dataset in the file.
        stored: its entry in the listing of its group.

    Raises:
        FieldError: parts of it were declared but never written; their values would be invented.
        CorruptFileError: a row is larger than the stored bytes allow.
        UnsupportedFormatError: its values are stored in other files, or behind unknown filters.
    """

    def __init__(self, file: ForeignFile, name: str, stored: Stored) -> None:
        if stored.fault is not None:
            raise _ERRORS[stored.fault[0]](f"{file.path}: {stored.fault[1]}")
        self.file, self.name = file, name
        self.shape, self.dtype, self.attrs = stored.shape, stored.dtype, stored.attrs

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        return native(np.asarray(self.file.rows(self.name, first, last)))

    def unit(self) -> str:
        """Returns the unit that an attribute states; empty if none does."""
        found = (self.attrs.get(name) for name in ("units", "unit"))
        texts = (x.decode(errors="replace") if isinstance(x, bytes) else x for x in found)
        return next((text for text in texts if isinstance(text, str)), "")


def fetch(wanted: Iterable[tuple[Rows, int, int]]) -> None:
    """Reads rows in one request, as far as they are of an HDF5 file, for the next ``read`` of each.

    Args:
        wanted: arrays, each with its first row and one past its last row.
    """
    found = [(rows, a, b) for rows, a, b in wanted if isinstance(rows, HdfRows)]
    if found:
        found[0][0].file.fetch([(rows.name, a, b) for rows, a, b in found])
