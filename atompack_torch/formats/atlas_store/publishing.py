"""Local copies of remote stores and array files: recovery, and publication of their flushes."""

from __future__ import annotations

import errno
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from atompack_torch._native import (
    ArrayFileWriter,
    array_layer_digest,
    decode_flush_record,
    encode_flush_record,
    fingerprint_of_metadata,
    stamp_metadata,
)
from atompack_torch.errors import CorruptFileError, FieldError, file_exists
from atompack_torch.formats import STORE_METADATA
from atompack_torch.options import MAX_METADATA_BYTES
from atompack_torch.remote.local_copies import transferring
from atompack_torch.remote.objects import ObjectState, RemoteObjects
from atompack_torch.remote.staging import (
    N_TRANSFERS,
    Options,
    TemporaryFolder,
    keeping,
    local_name,
)
from atompack_torch.remote.uploads import each, was_replaced
from atompack_torch.remote.urls import shown_url

_LAYER = re.compile(r"(.*)\.(\d+)\.af")
_Identity = tuple[int, int, int]


class _Known(NamedTuple):
    """A file that is the same here and there.

    Attributes:
        state: the state of the object.
        identity: inode, size and time of the local file.
    """

    state: ObjectState
    identity: _Identity


class Changes(NamedTuple):
    """Differences between the local files and the objects, as names relative to the folder.

    Attributes:
        layers: layers to be added.
        bases: bases of array files to be added or replaced.
        statistics: statistics to be added or replaced.
        metadata: metadata files to be added or replaced.
        removed: objects to be removed, layers in ascending order.
    """

    layers: list[str]
    bases: list[str]
    statistics: list[str]
    metadata: list[str]
    removed: list[str]

    @property
    def is_compaction(self) -> bool:
        """True if layers were merged into their bases."""
        return any(layer_of(name) for name in self.removed)


def layer_of(name: str) -> tuple[str, int] | None:
    """Returns path without suffix and number of a layer; None for other files.

    Args:
        name: a file name.

    Returns:
        ``("array/data", 3)`` for ``array/data.3.af``.
    """
    found = _LAYER.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def stem_of(name: str) -> str:
    """Returns the path without suffix of the array file that a file belongs to."""
    layer = layer_of(name)
    return layer[0] if layer else name.rpartition(".")[0]


class RemoteCopy:
    """Local files, and the states of the objects that they were or will be.

    Args:
        objects: the object store.
        url: the URL of the folder.
        name: name of the local folder.

    Attributes:
        objects: the object store.
        url: the URL of the folder, without the last slash.
        folder: the temporary folder.
        path: the local folder in it.
    """

    def __init__(self, objects: RemoteObjects, url: str, name: str) -> None:
        self.objects = objects
        self.url = url.rstrip("/")
        self.folder = TemporaryFolder()
        self.path = self.folder.path / name
        self._known: dict[str, _Known] = {}

    def url_of(self, name: str) -> str:
        """Returns the URL of a file."""
        return f"{self.url}/{name}"

    def fetch(self, found: Mapping[str, ObjectState]) -> None:
        """Downloads objects in the given states, and removes what was downloaded before.

        Args:
            found: name to state.

        Raises:
            OSError: an object was replaced (``ESTALE``) or removed in the meantime, or the store
                refuses or does not respond.
        """
        for name in [name for name in self._known if name not in found]:
            (self.path / name).unlink()
            del self._known[name]
        missing = {
            name: state
            for name, state in found.items()
            if name not in self._known or self._known[name].state.etag != state.etag
        }
        total = sum(state.size for state in missing.values())
        with transferring(f"downloading {self.path.name}", total) as report:

            def fetch(name: str) -> None:
                path = self.path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                self.objects.fetch(self.url_of(name), path, missing[name], report)
                self._known[name] = _Known(missing[name], _identity(path))

            each(fetch, list(missing), N_TRANSFERS)

    def changes(self) -> Changes:
        """Compares the local files with the objects."""
        names = {
            path.relative_to(self.path).as_posix(): _identity(path)
            for path in self.path.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        changed = sorted(
            name
            for name, identity in names.items()
            if name not in self._known or self._known[name].identity != identity
        )
        others = [name for name in changed if not name.endswith((".af", ".stats"))]
        removed = [name for name in self._known if name not in names]
        return Changes(
            [name for name in changed if layer_of(name)],
            [name for name in changed if name.endswith(".af") and not layer_of(name)],
            [name for name in changed if name.endswith(".stats")],
            others,
            sorted(removed, key=lambda name: layer_of(name) or (name, 0)),
        )

    def state(self, name: str) -> ObjectState | None:
        """Returns the state in which an object is expected; None if there should be none."""
        known = self._known.get(name)
        return known.state if known else None

    def store(self, name: str, report: Callable[[int], object] | None = None) -> None:
        """Uploads a file; does nothing if that was done.

        Args:
            name: its name.
            report: called with the number of bytes sent since the last call.

        Raises:
            FileExistsError, OSError: as for ``RemoteObjects.put``.
        """
        path = self.path / name
        identity = _identity(path)
        known = self._known.get(name)
        if known is not None and known.identity == identity:
            return
        expected = self.state(name)
        state = self.objects.put(self.url_of(name), path, expected=expected, report=report)
        self._known[name] = _Known(state, identity)

    def note(self, name: str, state: ObjectState) -> None:
        """Notes that an object stands for a file, although their bytes may differ."""
        self._known[name] = _Known(state, _identity(self.path / name))

    def remove(self, name: str) -> None:
        """Deletes an object; does nothing if that was done.

        Args:
            name: its name.

        Raises:
            OSError: another writer has replaced it, the store refuses, or does not respond.
        """
        known = self._known.get(name)
        if known is not None:
            self.objects.delete(self.url_of(name), known.state)
            del self._known[name]

    def size_of(self, names: Sequence[str]) -> int:
        """Returns the total size of local files in bytes."""
        return sum((self.path / name).stat().st_size for name in names)


def _identity(path: Path) -> _Identity:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


RECORD = ".atompack-intent"
_N_LOOKS = 10

Fingerprint = tuple[int, str]


class FlushRecord(NamedTuple):
    """Record of a flush; FORMAT.md of ATLAS stores explains it.

    Attributes:
        complete: True if nothing has to be withdrawn.
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
    """Returns a string that is unique to one flush."""
    return uuid.uuid4().hex


def decoded(record: StoredFile | None) -> FlushRecord | None:
    """Decodes a record; None if missing, or a damaged one, which counts as none.

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
        metadata: the metadata file; None if missing.
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
                store refuses, or does not respond.
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


_PAUSE = 0.05  # seconds between two checks, longer each time
_INSTEAD = "mode='a' appends to it"
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
        OSError: the file changes too fast, the store refuses, or does not respond.
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
            OSError: another writer has changed the file (``ESTALE``), the store refuses, or does
                not respond; the message names the local copy.
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
            except FileExistsError:  # another writer wrote some of them: neither set is complete
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
        OSError: the store changes too fast, refuses, or does not respond.
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
            OSError: another writer has changed the store (``ESTALE``), the store refuses, or does
                not respond; the message names the local copy.
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
        metadata: the metadata file there; None if missing.
        record: state of the record there; None if missing.

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
                    raise  # ESTALE: another writer has found the flush complete, and continues
            self._ended = True

    def withdraw(self) -> None:
        """Deletes the layers that were stored, as far as possible, after a conflict."""
        with suppress(OSError):
            found = self._copy.objects.state(self._copy.url_of(RECORD))
            if not (self._begun and found and self.record and found.etag == self.record.etag):
                return  # another writer has taken over, and locked them out
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
