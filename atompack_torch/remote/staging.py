"""Local files that become remote objects when they are complete."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from atompack_torch.errors import AtompackError, file_exists
from atompack_torch.options import short_list, shown_url
from atompack_torch.remote.local_copies import OnProgress, transferring
from atompack_torch.remote.objects import ObjectState, RemoteObjects, each

_LONGEST_NAME = 200
N_TRANSFERS = 8  # files at a time

Options = Mapping[str, object] | None


class TemporaryFolder:
    """Folder in the temporary folder of the system (see ``TMPDIR``), removed in the end.

    It is removed by ``remove``, or when this object or the interpreter ends, unless ``keep`` was
    called and not ``release``. A process that is killed leaves it.

    Attributes:
        path: the folder.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="atompack-"))
        self.release()

    def remove(self) -> None:
        """Removes the folder, unless it is kept; further calls do nothing."""
        self._finalizer()

    def keep(self) -> None:
        """Leaves the folder to the user."""
        self._finalizer.detach()

    def release(self) -> None:
        """Takes back what ``keep`` said."""
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def keeping(folder: TemporaryFolder, path: Path, advice: str) -> Iterator[None]:
    """Keeps what could not be uploaded: errors of the block name the local copy.

    Args:
        folder: the temporary folder, which is then not removed.
        path: the local copy in it.
        advice: action to recommend.

    Raises:
        OSError, AtompackError: the errors of the block, with a longer message.
    """
    try:
        yield
    except BaseException as error:
        folder.keep()
        text = f"the local copy is kept as {path}: {advice}"
        if isinstance(error, OSError) and error.errno is not None:
            said = f"{error.strerror}; {text}"
            raise type(error)(error.errno, said, error.filename) from error
        if isinstance(error, AtompackError):
            raise type(error)(f"{error}; {text}") from error
        if hasattr(error, "add_note"):
            error.add_note(text)
        raise


def local_name(url: str) -> str:
    """Returns a name for the local copy of an object: the last part of its URL.

    Args:
        url: the URL of an object.

    Returns:
        The name.

    Raises:
        ValueError: the URL is that of a folder or a bucket.
    """
    name = shown_url(url).partition("://")[2].partition("/")[2].rpartition("/")[2]
    if not name or "\0" in name:
        raise ValueError(f"{shown_url(url)}: expected the URL of a file, got that of a folder")
    return f"object{name}" if name in (".", "..") else name[-_LONGEST_NAME:]


@contextmanager
def naming(url: str, path: str) -> Iterator[None]:
    """Lets errors about the data of a local copy name its URL.

    Args:
        url: the URL.
        path: the local copy.

    Raises:
        AtompackError: the errors of the block, with the other name.
    """
    try:
        yield
    except AtompackError as error:
        if path not in str(error):
            raise
        raise type(error)(str(error).replace(path, shown_url(url))) from None


class _Staged:
    """Base of what is built in a temporary folder, and uploaded when it is complete."""

    path: Path
    _folder: TemporaryFolder
    _progress: bool

    @contextmanager
    def _uploading(self, n_bytes: int, advice: str) -> Iterator[OnProgress]:
        """Shows the progress of the block, and removes the folder unless it fails."""
        label = f"uploading {self.path.name}"
        with (
            keeping(self._folder, self.path, advice),
            transferring(label, n_bytes, enabled=self._progress) as report,
        ):
            yield report
        self._folder.release()
        self._folder.remove()

    def discard(self) -> None:
        """Removes what was built."""
        self._folder.remove()


class StagedFile(_Staged):
    """Local file that becomes an object when it is complete.

    Args:
        url: the URL of the object.
        mode: ``"x"``: the object must not exist, now and when it is uploaded; ``"a"``: it is
            downloaded first, and must be the same when it is uploaded; ``"w"``: it is replaced.
        storage_options: options of the store.
        instead: action to recommend if the object exists.
        progress: show the progress of long transfers on terminals.
        download: False: with ``mode="a"``, the object is not downloaded, but replaced.

    Attributes:
        url: the URL.
        path: the local file; it exists if the object was downloaded.
        is_new: True if there is no object yet, or it will be replaced.

    Raises:
        FileExistsError: ``mode="x"`` and the object exists.
        FileNotFoundError: there is no such bucket.
        UnsupportedFormatError: nothing can be written to such URLs.
        OSError: the store refuses, or does not respond.
        ValueError: the URL is that of a folder.
    """

    def __init__(
        self,
        url: str,
        mode: Literal["x", "w", "a"],
        storage_options: Options = None,
        *,
        instead: str = "choose another name",
        progress: bool = True,
        download: bool = True,
    ) -> None:
        name = local_name(url)
        self.url = url
        self._objects = RemoteObjects(url, storage_options)
        self._anyway = mode == "w"
        self._progress = progress
        found = self._objects.state(url)
        if found is None:
            self._objects.check_bucket()
        elif mode == "x":
            raise file_exists(shown_url(url), instead)
        self._expected = found if mode == "a" else None
        self._folder = TemporaryFolder()
        self.path = self._folder.path / name
        self.is_new = self._expected is None
        if self._expected is not None and download:
            size = self._expected.size
            with transferring(f"downloading {name}", size, enabled=progress) as report:
                self._objects.fetch(url, self.path, self._expected, report)

    def publish(self) -> None:
        """Uploads the file and removes it. After an error it is kept, and this can be repeated.

        Raises:
            FileExistsError: an object was created since this was made.
            OSError: another writer has replaced the object (``ESTALE``), the store refuses, or
                does not respond; the message names the file.
        """
        size = self.path.stat().st_size
        with self._uploading(size, "upload it by hand, or to another name") as report:
            self._objects.put(
                self.url,
                self.path,
                expected=self._expected,
                anyway=self._anyway,
                is_last=True,
                report=report,
            )


class StagedFolder(_Staged):
    """Local folder whose files become objects when all of them are complete.

    The objects are stored in an order that shows nothing before the last one, which must not exist.

    Args:
        url: the URL of the folder.
        last: name of the file without which readers see nothing; it is stored last.
        storage_options: options of the store.
        replaced: names of files of objects that are deleted before the upload, wherever they are
            below the URL; none: there may be no object.
        progress: show the progress of long transfers on terminals.

    Attributes:
        url: the URL.
        path: the local folder, which the caller makes.

    Raises:
        FileExistsError: there is an object below the URL that is not replaced.
        OSError, UnsupportedFormatError, ValueError: as for ``StagedFile``.
    """

    def __init__(
        self,
        url: str,
        last: str,
        storage_options: Options = None,
        *,
        replaced: frozenset[str] = frozenset(),
        progress: bool = True,
    ) -> None:
        self.url = url.rstrip("/")
        name = local_name(self.url)
        self._last, self._replaced = last, replaced
        self._objects = RemoteObjects(url, storage_options)
        self._progress = progress
        self._stored: dict[str, ObjectState] = {}
        self._objects.check_bucket()
        self._check_empty()
        self._folder = TemporaryFolder()
        self.path = self._folder.path / name

    def _check_empty(self) -> None:
        if not self._replaced and self._objects.state(f"{self.url}/{self._last}") is not None:
            raise file_exists(shown_url(self.url), "mode='w' replaces it")
        found = self._objects.list(self.url)
        name = next((n for n in found if n.rpartition("/")[2] not in self._replaced), None)
        if name is not None:
            text = (
                f"holds an object already, {name}, perhaps of an upload that was interrupted: "
                "mode='w' replaces shards; else remove what is there, or choose another folder"
            )
            raise FileExistsError(errno.EEXIST, text, shown_url(self.url))

    def _clear(self) -> None:
        """Deletes what is replaced, beginning with the object without which readers see nothing."""
        if not self._replaced:
            return
        self._check_empty()
        found = self._objects.list(self.url)
        for name in sorted(found, key=lambda name: name != self._last):
            if name not in self._stored:
                self._objects.delete(f"{self.url}/{name}", found[name])

    def publish(self) -> None:
        """Uploads the folder and removes it. After an error it is kept, and this can be repeated.

        Raises:
            FileExistsError: an object was created below the URL since this was made.
            OSError: the store refuses, or does not respond; the message names the folder.
        """
        files = sorted(path for path in self.path.rglob("*") if path.is_file())
        names = [path.relative_to(self.path).as_posix() for path in files]
        # The metadata of a part come after its other files, and that of the whole at the end.
        own = Path(self._last).name
        names.sort(key=lambda name: (name == self._last, name.rpartition("/")[2] == own, name))
        total = sum(path.stat().st_size for path in files)
        with self._uploading(total, "upload it by hand, or to another folder") as report:
            try:
                self._clear()
                self._send(names, report)
            except BaseException as error:
                self._withdraw(error)

    def _send(self, names: list[str], report: OnProgress) -> None:
        def send(name: str) -> None:
            url = f"{self.url}/{name}"
            is_last = name == self._last
            self._stored[name] = self._objects.put(
                url, self.path / name, is_last=is_last, report=report
            )

        by_rank = itertools.groupby(names, key=lambda name: Path(name).name == self._last)
        for _, group in by_rank:
            each(send, [name for name in group if name != self._last], N_TRANSFERS)
        send(self._last)

    def _withdraw(self, error: BaseException) -> None:
        """Deletes the objects of a failed upload, which nobody can read, and raises its error.

        Returns if the upload did succeed, and only the last response was lost.
        """
        left: list[str] = []
        try:
            if self._objects.is_own(f"{self.url}/{self._last}"):
                return
            for name, state in list(self._stored.items()):
                self._objects.delete(f"{self.url}/{name}", state)
                del self._stored[name]
        except OSError:
            left = [*self._stored]
        if left and isinstance(error, OSError) and error.errno is not None:
            text = f"{error.strerror}; not deleted there: {short_list(left, len(left))}"
            raise type(error)(error.errno, text, error.filename) from error
        raise error
