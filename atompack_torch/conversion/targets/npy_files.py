"""Writing of ``.npy`` files whose number of rows is known at the end."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array

_MAX_NAME_BYTES = 200


def is_file_name(name: str) -> bool:
    """True if a file that is not hidden can have this name, with a suffix."""
    is_plain = not name.startswith(".") and not re.search(r"[/\0]|^$", name)
    return is_plain and len(name.encode(errors="replace")) <= _MAX_NAME_BYTES


class GrowingNpy:
    """An ``.npy`` file to which rows are appended; no file stays open between calls.

    Args:
        path: the file to create.
        dtype: type of the values.
        shape: shape of a row.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._path, self._dtype, self._shape = path, dtype.newbyteorder("="), shape
        self.n_rows = 0
        self._n_header_bytes = path.write_bytes(self._header())

    def append(self, rows: Array) -> None:
        """Appends rows, (n, *shape)."""
        values = np.ascontiguousarray(rows, dtype=self._dtype)
        with self._path.open("ab") as file:
            file.write(values.tobytes())
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Writes the number of rows into the header, which has room for it."""
        header = self._header()
        if len(header) != self._n_header_bytes:
            raise RuntimeError(f"{self._path}: expected a header of {self._n_header_bytes} bytes")
        with self._path.open("r+b") as file:
            file.write(header)

    def _header(self) -> bytes:
        """Returns the header for the rows so far; NumPy pads it for any number of them."""
        header = io.BytesIO()
        described = {
            "descr": np.lib.format.dtype_to_descr(self._dtype),
            "fortran_order": False,
            "shape": (self.n_rows, *self._shape),
        }
        np.lib.format.write_array_header_1_0(header, described)
        return header.getvalue()
