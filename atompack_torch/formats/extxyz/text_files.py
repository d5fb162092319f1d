"""Text files for readers that need several passes: plain, compressed, and from pipes.

Anything but a plain file is decompressed to an unnamed temporary file in the folder given by
TMPDIR. Memory use does not depend on the size.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.paths import STDIN, is_pipe
from atompack_torch.formats.recognition import format_of_bytes
from atompack_torch.formats.user_cache import PLAIN, kept_copy
from atompack_torch.progress import Progress

_PIECE_BYTES = 1 << 20
_SILENT_BYTES = 16 << 20  # smaller files are unpacked without a progress bar
_HEAD_BYTES = 4096
# Unpacked bytes that a compressed input may have: this many, or as many times those that were read.
_ALWAYS_BYTES, _MAX_RATIO = 256 << 20, 64
_GZIP = b"\x1f\x8b"


class Text:
    """A text input as a regular file.

    Args:
        path: a plain or compressed file (gzip, bzip2, xz, detected by its first bytes), a FIFO, or
            ``"-"`` for standard input.

    Attributes:
        name: name of the source, for messages.
        path: the file to read: the source itself, or its temporary copy.
        n_bytes: size of the source.

    Raises:
        CorruptFileError: compressed data is damaged or cut.
        UnsupportedFormatError: the input is neither a regular file nor a pipe, or is not text.
        OSError: a system call failed, for instance because the temporary folder is full.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = "<stdin>" if os.fspath(path) == STDIN else os.fspath(path)
        self.path = os.fspath(path)
        self._copy: IO[bytes] | None = None
        if is_pipe(path):
            with _opened_pipe(path) as stream:
                self._take(stream, b"".join(_pieces(stream, _HEAD_BYTES)))
            return
        self.n_bytes = Path(path).stat().st_size
        if self.n_bytes == 0:
            return
        with Path(path).open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            if _is_compressed(head):
                self._take(stream, head)

    def _take(self, stream: IO[bytes], head: bytes) -> None:
        copy: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed by close)
        self._copy = copy
        source = _Resumed(stream, head)
        for piece in _text_pieces(source, head, self.name, None):
            self._keep(piece)
        self.n_bytes = source.n_bytes
        self.path = f"/proc/self/fd/{copy.fileno()}"

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
        """Deletes the temporary copy."""
        if self._copy is not None:
            self._copy.close()


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """True if the content of a regular file is compressed."""
    with Path(path).open("rb") as stream:
        return _is_compressed(stream.read(_HEAD_BYTES))


def plain_pieces(path: str, max_bytes: int | None = None) -> Iterator[tuple[bytes, int]]:
    """Yields the decompressed content of a regular file in pieces.

    Args:
        path: the file.
        max_bytes: limit on its content; None: 256 MiB, or 64 times the size of the file.

    Yields:
        A piece, and the number of bytes of the file that were read so far.

    Raises:
        CorruptFileError: compressed data is damaged or cut, or has more content.
        UnsupportedFormatError: the content is not text.
    """
    with Path(path).open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
        source = _Resumed(stream, head)
        for piece in _text_pieces(source, head, path, max_bytes):
            yield piece, source.n_bytes


def plain_path(path: str, max_bytes: int | None = None) -> str:
    """Returns the path of a text file that is not compressed: the file itself, or its copy.

    A compressed file (gzip, bzip2, xz) is unpacked once, into the folder ``plain`` of the cache
    folder of the user; see ``kept_copy``.

    Args:
        path: the file.
        max_bytes: limit on the plain text, see ``plain_pieces``.

    Returns:
        The path of the plain text.

    Raises:
        CorruptFileError: compressed data is damaged or cut, or has more text; no copy is kept.
        UnsupportedFormatError: the content is not text.
        OSError: the file cannot be read or is changed in the meantime, or there is no room for the
            copy.
    """
    if not is_compressed(path):
        return path

    def unpack(hidden: Path) -> None:
        size = Path(path).stat().st_size
        label = f"unpacking {Path(path).name}"
        with (
            hidden.open("xb") as file,
            Progress(size, "bytes", label=label, enabled=size >= _SILENT_BYTES) as bar,
        ):
            for piece, n_read in plain_pieces(path, max_bytes):
                file.write(piece)
                bar.update(n_read - bar.done)

    return os.fspath(kept_copy([path], PLAIN, ".txt", unpack))


def _opened_pipe(path: str | os.PathLike[str]) -> IO[bytes]:
    if os.fspath(path) == STDIN:
        return os.fdopen(os.dup(0), "rb", buffering=0)
    return Path(path).open("rb", buffering=0)


def _pieces(stream: IO[bytes], n_bytes: int) -> Iterator[bytes]:
    """Yields the next bytes of a pipe, in pieces of any size."""
    while n_bytes and (piece := stream.read(n_bytes)):
        n_bytes -= len(piece)
        yield piece


class _Resumed:
    """Stream whose first bytes have already been read.

    Args:
        stream: the stream.
        head: the bytes that were read from it.

    Attributes:
        n_bytes: number of bytes returned so far.
    """

    def __init__(self, stream: IO[bytes], head: bytes) -> None:
        self._stream, self._head, self.n_bytes = stream, head, 0

    def read(self, n_bytes: int) -> bytes:
        """Reads at most ``n_bytes`` bytes; empty at the end."""
        piece, self._head = self._head[:n_bytes], self._head[n_bytes:]
        piece = piece or self._stream.read(n_bytes)
        self.n_bytes += len(piece)
        return piece

    def pieces(self) -> Iterator[bytes]:
        """Yields the remaining bytes in pieces."""
        while piece := self.read(_PIECE_BYTES):
            yield piece


def _is_compressed(head: bytes) -> bool:
    return head.startswith(_GZIP) or _decoder_of(head) is not None


def _decoder_of(head: bytes) -> Callable[[], Any] | None:
    """Returns the factory of a decompressor for data with these first bytes."""
    if head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
        return bz2.BZ2Decompressor
    return lzma.LZMADecompressor if head.startswith(b"\xfd7zXZ\0") else None


def _text_pieces(
    source: _Resumed, head: bytes, name: str, max_bytes: int | None
) -> Iterator[bytes]:
    """Yields the decompressed content of the source.

    Raises:
        CorruptFileError: compressed data is damaged or cut, or unpacks to more than the limit.
        UnsupportedFormatError: the content is not text.
    """
    is_packed = _is_compressed(head)
    pieces = _unpacked(source, head, name, max_bytes) if is_packed else source.pieces()
    for i, piece in enumerate(pieces):
        if i == 0:
            _check_is_text(name, piece)
        yield piece


def _unpacked(source: _Resumed, head: bytes, name: str, max_bytes: int | None) -> Iterator[bytes]:
    decoder = _decoder_of(head)
    n_bytes = 0
    try:
        for piece in _inflated(source) if decoder is None else _decompressed(source, decoder):
            n_bytes += len(piece)
            justified = max(_ALWAYS_BYTES, _MAX_RATIO * source.n_bytes)
            limit = justified if max_bytes is None else max_bytes
            if n_bytes > limit:
                raise ValueError(
                    f"expected at most {limit} bytes of text, got more: unpack it first, or raise "
                    "max_unpacked_bytes= of ExtxyzDataset"
                )
            yield piece
    except Exception as error:  # each compression has its own errors
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptFileError(f"{name}: compressed data: {error}") from error


def _inflated(source: _Resumed) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=cast(IO[bytes], source)) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _decompressed(source: _Resumed, make: Callable[[], Any]) -> Iterator[bytes]:
    """Yields decompressed pieces of bounded size; concatenated streams are joined."""
    decoder = make()
    for piece in source.pieces():
        data = piece
        while data or not (decoder.eof or decoder.needs_input):
            if decoder.eof:
                if not data.strip(b"\0"):
                    break  # zero padding, as on tapes
                decoder = make()
            yield decoder.decompress(data, _PIECE_BYTES)
            data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError("the stream ends early")


def _check_is_text(name: str, head: bytes) -> None:
    found = format_of_bytes(head)
    if found is not None and found.magics:
        raise UnsupportedFormatError(
            f"{name}: expected text, got {found.title}: only text, plain or compressed by gzip, "
            "bzip2 or xz, is read from pipes and compressed files"
        )
