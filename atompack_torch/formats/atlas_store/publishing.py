"""Local copies of remote stores and array files: recovery, and publication of their flushes."""

from __future__ import annotations

import errno
import re
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
from atompack_torch.errors import CorruptFileError, FieldError, file_exists
from atompack_torch.formats import STORE_METADATA
from atompack_torch.options import MAX_METADATA_BYTES, shown_url
from atompack_torch.remote.local_copies import transferring
from atompack_torch.remote.objects import ObjectState, RemoteObjects, each, was_replaced
from atompack_torch.remote.staging import N_TRANSFERS, Options, TemporaryFolder, keeping, local_name

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


_N_LOOKS = 10
_PAUSE = 0.05  # seconds between two checks, longer each time
_INSTEAD = "mode='a' appends to it"
ADVICE = "call flush() again, or upload it by hand"


class RemoteCopy:
    """Local copy of a remote store or array file, whose flushes are published.

    Args:
        url: the URL of the store or of the base file.
        mode: ``"x"``: it must not exist; ``"a"``: it is downloaded.
        storage_options: options of the object store.
        folder: the URL of the folder that holds the files.
        name: name of the local folder.

    Attributes:
        path: the folder of the local copy, or the base of the array file in it.

    Raises:
        FileExistsError: ``mode="x"`` and it exists.
        FileNotFoundError: there is no such bucket.
        OSError: it changes too fast, the object store refuses, or does not respond.
    """

    what: str  # for messages

    def __init__(
        self, url: str, mode: str, storage_options: Options, folder: str, name: str
    ) -> None:
        self._url, self._folder_url = url, folder
        self.objects = RemoteObjects(url, storage_options)
        self.objects.check_bucket()
        self._temporary = TemporaryFolder()
        self.folder = self.path = self._temporary.path / name
        self._known: dict[str, _Known] = {}
        self._must_be_new = mode == "x"
        self._pending: Changes | None = None  # that are being published
        try:
            self._open()
        except BaseException:
            self.discard()
            raise

    def _open(self) -> None:
        """Downloads all files as they were at one time."""
        for i in range(_N_LOOKS):
            time.sleep(_PAUSE * i)
            if self._try_to_open():
                return
        text = f"the {self.what} changes faster than it can be opened"
        raise OSError(errno.EAGAIN, text, shown_url(self._url))

    @abstractmethod
    def _try_to_open(self) -> bool:
        """Downloads the files; False if another writer has changed them in the meantime."""

    def _check_new(self, is_there: bool) -> None:
        if self._must_be_new and is_there:
            raise file_exists(shown_url(self._url), _INSTEAD)

    def publish(self, *, only_rest: bool) -> None:
        """Uploads what the local copy has and the object store has not.

        After an error the local copy is kept, and this can be repeated.

        Args:
            only_rest: True to upload only what an earlier call or a failed compaction left.

        Raises:
            FileExistsError: another writer has created the store or file.
            OSError: another writer has changed it (``ESTALE``), the object store refuses, or does
                not respond; the message names the local copy.
        """
        with keeping(self._temporary, self.folder, ADVICE):
            if self._pending is None:
                changes = self.changes()
                if not any(changes) or (only_rest and not changes.is_compaction):
                    return
                self._pending = changes
            try:
                self._send(self._pending)
            except OSError as error:
                if error.errno not in (errno.ESTALE, errno.EEXIST):
                    raise
                if self._withdraw():
                    text = f"another writer has created it meanwhile: {_INSTEAD}"
                    raise FileExistsError(errno.EEXIST, text, shown_url(self._url)) from None
                raise was_replaced(shown_url(self._url)) from None
            self._pending = None
            self._temporary.release()

    @abstractmethod
    def _send(self, changes: Changes) -> None:
        """Takes the steps of a publication that are left."""

    @abstractmethod
    def _withdraw(self) -> bool:
        """Undoes a publication after a conflict; True if there was nothing here before."""

    def discard(self) -> None:
        """Removes the local copy."""
        self._temporary.remove()

    def url_of(self, name: str) -> str:
        """Returns the URL of a file."""
        return f"{self._folder_url}/{name}"

    def put(
        self, name: str, data: bytes, expected: ObjectState | None, *, is_last: bool = False
    ) -> ObjectState:
        """Stores bytes as an object that is in an expected state; see ``RemoteObjects.put``."""
        return self.objects.put(self.url_of(name), data, expected=expected, is_last=is_last)

    def fetch(self, found: Mapping[str, ObjectState]) -> None:
        """Downloads objects in the given states, and removes what was downloaded before.

        Args:
            found: name to state.

        Raises:
            OSError: an object was replaced (``ESTALE``) or removed in the meantime, or the store
                refuses or does not respond.
        """
        for name in [name for name in self._known if name not in found]:
            (self.folder / name).unlink()
            del self._known[name]
        missing = {
            name: state
            for name, state in found.items()
            if name not in self._known or self._known[name].state.etag != state.etag
        }
        total = sum(state.size for state in missing.values())
        with transferring(f"downloading {self.folder.name}", total) as report:

            def fetch(name: str) -> None:
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                self.objects.fetch(self.url_of(name), path, missing[name], report)
                self._known[name] = _Known(missing[name], _identity(path))

            each(fetch, list(missing), N_TRANSFERS)

    def changes(self) -> Changes:
        """Compares the local files with the objects."""
        names = {
            path.relative_to(self.folder).as_posix(): _identity(path)
            for path in self.folder.rglob("*")
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

    def store(self, name: str, report: Callable[[int], object] | None = None) -> None:
        """Uploads a file; does nothing if that was done.

        Args:
            name: its name.
            report: called with the number of bytes sent since the last call.

        Raises:
            FileExistsError, OSError: as for ``RemoteObjects.put``.
        """
        path = self.folder / name
        identity = _identity(path)
        known = self._known.get(name)
        if known is not None and known.identity == identity:
            return
        expected = known and known.state
        state = self.objects.put(self.url_of(name), path, expected=expected, report=report)
        self._known[name] = _Known(state, identity)

    def note(self, name: str, state: ObjectState) -> None:
        """Notes that an object stands for a file, although their bytes may differ."""
        self._known[name] = _Known(state, _identity(self.folder / name))

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
        return sum((self.folder / name).stat().st_size for name in names)


def _identity(path: Path) -> _Identity:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


RECORD = ".atompack-intent"

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
    """A small object in the store.

    Attributes:
        name: name in the store.
        data: content.
        state: version of the object that was read.
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


def recover(
    copy: RemoteCopy,
    found: Mapping[str, ObjectState],
    stored: StoredFile,
    record: FlushRecord,
    metadata: StoredFile | None,
) -> None:
    """Completes the flush of a record if its metadata are in place, and withdraws it if not.

    Args:
        copy: the copy of the store.
        found: the objects of the store by name.
        stored: the record's object.
        record: the record.
        metadata: the metadata file; None if missing.

    Raises:
        OSError: another writer is changing the store (``ESTALE``, or FileExistsError), the store
            refuses, or does not respond.
    """
    now = None if metadata is None else metadata.fingerprint
    is_renewed = record.renewed is not None and now == record.renewed
    if (now == record.before or is_renewed) and not _was_built_on(found, record):
        return _withdraw(copy, stored, record, metadata)
    if now != record.after:  # another program has written since
        for variable, _, _ in record.layers:
            copy.objects.delete(copy.url_of(f"{variable}/data.stats"))
    _finish(copy, record, stored.state, now)


def _was_built_on(found: Mapping[str, ObjectState], record: FlushRecord) -> bool:
    """True if there are newer layers, whose writer saw those of the flush."""
    highest: dict[str, int] = {}
    for name in found:
        stem, number = layer_of(name) or ("", 0)
        highest[stem] = max(highest.get(stem, 0), number)
    own = {variable: number for variable, number, _ in record.layers}
    return any(highest.get(f"{name}/data", 0) > number for name, number in own.items())


def _finish(
    copy: RemoteCopy, record: FlushRecord, state: ObjectState, now: Fingerprint | None
) -> None:
    ended = record._replace(
        complete=True, after=now or record.after, layers=[], id=new_id(), renewed=None
    )
    copy.put(RECORD, encode_flush_record(ended), state)


def _withdraw(
    copy: RemoteCopy, stored: StoredFile, record: FlushRecord, metadata: StoredFile | None
) -> None:
    name, data = ("atlas.json", b"") if metadata is None else metadata[:2]
    is_renewed = metadata is not None and metadata.fingerprint == record.renewed
    stamp = record.stamp if record.renewed else new_id()
    renewed = data if is_renewed else stamp_metadata(name, data, stamp)
    record = record._replace(id=new_id(), stamp=stamp, renewed=fingerprint_of_metadata(renewed))
    # From here on the writer cannot complete its record, and then not store its metadata.
    state = copy.put(RECORD, encode_flush_record(record), stored.state)
    if not is_renewed:
        copy.put(name, renewed, None if metadata is None else metadata.state)
    folder = TemporaryFolder()
    try:
        empty, statistics = _empty_files(folder.path)
        for variable, number, digest in record.layers:
            base = copy.url_of(f"{variable}/data.af")
            if copy.objects.state(base) is None:  # a layer needs one
                with suppress(FileExistsError):
                    copy.objects.put(base, empty)
            _bar(copy, f"{variable}/data.{number}.af", empty, folder.path / "layer", digest)
            _bar(copy, f"{variable}/data.stats", statistics)
    finally:
        folder.remove()
    _finish(copy, record, state, record.renewed)


def _bar(
    copy: RemoteCopy, name: str, empty: bytes, layer: Path | None = None, digest: str = ""
) -> None:
    """Puts an empty file in the place of one that the writer has stored or may still store."""
    url = copy.url_of(name)
    for _ in range(_N_LOOKS):
        state = copy.objects.state(url)
        if state is not None and layer is not None and _digest(copy, url, layer) != digest:
            return  # of another program, or empty already
        try:
            copy.objects.put(url, empty, expected=state)
        except FileExistsError:
            continue  # stored in this moment
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            continue
        return
    raise was_replaced(shown_url(url))


def _digest(copy: RemoteCopy, url: str, layer: Path) -> str:
    copy.objects.fetch(url, layer, None, lambda n: None)
    try:
        return array_layer_digest(str(layer))
    except CorruptFileError:
        return ""


def _empty_files(folder: Path) -> tuple[bytes, bytes]:
    """Returns an array file without arrays, and its statistics."""
    path = folder / "empty.af"
    options = ("none", 3, 1 << 20, 0, MAX_METADATA_BYTES, None)
    writer = ArrayFileWriter(str(path), options, False)
    writer.compact()
    writer.abandon()
    return path.read_bytes(), path.with_suffix(".stats").read_bytes()


class RemoteArrayFile(RemoteCopy):
    """Local copy of a remote array file: each flush adds one layer.

    Args:
        url: the URL of the base file.
        mode: ``"x"``: the file must not exist; ``"a"``: it is downloaded with its layers.
        storage_options: options of the object store.

    Raises:
        FieldError: the URL does not end in ``.af``.
        FileExistsError, FileNotFoundError, OSError: as for ``RemoteCopy``.
    """

    what = "file"

    def __init__(self, url: str, mode: str, storage_options: Options) -> None:
        self._name = local_name(url)
        if not self._name.endswith(".af"):
            raise FieldError(f"{shown_url(url)}: expected a name that ends in .af")
        self._is_new = True
        self._seen: dict[str, ObjectState] | None = None
        super().__init__(url, mode, storage_options, url.rpartition("/")[0], "copy")
        self.path = self.folder / self._name

    def _try_to_open(self) -> bool:
        self.folder.mkdir(exist_ok=True)
        stem = self._name.removesuffix(".af")
        listed = self.objects.list(self._folder_url, f"{stem}.")
        found = {name: state for name, state in listed.items() if self._is_of_file(name)}
        self._check_new(bool(found))
        self._is_new = not found
        if found == self._seen:
            return True
        try:
            self.fetch(found)
            self._seen = found
        except OSError as error:
            if error.errno not in (errno.ESTALE, errno.ENOENT):
                raise
            self._seen = None
        return False

    def _is_of_file(self, name: str) -> bool:
        stem = self._name.removesuffix(".af")
        layer = layer_of(name)
        return name in (self._name, f"{stem}.stats") or (layer is not None and layer[0] == stem)

    def _send(self, changes: Changes) -> None:
        """Statistics are never those of other layers: they go first and come last."""
        total = self.size_of([*changes.bases, *changes.layers])
        with transferring(f"uploading {self._name}", total) as report:
            for name in {stem_of(name) for name in (*changes.bases, *changes.layers)}:
                self.remove(f"{name}.stats")
            for name in (*changes.bases, *changes.layers):
                self.store(name, report)
        for name in changes.removed:
            self.remove(name)
        for name in changes.statistics:
            try:
                self.store(name)
            except FileExistsError:  # another writer wrote some of them: neither set is complete
                self.objects.delete(self.url_of(name))
        self._is_new = False

    def _withdraw(self) -> bool:
        return self._is_new


class RemoteStore(RemoteCopy):
    """Local copy of a remote store: each flush is one step for readers.

    Args:
        url: the URL of the store.
        mode: ``"x"``: the store must not exist; ``"a"``: it is downloaded.
        storage_options: options of the object store.

    Raises:
        FileExistsError, FileNotFoundError, OSError: as for ``RemoteCopy``.
    """

    what = "store"

    def __init__(self, url: str, mode: str, storage_options: Options) -> None:
        folder = url.rstrip("/")
        self._record: ObjectState | None = None
        self._metadata: StoredFile | None = None
        self._flush: _Flush | None = None
        super().__init__(url, mode, storage_options, folder, local_name(folder))

    def _try_to_open(self) -> bool:
        listed = self.objects.list(self._folder_url)
        found = {name: state for name, state in listed.items() if _is_of_store(name)}
        names = [name for name in STORE_METADATA if name in found]
        record = self._read(RECORD) if RECORD in listed else None
        self._check_new(bool(names or (found and record is None)))
        metadata = self._read(names[0]) if names else None
        if metadata is not None and metadata.state.etag != found[names[0]].etag:
            return False
        content = decoded(record)
        try:
            if record is not None and content is not None and not content.complete:
                recover(self, found, record, content, metadata)
                self._must_be_new = self._must_be_new and metadata is not None
                return False
            self.fetch(found)
        except OSError as error:
            if error.errno not in (errno.ESTALE, errno.EEXIST, errno.ENOENT):
                raise
            return False
        self._record = None if record is None else record.state
        self._metadata = metadata
        return self._is_current()

    def _read(self, name: str) -> StoredFile | None:
        found = self.objects.read(self.url_of(name))
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
            for found in [self.objects.state(self.url_of(name))]
        )

    def _send(self, changes: Changes) -> None:
        if self._flush is None:
            self._flush = _Flush(self, changes, self._metadata, self._record)
        self._flush.run()
        self._record, self._metadata = self._flush.record, self._flush.stored
        self._flush = None

    def _withdraw(self) -> bool:
        if self._flush is not None:
            self._flush.withdraw()
        return self._metadata is None


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
        self._name = next(name for name in STORE_METADATA if (copy.folder / name).exists())
        data = (copy.folder / self._name).read_bytes()
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
        return stem.rpartition("/")[0], number, array_layer_digest(str(self._copy.folder / name))

    def run(self) -> None:
        """Takes the steps that are left: record, files, metadata, record.

        Readers ignore the files that the record names until the metadata are replaced.
        """
        if not self._begun:
            self.record = self._put_record(self._begin)
            self._begun = True
        if self.stored is None:
            self._store_files()
            expected = None if self._before is None else self._before.state
            state = self._copy.put(self._name, self._data, expected, is_last=True)
            self._copy.note(self._name, state)
            self.stored = StoredFile(self._name, self._data, state)
        if not self._ended:
            try:
                self.record = self._put_record(self._end)
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

    def _put_record(self, record: FlushRecord) -> ObjectState:
        data, is_first = encode_flush_record(record), not self._begun
        return self._copy.put(RECORD, data, self.record, is_last=is_first)

    def _store_files(self) -> None:
        changes, copy = self._changes, self._copy
        stored = [*changes.bases, *changes.layers, *changes.statistics]
        gone = [name for name in changes.removed if name not in STORE_METADATA]
        with transferring(f"uploading {copy.folder.name}", copy.size_of(stored)) as report:
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
