"""Native reader or writer of an array file."""

from __future__ import annotations

from atompack_torch import formats
from atompack_torch._native import ArrayFileReader, ArrayFileWriter
from atompack_torch.errors import is_closed, is_read_only
from atompack_torch.stores.store_options import BlockOptions


class ArrayFileHandle:
    """Native reader or writer of an array file, open from the start.

    Args:
        path: absolute path of the base file.
        options: its options.
    """

    def __init__(self, path: str, options: BlockOptions) -> None:
        self.path = self.local_path = path
        self.limits = options.limits
        self.reader: ArrayFileReader | None = None
        self.writer: ArrayFileWriter | None = None
        self._mode = options.mode
        with formats.opening(path, "an array file", "array-file"):
            if options.mode == "r":
                self.reader = ArrayFileReader(path, options.limits.max_metadata_bytes)
                return
            self.writer = ArrayFileWriter(
                path,
                options.codec or "zstd",
                options.level,
                options.block_bytes,
                options.durable,
                *options.limits,
                options.n_threads,
            )

    @property
    def is_writing(self) -> bool:
        """True while the file is open for writing."""
        return self.writer is not None

    def current(self) -> ArrayFileReader | ArrayFileWriter:
        """Returns the open native handle; ValueError if the file is closed."""
        handle = self.writer or self.reader
        if handle is None:
            raise is_closed(self.path, "file")
        return handle

    def changing(self) -> ArrayFileWriter:
        """Returns the native writer; ValueError if the file is open for reading, or closed."""
        if self.writer is None:
            raise is_read_only(self.path, "file") if self._mode == "r" else is_closed(self.path)
        return self.writer

    def forget_flush(self) -> None:
        """Does nothing: the native writer reads what it has flushed itself."""

    def publish(self, *, only_rest: bool = False) -> None:
        """Does nothing: a flush of local files is visible."""

    def close(self) -> None:
        """Closes the file and drops unflushed changes."""
        writer, self.writer, self.reader = self.writer, None, None
        if writer is not None:
            writer.abandon()
