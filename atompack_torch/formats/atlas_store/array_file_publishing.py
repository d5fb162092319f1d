"""Publishing of the flushes of an array file to an object store."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Literal

from atompack_torch.errors import FieldError, file_exists
from atompack_torch.formats.atlas_store.remote_copy import Changes, RemoteCopy, layer_of, stem_of
from atompack_torch.remote.objects import RemoteObjects
from atompack_torch.remote.staging import Options, keeping, local_name, transferring
from atompack_torch.remote.uploads import was_replaced
from atompack_torch.remote.urls import shown_url

_N_LOOKS = 10
_PAUSE = 0.05  # seconds between two looks, more each time
_INSTEAD = "mode='a' goes on with it"


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
        advice = "call flush() again, or upload it by hand"
        with keeping(self._copy.folder, self._copy.path, advice):
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
