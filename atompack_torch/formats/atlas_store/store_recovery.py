"""Completion or withdrawal of a flush to an object store that was interrupted.

The writer of the flush may still be running. So its objects are not deleted, which it could store
once more, but replaced by others, on which its conditions fail.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from atompack_torch._native import (
    ArrayFileWriter,
    array_layer_digest,
    decode_flush_record,
    encode_flush_record,
    fingerprint_of_metadata,
    stamp_metadata,
)
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.atlas_store.remote_copy import layer_of
from atompack_torch.options import MAX_METADATA_BYTES
from atompack_torch.remote.objects import ObjectState, RemoteObjects
from atompack_torch.remote.staging import TemporaryFolder
from atompack_torch.remote.uploads import was_replaced
from atompack_torch.remote.urls import shown_url

RECORD = ".atompack-intent"
_N_LOOKS = 10

Fingerprint = tuple[int, str]


class FlushRecord(NamedTuple):
    """Record of a flush; FORMAT.md of ATLAS stores explains it.

    Attributes:
        complete: True if nothing is to be withdrawn.
        before: of the metadata file before the flush; None: there was none.
        after: of the metadata file that completes the flush.
        layers: variable, number and digest of the layers that the flush adds.
        id: different in every record.
        stamp: of the metadata file that undoes the flush.
        renewed: of that file.
    """

    complete: bool
    before: Fingerprint | None
    after: Fingerprint
    layers: list[tuple[str, int, str]]
    id: str
    stamp: str = ""
    renewed: Fingerprint | None = None


class StoredFile(NamedTuple):
    """A small object.

    Attributes:
        name: its name in the store.
        data: its bytes.
        state: its state.
    """

    name: str
    data: bytes
    state: ObjectState

    @property
    def fingerprint(self) -> Fingerprint:
        """Fingerprint of metadata."""
        return fingerprint_of_metadata(self.data)


def new_id() -> str:
    """Returns a string that no other flush has."""
    return uuid.uuid4().hex


def decoded(record: StoredFile | None) -> FlushRecord | None:
    """Decodes a record; None if there is none, or a damaged one, which counts as none.

    Args:
        record: the object.

    Returns:
        The record.
    """
    if record is None:
        return None
    try:
        return FlushRecord(*decode_flush_record(record.data))
    except CorruptFileError:
        return None


class Recovery:
    """Recovery of one store.

    Args:
        objects: the object store.
        url: the URL of the store.
        found: the objects of the store by name.
        stored: the record's object.
        record: the record.
        metadata: the metadata file; None if there is none.
    """

    def __init__(
        self,
        objects: RemoteObjects,
        url: str,
        found: Mapping[str, ObjectState],
        stored: StoredFile,
        record: FlushRecord,
        metadata: StoredFile | None,
    ) -> None:
        self._objects = objects
        self._url = url
        self._found = found
        self._stored = stored
        self._record = record
        self._metadata = metadata

    def run(self) -> None:
        """Completes the flush if its metadata are in place, and withdraws it if not.

        Raises:
            OSError: another writer is changing the store (``ESTALE``, or FileExistsError), the
                store refuses, or gives no answer.
        """
        record, metadata = self._record, self._metadata
        now = None if metadata is None else metadata.fingerprint
        is_renewed = record.renewed is not None and now == record.renewed
        if (now == record.before or is_renewed) and not self._was_built_on():
            return self._withdraw()
        if now != record.after:  # another program has written since
            for variable, _, _ in record.layers:
                self._objects.delete(f"{self._url}/{variable}/data.stats")
        self._finish(self._stored.state, now)

    def _was_built_on(self) -> bool:
        """True if there are newer layers, whose writer saw those of the flush."""
        highest: dict[str, int] = {}
        for name in self._found:
            stem, number = layer_of(name) or ("", 0)
            highest[stem] = max(highest.get(stem, 0), number)
        own = {variable: number for variable, number, _ in self._record.layers}
        return any(highest.get(f"{name}/data", 0) > number for name, number in own.items())

    def _finish(self, state: ObjectState, now: Fingerprint | None) -> None:
        record = self._record._replace(
            complete=True, after=now or self._record.after, layers=[], id=new_id(), renewed=None
        )
        self._put(RECORD, encode_flush_record(record), state)

    def _withdraw(self) -> None:
        record, metadata = self._record, self._metadata
        name, data = ("atlas.json", b"") if metadata is None else metadata[:2]
        is_renewed = metadata is not None and metadata.fingerprint == record.renewed
        stamp = record.stamp if record.renewed else new_id()
        renewed = data if is_renewed else stamp_metadata(name, data, stamp)
        record = record._replace(id=new_id(), stamp=stamp, renewed=fingerprint_of_metadata(renewed))
        # From here on the writer cannot complete its record, and then not store its metadata.
        state = self._put(RECORD, encode_flush_record(record), self._stored.state)
        if not is_renewed:
            self._put(name, renewed, None if metadata is None else metadata.state)
        folder = TemporaryFolder()
        try:
            empty, statistics = _empty_files(folder.path)
            for variable, number, digest in record.layers:
                base = f"{self._url}/{variable}/data.af"
                if self._objects.state(base) is None:  # a layer needs one
                    with suppress(FileExistsError):
                        self._objects.put(base, empty)
                self._bar(f"{variable}/data.{number}.af", empty, folder.path / "layer", digest)
                self._bar(f"{variable}/data.stats", statistics)
        finally:
            folder.remove()
        self._finish(state, record.renewed)

    def _put(self, name: str, data: bytes, expected: ObjectState | None) -> ObjectState:
        return self._objects.put(f"{self._url}/{name}", data, expected=expected)

    def _bar(self, name: str, empty: bytes, copy: Path | None = None, digest: str = "") -> None:
        """Puts an empty file in the place of one that the writer has stored or may still store."""
        url = f"{self._url}/{name}"
        for _ in range(_N_LOOKS):
            state = self._objects.state(url)
            if state is not None and copy is not None and self._digest(url, copy) != digest:
                return  # of another program, or empty already
            try:
                self._objects.put(url, empty, expected=state)
            except FileExistsError:
                continue  # stored in this moment
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                continue
            return
        raise was_replaced(shown_url(url))

    def _digest(self, url: str, copy: Path) -> str:
        self._objects.fetch(url, copy, None, lambda n: None)
        try:
            return array_layer_digest(str(copy))
        except CorruptFileError:
            return ""


def _empty_files(folder: Path) -> tuple[bytes, bytes]:
    """Returns an array file without arrays, and its statistics."""
    path = folder / "empty.af"
    writer = ArrayFileWriter(str(path), "none", 3, 1 << 20, False, MAX_METADATA_BYTES, None)
    writer.compact()
    writer.abandon()
    return path.read_bytes(), path.with_suffix(".stats").read_bytes()
