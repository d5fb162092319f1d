"""Text files for readers that go through them more than once: plain, compressed, and from pipes.

What is no plain file is copied, decompressed, to a temporary file without a name, in the folder
that TMPDIR names. Memory does not grow with it.
"""

from __future__ import annotations

import bz2
import lzma
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from atompack_torch.errors import CorruptFileError, UnsupportedFormatError

STDIN = "-"
_PIECE_BYTES = 1 << 20
_MAGIC_BYTES = 16
# First bytes of files that are no text, and what they are.
_BINARY = {
    b"ATPK": "an .atp file",
    b"SQLite format 3\0": "an SQLite database",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"PK\x03\x04": "a zip archive (.npz)",
    b"\x28\xb5\x2f\xfd": "zstd (decompress it first: zstdcat FILE | ... -)",
    b"- of Ulm": "an ASE trajectory",
}


class Text:
    """A text as a regular file.

    Args:
        path: a plain or compressed file (gzip, bzip2, xz, told by its first bytes), a FIFO, or
            ``"-"`` for standard input.

    Attributes:
        name: of the source, for messages.
        path: the file to read: the source itself, or its temporary copy.
        n_bytes: size of the source.

    Raises:
        CorruptFileError: compressed data is damaged or cut.
        UnsupportedFormatError: neither a regular file nor a pipe, or no text.
        OSError: the system refused, for instance because the temporary folder is full.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = "<stdin>" if os.fspath(path) == STDIN else os.fspath(path)
        self.path = os.fspath(path)
        self._copy: IO[bytes] | None = None
        if is_pipe(path):
            with _opened_pipe(path) as stream:
                self._take(stream, b"".join(_pieces(stream, _MAGIC_BYTES)))
            return
        self.n_bytes = Path(path).stat().st_size
        if self.n_bytes == 0:
            return
        with Path(path).open("rb") as stream:
            head = stream.read(_MAGIC_BYTES)
            if _decoder_of(head) is not None:
                self._take(stream, head)

    def _take(self, stream: IO[bytes], head: bytes) -> None:
        copy: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed by close)
        self._copy, self.n_bytes = copy, 0
        pieces = self._counted(stream, head)
        decoder = _decoder_of(head)
        first = True
        for piece in pieces if decoder is None else _decompressed(pieces, decoder, self.name):
            if first:
                _check_is_text(self.name, piece)
                first = False
            self._keep(piece)
        self.path = f"/proc/self/fd/{copy.fileno()}"

    def _counted(self, stream: IO[bytes], head: bytes) -> Iterator[bytes]:
        self.n_bytes += len(head)
        yield head
        while piece := stream.read(_PIECE_BYTES):
            self.n_bytes += len(piece)
            yield piece

    def _keep(self, piece: bytes) -> None:
        assert self._copy is not None
        rest = memoryview(piece)
        try:
            while rest:
                rest = rest[self._copy.write(rest) :]
        except OSError as error:
            where = f"its temporary copy in {tempfile.gettempdir()} (TMPDIR names another folder)"
            raise OSError(error.errno, f"{error.strerror}: {where}", self.name) from error

    def close(self) -> None:
        """Frees the temporary copy."""
        if self._copy is not None:
            self._copy.close()


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether a path is standard input or a FIFO; nothing is opened.

    Raises:
        FileNotFoundError: there is no such file.
        UnsupportedFormatError: a socket or a device.
    """
    if os.fspath(path) == STDIN:
        return True
    mode = Path(path).stat().st_mode
    if stat.S_ISFIFO(mode):
        return True
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise UnsupportedFormatError(f"{os.fspath(path)}: expected a file, got {kind}")
    return False


def _opened_pipe(path: str | os.PathLike[str]) -> IO[bytes]:
    if os.fspath(path) == STDIN:
        return os.fdopen(os.dup(0), "rb", buffering=0)
    return Path(path).open("rb", buffering=0)


def _pieces(stream: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    """The next bytes of a pipe, which may come in any pieces."""
    while n_bytes and (piece := stream.read(n_bytes)):
        n_bytes -= len(piece)
        yield piece


def _decoder_of(head: bytes) -> Callable[[], Any] | None:
    """What makes a decompressor for data that begin this way."""
    if head.startswith(b"\x1f\x8b"):
        return _Inflate
    if head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
        return bz2.BZ2Decompressor
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor
    return None


class _Inflate:
    """zlib's decompressor of one gzip member, with the interface of bz2's and lzma's."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.unused_data = b""

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        return not self._zlib.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """The next bytes; what is left of the data is kept."""
        made = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.unused_data = self._zlib.unused_data
        return made


def _decompressed(pieces: Iterator[bytes], make: Callable[[], Any], name: str) -> Iterator[bytes]:
    """Decompressed data in pieces of bounded size; several streams one after the other are one."""
    decoder = make()
    try:
        for piece in pieces:
            data = piece
            while data or not (decoder.eof or decoder.needs_input):
                if decoder.eof:
                    if not data.strip(b"\0"):
                        break  # padding, as tapes have it
                    decoder = make()
                yield decoder.decompress(data, _PIECE_BYTES)
                data = decoder.unused_data if decoder.eof else b""
    except (zlib.error, lzma.LZMAError, EOFError, ValueError) as error:
        raise CorruptFileError(f"{name}: compressed data: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise CorruptFileError(f"{name}: compressed data: {error}") from error  # of bz2
    if not decoder.eof:
        raise CorruptFileError(f"{name}: compressed data: expected its end, got the file's")


def _check_is_text(name: str, head: bytes) -> None:
    for magic, what in _BINARY.items():
        if head.startswith(magic):
            raise UnsupportedFormatError(
                f"{name}: expected text, got {what}: only text is read from pipes and compressed"
            )
