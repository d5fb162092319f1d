"""Publication of the flushes of remote stores and array files."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

from atompack_torch._native import (
    array_layer_digest,
    encode_flush_record,
    fingerprint_of_metadata,
    stamp_metadata,
)
from atompack_torch.errors import FieldError, file_exists
from atompack_torch.formats import STORE_METADATA
from atompack_torch.formats.atlas_store.remote_copy import Changes, RemoteCopy, layer_of, stem_of
from atompack_torch.formats.atlas_store.store_recovery import (
    RECORD,
    FlushRecord,
    Recovery,
    StoredFile,
    decoded,
    new_id,
)
from atompack_torch.remote.objects import ObjectState, RemoteObjects
from atompack_torch.remote.staging import (
    N_TRANSFERS,
    Options,
    keeping,
    local_name,
    transferring,
)
from atompack_torch.remote.uploads import each, was_replaced
from atompack_torch.remote.urls import shown_url

_N_LOOKS = 10
_PAUSE = 0.05  # seconds between two looks, more each time
_INSTEAD = "mode='a' goes on with it"
ADVICE = "call flush() again, or upload it by hand"


class ArrayFilePublisher:
    """Local copy of a remote array file, whose flushes are published: each adds one layer.

    Args:
        url: the URL of the base file.
        mode: ``"x"``: the file must not exist; ``"a"``: it is downloaded with its layers.
        storage_options: options of the store.

    Attributes:
        path: the base file of the local copy.

    Raises:
        FieldError: the URL does not end in ``.af``.
        FileExistsError: ``mode="x"`` and the file exists.
        FileNotFoundError: there is no such bucket.
        OSError: the file changes too fast, the store refuses, or gives no answer.
    """

    def __init__(self, url: str, mode: Literal["x", "a"], storage_options: Options) -> None:
        self._name = local_name(url)
        if not self._name.endswith(".af"):
            raise FieldError(f"{shown_url(url)}: expected a name that ends in .af")
        self._url = url
        self._objects = RemoteObjects(url, storage_options)
        self._objects.check_bucket()
        self._copy = RemoteCopy(self._objects, url.rpartition("/")[0], "copy")
        self._copy.path.mkdir()
        self.path: Path = self._copy.path / self._name
        self._is_new = True
        self._changes: Changes | None = None
        try:
            self._open(mode == "x")
        except BaseException:
            self.discard()
            raise

    def _open(self, must_be_new: bool) -> None:
        """Downloads base and layers as they were at one time."""
        before = None
        for i in range(_N_LOOKS):
            time.sleep(_PAUSE * i)
            stem = self._name.removesuffix(".af")
            listed = self._objects.list(self._copy.url, f"{stem}.")
            found = {name: state for name, state in listed.items() if self._is_of_file(name)}
            if must_be_new and found:
                raise file_exists(shown_url(self._url), _INSTEAD)
            if found == before:
                self._is_new = not found
                return
            before = found
            try:
                self._copy.fetch(found)
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.ENOENT):
                    raise
                before = None
        text = "the file changes faster than it can be opened"
        raise OSError(errno.EAGAIN, text, shown_url(self._url))

    def _is_of_file(self, name: str) -> bool:
        stem = self._name.removesuffix(".af")
        layer = layer_of(name)
        return name in (self._name, f"{stem}.stats") or (layer is not None and layer[0] == stem)

    def publish(self, *, only_rest: bool) -> None:
        """Uploads what the local copy has and the store has not.

        After an error the local copy is kept, and this can be repeated.

        Args:
            only_rest: True to upload only what an earlier call could not, and what a compaction
                left that failed.

        Raises:
            FileExistsError: another writer has created the file.
            OSError: another writer has changed the file (``ESTALE``), the store refuses, or gives
                no answer; the message names the local copy.
        """
        with keeping(self._copy.folder, self._copy.path, ADVICE):
            if self._changes is None:
                changes = self._copy.changes()
                if not any(changes) or (only_rest and not changes.is_compaction):
                    return
                self._changes = changes
            try:
                self._send(self._changes)
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EEXIST):
                    raise
                if self._is_new:
                    raise file_exists(shown_url(self._url), _INSTEAD) from None
                raise was_replaced(shown_url(self._url)) from None
            self._copy.folder.release()
            self._changes = None
            self._is_new = False

    def _send(self, changes: Changes) -> None:
        """Statistics are never those of other layers: they go first and come last."""
        copy = self._copy
        total = copy.size_of([*changes.bases, *changes.layers])
        with transferring(f"uploading {self._name}", total) as report:
            for name in {stem_of(name) for name in (*changes.bases, *changes.layers)}:
                copy.remove(f"{name}.stats")
            for name in (*changes.bases, *changes.layers):
                copy.store(name, report)
        for name in changes.removed:
            copy.remove(name)
        for name in changes.statistics:
            try:
                copy.store(name)
            except FileExistsError:  # of another writer: then none are right
                self._objects.delete(copy.url_of(name))

    def discard(self) -> None:
        """Removes the local copy."""
        self._copy.folder.remove()


class StorePublisher:
    """Local copy of a remote store, whose flushes are published.

    Args:
        url: the URL of the store.
        mode: ``"x"``: the store must not exist; ``"a"``: it is downloaded.
        storage_options: options of the store.

    Attributes:
        copy: the local copy.

    Raises:
        FileExistsError: ``mode="x"`` and the store exists.
        FileNotFoundError: there is no such bucket.
        OSError: the store changes too fast, refuses, or gives no answer.
    """

    def __init__(self, url: str, mode: Literal["x", "a"], storage_options: Options) -> None:
        folder = url.rstrip("/")
        name = local_name(folder)
        self._objects = RemoteObjects(url, storage_options)
        self._objects.check_bucket()
        self.copy = RemoteCopy(self._objects, folder, name)
        self._url = folder
        self._record: ObjectState | None = None
        self._metadata: StoredFile | None = None
        self._flush: _Flush | None = None
        try:
            self._open(mode == "x")
        except BaseException:
            self.copy.folder.remove()
            raise

    def _open(self, must_be_new: bool) -> None:
        """Downloads the store as of one flush."""
        for i in range(_N_LOOKS):
            time.sleep(_PAUSE * i)
            listed = self._objects.list(self._url)
            found = {name: state for name, state in listed.items() if _is_of_store(name)}
            names = [name for name in STORE_METADATA if name in found]
            record = self._read(RECORD) if RECORD in listed else None
            if must_be_new and (names or (found and record is None)):
                raise file_exists(shown_url(self._url), _INSTEAD)
            metadata = self._read(names[0]) if names else None
            if metadata is not None and metadata.state.etag != found[names[0]].etag:
                continue
            content = decoded(record)
            try:
                if record is not None and content is not None and not content.complete:
                    Recovery(self._objects, self._url, found, record, content, metadata).run()
                    must_be_new = must_be_new and metadata is not None
                    continue
                self.copy.fetch(found)
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EEXIST, errno.ENOENT):
                    raise
                continue
            self._record = None if record is None else record.state
            self._metadata = metadata
            if self._is_current():
                return
        text = "the store changes faster than it can be opened"
        raise OSError(errno.EAGAIN, text, shown_url(self._url))

    def _read(self, name: str) -> StoredFile | None:
        found = self._objects.read(f"{self._url}/{name}")
        return None if found is None else StoredFile(name, *found)

    def _is_current(self) -> bool:
        """True if no flush has begun or ended since the record and the metadata were read."""
        metadata = self._metadata
        expected = {RECORD: self._record}
        if metadata is not None:
            expected[metadata.name] = metadata.state
        return all(
            (found and found.etag) == (state and state.etag)
            for name, state in expected.items()
            for found in [self._objects.state(f"{self._url}/{name}")]
        )

    def publish(self, *, only_rest: bool) -> None:
        """Uploads what the local copy has and the store has not, as one step for readers.

        After an error the local copy is kept, and this can be repeated.

        Args:
            only_rest: True to upload only what an earlier call could not, and what a compaction
                left that failed.

        Raises:
            FileExistsError: another writer has created the store.
            OSError: another writer has changed the store (``ESTALE``), the store refuses, or gives
                no answer; the message names the local copy.
        """
        with keeping(self.copy.folder, self.copy.path, ADVICE):
            if self._flush is None:
                changes = self.copy.changes()
                if not any(changes) or (only_rest and not changes.is_compaction):
                    return
                self._flush = _Flush(self.copy, changes, self._metadata, self._record)
            try:
                self._flush.run()
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EEXIST):
                    raise
                self._flush.withdraw()
                if self._metadata is None:
                    text = "another writer has created it meanwhile"
                    raise FileExistsError(errno.EEXIST, text, shown_url(self._url)) from None
                raise was_replaced(shown_url(self._url)) from None
            self._record, self._metadata = self._flush.record, self._flush.stored
            self._flush = None
            self.copy.folder.release()

    def discard(self) -> None:
        """Removes the local copy."""
        self.copy.folder.remove()


def _is_of_store(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if not folder:
        return name in STORE_METADATA
    return file in ("data.af", "data.stats") or bool(layer_of(file))


class _Flush:
    """Publication of one flush or compaction; after an error ``run`` continues.

    Args:
        copy: the local copy.
        changes: its changes.
        metadata: the metadata file there; None if there is none.
        record: state of the record there; None if there is none.

    Attributes:
        record: state of the record.
        stored: the new metadata file, once it is stored.
    """

    def __init__(
        self,
        copy: RemoteCopy,
        changes: Changes,
        metadata: StoredFile | None,
        record: ObjectState | None,
    ) -> None:
        self.record = record
        self.stored: StoredFile | None = None
        self._copy = copy
        self._changes = changes
        self._before = metadata
        self._name = next(name for name in STORE_METADATA if (copy.path / name).exists())
        data = (copy.path / self._name).read_bytes()
        self._data = stamp_metadata(self._name, data, new_id())  # differs from all others
        self._begun = self._ended = False
        self._begin = FlushRecord(
            complete=changes.is_compaction,
            before=None if metadata is None else metadata.fingerprint,
            after=fingerprint_of_metadata(self._data),
            layers=[] if changes.is_compaction else [self._layer(n) for n in changes.layers],
            id=new_id(),
        )
        self._end = self._begin._replace(complete=True, layers=[], id=new_id())

    def _layer(self, name: str) -> tuple[str, int, str]:
        stem, number = layer_of(name) or ("", 0)
        return stem.rpartition("/")[0], number, array_layer_digest(str(self._copy.path / name))

    def run(self) -> None:
        """Takes the steps that are left: record, files, metadata, record.

        Readers ignore the files that the record names until the metadata are replaced.
        """
        if not self._begun:
            self.record = self._put(RECORD, self._begin, self.record)
            self._begun = True
        if self.stored is None:
            self._store_files()
            state = self._copy.objects.put(
                self._copy.url_of(self._name),
                self._data,
                expected=None if self._before is None else self._before.state,
                is_last=True,
            )
            self._copy.note(self._name, state)
            self.stored = StoredFile(self._name, self._data, state)
        if not self._ended:
            try:
                self.record = self._put(RECORD, self._end, self.record)
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise  # ESTALE: another writer has found the flush complete, and goes on
            self._ended = True

    def withdraw(self) -> None:
        """Deletes the layers that were stored, as far as possible, after a conflict."""
        with suppress(OSError):
            found = self._copy.objects.state(self._copy.url_of(RECORD))
            if not (self._begun and found and self.record and found.etag == self.record.etag):
                return  # another writer has taken over, and barred them
            for name in self._changes.layers:
                self._copy.remove(name)

    def _put(self, name: str, record: FlushRecord, expected: ObjectState | None) -> ObjectState:
        return self._copy.objects.put(
            self._copy.url_of(name),
            encode_flush_record(record),
            expected=expected,
            is_last=not self._begun,
        )

    def _store_files(self) -> None:
        changes, copy = self._changes, self._copy
        stored = [*changes.bases, *changes.layers, *changes.statistics]
        gone = [name for name in changes.removed if name not in STORE_METADATA]
        with transferring(f"uploading {copy.path.name}", copy.size_of(stored)) as report:
            _by_file(stored, gone, copy, report)


def _by_file(
    stored: list[str], gone: list[str], copy: RemoteCopy, report: Callable[[int], object]
) -> None:
    """Stores and then removes the files of each array file in order, several of them at a time."""
    steps: dict[str, list[Callable[[], object]]] = {}
    for name in stored:
        steps.setdefault(stem_of(name), []).append(partial(copy.store, name, report))
    for name in gone:
        steps.setdefault(stem_of(name), []).append(partial(copy.remove, name))
    each(lambda stem: [step() for step in steps[stem]], list(steps), N_TRANSFERS)
