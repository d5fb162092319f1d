"""Options of stores and array files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from atompack_torch.options import WriterOptions, check_choice, checked_integer

FORMS = ("json", "json.zst", "json.lz4", "msgpack", "msgpack.zst", "msgpack.lz4")


class MemoryLimits(NamedTuple):
    """Limits on the memory that a damaged or sparse file may ask for.

    Attributes:
        max_metadata_bytes: limit on the size of metadata.
        max_unstored_bytes: limit on elements without stored bytes; None: depends on the files.
    """

    max_metadata_bytes: int
    max_unstored_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class BlockOptions(WriterOptions):
    """Options of stores and array files; see ``AtlasStore``.

    Attributes:
        block_bytes: chunks are compressed together in blocks of about this size; None: depends on
            the number of chunks of an array.
        durable: a flush waits for the disk.
        limits: limits on memory.
    """

    modes: ClassVar = ("r", "a", "x")

    block_bytes: int | None
    durable: bool
    limits: MemoryLimits

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.block_bytes is not None:
            checked_integer("block_bytes", self.block_bytes, 1)
        checked_integer("max_metadata_bytes", self.limits.max_metadata_bytes, 0)
        if self.limits.max_unstored_bytes is not None:
            checked_integer("max_unstored_bytes", self.limits.max_unstored_bytes, 0)


@dataclass(frozen=True, kw_only=True)
class StoreOptions(BlockOptions):
    """Options of stores.

    Attributes:
        metadata: format of a new store's metadata file: one of ``FORMS``.
    """

    metadata: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("metadata", self.metadata, FORMS)
